"""How much each caller may ask for (threat T15): so many requests a second, so many at the same time.

What is refused here has cost next to nothing; what is not waits for its turn (`app.api.limits`).
"""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.health import PATHS as HEALTH
from app.api.problems import Problem, ProblemType, wait
from app.core.errors import trimmed
from app.core.limits import Bucket
from app.core.model.callers import Caller
from app.core.web.peers import peer_of

STREAMS: Final = frozenset({"/api/v1/events"})
"""Answers that do not end: they are counted where they are served, and not among the requests in work."""
_MOST_CALLERS: Final = 4_096
"""Callers that are remembered; of more, those that have asked for nothing the longest begin anew."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one caller may ask for."""

    rate: float
    """Requests a second, over time."""
    burst: float
    """Requests at once."""
    at_once: int
    """Requests in work at the same time."""


PEER: Final = Allowance(rate=300, burst=600, at_once=200)
"""One address, before anybody is known to call: many callers may stand behind it."""
CALLER: Final = Allowance(rate=100, burst=200, at_once=20)
"""One caller, by name."""
SCRAPER: Final = Allowance(rate=5, burst=20, at_once=2)
"""One address that reads metrics where nobody has to say who he is."""


class _Account:
    """What one caller has asked for lately."""

    __slots__ = ("bucket", "in_work")

    def __init__(self, allowance: Allowance, now: float) -> None:
        self.bucket = Bucket(allowance.rate, allowance.burst, now)
        self.in_work = 0


class Limiter:
    """The accounts of all callers; bounded.

    Args:
        allowance: of each of them.
        now: the instant that it is, as `Clock.now`.
    """

    def __init__(self, allowance: Allowance, now: Callable[[], float]) -> None:
        self._allowance = allowance
        self._now = now
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def take(self, who: str) -> float:
        """Counts one request; returns the seconds after which to ask again, 0 where it may go on now."""
        account, now = self._account(who), self._now()
        if not account.bucket.take(now):
            return account.bucket.seconds_to(1, now)
        return 0.0

    def begin(self, who: str) -> bool:
        """Whether one more may be in work; if so, `end` is owed."""
        account = self._account(who)
        if account.in_work >= self._allowance.at_once:
            return False
        account.in_work += 1
        return True

    def end(self, who: str) -> None:
        """A request that was begun has been answered."""
        account = self._accounts.get(who)
        if account is not None and account.in_work > 0:
            account.in_work -= 1

    def _account(self, who: str) -> _Account:
        account = self._accounts.get(who)
        if account is None:
            account = self._accounts[who] = _Account(self._allowance, self._now())
            if len(self._accounts) > _MOST_CALLERS:
                self._accounts.popitem(last=False)
        else:
            self._accounts.move_to_end(who)
        return account


class RateLimits:
    """Answers 429 to who asks for too much; health passes.

    Args:
        app: what is asked.
        limiter: the accounts.
        who: whose request it is.
    """

    def __init__(self, app: ASGIApp, *, limiter: Limiter, who: Callable[[Scope], str]) -> None:
        self._app = app
        self._limiter = limiter
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        who, limiter = self._who(scope), self._limiter
        seconds = limiter.take(who)
        if seconds > 0:
            detail = (
                f"more requests a second than one caller may send; again in {math.ceil(seconds)} s"
            )
            await _refused(detail, seconds, scope)(scope, receive, send)
            return
        if scope["path"] in STREAMS:
            await self._app(scope, receive, send)
        elif limiter.begin(who):
            try:
                await self._app(scope, receive, send)
            finally:
                limiter.end(who)
        else:
            detail = "too many requests of this caller are in work; wait for their answers"
            await _refused(detail, 1.0, scope)(scope, receive, send)


def _refused(detail: str, seconds: float, scope: Scope) -> ASGIApp:
    problem = Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=wait(seconds))
    return problem.response(trimmed(str(scope["path"]), 200))


