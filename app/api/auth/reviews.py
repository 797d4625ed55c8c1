"""The seed's word on callers, as far as it may be remembered, and what is answered while it cannot be had.

read, said yes within a minute          yes, without asking
goes on for long, reviewed again        asked, whatever is remembered
any of them, may not ask                503: the feature `token-review` is off, everything is forgotten
read or again, no answer,               yes
  yes within 5 minutes
write, or nothing remembered            503, or 429 where too much is asked at once
write, denied within a second           no, without asking

Who waits for whom, where much is asked: `budgets`.
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

import structlog

from app.api.auth.budgets import FairBudget, Reputation
from app.api.problems import Problem, ProblemType, wait
from app.core import redaction
from app.core.clock import Clock
from app.core.errors import ClusterError, Forbidden, Throttled
from app.core.metrics import Metrics
from app.core.model.callers import Access, Caller
from app.core.ports import Reviewer

# What the seed said a while ago: bounded, and asked once where several want to know the same at once.


V = TypeVar("V")

FRESH: Final = 60.0
"""Seconds for which a yes may be taken for true."""
FRESH_NO: Final = 10.0
"""The same for a no."""
REPEATED_NO: Final = 1.0
"""The same for a no to a write: who repeats what was just denied is not worth a review each time."""
STALE: Final = 300.0
"""Seconds for which a yes may be taken for true while nobody can be asked."""
REMEMBERED: Final = 600.0
"""Seconds for which a yes says that somebody is no stranger."""
MOST: Final = 4_096
"""Answers of each kind that are kept: those that were of use last."""


class _CachedReview(NamedTuple, Generic[V]):
    value: V
    at: float


class ReviewCache(Generic[V]):
    """Remembers answers; one that is false (None, too) is a no.

    A no is kept apart from a yes: whoever sends a thousand wrong tokens must not make us forget those that are right.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._yes: OrderedDict[Hashable, _CachedReview[V]] = OrderedDict()
        self._no: OrderedDict[Hashable, _CachedReview[V]] = OrderedDict()
        self._asked: dict[Hashable, asyncio.Future[V]] = {}

    def fresh(self, key: Hashable, now: float) -> V | None:
        """What may be taken for true; None where it must be asked for."""
        if (answer := self._within(self._yes, key, now, FRESH)) is not None:
            return answer.value
        return None

    def denied(self, key: Hashable, now: float, seconds: float = FRESH_NO) -> bool:
        """Whether the answer was no a moment ago."""
        return self._within(self._no, key, now, seconds) is not None

    def stale(self, key: Hashable, now: float) -> V | None:
        """What may be taken for true while nobody can be asked; None where there is nothing."""
        answer = self._within(self._yes, key, now, STALE)
        return None if answer is None else answer.value

    def remembered(self, key: Hashable, now: float) -> V | None:
        """What was said last, if that was a yes: no answer, but a reason to ask for this one before others."""
        answer = self._within(self._yes, key, now, REMEMBERED)
        return None if answer is None else answer.value

    def _within(
        self,
        kept: OrderedDict[Hashable, _CachedReview[V]],
        key: Hashable,
        now: float,
        seconds: float,
    ) -> _CachedReview[V] | None:
        answer = kept.get(key)
        if answer is None or now - answer.at >= seconds:
            return None
        kept.move_to_end(key)
        return answer

    def note(self, key: Hashable, value: V, now: float) -> None:
        """Remembers what was said now, instead of what was said before."""
        for each in (self._yes, self._no):
            each.pop(key, None)
        kept = self._yes if value else self._no
        kept[key] = _CachedReview(value, now)
        while len(kept) > self._most:
            kept.popitem(last=False)

    def clear(self) -> None:
        """Forgets all."""
        self._yes.clear()
        self._no.clear()

    async def together(self, key: Hashable, ask: Callable[[], Awaitable[V]]) -> V:
        """What `ask` returns or raises, for all who want to know the same meanwhile."""
        while (asked := self._asked.get(key)) is not None:
            await asyncio.wait([asked])
            if not asked.cancelled():
                return asked.result()
        asked = self._asked[key] = asyncio.get_running_loop().create_future()
        try:
            value = await ask()
        except Exception as error:
            asked.set_exception(error)
            asked.exception()  # seen: perhaps nobody else waits for it
            raise
        else:
            asked.set_result(value)
            return value
        finally:
            asked.cancel()  # where whoever asked went away: the next one asks anew
            del self._asked[key]


