"""What was decided about callers, counted."""

from enum import StrEnum
from typing import Final

from app.api.problems import Problem, ProblemType
from app.core.metrics import Metrics


class Decision(StrEnum):
    """What becomes of a call at the gate."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNAUTHENTICATED = "unauthenticated"
    UNAVAILABLE = "unavailable"
    """Nobody could be asked."""
    THROTTLED = "throttled"
    """Too many were asked about at once."""


_OF_PROBLEM: Final = {
    ProblemType.UNAUTHENTICATED: Decision.UNAUTHENTICATED,
    ProblemType.FORBIDDEN: Decision.DENIED,
    ProblemType.TOO_MANY_REQUESTS: Decision.THROTTLED,
    ProblemType.FEATURE_OFF: Decision.UNAVAILABLE,
    ProblemType.SEED_AWAY: Decision.UNAVAILABLE,
}


class Decisions:
    """`dwd_auth_decisions_total`."""

    def __init__(self, metrics: Metrics) -> None:
        self._counters = {
            each: metrics.auth_decisions.labels(decision=str(each)) for each in Decision
        }

    def allowed(self) -> None:
        """Counts a call that was let through."""
        self._counters[Decision.ALLOWED].inc()

    def refused(self, problem: Problem) -> None:
        """Counts a call that ended with `problem`; one that says nothing of the caller does not count."""
        if (decision := _OF_PROBLEM.get(problem.kind)) is not None:
            self._counters[decision].inc()
