"""Timers for thousands of things, by one task."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

from app.core.clock import Clock

_TICK: Final = 0.001
"""No timer is finer: what is due within it is due, or the loop would turn on the spot for a rounded microsecond."""

Job = Callable[[], None]


class Timers:
    """Calls each job when it is due; those of one instant in the order in which they were set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: list[tuple[float, int, Job]] = []
        self._order = count()
        self._sooner = asyncio.Event()

    def now(self) -> float:
        """The instant that it is."""
        return self._clock.now()

    def after(self, seconds: float, job: Job) -> None:
        """`job` is called in `seconds`; it has to find out itself whether it is still wanted."""
        self.at(self._clock.now() + seconds, job)

    def at(self, instant: float, job: Job) -> None:
        """`job` is called at `instant`."""
        if not self._due or instant < self._due[0][0]:
            self._sooner.set()
        heapq.heappush(self._due, (instant, next(self._order), job))

    async def run(self) -> None:
        """Calls what is due, for ever."""
        while True:
            self._sooner.clear()
            now = self._clock.now()
            while self._due and self._due[0][0] <= now + _TICK:
                heapq.heappop(self._due)[2]()
            await self._until_next()

    async def _until_next(self) -> None:
        seconds = self._due[0][0] - self._clock.now() if self._due else None
        try:
            async with asyncio.timeout(seconds):
                await self._sooner.wait()
        except TimeoutError:
            return  # the next one is due
