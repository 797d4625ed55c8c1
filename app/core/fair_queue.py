"""Fair queues: for the event loop's time, and for turns that a caller waits for (`TokenQueue`, `RoundRobin`).

The loop's time is shared among those whose answers take much of it (threats T7, T11).

Everything runs in one event loop in one thread: work done without a break keeps all others waiting. Work whose amount
an outsider decides (bytes to decrypt, parse or decode) is therefore done in stretches of a few milliseconds. Work may
begin at once only until the first `TIME_SLICE` of a turn of the loop is used up, so that many answers that arrive in
the same instant do not add up. All other work, and what is left after a stretch, waits in a queue that resumes one
waiter at each turn: the one whose consumer has taken the least time recently. However many hostile shoots send or
wait, everybody else waits for one or two stretches at a time, and the large answer of an honest shoot goes first
(docs/decisions/0043).
"""

import abc
import asyncio
import contextlib
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

from app.core.clock import Clock, stopwatch
from app.core.limits import Bucket

T = TypeVar("T")

TIME_SLICE: Final = 0.005
"""Seconds for which one piece of work may block the event loop."""
# Half-life, in seconds, of the time that a consumer has taken.
_HALVED_AFTER: Final = 10.0
# Maximum seconds of one charge: no step of work takes as long. What does is a process that stood still (SIGSTOP, a
# throttled CPU), and no consumer is to blame.
_MOST: Final = 0.25


