"""What a caller may do: by his role, or by what the seed says."""

from enum import Enum, StrEnum
from typing import Final

from app.api.auth.reviews import ReviewService, Trust
from app.api.problems import Problem, ProblemType
from app.core.config.scalars import is_label
from app.core.metrics import Metrics
from app.core.model.callers import Access, Caller, Role
from app.core.ports import GROUP

# What was decided about callers, counted.


class AccessDecision(StrEnum):
    """What becomes of a call at the gate."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNAUTHENTICATED = "unauthenticated"
    UNAVAILABLE = "unavailable"
    """Nobody could be asked."""
    THROTTLED = "throttled"
    """Too many were asked about at once."""


_OF_PROBLEM: Final = {
    ProblemType.UNAUTHENTICATED: AccessDecision.UNAUTHENTICATED,
    ProblemType.FORBIDDEN: AccessDecision.DENIED,
    ProblemType.TOO_MANY_REQUESTS: AccessDecision.THROTTLED,
    ProblemType.FEATURE_OFF: AccessDecision.UNAVAILABLE,
    ProblemType.SEED_AWAY: AccessDecision.UNAVAILABLE,
}


class DecisionCounter:
    """`dwd_auth_decisions_total`."""

    def __init__(self, metrics: Metrics) -> None:
        self._counters = {
            each: metrics.auth_decisions.labels(decision=str(each)) for each in AccessDecision
        }

    def allowed(self) -> None:
        """Counts a call that was let through."""
        self._counters[AccessDecision.ALLOWED].inc()

    def refused(self, problem: Problem) -> None:
        """Counts a call that ended with `problem`; one that says nothing of the caller does not count."""
        if (decision := _OF_PROBLEM.get(problem.kind)) is not None:
            self._counters[decision].inc()


# What each call needs: the verb and resource that a SubjectAccessReview is asked for, and the role.


class Call(Enum):
    """One row of the table "Who may call"."""

    READ_SHOOT = ("get", "shoots", Role.VIEWER)
    LIST = ("list", "shoots", Role.VIEWER)
    READ_AUDIT = ("get", "audit", Role.VIEWER)
    READ_CONFIG = ("get", "config", Role.VIEWER)
    PROBE = ("create", "shoots/probe", Role.OPERATOR)
    WEED = ("create", "shoots/recoveries", Role.OPERATOR)
    PAUSE = ("update", "shoots/pause", Role.OPERATOR)
    RESUME = ("delete", "shoots/pause", Role.OPERATOR)
    IGNORE = ("update", "shoots/ignore-scaling", Role.OPERATOR)
    UNIGNORE = ("delete", "shoots/ignore-scaling", Role.OPERATOR)
    PAUSE_ALL = ("update", "shoots/pause", Role.ADMIN)
    RESUME_ALL = ("delete", "shoots/pause", Role.ADMIN)
    SCALE = ("create", "shoots/scale", Role.ADMIN)
    CANCEL = ("delete", "shoots/scale", Role.ADMIN)
    LOG_LEVEL = ("update", "config", Role.ADMIN)

    def __init__(self, verb: str, resource: str, role: Role) -> None:
        self.verb = verb
        self.resource = resource
        self.role = role
        """The least one that may."""

    @property
    def writes(self) -> bool:
        """Whether it changes something: its review is never taken from a cache."""
        return self.verb not in {"get", "list"}

    def access(self, namespace: str = "") -> Access:
        """What is asked for; `namespace` is the shoot's, empty for all."""
        return Access(self.verb, self.resource, namespace)


_RANK: Final = {role: rank for rank, role in enumerate(Role)}
"""Of each role, the least first, as they are declared."""


class ByRole:
    """For callers who have a role."""

    def __init__(self, decisions: DecisionCounter) -> None:
        self._decisions = decisions

    async def check(
        self,
        caller: Caller,
        call: Call,
        namespace: str = "",
        *,
        again: bool = False,  # noqa: ARG002 - a role is nothing that anybody is asked for
    ) -> None:
        """Returns where the role is at least that of the call; raises Problem (403)."""
        if await self.may(caller, call, namespace):
            self._decisions.allowed()
            return
        has = "has none" if caller.role is None else f"is {caller.role}"
        why = f"that needs the role {call.role}, and the caller {has}"
        problem = _denied(caller, call.access(namespace), why)
        self._decisions.refused(problem)
        raise problem

    async def may(
        self,
        caller: Caller,
        call: Call,
        namespace: str = "",  # noqa: ARG002 - a role is for all namespaces
    ) -> bool:
        """Whether the role is at least that of the call."""
        return caller.role is not None and _RANK[caller.role] >= _RANK[call.role]


class BySeed:
    """For callers whom the seed knows: a SubjectAccessReview for each call, as far as it is not remembered."""

    def __init__(self, reviews: ReviewService, decisions: DecisionCounter) -> None:
        self._reviews, self._decisions = reviews, decisions

    async def check(
        self, caller: Caller, call: Call, namespace: str = "", *, again: bool = False
    ) -> None:
        """Returns where the seed says yes; raises Problem (403, or 503 and 429 where it cannot say)."""
        remembered = Trust.STALE if again else Trust.FRESH
        try:
            await self._check(caller, call, namespace, Trust.NOTHING if call.writes else remembered)
        except Problem as problem:
            self._decisions.refused(problem)
            raise
        self._decisions.allowed()

    async def may(self, caller: Caller, call: Call, namespace: str = "") -> bool:
        """Whether the seed says yes, or said so within a minute."""
        if namespace and not is_label(namespace):
            return False
        try:
            return await self._reviews.allowed(caller, call.access(namespace), trust=Trust.FRESH)
        except Problem:
            return False

    async def _check(self, caller: Caller, call: Call, namespace: str, trust: Trust) -> None:
        if namespace and not is_label(namespace):
            # Nobody is asked about it: it is as long and as odd as the caller likes.
            raise Problem(ProblemType.NOT_FOUND, "the name in the path is none of a namespace")
        access = call.access(namespace)
        if not await self._reviews.allowed(caller, access, trust=trust):
            raise _denied(caller, access, "the seed's RBAC does not allow it")


def _denied(caller: Caller, access: Access, why: str) -> Problem:
    where = f"in {access.namespace}" if access.namespace else "in all namespaces"
    what = f"{access.verb} {access.resource} ({GROUP}) {where}"
    extra = {"verb": access.verb, "resource": access.resource, "namespace": access.namespace}
    return Problem(ProblemType.FORBIDDEN, f"{caller.name} may not {what}: {why}", extra=extra)
