"""The only module that reads the time.

An instant is a float of seconds since the epoch on the process's own time line: the wall clock read once, at the start,
plus what the monotonic clock has counted since. Setting the machine's clock changes nothing here (rules 3.1, Time;
docs/decisions/0001).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Self


class Clock:
    """Reads the time and sleeps."""

    def __init__(
        self,
        epoch: float,
        monotonic: Callable[[], float],
        cpu_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._monotonic = monotonic
        self._base = epoch - monotonic()
        self.cpu_seconds = cpu_seconds
        """Returns the seconds of CPU that this process has used; none on virtual time. Expensive: 0.1 ms under load."""

    @classmethod
    def system(cls) -> Self:
        """Creates the time line of the process, which begins at the wall clock's current time."""
        return cls(time.time(), time.monotonic, time.process_time)

    @classmethod
    def of_loop(cls) -> Self:
        """Creates a time line of the event loop's time, which begins in 2027; virtual if the loop's time is."""
        return cls(1_800_000_000.0, asyncio.get_running_loop().time)

    def now(self) -> float:
        """Returns the current instant."""
        return self._base + self._monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleeps for `seconds`; if that is not positive, until the next turn of the event loop."""
        await asyncio.sleep(max(seconds, 0.0))

    async def sleep_until(self, instant: float) -> None:
        """Sleeps until `instant`; if that has passed, until the next turn of the event loop."""
        await self.sleep(instant - self.now())


def wall_clock() -> float:
    """Returns the clock of the machine, by which certificates are valid or not; never to base decisions on."""
    return time.time()


def stopwatch() -> float:
    """Returns seconds for measuring how long code runs; not an instant of any time line."""
    return time.perf_counter()
