"""Token and access reviews: asks the seed about callers, and remembers its answers within limits.

Remembered answers spare the seed a review for each read, and let reads go on while the seed's API server is away. A
write needs a fresh yes each time.

    read, allowed within the last minute               yes, without a review
    read or check, denied within the last ten seconds  no, without a review
    check during a long-running answer                 a review, even after a recent yes
    read or check, and the seed does not answer        yes, if the last yes is less than five minutes old
    write                                              a review
    write, denied within the last second               no, without a review
    no answer, and nothing remembered that counts      503, or 429 if too many reviews are wanted at once
    the seed forbids us to send reviews                503: the feature `token-review` is off; all answers are forgotten

Each request with an unknown token costs a review. Without limits a flood of random tokens would use up what the seed
grants this process, or keep operators with a good token from being reviewed (rules 4.3, threat T15). So the reviews, 20
a second and 10 in flight in all, come from four separate budgets, each with a fair queue:

    trusted    callers that were allowed something in the last ten minutes     round robin by caller
    known      other callers with a valid token in the last ten minutes        round robin by address, then by caller
    denied     those of them that were only denied in the last ten minutes     round robin by address, then by caller
    stranger   all other tokens                                                round robin by network address

So after a restart, when nobody is trusted yet, many valid identities without rights compete with each other, and not
with an operator: the first denial moves each of them to a budget of its own.

A turn is one review: a caller with few reviews waits for at most one round of the others, and one with many waits
behind itself. After three seconds without a turn the answer is 429.
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

from app.api.limits import Allowance
from app.api.problems import Problem, ProblemType, wait
from app.core import redaction
from app.core.clock import Clock
from app.core.errors import ClusterError, Forbidden, Throttled
from app.core.fair_queue import RoundRobin
from app.core.limits import Bucket
from app.core.metrics import Metrics
from app.core.model.callers import Access, Caller
from app.core.ports import REVIEW_FEATURE

if TYPE_CHECKING:
    from app.core.kube.reviews import Reviewer

PATIENCE: Final = 3.0
"""Seconds that a review may wait for its turn."""
MOST_WAITING: Final = 20
"""Most waiting reviews of one caller or address: as many as a caller may have concurrent requests (`limits.CALLER`)."""


class Reputation(Enum):
    """What is known of the subject of a review; the value is the budget that the review is taken from."""

    TRUSTED = Allowance(rate=10, burst=20, at_once=5)
    KNOWN = Allowance(rate=3, burst=10, at_once=1)
    DENIED = Allowance(rate=2, burst=5, at_once=1)
    STRANGER = Allowance(rate=5, burst=10, at_once=3)


class FairBudget(RoundRobin):
    """A token bucket with a cap on reviews in flight, whose turns are taken round robin.

    Args:
        share: The size.
        now: The current instant, as `Clock.now`.
    """

    def __init__(self, share: Allowance, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._bucket = Bucket(share.rate, share.burst, now())
        self._free = share.at_once

    @asynccontextmanager
    async def turn(self, who: str, part: str = "") -> AsyncIterator[None]:
        """Wait for a turn of `who`, and hold it until the context ends.

        Args:
            who: Whom the turn is counted for.
            part: Shares the turns of `who` among several, such as the callers behind one address.

        Raises:
            Throttled: No turn came in time, or too many reviews of the same `who` wait.
        """
        if self.waiting(who, part) >= MOST_WAITING:
            raise Throttled("not sent: too many reviews of one caller or address are waiting")
        try:
            await self.wait(who, part, within=PATIENCE)
        except TimeoutError as late:
            raise Throttled("not sent: too many token and access reviews at once") from late
        try:
            yield
        finally:
            self.returned(who)

    def missing(self) -> float | None:
        return self._bucket.seconds_to(1, self._now()) if self._free > 0 else None

    def given(self, _key: str, /) -> None:
        self._bucket.take(self._now())
        self._free -= 1

    def returned(self, _key: str, /) -> None:
        self._free += 1
        self.give()


# The cache of answers: bounded, and with one review for concurrent requests that need the same answer.


V = TypeVar("V")

FRESH: Final = 60.0
"""Seconds for which a yes counts for reads."""
FRESH_NO: Final = 10.0
"""Seconds for which a no counts for reads."""
REPEATED_NO: Final = 1.0
"""Seconds for which a no counts for writes: a client that retries in a loop must not cost a review each time."""
STALE: Final = 300.0
"""Seconds for which a yes counts while the seed does not answer."""
REMEMBERED: Final = 600.0
"""Seconds for which a yes, never an answer then, decides the budget that reviews about the caller are taken from."""
MOST: Final = 4_096
"""Answers that are kept, yes and no each; the least recently used ones are dropped."""


class ReviewCache(Generic[V]):
    """Remembers answers; a false value, such as None, is a no.

    Each no is kept apart from each yes, so that a flood of wrong tokens cannot push the good ones out of the cache.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._yes: OrderedDict[Hashable, tuple[V, float]] = OrderedDict()
        """The answers with their instants."""
        self._no: OrderedDict[Hashable, tuple[V, float]] = OrderedDict()
        self._asked: dict[Hashable, asyncio.Future[V]] = {}

    def yes(self, key: Hashable, now: float, seconds: float) -> V | None:
        """A yes that is younger than so many seconds; None: a review is needed."""
        return self._yes[key][0] if self._within(self._yes, key, now, seconds) else None

    def denied(self, key: Hashable, now: float, seconds: float = FRESH_NO) -> bool:
        """Whether the answer was no within so many seconds."""
        return self._within(self._no, key, now, seconds)

    def _within(
        self,
        kept: OrderedDict[Hashable, tuple[V, float]],
        key: Hashable,
        now: float,
        seconds: float,
    ) -> bool:
        found = key in kept and now - kept[key][1] < seconds
        if found:
            kept.move_to_end(key)
        return found

    def note(self, key: Hashable, value: V, now: float) -> None:
        """Remember an answer in place of an earlier one."""
        for each in (self._yes, self._no):
            each.pop(key, None)
        kept = self._yes if value else self._no
        kept[key] = value, now
        while len(kept) > self._most:
            kept.popitem(last=False)

    def clear(self) -> None:
        self._yes.clear()
        self._no.clear()

    async def together(self, key: Hashable, ask: Callable[[], Awaitable[V]]) -> V:
        """Call `ask` once for all concurrent callers with the same key; each gets its result or exception."""
        while (asked := self._asked.get(key)) is not None:
            await asyncio.wait([asked])
            if not asked.cancelled():
                return asked.result()
        asked = self._asked[key] = asyncio.get_running_loop().create_future()
        try:
            value = await ask()
        except Exception as error:
            asked.set_exception(error)
            asked.exception()  # mark it as retrieved: asyncio complains if nobody else waits for it
            raise
        else:
            asked.set_result(value)
            return value
        finally:
            asked.cancel()  # has an effect only if this caller was cancelled: one of the others then asks instead
            del self._asked[key]