log = structlog.get_logger(__name__)


FEATURE: Final = "token-review"
REST: Final = 5.0
"""Seconds after no answer in which those of whom a stale yes is known do not wait for another one."""
FORBIDDEN_FOR: Final = 10.0
"""Seconds after "you may not ask" in which nobody asks again."""
_TOKEN: Final = "TokenReview"  # noqa: S105 - the name of a kind, no secret
_ACCESS: Final = "SubjectAccessReview"
_SOON: Final = 1.0
_NEVER: Final = float("-inf")
_NOBODY: Final = Caller("system:anonymous", groups=("system:unauthenticated",))
_NO_TOKEN: Final = "none"  # noqa: S105 - that is what it says
_ANYTHING: Final = Access("list", "shoots")


class Trust(Enum):
    """What may be taken for true without the seed's word of now."""

    NOTHING = auto()
    """For writes."""
    STALE = auto()
    """For what goes on for long: nothing, unless nobody can be asked."""
    FRESH = auto()
    """For reads: what it said a moment ago; and the above."""


class ReviewService:
    """Asks and remembers.

    Args:
        reviewer: the adapter to the seed; None: there is nobody to ask.
        clock: says how old an answer is.
        metrics: says whether the feature is off.
    """

    def __init__(self, reviewer: Reviewer | None, clock: Clock, metrics: Metrics) -> None:
        self._reviewer, self._clock, self._metrics = reviewer, clock, metrics
        self._key = secrets.token_bytes(32)
        self._callers: ReviewCache[Caller | None] = ReviewCache()
        self._access: ReviewCache[bool] = ReviewCache()
        self._allowed: ReviewCache[bool] = ReviewCache()
        """Of each caller, by name and uid, whether anything was allowed."""
        self._budgets = {each: FairBudget(each.value, clock.now) for each in Reputation}
        self._forbidden: dict[str, str] = {}
        self._ask_again_at = _NEVER
        self._rest_until: dict[str, float] = {}
        self._answered_at: dict[str, float] = {}

    @property
    def off(self) -> str | None:
        """Why nobody can be told from anybody else; None while that works."""
        if self._reviewer is None:
            return "there is no seed to ask about callers"
        return "; ".join(self._forbidden.values()) or None

    async def caller(
        self, token: str, *, audience: str | None, trust: Trust, peer: str = ""
    ) -> Caller | None:
        """Whose token it is; None: nobody's.

        Args:
            token: as the request carries it.
            audience: what it must have been made for; None: the API server itself.
            trust: what may be taken for true without asking.
            peer: the address that it came from.

        Raises:
            Problem: it cannot be said: 503, or 429.
        """
        reviewer = self._who_to_ask()
        # The token itself is kept nowhere, nor is a hash that could be looked up elsewhere.
        key = (hashlib.blake2b(token.encode(), key=self._key).digest(), audience)
        ask = partial(reviewer.authenticate, token, audience=audience)
        known = self._callers.remembered(key, self._clock.now())
        who = (Reputation.STRANGER, peer) if known is None else self._repute(known)
        return await self._answer(
            _TOKEN, self._callers, key, partial(self._in_turn, *who, ask), trust
        )

    async def allowed(self, caller: Caller, access: Access, *, trust: Trust) -> bool:
        """Whether the caller may do this.

        Raises:
            Problem: it cannot be said: 503, or 429.
        """
        reviewer = self._who_to_ask()
        extra = tuple(sorted((name, tuple(values)) for name, values in caller.extra.items()))
        key = (caller.name, caller.uid, caller.groups, extra, access)

        async def ask() -> bool:
            found = await self._in_turn(
                *self._repute(caller), partial(reviewer.allowed, caller, access)
            )
            if found:
                self._allowed.note((caller.name, caller.uid), value=True, now=self._clock.now())
            return found

        return await self._answer(_ACCESS, self._access, key, ask, trust) is True

    def _repute(self, caller: Caller) -> tuple[Reputation, str]:
        """What is known of a caller whose token is good, and whom to count for it."""
        trusted = self._allowed.remembered((caller.name, caller.uid), self._clock.now())
        return Reputation.TRUSTED if trusted else Reputation.KNOWN, caller.name

    async def _in_turn(
        self, reputation: Reputation, who: str, ask: Callable[[], Awaitable[V]]
    ) -> V:
        async with self._budgets[reputation].turn(who):
            return await ask()

    async def check_possible(self) -> None:
        """Returns unless we may not ask; of a kind that the seed has not answered lately, it is asked about nobody.

        To come before "nobody is known to call": where we may not ask, that says nothing of the caller.

        Raises:
            Problem: we may not ask; 503, which names the feature.
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
        """Whether that was not heard lately; nobody waits for a seed that was away a moment ago."""
        now = self._clock.now()
        if any(self._resting(each, now) for each in (_TOKEN, _ACCESS)):
            return False
        return now - self._answered_at.get(kind, _NEVER) >= FRESH

    def _who_to_ask(self) -> Reviewer:
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
        """None is a no."""
        asking, now = partial(self._ask, kind, answers, key, ask), self._clock.now()
        if answers.denied(key, now, REPEATED_NO if trust is Trust.NOTHING else FRESH_NO):
            return None
        if trust is Trust.NOTHING:
            return await asking()
        if trust is Trust.FRESH and (known := answers.fresh(key, now)) is not None:
            return known
        if self._resting(kind, now) and (known := answers.stale(key, now)) is not None:
            return known
        try:
            return await answers.together(key, asking)
        except Problem:
            known = answers.stale(key, self._clock.now())  # nothing, where we may not ask
            if known is None:
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
            detail = "too many callers are asked about at once"
            raise Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=wait(pause)) from error
        except ClusterError as error:
            raise self._problem_away(kind, error) from error
        self._note_answered(kind)
        answers.note(key, value, self._clock.now())
        return value

    def _note_forbidden(self, kind: str, error: Forbidden) -> None:
        if kind not in self._forbidden:
            log.error(
                "callers cannot be reviewed; every call is refused",
                feature=FEATURE,
                error=str(error),
            )
        self._forbidden[kind] = f"the seed forbids us a {kind}: {redaction.clean(str(error))}"
        self._answered_at.pop(kind, None)
        self._ask_again_at = self._clock.now() + FORBIDDEN_FOR
        self._callers.clear()
        self._access.clear()
        self._metrics.feature_off.labels(FEATURE).set(1)

    def _note_answered(self, kind: str) -> None:
        self._rest_until.pop(kind, None)
        self._answered_at[kind] = self._clock.now()
        if self._forbidden.pop(kind, None) is not None and not self._forbidden:
            self._metrics.feature_off.labels(FEATURE).set(0)
            log.info("callers are reviewed again", feature=FEATURE)

    def _problem_off(self) -> Problem:
        detail = self.off or ""
        return Problem(
            ProblemType.FEATURE_OFF, detail, extra={"feature": FEATURE}, headers=wait(FORBIDDEN_FOR)
        )

    def _problem_away(self, kind: str, error: ClusterError) -> Problem:
        now = self._clock.now()
        if not self._resting(kind, now):  # one line is enough, however many call
            log.warning("callers cannot be reviewed for now", kind=kind, error=str(error))
        self._rest_until[kind] = now + REST
        detail = f"the seed did not answer a {kind}: {redaction.clean(str(error))}"
        return Problem(ProblemType.SEED_AWAY, detail, headers=wait(REST))

    def _resting(self, kind: str, now: float) -> bool:
        return now < self._rest_until.get(kind, _NEVER)
