"""Probes one shoot in endpoint mode: `GET /version` by the internal path, then by the external one (rules 4.2).

The internal path tells whether the API server itself is up, so the external one is asked only while the internal one is
healthy. Machines, Nodes and Leases are not read. The results of the internal path are counted here, from one probe to
the next; those of the external path are counted with the verdict.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from app.core.errors import Unauthorized
from app.core.model.probing import (
    Failure,
    PathReading,
    PathView,
    Reading,
    RequestKind,
    Tally,
    VerdictReason,
)
from app.core.model.shoots import Route
from app.prober.environment import ProberEnvironment
from app.prober.rules import paths
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.rules.paths import InternalPath
from app.prober.rules.protection import PendingWrites
from app.prober.shoot_probe import PROBES, ProbeError, ShootProbe

if TYPE_CHECKING:
    from app.core.kube.shoot import ShootCluster

# Seconds by which a request ends before its attempt does: whatever the end of the attempt cuts off is then something
# else, such as reading a Secret live, and says nothing about the path.
_SPARE: Final = 0.1
# An attempt that took this many seconds longer than it may says nothing (rules 4.2): the process stood still, or its
# event loop runs so late that a new connection takes longer than an attempt, while the one that is kept open is well.
_FROZEN: Final = 0.5


class PathProbe(ShootProbe):
    """Probes one shoot in endpoint mode."""

    def __init__(self, environment: ProberEnvironment, namespace: str) -> None:
        super().__init__(environment, namespace)
        self._limit = min(paths.ATTEMPT, environment.policy.probe_timeout)
        self._internal = InternalPath()
        self._seen: dict[Route, PathView] = {}
        self.paths = ()

    async def probe(
        self,
        shoot: ProbedShoot,  # noqa: ARG002 - the modes' signature: nothing of the Shoot matters here
        pending: PendingWrites,  # noqa: ARG002 - as above
        *,
        with_nodes: bool = False,  # noqa: ARG002 - as above: there are none to be read
        counts: bool = True,
    ) -> Reading:
        """Tries the internal path and, if it is healthy, the external one; never raises, whatever a cluster answers."""
        started = self._env.clock.now()
        internal = await self._internal_path(started, counts=counts)
        if internal.failure is not None:
            return self._reading(started, internal.failure, internal)
        lacking = self._internal.missing(self._env.policy.success_threshold)
        if lacking is not None:
            return self._reading(started, PathReading(counting=lacking), internal)
        external = await self._attempt(Route.EXTERNAL)
        if external.failure is not None and not external.counted:
            return self._reading(started, external.failure, internal, external)
        return self._reading(started, PathReading(external.failure), internal, external)

    async def confirm(self, shoot: ProbedShoot, first: Reading) -> Reading:  # noqa: ARG002 - as above
        """Tries the internal path once more: a seed whose own network is down must not blame the load balancer."""
        started = self._env.clock.now()
        internal = await self._internal_path(started, counts=False)
        return self._reading(started, internal.failure or first.result, internal)

    async def _internal_path(self, at: float, *, counts: bool) -> PathView:
        seen = await self._attempt(Route.INTERNAL)
        policy = self._env.policy
        thresholds = paths.PathThresholds(
            policy.failure_threshold, policy.success_threshold, policy.suspect_interval
        )
        self._internal = self._internal.after(seen.failure, at, thresholds, counts_now=counts)
        return seen

    async def _attempt(self, route: Route) -> PathView:
        began = self._env.clock.now()
        failure = await self._failure(route)
        ended = self._env.clock.now()
        took = ended - began
        if took > self._limit + _FROZEN:
            failure = _as_stale(took, failure, PROBES[route])
        counted = failure is None or paths.counts(route, failure.reason)
        seen = self._seen[route] = PathView(route, ended, took, failure, counted)
        self.paths = tuple(self._seen.values())
        return seen

    async def _failure(self, route: Route) -> Failure | None:
        """Asks for the version by this route; returns why none came in the time of one attempt, or None if one did."""
        within = self._limit - min(_SPARE, self._limit / 10)
        ends = asyncio.get_running_loop().time() + self._limit

        async def version(shoot: "ShootCluster") -> str:
            try:
                return await shoot.version(new_connection=route is Route.EXTERNAL, within=within)
            except Unauthorized:
                attempt.reschedule(ends)
                raise

        try:
            # A request ends by its own timeout, so only what follows a 401 is cut off here: a busy event loop could
            # otherwise mistake the one for the other.
            async with asyncio.timeout(None) as attempt:
                await self._request(version, VerdictReason.BAD_ANSWER, PROBES[route], route)
        except ProbeError as failed:
            return failed.failure
        except TimeoutError:
            text = f"no version within {self._limit:g}s: a 401 came first, and the Secret was read again"
            return Failure(VerdictReason.CREDENTIALS_INVALID, text, PROBES[route])
        return None

    def _reading(
        self, started: float, result: Tally | PathReading | Failure, *seen: PathView
    ) -> Reading:
        probes = {PROBES[each.route]: each.seconds for each in seen}
        attempts = {each.route: each for each in seen}
        return Reading(started, self._env.clock.now(), result, probes, paths=attempts)


def _as_stale(took: float, failure: Failure | None, probe: RequestKind) -> Failure:
    """Makes the result of an attempt that took too long a stale reading: an answer may be as old as that, too."""
    text = f"the attempt took {took:.1f} s, as this process was frozen"
    if failure is None:
        return Failure(VerdictReason.STALE_READING, text, probe)
    return replace(
        failure, reason=VerdictReason.STALE_READING, message=f"{text}: {failure.message}"
    )
