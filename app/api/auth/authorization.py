"""Authorization: whether a caller may make a call, by its role or by the seed's RBAC (SubjectAccessReview)."""

import abc
from enum import Enum, StrEnum
from typing import Final

from app.api.auth.reviews import ReviewService, Trust
from app.api.problems import Problem, ProblemType
from app.core.metrics import Metrics
from app.core.model.callers import GROUP, Access, Caller, Role
from app.core.model.names import is_label

# The metric of decisions.


class AccessDecision(StrEnum):
    """The outcome of authentication and authorization, as the metric labels it."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNAUTHENTICATED = "unauthenticated"
    UNAVAILABLE = "unavailable"
    """The seed did not answer, or forbids reviews."""
    THROTTLED = "throttled"
    """Too many reviews were wanted at once."""


_OF_PROBLEM: Final = {
    ProblemType.UNAUTHENTICATED: AccessDecision.UNAUTHENTICATED,
    ProblemType.FORBIDDEN: AccessDecision.DENIED,
    ProblemType.TOO_MANY_REQUESTS: AccessDecision.THROTTLED,
    ProblemType.FEATURE_OFF: AccessDecision.UNAVAILABLE,
    ProblemType.SEED_AWAY: AccessDecision.UNAVAILABLE,
}


class DecisionCounter:
    """Counts decisions in `dwd_auth_decisions_total`."""

    def __init__(self, metrics: Metrics) -> None:
        self._counters = {
            each: metrics.auth_decisions.labels(decision=str(each)) for each in AccessDecision
        }

    def allowed(self) -> None:
        self._counters[AccessDecision.ALLOWED].inc()

    def refused(self, problem: Problem) -> None:
        """Count a call that ended with `problem`, unless the problem is not about the caller (a 404, for example)."""
        if (decision := _OF_PROBLEM.get(problem.kind)) is not None:
            self._counters[decision].inc()


# The right that each call needs.


class Call(Enum):
    """A kind of call: verb and resource for a SubjectAccessReview, and the least role that may make it."""

    READ_SHOOT = ("get", "shoots", Role.VIEWER)
    LIST = ("list", "shoots", Role.VIEWER)
    READ_AUDIT = ("get", "audit", Role.VIEWER)
    READ_CONFIG = ("get", "config", Role.VIEWER)
    PROBE = ("create", "shoots/probe", Role.OPERATOR)
    WEED = ("create", "shoots/recoveries", Role.OPERATOR)
    PAUSE = ("create", "pauses", Role.OPERATOR)
    CHANGE_PAUSE = ("update", "pauses", Role.OPERATOR)
    RESUME = ("delete", "pauses", Role.OPERATOR)
    IGNORE = ("update", "shoots/ignore-scaling", Role.OPERATOR)
    UNIGNORE = ("delete", "shoots/ignore-scaling", Role.OPERATOR)
    PAUSE_ALL = ("create", "pauses", Role.ADMIN)
    CHANGE_PAUSE_ALL = ("update", "pauses", Role.ADMIN)
    RESUME_ALL = ("delete", "pauses", Role.ADMIN)
    SCALE = ("create", "scalerequests", Role.ADMIN)
    CANCEL = ("delete", "scalerequests", Role.ADMIN)
    FORCE_SCALE = ("update", "scalerequests/force", Role.ADMIN)
    LOG_LEVEL = ("update", "config", Role.ADMIN)

    def __init__(self, verb: str, resource: str, role: Role) -> None:
        self.verb = verb
        self.resource = resource
        self.role = role

    @property
    def writes(self) -> bool:
        """Whether the call changes something; a yes to it is never taken from the cache."""
        return self.verb not in {"get", "list"}

    @property
    def at_home(self) -> bool:
        """Whether the right is one in the watchdog's own namespace, whose Pauses are of all shoots."""
        return self in _AT_HOME

    def access(self, namespace: str = "") -> Access:
        """What a SubjectAccessReview asks for; an empty `namespace` stands for all namespaces."""
        return Access(self.verb, self.resource, namespace)


_AT_HOME: Final = {Call.PAUSE_ALL, Call.CHANGE_PAUSE_ALL, Call.RESUME_ALL, Call.FORCE_SCALE}


# Rank of each role; `Role` declares them from the least to the most powerful.
_RANK: Final = {role: rank for rank, role in enumerate(Role)}


class AccessAuthority(abc.ABC):
    """Decides whether a caller may make a call."""

    def __init__(self, decisions: DecisionCounter) -> None:
        self._decisions = decisions

    async def check(
        self, caller: Caller, call: Call, namespace: str = "", *, again: bool = False
    ) -> None:
        """Raise a `Problem` unless the caller may make this call; counts the decision.

        Args:
            caller: The authenticated caller.
            call: The kind of call.
            namespace: The control plane; empty for all.
            again: Check during a long-running answer, for which a recent yes does not count.

        Raises:
            Problem: 403; or 503 or 429 if the seed cannot be asked.
        """
        remembered = Trust.STALE if again else Trust.FRESH
        try:
            await self._check(caller, call, namespace, Trust.NOTHING if call.writes else remembered)
        except Problem as problem:
            self._decisions.refused(problem)
            raise
        self._decisions.allowed()

    async def may(self, caller: Caller, call: Call, namespace: str = "") -> bool:
        """Whether the caller may make this call, for pages that show only permitted actions.

        Does not count as a decision; False also if the seed cannot be asked.
        """
        try:
            await self._check(caller, call, namespace, Trust.FRESH)
        except Problem:
            return False
        return True

    @abc.abstractmethod
    async def _check(self, caller: Caller, call: Call, namespace: str, trust: Trust) -> None:
        """Raise a `Problem` unless the caller may make this call."""


class ByRole(AccessAuthority):
    """Authority of the modes `token` and `none`, whose callers have a role for all namespaces."""

    async def _check(self, caller: Caller, call: Call, namespace: str, trust: Trust) -> None:  # noqa: ARG002 - nobody is asked about a role
        if caller.role is None or _RANK[caller.role] < _RANK[call.role]:
            has = "has none" if caller.role is None else f"is {caller.role}"
            why = f"that needs the role {call.role}, but the caller {has}"
            raise _denied(caller, call.access(namespace), why)


class BySeed(AccessAuthority):
    """Authority of the mode `kubernetes`: a SubjectAccessReview for each call, or a remembered answer."""

    def __init__(self, reviews: ReviewService, decisions: DecisionCounter) -> None:
        super().__init__(decisions)
        self._reviews = reviews

    async def _check(self, caller: Caller, call: Call, namespace: str, trust: Trust) -> None:
        if namespace and not is_label(namespace):
            # The caller chose this text: it may be of any length and content, and must not reach the seed.
            raise Problem(
                ProblemType.NOT_FOUND, "the name in the path cannot be that of a namespace"
            )
        access = call.access(namespace)
        if not await self._reviews.allowed(caller, access, trust=trust):
            raise _denied(caller, access, "the seed's RBAC does not allow it")


def _denied(caller: Caller, access: Access, why: str) -> Problem:
    where = f"in {access.namespace}" if access.namespace else "in all namespaces"
    what = f"{access.verb} {access.resource} ({GROUP}) {where}"
    extra = {"verb": access.verb, "resource": access.resource, "namespace": access.namespace}
    return Problem(ProblemType.FORBIDDEN, f"{caller.name} may not {what}: {why}", extra=extra)
