"""The rate of deletions, which namespaces share fairly.

A sliding window: in no window are there more turns than the rate allows. The namespace that was served longest ago is
served next; one that was never served goes first, and none has two turns in one instant. So a namespace with hundreds
of pods cannot keep the first pod of another waiting, even if it comes a little earlier.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from app.core.clock import Clock

# For how many namespaces the last turn is remembered; a seed has some hundreds.
_REMEMBERED: Final = 4096
NEVER: Final = float("-inf")
# Pause between two turns of one namespace, as a share of the time that the rate alone puts between two turns. Without
# it the first namespace would take all turns before others that the same outage woke arrive.
_REST: Final = 0.5
# Seconds by which instants may differ and count as the same.
_TICK: Final = 1e-6


class Turn(NamedTuple):
    """A turn that was handed out."""

    namespace: str
    at: float
    before: float | None
    """When the namespace had its turn before this one; None if it had none."""


class FairRateLimiter:
    """Hands out turns to namespaces, by a task that runs `run`."""

    def __init__(
        self,
        clock: Clock,
        per_second: float,
        *,
        before: Callable[[str], float] | None = None,
    ) -> None:
        """Sets the rate; `run` hands out the turns.

        Args:
            clock: the clock that the rate is measured by.
            per_second: turns a second, above 0.
            before: ranks namespaces before their last turn here does; the one with the lowest value is served first.
        """
        self._clock = clock
        self._most = max(int(per_second), 1)
        self._window = self._most / per_second
        self._rest = _REST / per_second
        self._before = before or (lambda _: 0.0)
        self._recent: deque[float] = deque()
        self._waiting: dict[str, deque[asyncio.Future[Turn]]] = {}
        self._served: dict[str, float] = {}
        self._more = asyncio.Event()

    def served(self, namespace: str) -> float:
        """When this namespace had its last turn; `NEVER` if it had none."""
        return self._served.get(namespace, NEVER)

    @property
    def waiting(self) -> int:
        """How many callers wait for a turn."""
        return sum(len(each) for each in self._waiting.values())

    async def turn(self, namespace: str) -> Turn:
        """Waits for a turn of this namespace; a caller that is cancelled leaves the queue, and its turn is not lost."""
        mine: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(namespace, deque())
        queue.append(mine)
        self._more.set()
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                # The turn had come, but the caller was cancelled before it ran.
                self.give_back(mine.result())
            raise
        finally:
            if mine in queue:
                queue.remove(mine)
                if not queue:
                    del self._waiting[namespace]

    def give_back(self, turn: Turn) -> None:
        """Returns a turn that was not used: it does not count to the rate, nor as the namespace's last turn."""
        if turn.at in self._recent:
            self._recent.remove(turn.at)
            self._more.set()
        if self._served.get(turn.namespace) == turn.at:
            self._remember(turn.namespace, turn.before)

    async def run(self) -> None:
        """Hands out turns for ever."""
        while True:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
            now = self._clock.now()
            while self._recent and self._recent[0] + self._window - now <= _TICK:
                self._recent.popleft()
            if len(self._recent) >= self._most:
                await self._sleep(self._recent[0] + self._window - now)
                continue
            rests = {each: self.served(each) + self._rest - now for each in self._waiting}
            if rested := [each for each, seconds in rests.items() if seconds <= _TICK]:
                self._serve(min(rested, key=lambda each: (self._before(each), self.served(each))))
                # Lets the caller that was served run: it may give the turn back.
                await self._clock.sleep(0)
            else:
                await self._sleep(min(rests.values()))

    async def _sleep(self, seconds: float) -> None:
        """Sleeps for so many seconds, or until a turn is given back or a new caller waits."""
        self._more.clear()
        alarm = asyncio.get_running_loop().call_later(seconds, self._more.set)
        try:
            await self._more.wait()
        finally:
            alarm.cancel()

    def _serve(self, namespace: str) -> None:
        queue = self._waiting[namespace]
        first, now = queue.popleft(), self._clock.now()
        if not queue:
            del self._waiting[namespace]
        if first.cancelled():
            return  # the caller was cancelled, and has not left the queue yet
        first.set_result(Turn(namespace, now, self._served.get(namespace)))
        self._recent.append(now)
        self._remember(namespace, now)

    def _remember(self, namespace: str, at: float | None) -> None:
        self._served.pop(namespace, None)
        if at is not None:
            self._served[namespace] = at  # last in the order of insertion: the first is the oldest
        if len(self._served) > _REMEMBERED:
            del self._served[next(iter(self._served))]
