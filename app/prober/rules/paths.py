"""Endpoint mode: which attempts count, and whether the internal path is healthy (rules 4.2).

The results of the external path are counted with the verdict (`rules.verdict`).
"""

from dataclasses import dataclass
from typing import Final

from app.core.model.policy import ProberPolicy
from app.core.model.probing import Failure, VerdictReason
from app.core.model.shoots import Route
from app.core.model.workloads import Direction
from app.prober.rules.verdict import NO_RESULTS, ConsecutiveResults

# Reasons that mean an HTTP answer which is no version.
_NO_VERSION: Final = frozenset({VerdictReason.BAD_ANSWER, VerdictReason.TOO_LARGE})


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
        self, failure: Failure | None, at: float, policy: ProberPolicy, *, counts_now: bool
    ) -> "InternalPath":
        """Adds the result of an attempt; a failure that says nothing about the path leaves its health unchanged.

        Args:
            failure: why the attempt failed; None if it got a version.
            at: when the probe began.
            policy: how many results in a row it takes, and how many seconds apart.
            counts_now: whether this attempt may count towards a threshold.
        """
        if failure is not None and not counts(Route.INTERNAL, failure.reason):
            throttled = failure.reason is VerdictReason.THROTTLED
            return InternalPath(self.consecutive if throttled else NO_RESULTS, self.healthy)
        direction, threshold = Direction.UP, policy.success_threshold
        if failure is not None:
            direction, threshold = Direction.DOWN, policy.failure_threshold
        results = self.consecutive.add(direction, at, policy.suspect_interval, counts=counts_now)
        if results.reached(threshold, 0.0, at):
            return InternalPath(results, healthy=failure is None)
        return InternalPath(results, self.healthy)

    def missing(self, threshold: int) -> str | None:
        """What the path, which has just answered, lacks to be healthy; None if it is."""
        if self.healthy:
            return None
        seen = self.consecutive.count
        return f"the internal path has answered at {seen} of {threshold} probes in a row"
