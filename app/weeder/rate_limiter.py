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
from app.core.fair_queue import RoundRobin

# For how many namespaces the last turn is remembered; a seed has some hundreds.
_REMEMBERED: Final = 4096
NEVER: Final = float("-inf")
# Pause between two turns of one namespace, as a share of the time that the rate alone puts between two turns. Without
# it the first namespace would take all turns before others that the same outage woke arrive.
_REST: Final = 0.5
# Seconds by which instants may differ and count as the same.
_TICK: Final = 1e-6


class _Served(NamedTuple):
    """When a namespace had its last turn, and the one before that."""

    at: float
    before: float = NEVER


class FairRateLimiter(RoundRobin):
    """Hands out turns to namespaces; one that is not used is `returned` in the very instant in which it came."""

    def __init__(
        self,
        clock: Clock,
        per_second: float,
        *,
        before: Callable[[str], float] | None = None,
    ) -> None:
        """Sets the rate.

        Args:
            clock: the clock that the rate is measured by.
            per_second: turns a second, above 0.
            before: ranks namespaces before their last turn here does; the one with the lowest value is served first.
        """
        super().__init__()
        self._clock = clock
        self._most = max(int(per_second), 1)
        self._window = self._most / per_second
        self._rest = _REST / per_second
        self._before = before or (lambda _: 0.0)
        self._recent: deque[float] = deque()
        self._served: dict[str, _Served] = {}
        self._gives = False

    def served(self, namespace: str) -> float:
        """When this namespace had its last turn; `NEVER` if it had none."""
        found = self._served.get(namespace)
        return NEVER if found is None else found.at

    def give(self) -> None:
        """Gives turns once all that run in this turn of the event loop have asked: not who comes first, is first."""
        if not self._gives:
            self._gives = True
            asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        self._gives = False
        super().give()

    def missing(self) -> float:
        now = self._clock.now()
        while self._recent and self._recent[0] + self._window - now <= _TICK:
            self._recent.popleft()
        free_at = min(map(self.served, self._waiting)) + self._rest
        if len(self._recent) >= self._most:
            free_at = self._recent[0] + self._window
        return free_at - now if free_at - now > _TICK else 0.0

    def following(self) -> str:
        rested = self._clock.now() - self._rest + _TICK
        found = [each for each in self._waiting if self.served(each) <= rested]
        return min(found, key=lambda each: (self._before(each), self.served(each)))

    def given(self, key: str, /) -> None:
        now = self._clock.now()
        self._recent.append(now)
        self._remember(key, _Served(now, self.served(key)))

    def returned(self, key: str, /) -> None:
        """Takes the last turn of this namespace back: it counts neither to the rate nor as its last one."""
        turn = self._served[key]
        if turn.at in self._recent:
            self._recent.remove(turn.at)
        self._remember(key, _Served(turn.before))
        self.give()

    def _remember(self, namespace: str, turn: _Served) -> None:
        self._served.pop(namespace, None)
        if turn.at > NEVER:
            # Last in the order of insertion: the first is the oldest.
            self._served[namespace] = turn
        if len(self._served) > _REMEMBERED:
            del self._served[next(iter(self._served))]
