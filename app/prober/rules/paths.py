"""Endpoint mode: which attempts count, and whether the internal path is healthy (rules 4.2).

The results of the external path are counted with the verdict (`rules.verdict`).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from app.core.model.probing import Failure, VerdictReason
from app.core.model.shoots import Route
from app.core.model.workloads import Direction
from app.prober.rules.verdict import NO_RESULTS, ConsecutiveResults

ATTEMPT: Final = 5.0
"""Seconds that one attempt may take: in the usual outage a load balancer swallows packets, and no answer comes."""
# Reasons that mean an HTTP answer which is no version.
_NO_VERSION: Final = frozenset({VerdictReason.BAD_ANSWER, VerdictReason.TOO_LARGE})


class PathThresholds(NamedTuple):
    """How many results in a row make the internal path healthy or unhealthy."""

    failure: int
    success: int
    apart: float
    """Attempts that count are at least this many seconds apart."""


def counts(route: Route, reason: VerdictReason) -> bool:
    """Whether an attempt that failed for this reason counts as a failure of the path.

    Any HTTP answer through the external path shows that the path leads somewhere. On the internal path only the API
    server can have answered, so an answer that is no version is its failure.
    """
    if reason in _NO_VERSION:
        return route is Route.INTERNAL
    return reason is VerdictReason.UNREACHABLE


@dataclass(frozen=True, slots=True)
class InternalPath:
    """The health of the internal path, and the results in a row that it follows from."""

    consecutive: ConsecutiveResults = NO_RESULTS
    """Attempts in a row with the same result."""
    healthy: bool = False
    """True from `successThreshold` answers in a row until `failureThreshold` failures in a row."""

    def after(
        self, failure: Failure | None, at: float, thresholds: PathThresholds, *, counts_now: bool
    ) -> "InternalPath":
        """Adds the result of an attempt; a failure that says nothing about the path leaves its health unchanged.

        Args:
            failure: why the attempt failed; None if it got a version.
            at: when the probe began.
            thresholds: how many results in a row it takes, and how many seconds apart.
            counts_now: whether this attempt may count towards a threshold.
        """
        consecutive = self._counted(failure, at, thresholds.apart, counts_now=counts_now)
        if consecutive.direction is Direction.UP and consecutive.reached(
            thresholds.success, 0.0, at
        ):
            return InternalPath(consecutive, healthy=True)
        failed = consecutive.direction is Direction.DOWN
        if failed and consecutive.reached(thresholds.failure, 0.0, at):
            return InternalPath(consecutive, healthy=False)
        return InternalPath(consecutive, self.healthy)

    def _counted(
        self, failure: Failure | None, at: float, apart: float, *, counts_now: bool
    ) -> ConsecutiveResults:
        if failure is not None and not counts(Route.INTERNAL, failure.reason):
            return self.consecutive if failure.reason is VerdictReason.THROTTLED else NO_RESULTS
        direction = Direction.UP if failure is None else Direction.DOWN
        return self.consecutive.add(direction, at, apart, counts=counts_now)

    def missing(self, threshold: int) -> str | None:
        """What the path, which has just answered, lacks to be healthy; None if it is."""
        if self.healthy:
            return None
        seen = self.consecutive.count
        return f"the internal path has answered at {seen} of {threshold} probes in a row"
