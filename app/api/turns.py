"""One request is worked on at a time, callers in turn, and the loops of the watchdog have the loop between two of them.

A page of 500 shoots keeps the event loop for tens of milliseconds.  A hundred such requests that arrive together
would keep every probe waiting for seconds; so each begins only when the one before has ended, or waits for something
itself, and when the others in the loop have had about as much time as it took.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.health import PATHS as HEALTH

_REST: Final = 1.0
"""Seconds of the loop for others, for each second that a request took."""
_LONGEST: Final = 0.25
"""Seconds after which the next request begins, however long the one before took."""


class Turns:
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

    def __init__(self, app: ASGIApp, *, turns: Turns, who: Callable[[Scope], str]) -> None:
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

    def __init__(self, work: Awaitable[None], turns: Turns) -> None:
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
