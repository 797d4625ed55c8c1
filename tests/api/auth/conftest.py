"""A seed to ask about callers, with switches for all that can go wrong with it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from app.api.auth.authorization import AccessDecision, DecisionCounter
from app.api.auth.reviews import ReviewService
from app.core.clock import Clock
from app.core.errors import ClusterError, Forbidden, ServerFault, Throttled, Unreachable
from app.core.metrics import Metrics
from app.core.model.callers import AUDIENCE, Access, Caller

ALICE = Caller(
    "alice", uid="u1", groups=("devs", "system:authenticated"), extra={"scopes": ("a", "b")}
)
BOB = Caller("bob", uid="u2")
TOKENS: Mapping[tuple[str, str | None], Caller] = {
    ("alices-token", AUDIENCE): ALICE,
    ("bobs-token", AUDIENCE): BOB,
    ("scrapers-token", None): Caller("scraper"),
    ("alices-seed-token", None): ALICE,
}


@dataclass
class FakeReviewer:
    """Knows `TOKENS`, and lets callers do what `rights` has; with `fails`, fails."""

    rights: set[tuple[str, Access]] = field(default_factory=set)
    fails: ClusterError | None = None
    fails_access: ClusterError | None = None
    takes: float = 0.0
    """Seconds for each answer."""
    asked: list[str] = field(default_factory=list)
    tokens: dict[tuple[str, str | None], Caller] = field(default_factory=lambda: dict(TOKENS))

    async def authenticate(self, token: str, *, audience: str | None = AUDIENCE) -> Caller | None:
        await self._answer("TokenReview", self.fails)
        return self.tokens.get((token, audience))

    async def allowed(self, caller: Caller, access: Access) -> bool:
        await self._answer("SubjectAccessReview", self.fails or self.fails_access)
        return (caller.name, access) in self.rights

    async def _answer(self, kind: str, error: ClusterError | None) -> None:
        self.asked.append(kind)
        await asyncio.sleep(self.takes)
        if error is not None:
            raise error

    # The switches.

    def away(self) -> None:
        self.fails = Unreachable("no answer within 3 s", status=None)

    def sick(self) -> None:
        self.fails = ServerFault("the server is sick", status=500)

    def forbid(self) -> None:
        self.fails = Forbidden("create tokenreviews is forbidden", status=403)

    def throttle(self, retry_after: float | None = None) -> None:
        self.fails = Throttled("too many", retry_after=retry_after)

    def mend(self) -> None:
        self.fails = self.fails_access = None


@dataclass
class Counted:
    """What `dwd_auth_decisions_total` says."""

    metrics: Metrics

    def __call__(self) -> dict[str, float]:
        found = {
            each: self.metrics.registry.get_sample_value(
                "dwd_auth_decisions_total", {"decision": str(each)}
            )
            for each in AccessDecision
        }
        return {str(each): value for each, value in found.items() if value}


@pytest.fixture
def reviewer() -> FakeReviewer:
    return FakeReviewer()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def decisions(metrics) -> DecisionCounter:
    return DecisionCounter(metrics)


@pytest.fixture
def counted(metrics) -> Counted:
    return Counted(metrics)


@pytest.fixture
async def reviews(reviewer, metrics) -> ReviewService:
    return ReviewService(reviewer, Clock.of_loop(), metrics)
