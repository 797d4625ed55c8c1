"""The only reader of time.

An instant is a float of seconds since the epoch on the process's own time line: the wall clock read once, at start,
plus what the monotonic clock has counted since.  Setting the machine's clock changes nothing here (rules 3.1, Time).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Self


class Clock:
    """Reads time and waits for it."""

    def __init__(self, epoch: float, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._base = epoch - monotonic()

    @classmethod
    def system(cls) -> Self:
        """The process's time line, begun at the wall clock's now."""
        return cls(time.time(), time.monotonic)

    @classmethod
    def of_loop(cls, epoch: float = 1_800_000_000.0) -> Self:
        """The running event loop's time as instants from `epoch` on: virtual where the loop's time is."""
        return cls(epoch, asyncio.get_running_loop().time)

    def now(self) -> float:
        """The instant that it is."""
        return self._base + self._monotonic()

    async def sleep(self, seconds: float) -> None:
        """Returns after `seconds`; at the next turn of the loop where that is not positive."""
        await asyncio.sleep(max(seconds, 0.0))

    async def sleep_until(self, instant: float) -> None:
        """Returns at `instant`, or at the next turn of the loop where it has passed."""
        await self.sleep(instant - self.now())


def wall_clock() -> float:
    """The machine's clock now, for comparing it with another machine's; never for deciding."""
    return time.time()


def stopwatch() -> float:
    """Seconds, for measuring how long code runs; an instant of no time line."""
    return time.perf_counter()
