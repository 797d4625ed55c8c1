"""A budget that namespaces share: so many turns a second, and the one that was served longest ago is served next.

Never more than the rate in any stretch of time that it is counted over; a namespace that was never served goes before
all others, so that one with hundreds of pods cannot keep the first pod of another waiting.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from app.core.runtime.clock import Clock

_REMEMBERED: Final = 4096
"""Namespaces whose last turn is remembered; a seed has some hundreds."""
NEVER: Final = float("-inf")


class Turns:
    """Hands out turns; `run` does the handing out."""

    def __init__(
        self,
        clock: Clock,
        per_second: float,
        *,
        before: Callable[[str], float] | None = None,
    ) -> None:
        """Hands out nothing yet.

        Args:
            clock: what the rate is counted by.
            per_second: turns a second, above 0.
            before: what decides before the last turn here does: of two namespaces the one with the lower value is
                served first.
        """
        self._clock = clock
        self._most = max(int(per_second), 1)
        self._window = self._most / per_second
        self._before = before or (lambda _: 0.0)
        self._recent: deque[float] = deque()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._served: dict[str, float] = {}
        self._more = asyncio.Event()

    def served(self, namespace: str) -> float:
        """When this namespace had its last turn."""
        return self._served.get(namespace, NEVER)

    @property
    def waiting(self) -> int:
        """How many wait for their turn now."""
        return sum(len(each) for each in self._waiting.values())

    async def turn(self, namespace: str) -> None:
        """Returns when it is the turn of this namespace; who is cancelled meanwhile leaves the queue."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(mine)
        self._more.set()
        try:
            await mine
        finally:
            self._leave(namespace, mine)

    def _leave(self, namespace: str, mine: asyncio.Future[None]) -> None:
        queue = self._waiting.get(namespace)
        if queue is not None and mine in queue:
            queue.remove(mine)
            if not queue:
                del self._waiting[namespace]

    async def run(self) -> None:
        """Hands out turns for ever."""
        while True:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
            if (free_at := self._free_at()) > self._clock.now():
                await self._clock.sleep_until(free_at)
                continue
            self._serve(min(self._waiting, key=self._rank))
            await self._clock.sleep(0)  # who was served may want to leave, or to come again

    def _free_at(self) -> float:
        now = self._clock.now()
        while self._recent and self._recent[0] <= now - self._window:
            self._recent.popleft()
        return now if len(self._recent) < self._most else self._recent[0] + self._window

    def _rank(self, namespace: str) -> tuple[float, float]:
        return (self._before(namespace), self.served(namespace))

    def _serve(self, namespace: str) -> None:
        queue = self._waiting[namespace]
        queue.popleft().set_result(None)
        if not queue:
            del self._waiting[namespace]
        now = self._clock.now()
        self._recent.append(now)
        self._served.pop(namespace, None)
        self._served[namespace] = now  # last in the order of insertion: the first is the oldest
        if len(self._served) > _REMEMBERED:
            del self._served[next(iter(self._served))]
