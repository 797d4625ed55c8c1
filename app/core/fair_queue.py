"""Shares the event loop's time fairly among those whose answers take much of it (threats T7, T11).

Everything runs in one event loop in one thread: work done without a break keeps all others waiting. Work whose amount
an outsider decides (bytes to decrypt, parse or decode) is therefore done in stretches of a few milliseconds. What is
left after the first stretch waits in a queue that resumes one waiter at each turn of the loop: the one whose consumer
has taken the least time recently. However many hostile shoots are waiting, everybody else waits for one stretch at a
time, and the large answer of an honest shoot goes first (docs/decisions/0043).
"""

import asyncio
import contextlib
from collections.abc import Callable, Generator
from typing import Final, TypeVar

from app.core.clock import stopwatch

T = TypeVar("T")

TIME_SLICE: Final = 0.005
"""Seconds for which one piece of work may block the event loop."""
# Half-life, in seconds, of the time that a consumer has taken.
_HALVED_AFTER: Final = 10.0


class FairQueue:
    """A queue of waiting consumers; one is resumed at each turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Consumer, Callable[[], None]]] = []
        self._serving = False

    def wait(self, consumer: "Consumer", resume: Callable[[], None]) -> None:
        """Calls `resume` once, when it is the turn of `consumer`."""
        self._waiting.append((consumer, resume))
        if not self._serving:
            self._serving = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        now = stopwatch()
        following = min(self._waiting, key=lambda each: each[0].recent(now))
        self._waiting.remove(following)
        self._serving = bool(self._waiting)
        if self._serving:
            asyncio.get_running_loop().call_soon(self._serve)
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

    def charge(self, seconds: float) -> None:
        """Charges event-loop time that was taken just now."""
        self.spent += seconds
        now = stopwatch()
        self._recent, self._at = self.recent(now) + seconds, now

    def recent(self, now: float) -> float:
        """Returns the seconds that it has taken recently, with exponential decay; `now` is of the stopwatch."""
        return float(self._recent * 0.5 ** ((now - self._at) / _HALVED_AFTER))

    def wait(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once, in a later turn of the event loop, when this consumer's turn has come."""
        self._queue.wait(self, resume)

    async def turn(self) -> None:
        """Waits for its turn."""
        granted = asyncio.Event()
        self.wait(granted.set)
        await granted.wait()

    async def finish(self, steps: Generator[None, None, T]) -> T:
        """Runs `steps` to their end in stretches, and returns what they return; their exceptions propagate.

        A step should take a millisecond or two; between steps the work can be interrupted.
        """
        with contextlib.closing(steps):
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
