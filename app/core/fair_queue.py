"""The event loop's time, shared fairly by those whose answers take much of it (threats T7, T11).

Everything runs in one loop, in one thread: whatever is worked on in one stretch keeps everybody waiting.  Work that
others decide the amount of (bytes to decrypt, parse or decode) is therefore done in stretches of a few milliseconds.
What is left after the first stretch waits in a queue which lets one waiter in at each turn of the loop: the one whose
consumer has taken least of late.  However many hostile shoots wait there, everybody else is kept waiting for one
stretch at a time, and the large answer of an honest shoot goes first.
"""

import asyncio
import contextlib
from collections.abc import Callable, Generator
from typing import Final, TypeVar

from app.core.clock import stopwatch

T = TypeVar("T")

STRETCH: Final = 0.005
"""Seconds for which one piece of work may keep the loop."""
_HALVED_AFTER: Final = 10.0
"""Seconds after which what was taken counts half."""


class FairQueue:
    """Consumers that wait to go on; one does at each turn of the loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Consumer, Callable[[], None]]] = []
        self._serving = False

    def wait(self, consumer: "Consumer", resume: Callable[[], None]) -> None:
        """`resume` is called once, when it is the turn of `consumer`."""
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
    """Somebody whose answers take the loop's time, such as one shoot."""

    __slots__ = ("_at", "_queue", "_recent", "spent")

    def __init__(self, queue: FairQueue | None = None) -> None:
        """`queue`: where it waits for its turns; None: there is nobody to share with."""
        self._queue = queue or FairQueue()
        self.spent = 0.0
        """Seconds of the loop's time, all in all."""
        self._recent, self._at = 0.0, stopwatch()

    def charge(self, seconds: float) -> None:
        """So much was taken just now."""
        self.spent += seconds
        now = stopwatch()
        self._recent, self._at = self.recent(now) + seconds, now

    def recent(self, now: float) -> float:
        """Seconds that it has taken of late; `now` as the stopwatch has it."""
        return float(self._recent * 0.5 ** ((now - self._at) / _HALVED_AFTER))

    def wait(self, resume: Callable[[], None]) -> None:
        """`resume` is called once, when it is its turn: not before everybody else has had one of the loop's."""
        self._queue.wait(self, resume)

    async def turn(self) -> None:
        """Returns when it is its turn."""
        granted = asyncio.Event()
        self.wait(granted.set)
        await granted.wait()

    async def finish(self, steps: Generator[None, None, T]) -> T:
        """What `steps` return in the end, in as many stretches as they take; whatever they raise is raised.

        A step is a part of the work that takes a millisecond or two; after each of them it can be left for a while.
        """
        with contextlib.closing(steps):
            while True:
                begun = stopwatch()
                try:
                    while stopwatch() - begun < STRETCH:
                        next(steps)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
                finally:
                    self.charge(stopwatch() - begun)
                await self.turn()