class FairQueue:
    """A queue of waiting consumers; one is resumed at each turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Consumer, Callable[[], None], bool]] = []
        self._serving = False
        self._used = self._used_since = 0.0
        """Seconds that all consumers have taken in this turn of the loop and the one before, and since that one."""

    @property
    def open(self) -> bool:
        """Whether work may begin in this turn of the event loop without waiting."""
        return self._used < TIME_SLICE

    def use(self, seconds: float) -> None:
        """Counts time that was taken in this turn; without an event loop there are no turns."""
        if not seconds:
            return  # no code takes time on a virtual clock
        if not self._used:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return
            loop.call_soon(self._turned)
        self._used += seconds
        self._used_since += seconds

    def _turned(self) -> None:
        # Of what was counted since the last time, some may be of this turn, where callbacks of sockets come last.
        self._used, self._used_since = self._used_since, 0.0
        if self._used:
            asyncio.get_running_loop().call_soon(self._turned)

    def wait(
        self, consumer: "Consumer", resume: Callable[[], None], *, later: bool = False
    ) -> None:
        """Calls `resume` once, when it is the turn of `consumer`; `later`: that works in the turn after it only."""
        self._waiting.append((consumer, resume, later))
        if not self._serving:
            self._serving = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        now = stopwatch()
        following = min(self._waiting, key=lambda each: each[0].recent(now))
        self._waiting.remove(following)
        self._serving = bool(self._waiting)
        if self._serving:
            soon = asyncio.get_running_loop().call_soon
            if following[2]:
                soon(soon, self._serve)
            else:
                soon(self._serve)
        following[1]()


class Consumer:
    """One party whose answers take event-loop time, such as a shoot."""

    __slots__ = ("_at", "_queue", "_recent", "spent")

    def __init__(self, queue: FairQueue | None = None) -> None:
        """Creates a consumer that waits for its turns in `queue`, or in a queue of its own."""
        self._queue = queue or FairQueue()
        self.spent = 0.0
        """Seconds of event-loop time taken in total."""
        self._recent, self._at = 0.0, stopwatch()

    def charge(self, seconds: float, *, beside: bool = False) -> None:
        """Charges time that was taken just now, of the event loop or `beside` it, in a thread."""
        seconds = min(seconds, _MOST)
        self.spent += seconds
        now = stopwatch()
        self._recent, self._at = self.recent(now) + seconds, now
        if not beside:
            self._queue.use(seconds)

    @property
    def may_begin(self) -> bool:
        """Whether it may begin with something in this turn of the event loop without waiting."""
        return self._queue.open

    def recent(self, now: float) -> float:
        """Returns the seconds that it has taken recently, with exponential decay; `now` is of the stopwatch."""
        return float(self._recent * 0.5 ** ((now - self._at) / _HALVED_AFTER))

    def wait(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once, in a later turn of the event loop, when this consumer's turn has come."""
        self._queue.wait(self, resume)

    async def turn(self) -> None:
        """Waits for its turn."""
        granted = asyncio.Event()
        self._queue.wait(self, granted.set, later=True)
        await granted.wait()

    async def finish(self, steps: Generator[None, None, T]) -> T:
        """Runs `steps` to their end in stretches, and returns what they return; their exceptions propagate.

        A step should take a millisecond or two; between steps the work can be interrupted.
        """
        with contextlib.closing(steps):
            if not self.may_begin:
                await self.turn()
            while True:
                begun = stopwatch()
                try:
                    while stopwatch() - begun < TIME_SLICE:
                        next(steps)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
                finally:
                    self.charge(stopwatch() - begun)
                await self.turn()

    @types.coroutine
    def run(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Awaits `work`, whose every stretch between two of its own waits is charged, and begins as its turn comes."""
        resume, value = work.send, None
        while True:
            if not self.may_begin:
                try:
                    yield from self.turn().__await__()
                except BaseException as error:  # noqa: BLE001 - cancelled meanwhile, which `work` has to learn
                    resume, value = work.throw, error
            begun = stopwatch()
            try:
                awaited = resume(value)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                self.charge(stopwatch() - begun)
            try:
                resume, value = work.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001 - as above
                resume, value = work.throw, error


# Seconds: a token that is missing only by a rounding error is not waited for again and again at one instant.
_LEAST_WAIT: Final = 0.001


class TokenQueue:
    """A token bucket whose tokens callers wait for, in the order in which they came."""

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._bucket, self._clock = Bucket(rate, burst, clock.now()), clock
        self._turn = asyncio.Lock()

    def holds(self, tokens: float) -> bool:
        """Returns whether so many tokens are available and no caller waits for one."""
        waiting = self._turn.locked()
        return not waiting and self._bucket.seconds_to(tokens, self._clock.now()) <= 0

    async def take(self) -> None:
        """Takes one token, as soon as there is one; a caller that gives up takes none."""
        async with self._turn:
            while not self._bucket.take(now := self._clock.now()):
                await self._clock.sleep(max(self._bucket.seconds_to(1, now), _LEAST_WAIT))


_Queues = OrderedDict[str, deque[asyncio.Future[None]]]
"""The waiters of one key, by its parts."""


class RoundRobin(abc.ABC):
    """Waiters take turns: round robin by key, then by the parts of a key, however many waiters each of them has.

    What a turn takes is said by `missing`, `given` and `returned`; `following` may prefer another key.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, _Queues] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When it fires, by the event loop's clock; not every handle of uvloop's `call_at` knows that itself."""

    @abc.abstractmethod
    def missing(self) -> float | None:
        """Returns the seconds until a turn may be given; None: not before `give` is called again."""

    @abc.abstractmethod
    def given(self, key: str, /) -> None:
        """Counts a turn that is given now."""

    @abc.abstractmethod
    def returned(self, key: str, /) -> None:
        """Takes a turn back, from a waiter that was cancelled as it came or does not need it any more."""

    def following(self) -> str:
        """Returns the key whose turn is next: that whose last turn is the longest ago."""
        return next(iter(self._waiting))

    def waiting(self, key: str, part: str = "") -> int:
        """Returns how many wait."""
        return len(self._waiting.get(key, _Queues()).get(part, ()))

    async def wait(self, key: str, part: str = "", *, within: float | None = None) -> None:
        """Waits for a turn.

        Raises:
            TimeoutError: none came within so many seconds.
        """
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, _Queues()).setdefault(part, deque()).append(turn)
        self.give()
        try:
            async with asyncio.timeout(within):
                await turn
        except (TimeoutError, asyncio.CancelledError) as ended:
            if turn.cancelled():
                self._leave(key, part, turn)
                raise
            if isinstance(ended, asyncio.CancelledError):
                self.returned(key)
                raise
            # the turn came in the very moment in which the time was over

    def give(self) -> None:
        """Gives as many turns as may be given now; comes back when the next one may, if anybody still waits."""
        while self._waiting and (seconds := self.missing()) is not None:
            if seconds > 0:
                loop = asyncio.get_running_loop()
                at = loop.time() + seconds
                if self._timer is None or at < self._due:
                    if self._timer is not None:
                        self._timer.cancel()
                    self._timer, self._due = loop.call_at(at, self._time_has_come), at
                return
            key = self.following()
            parts = self._waiting[key]
            part, queue = next(iter(parts.items()))
            turn = queue.popleft()
            if not turn.done():  # otherwise its waiter was cancelled, and must not cost a turn
                self.given(key)
                turn.set_result(None)
                self._waiting.move_to_end(key)
                parts.move_to_end(part)
            self._forget_empty(key, part)

    def _time_has_come(self) -> None:
        self._timer = None
        self.give()

    def _leave(self, key: str, part: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(key, _Queues()).get(part, ())
        if queue and turn in queue:
            queue.remove(turn)
            self._forget_empty(key, part)

    def _forget_empty(self, key: str, part: str) -> None:
        if not self._waiting[key][part]:
            del self._waiting[key][part]
        if not self._waiting[key]:
            del self._waiting[key]
