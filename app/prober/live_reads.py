"""What a verdict needs of watches that are stale, read live; if that fails it is HOLD."""

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
    """Asks the seed itself for one shoot's Cluster and Secrets, where their watches cannot be trusted."""

    def __init__(
        self,
        environment: ProberEnvironment,
        namespace: str,
        sessions: Mapping[Route, ShootSession],
        probe: RequestKind,
    ) -> None:
        """`doors`: who must hear of a Secret that is another one; `probe`: what a failure is told to belong to."""
        self._env, self._namespace, self._sessions, self._probe = (
            environment,
            namespace,
            sessions,
            probe,
        )

    async def live_where_stale(self, subject: ProbedShoot, *, down: bool) -> ProbedShoot | Failure:
        """The subject as it is now; or why the verdict may not be acted on."""
        seed, now = self._env.seed, self._env.clock.now()
        try:
            # Not for longer than a reading may be old: what was read of the leases would be untrue by then.
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
        """HOLD: a watch is stale, and `what`."""
        text = f"a watch of the seed is stale, and {what}"
        return Failure(VerdictReason.SEED_STALE, text, self._probe)

    async def _live_subject(self, subject: ProbedShoot, *, urgent: bool) -> ProbedShoot:
        live = await self._env.seed.read_cluster(self._namespace, urgent=urgent)
        found = lifecycle.decide(live)
        if live is None or found.action is lifecycle.LifecycleAction.STOP:
            raise ProbeError(self.stale(found.message))
        if not isinstance(live.shoot, ShootView):
            return subject  # it cannot be read: what is stays
        return ProbedShoot.of(self._namespace, live.shoot, self._env.policy)

    async def _take_live_secret(self, route: Route, session: ShootSession) -> None:
        live = await self._env.seed.read_secret(self._namespace, route=route, urgent=True)
        if live is None:
            raise ProbeError(self.stale("the kubeconfig Secret is gone"))
        # What confirms a scale-down asks the internal path only: nothing else would try the external one with this.
        if session.take(live) and route is Route.EXTERNAL:
            text = (
                "the Secret of the external path is another one now: its failures are counted anew"
            )
            raise ProbeError(self.stale(text))
