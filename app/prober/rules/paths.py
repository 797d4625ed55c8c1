"""Endpoint mode: what the internal and the external path say (spec 4.2).

How often in a row is counted as in lease mode (`rules.thresholds`), what holds a verdict back too (`rules.verdict`).
"""

from typing import Final

from app.core.model.probing import Failure, PathReading, Reason, Verdict
from app.core.model.shoots import Route
from app.core.model.workloads import Direction
from app.prober.rules.thresholds import NO_STREAK, Streak
from app.prober.rules.verdict import Assessment

ATTEMPT: Final = 5.0
"""Seconds of one attempt at the most: a load balancer that swallows packets is the usual outage."""
_NO_VERSION: Final = frozenset({Reason.BAD_ANSWER, Reason.TOO_LARGE})
"""An answer over HTTP that is not a version."""


def counts(route: Route, reason: Reason) -> bool:
    """Whether an attempt that failed for this reason is a failure of the path, and not of something else.

    Whoever answers through the external path, the path leads to somebody; inside the seed only the API server can be
    meant.
    """
    if reason in _NO_VERSION:
        return route is Route.INTERNAL
    return reason is Reason.UNREACHABLE


def counted(
    internal: Streak, failure: Failure | None, at: float, apart: float, *, counts_now: bool
) -> Streak:
    """The counts of the internal path after one more attempt, which began `at`.

    Args:
        internal: the counts before.
        failure: why it failed; None where a version came.
        at: when the look began.
        apart: attempts that count are at least so many seconds apart.
        counts_now: whether this one may count towards a threshold.
    """
    if failure is not None and not counts(Route.INTERNAL, failure.reason):
        return internal if failure.reason is Reason.THROTTLED else NO_STREAK
    direction = Direction.UP if failure is None else Direction.DOWN
    return internal.add(direction, at, apart, counts=counts_now)


def missing(internal: Streak, threshold: int, now: float) -> str | None:
    """What the internal path, which has just answered, lacks to be healthy; None where nothing."""
    if internal.reached(threshold, 0.0, now):
        return None
    return f"the internal path has answered at {internal.count} of {threshold} looks in a row"


def assess(reading: PathReading) -> Assessment:
    """What the two paths alone ask for."""
    if reading.counting is not None:
        return Assessment(Verdict.HOLD, Reason.COUNTING, reading.counting)
    if reading.external is None:
        text = "the API server answers through the internal and the external path"
        return Assessment(Verdict.SCALE_UP, Reason.EXTERNAL_REACHABLE, text)
    why = reading.external.message
    text = f"the API server answers through the internal path, not through the external one ({why})"
    return Assessment(Verdict.SCALE_DOWN, Reason.EXTERNAL_UNREACHABLE, text)


def known_since(external: Streak, threshold: int, apart: float) -> float | None:
    """The earliest instant at which `threshold` failures in a row, of which there are as many, could be known."""
    if external.direction is not Direction.DOWN or external.count < threshold:
        return None
    return external.first_at + (threshold - 1) * apart