log = structlog.get_logger(__name__)


REST: Final = 5.0
"""Seconds after a review without an answer in which a stale yes is used at once, without another attempt."""
FORBIDDEN_FOR: Final = 10.0
"""Seconds without further reviews after the seed has forbidden one."""
_TOKEN: Final = "TokenReview"  # noqa: S105 - the name of a kind, no secret
_ACCESS: Final = "SubjectAccessReview"
_SOON: Final = 1.0
_NEVER: Final = float("-inf")
_NOBODY: Final = Caller("system:anonymous", groups=("system:unauthenticated",))
_NO_TOKEN: Final = "none"  # noqa: S105 - that is what it says
_ANYTHING: Final = Access("list", "shoots")


class Trust(Enum):
    """Which remembered answers may be used instead of a review."""

    NOTHING = auto()
    """None; for writes."""
    STALE = auto()
    """A yes of the last five minutes, if the seed does not answer; for checks during long-running answers."""
    FRESH = auto()
    """A yes of the last minute, and those of `STALE`; for reads."""


class ReviewService:
    """Identifies and authorizes callers by the table in the module's docstring.

    Args:
        reviewer: Sends reviews to the seed; None: there is no seed to ask, and every call is refused.
        clock: Tells the age of answers.
        metrics: Shows whether the feature `token-review` is off.
    """

    def __init__(self, reviewer: "Reviewer | None", clock: Clock, metrics: Metrics) -> None:
        self._reviewer, self._clock, self._metrics = reviewer, clock, metrics
        self._key = secrets.token_bytes(32)
        self._callers: ReviewCache[Caller | None] = ReviewCache()
        self._access: ReviewCache[bool] = ReviewCache()
        self._allowed: ReviewCache[bool] = ReviewCache()
        """By name and uid of a caller: whether it was allowed anything lately; decides its budget."""
        self._peers: ReviewCache[str] = ReviewCache()
        """By name and uid of a caller: the network address that it came from last."""
        self._budgets = {each: FairBudget(each.value, clock.now) for each in Reputation}
        self._forbidden: dict[str, str] = {}
        self._ask_again_at = _NEVER
        self._rest_until: dict[str, float] = {}
        self._answered_at: dict[str, float] = {}

    @property
    def off(self) -> str | None:
        """Why callers cannot be reviewed; None while they can."""
        if self._reviewer is None:
            return "there is no seed to ask about callers"
        return "; ".join(self._forbidden.values()) or None

    async def caller(
        self, token: str, *, audience: str | None, trust: Trust, peer: str = ""
    ) -> Caller | None:
        """The caller that a token belongs to; None if the seed does not know it.

        Args:
            token: The bearer token of the request.
            audience: The audience that it must have been issued for; None: that of the API server itself.
            trust: Which remembered answers may be used.
            peer: The network address of the request.

        Raises:
            Problem: 503 or 429: the token cannot be reviewed now.
        """
        reviewer = self._who_to_ask()
        # Neither the token is kept nor a hash that is the same in another process (threat T14).
        key = (hashlib.blake2b(token.encode(), key=self._key).digest(), audience)
        ask = partial(reviewer.authenticate, token, audience=audience)
        known = self._callers.yes(key, self._clock.now(), REMEMBERED)
        if known is not None:
            self._peers.note((known.name, known.uid), peer, self._clock.now())
        who = (Reputation.STRANGER, peer, "") if known is None else self._repute(known)
        found = await self._answer(
            _TOKEN, self._callers, key, partial(self._in_turn, *who, ask), trust
        )
        if found is not None:
            self._peers.note((found.name, found.uid), peer, self._clock.now())
        return found

    async def allowed(self, caller: Caller, access: Access, *, trust: Trust) -> bool:
        """Whether the seed's RBAC allows the caller this access.

        Raises:
            Problem: 503 or 429: that cannot be reviewed now.
        """
        reviewer = self._who_to_ask()
        extra = tuple(sorted((name, tuple(values)) for name, values in caller.extra.items()))
        key = (caller.name, caller.uid, caller.groups, extra, access)

        async def ask() -> bool:
            found = await self._in_turn(
                *self._repute(caller), partial(reviewer.allowed, caller, access)
            )
            now, who = self._clock.now(), (caller.name, caller.uid)
            if found or not self._allowed.yes(who, now, REMEMBERED):  # a denial takes no trust away
                self._allowed.note(who, found, now)
            return found

        return await self._answer(_ACCESS, self._access, key, ask, trust) is True

    def _repute(self, caller: Caller) -> tuple[Reputation, str, str]:
        """The budget for reviews about a caller with a valid token, and whose turns there it shares."""
        now, who = self._clock.now(), (caller.name, caller.uid)
        if self._allowed.yes(who, now, REMEMBERED):
            return Reputation.TRUSTED, caller.name, ""
        denied = self._allowed.denied(who, now, REMEMBERED)
        peer = self._peers.yes(who, now, REMEMBERED) or ""
        return Reputation.DENIED if denied else Reputation.KNOWN, peer, caller.name

    async def _in_turn(
        self, reputation: Reputation, who: str, part: str, ask: Callable[[], Awaitable[V]]
    ) -> V:
        async with self._budgets[reputation].turn(who, part):
            return await ask()

    async def check_possible(self) -> None:
        """Make sure that the seed allows us to send reviews; to be called before a 401 is answered.

        A 401 would blame the caller for a right that this process lacks. If the seed has not answered a kind of review
        lately, one about an invalid token or an anonymous user is sent to find out.

        Raises:
            Problem: 503, which names the feature: the seed forbids reviews.
        """
        self._who_to_ask()
        with suppress(Problem):
            if self._may_be_forbidden(_TOKEN):
                await self.caller(_NO_TOKEN, audience=None, trust=Trust.FRESH)
            if self._may_be_forbidden(_ACCESS):
                await self.allowed(_NOBODY, _ANYTHING, trust=Trust.FRESH)
        if self.off is not None:
            raise self._problem_off()

    def _may_be_forbidden(self, kind: str) -> bool:
        """Whether the seed may forbid this kind of review; False also while it does not answer, to wait no longer."""
        now = self._clock.now()
        if any(self._resting(each, now) for each in (_TOKEN, _ACCESS)):
            return False
        return now - self._answered_at.get(kind, _NEVER) >= FRESH

    def _who_to_ask(self) -> "Reviewer":
        off = self.off
        if self._reviewer is None or (off is not None and self._clock.now() < self._ask_again_at):
            raise self._problem_off()
        return self._reviewer

    async def _answer(
        self,
        kind: str,
        answers: ReviewCache[V],
        key: Hashable,
        ask: Callable[[], Awaitable[V]],
        trust: Trust,
    ) -> V | None:
        """The answer, remembered or reviewed; None is a no."""
        asking, now = partial(self._ask, kind, answers, key, ask), self._clock.now()
        if answers.denied(key, now, REPEATED_NO if trust is Trust.NOTHING else FRESH_NO):
            return None
        if trust is Trust.NOTHING:
            return await asking()
        if trust is Trust.FRESH and (known := answers.yes(key, now, FRESH)) is not None:
            return known
        if self._resting(kind, now) and (known := answers.yes(key, now, STALE)) is not None:
            return known
        try:
            return await answers.together(key, asking)
        except Problem:
            known = answers.yes(key, self._clock.now(), STALE)
            if known is None:  # as it is after a Forbidden, which has cleared the cache
                raise
            return known

    async def _ask(
        self, kind: str, answers: ReviewCache[V], key: Hashable, ask: Callable[[], Awaitable[V]]
    ) -> V:
        try:
            value = await ask()
        except Forbidden as error:
            self._note_forbidden(kind, error)
            raise self._problem_off() from error
        except Throttled as error:
            pause = _SOON if error.retry_after is None else error.retry_after
            detail = "too many callers are reviewed at once"
            raise Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=wait(pause)) from error
        except ClusterError as error:
            raise self._problem_away(kind, error) from error
        self._rest_until.pop(kind, None)
        self._answered_at[kind] = self._clock.now()
        if self._forbidden.pop(kind, None) is not None and not self._forbidden:
            self._metrics.feature(REVIEW_FEATURE, off=False)
            log.info("callers are reviewed again", feature=REVIEW_FEATURE)
        answers.note(key, value, self._clock.now())
        return value

    def _note_forbidden(self, kind: str, error: Forbidden) -> None:
        if kind not in self._forbidden:
            log.error(
                "callers cannot be reviewed; every call is refused",
                feature=REVIEW_FEATURE,
                error=str(error),
            )
        self._forbidden[kind] = (
            f"the seed forbids this process to create a {kind}: {redaction.clean(str(error))}"
        )
        self._answered_at.pop(kind, None)
        self._ask_again_at = self._clock.now() + FORBIDDEN_FOR
        self._callers.clear()
        self._access.clear()
        self._metrics.feature(REVIEW_FEATURE, off=True)

    def _problem_off(self) -> Problem:
        detail = self.off or ""
        return Problem(
            ProblemType.FEATURE_OFF,
            detail,
            extra={"feature": REVIEW_FEATURE},
            headers=wait(FORBIDDEN_FOR),
        )

    def _problem_away(self, kind: str, error: ClusterError) -> Problem:
        now = self._clock.now()
        if not self._resting(
            kind, now
        ):  # one line in the log for an outage, however many requests come
            log.warning("callers cannot be reviewed at the moment", kind=kind, error=str(error))
        self._rest_until[kind] = now + REST
        detail = f"the seed did not answer a {kind}: {redaction.clean(str(error))}"
        return Problem(ProblemType.SEED_AWAY, detail, headers=wait(REST))

    def _resting(self, kind: str, now: float) -> bool:
        return now < self._rest_until.get(kind, _NEVER)
