"""Limits how many runs go on at once, so that slow runs of one namespace cannot take the slots of the others."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RunSlots:
    """A number of slots, some of which are reserved for namespaces that have none.

    A free slot goes to the waiting namespace that has the fewest.
    """

    def __init__(self, total: int, spare: int) -> None:
        """Creates free slots.

        Args:
            total: the number of slots.
            spare: how many of them are reserved for a namespace that has none.
        """
        self._total, self._spare = total, spare
        self._taken: Counter[str] = Counter()
        self._used = 0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def used(self) -> int:
        """How many slots are taken."""
        return self._used

    @asynccontextmanager
    async def place(self, namespace: str) -> AsyncIterator[None]:
        """Waits for a slot, and frees it on exit."""
        if self._free(namespace):
            self._take(namespace)
        else:
            await self._wait(namespace)
        try:
            yield
        finally:
            self._give_back(namespace)

    def _free(self, namespace: str) -> bool:
        free = self._total - self._used
        return free > (self._spare if self._taken[namespace] else 0)

    def _take(self, namespace: str) -> None:
        self._used += 1
        self._taken[namespace] += 1

    async def _wait(self, namespace: str) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(namespace, deque())
        queue.append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                # the slot was granted in the same turn of the loop, to nobody
                self._give_back(namespace)
            else:
                self._leave(namespace, granted)
            raise

    def _leave(self, namespace: str, granted: asyncio.Future[None]) -> None:
        queue = self._waiting.get(namespace)
        if queue is None or granted not in queue:
            return  # skipped already
        queue.remove(granted)
        if not queue:
            del self._waiting[namespace]

    def _give_back(self, namespace: str) -> None:
        self._used -= 1
        self._taken[namespace] -= 1
        if not self._taken[namespace]:
            del self._taken[namespace]
        while (following := self._next()) is not None:
            self._grant(following)

    def _next(self) -> str | None:
        entitled = [namespace for namespace in self._waiting if self._free(namespace)]
        return min(entitled, key=lambda each: self._taken[each], default=None)

    def _grant(self, namespace: str) -> None:
        """Grants a slot to the longest waiting run of the namespace, skipping one that has just been cancelled."""
        queue = self._waiting[namespace]
        granted = queue.popleft()
        if not queue:
            del self._waiting[namespace]
        if not granted.done():
            self._take(namespace)
            granted.set_result(None)


class RateLimit:
    """A rate limit with a burst of one second; the caller passes the time."""

    def __init__(self, a_second: int) -> None:
        """Creates the limit with its full burst available."""
        self._apart = 1.0 / a_second
        self._at_once = (a_second - 1) * self._apart
        self._free_at = float("-inf")

    def turn(self, now: float, most: float) -> float | None:
        """Takes the next turn and returns the seconds until it comes.

        Returns None, without taking it, if that is more than `most`.
        """
        at = max(now, self._free_at)
        wait = max(at - now - self._at_once, 0.0)
        if wait > most:
            return None
        self._free_at = at + self._apart
        return wait
