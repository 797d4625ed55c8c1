"""Thousands of timers in a single task."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

from app.core.clock import Clock
from app.core.tasks import wait_until_set

# Timer resolution in seconds; without it, rounding by a microsecond would make the loop spin.
_TICK: Final = 0.001

Job = Callable[[], None]

EXACT_TICK: Final = 2.0**-20
"""The resolution of a virtual clock on which API servers in memory run, in seconds.

Of a clock with decimal ticks, now + 100 can be an instant that it never shows; aiohttp's server, whose timer for an
idle connection rang a hair too early, would set it to that instant again for ever.
"""


class Timers:
    """Calls each job when it is due; jobs due at the same instant in the order in which they were scheduled."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: list[tuple[float, int, Job]] = []
        self._order = count()
        self._sooner = asyncio.Event()

    def now(self) -> float:
        """Returns the current instant."""
        return self._clock.now()

    def after(self, seconds: float, job: Job) -> None:
        """Calls `job` in `seconds`; timers cannot be cancelled, so the job must check whether it is still relevant."""
        instant = self._clock.now() + seconds
        if not self._due or instant < self._due[0][0]:
            self._sooner.set()
        heapq.heappush(self._due, (instant, next(self._order), job))

    async def run(self) -> None:
        """Calls due jobs, until cancelled."""
        while True:
            self._sooner.clear()
            now = self._clock.now()
            while self._due and self._due[0][0] <= now + _TICK:
                heapq.heappop(self._due)[2]()
            seconds = self._due[0][0] - self._clock.now() if self._due else None
            await wait_until_set(self._sooner, seconds)
