"""Endpoint mode: what the internal and the external path say (rules 4.2).

How often in a row is counted as in lease mode (`rules.thresholds`), what holds a verdict back too (`rules.verdict`).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from app.core.model.probing import Failure, PathReading, Verdict, VerdictReason
from app.core.model.shoots import Route
from app.core.model.workloads import Direction
from app.prober.rules.consecutive import NO_RESULTS, ConsecutiveResults
from app.prober.rules.verdict import Assessment

ATTEMPT: Final = 5.0
"""Seconds of one attempt at the most: a load balancer that swallows packets is the usual outage."""
_NO_VERSION: Final = frozenset({VerdictReason.BAD_ANSWER, VerdictReason.TOO_LARGE})
"""An answer over HTTP that is not a version."""


class PathThresholds(NamedTuple):
    """How much of the internal path has to be seen."""

    failure: int
    success: int
    apart: float
    """Attempts that count are at least this many seconds apart."""


def counts(route: Route, reason: VerdictReason) -> bool:
    """Whether an attempt that failed for this reason is a failure of the path, and not of something else.

    Whoever answers through the external path, the path leads to somebody; inside the seed only the API server can be
    meant.
    """
    if reason in _NO_VERSION:
        return route is Route.INTERNAL
    return reason is VerdictReason.UNREACHABLE


@dataclass(frozen=True, slots=True)
class InternalPath:
    """How the internal path has answered lately."""

    consecutive: ConsecutiveResults = NO_RESULTS
    """Attempts in a row with the same result."""
    healthy: bool = False
    """After `successThreshold` answers in a row, until there are `failureThreshold` failures in a row."""

    def after(
        self, failure: Failure | None, at: float, thresholds: PathThresholds, *, counts_now: bool
    ) -> "InternalPath":
        """The same after one more attempt; what says nothing about the path leaves its health as it is.

        Args:
            failure: why it failed; None where a version came.
            at: when the probe began.
            thresholds: how many in a row it takes, and how many seconds apart.
            counts_now: whether this one may count towards a threshold.
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
        """What the path, which has just answered, lacks to be healthy; None where nothing."""
        if self.healthy:
            return None
        seen = self.consecutive.count
        return f"the internal path has answered at {seen} of {threshold} probes in a row"


def assess(reading: PathReading) -> Assessment:
    """What the two paths alone ask for."""
    if reading.counting is not None:
        return Assessment(Verdict.HOLD, VerdictReason.COUNTING, reading.counting)
    if reading.external is None:
        text = "the API server answers through the internal and the external path"
        return Assessment(Verdict.SCALE_UP, VerdictReason.EXTERNAL_REACHABLE, text)
    why = reading.external.message
    text = f"the API server answers through the internal path, not through the external one ({why})"
    return Assessment(Verdict.SCALE_DOWN, VerdictReason.EXTERNAL_UNREACHABLE, text)


def known_since(external: ConsecutiveResults, threshold: int, apart: float) -> float | None:
    """The earliest instant at which `threshold` failures in a row, of which there are as many, could be known."""
    if external.direction is not Direction.DOWN or external.count < threshold:
        return None
    return external.first_at + (threshold - 1) * apart