def address_of(scope: Scope) -> str:
    """The network address that a request comes from."""
    client = scope.get("client")
    return peer_of(client[0]) if client else ""


def name_of(scope: Scope) -> str:
    """The name of the caller that was authenticated; else the address."""
    caller = scope.get("state", {}).get("caller")
    return f"caller {caller.name}" if isinstance(caller, Caller) else address_of(scope)


# Who looks at the seed: of each caller one read at a time, so that no caller keeps the others from it.


PATIENCE: Final = 2.0
"""Seconds that a read waits for those of the same caller."""
_SOON: Final = 1.0
"""Seconds after which it is worth asking again."""


class ReadTurns:
    """Whose read is in flight; it remembers a caller for as long as one is, or waits."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._turns)

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """For the length of one read of this caller: begins when none of his is in flight, those that wait in turn.

        Raises:
            Problem: his other reads were in the way for 2 s.
        """
        turn = self._turns.setdefault(who, asyncio.Lock())
        try:
            async with asyncio.timeout(PATIENCE):
                await turn.acquire()
        except TimeoutError as error:
            detail = (
                "other reads of the resources by the same caller are in the way, of which one is made at a time: "
                "wait for their answers"
            )
            raise Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=wait(_SOON)) from error
        try:
            yield
        finally:
            turn.release()


# One request is worked on at a time, callers in turn, and the loops of the watchdog have the loop between two of them.
#
# A page of 500 shoots keeps the event loop for tens of milliseconds.  A hundred such requests that arrive together
# would keep every probe waiting for seconds; so each begins only when the one before has ended, or waits for something
# itself, and when the others in the loop have had about as much time as it took.


_REST: Final = 1.0
"""Seconds of the loop for others, for each second that a request took."""
_LONGEST: Final = 0.25
"""Seconds after which the next request begins, however long the one before took."""


class FairTurns:
    """Who is next: callers in turn, whatever number of requests each of them has.

    Args:
        now: the instant that it is, as `Clock.now`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._taken = False
        self._free_at = now()
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self, who: str) -> None:
        """Returns when it is the turn of a request of `who`; `end` is owed then."""
        if not (self._taken or self._waiting) and self.now() >= self._free_at:
            self._taken = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(0.0)
            raise

    def end(self, seconds: float) -> None:
        """A request has kept the loop for so long; the next begins after a rest."""
        self._taken = False
        self._free_at = self.now() + min(seconds * _REST, _LONGEST)
        self._wake()

    def _wake(self) -> None:
        """Has somebody look who is next, where nobody will."""
        if self._waiting and not self._taken and self._timer is None:
            rest = max(0.0, self._free_at - self.now())
            self._timer = asyncio.get_running_loop().call_later(rest, self._next)

    def _next(self) -> None:
        self._timer = None
        while self._waiting:
            who, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(who)
            else:
                del self._waiting[who]
            if not turn.done():
                self._taken = True
                turn.set_result(None)
                return


class InTurn:
    """Has each request wait for its turn; health does not wait.

    Args:
        app: what is asked.
        turns: who is next.
        who: whose request it is.
    """

    def __init__(self, app: ASGIApp, *, turns: FairTurns, who: Callable[[Scope], str]) -> None:
        self._app = app
        self._turns = turns
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        await self._turns.begin(self._who(scope))
        await _FirstStretch(self._app(scope, receive, send), self._turns)


class _FirstStretch:
    """Awaits something, and ends the turn when that waits for the first time, or has ended."""

    def __init__(self, work: Awaitable[None], turns: FairTurns) -> None:
        self._work = work
        self._turns = turns

    def __await__(self) -> Generator[Any, Any, None]:
        work = self._work.__await__()
        step, ended = partial(next, work), False
        while True:
            began = self._turns.now()
            try:
                waits_for = step()
            except StopIteration:
                return
            finally:
                if not ended:
                    self._turns.end(self._turns.now() - began)
                    ended = True
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - a cancellation, handed on to where it belongs
                step = partial(work.throw, error)
            else:
                step = partial(next, work)
