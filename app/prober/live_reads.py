"""Reads live what a verdict needs of stale watches (rules 4.1); if that fails, the verdict is HOLD.

A watch that was silent for 90 s may have missed a change: the shoot may be hibernated by now, or its Secret replaced.
"""

import asyncio
from collections.abc import Mapping

from app.core import errors
from app.core.model.probing import Failure, RequestKind, VerdictReason
from app.core.model.shoots import Route, ShootView
from app.core.ports import Watched
from app.prober.environment import ProberEnvironment
from app.prober.rules import lifecycle
from app.prober.rules.timings import READING
from app.prober.shoot_session import ProbedShoot, ProbeError, ShootSession


class LiveReads:
    """Reads one shoot's Cluster and Secrets from the seed where their watches are stale."""

    def __init__(
        self,
        environment: ProberEnvironment,
        namespace: str,
        sessions: Mapping[Route, ShootSession],
        probe: RequestKind,
    ) -> None:
        """Keeps what it needs; makes no request.

        Args:
            environment: what all runners share.
            namespace: of the shoot.
            sessions: by route; they are given a Secret that was read live.
            probe: the kind of request that failures are reported as.
        """
        self._env, self._namespace, self._sessions, self._probe = (
            environment,
            namespace,
            sessions,
            probe,
        )

    async def live_where_stale(self, subject: ProbedShoot, *, down: bool) -> ProbedShoot | Failure:
        """Returns the subject as of now, or the failure because of which the verdict may not be acted on."""
        seed, now = self._env.seed, self._env.clock.now()
        try:
            # No longer than a reading may be old: after that, what was read of the leases may be untrue.
            async with asyncio.timeout(READING):
                if seed.watch_state(Watched.CLUSTERS).stale(now):
                    subject = await self._live_subject(subject, urgent=down)
                if down and seed.watch_state(Watched.SECRETS).stale(now):
                    for route, session in self._sessions.items():
                        await self._take_live_secret(route, session)
        except TimeoutError:
            return self.stale(f"reading live took longer than {READING:g}s")
        except errors.ClusterError as error:
            return self.stale(f"reading live failed: {error}")
        except ProbeError as failed:
            return failed.failure
        return subject

    def stale(self, what: str) -> Failure:
        """The failure `SeedStale`; `what` completes its message."""
        text = f"a watch of the seed is stale, and {what}"
        return Failure(VerdictReason.SEED_STALE, text, self._probe)

    async def _live_subject(self, subject: ProbedShoot, *, urgent: bool) -> ProbedShoot:
        live = await self._env.seed.read_cluster(self._namespace, urgent=urgent)
        found = lifecycle.decide(live)
        if live is None or found.action is lifecycle.LifecycleAction.STOP:
            raise ProbeError(self.stale(found.message))
        if not isinstance(live.shoot, ShootView):
            return subject  # the Shoot cannot be decoded, so nothing changes (rules 2)
        return ProbedShoot.of(self._namespace, live.shoot, self._env.policy)

    async def _take_live_secret(self, route: Route, session: ShootSession) -> None:
        live = await self._env.seed.read_secret(self._namespace, route=route, urgent=True)
        if live is None:
            raise ProbeError(self.stale("the kubeconfig Secret is gone"))
        # A scale-down is confirmed by the internal path only, so nothing would try the external path with this Secret.
        if session.take(live) and route is Route.EXTERNAL:
            text = "the Secret of the external path has changed: its failures are counted anew"
            raise ProbeError(self.stale(text))
