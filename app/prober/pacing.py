"""Bounds on what all shoots do at once (threats T11; rules 4.3, budgets)."""

import asyncio
from types import TracebackType
from typing import Final, Self

from app.core.model.policy import ProberPolicy

SLOW: Final = 1.0
"""A probe that takes longer, in seconds, gives its place among the fast ones to the next."""
SCALE_UPS_A_SECOND: Final = 10
TOGETHER: Final = 0.1
"""Seconds of a stretch of time whose regular looks begin with it: one that comes alone finds the caches cold."""
RUNS_TOGETHER: Final = 0.25
"""The same of the runs of endpoint probes."""


SLOW_PATHS: Final = 1024
"""Slow probes of endpoint mode at once: in the usual outage each waits 5 s for nobody, which costs nothing; with fewer
places the third failure of a thousand shoots would come a minute late."""


class ProbeSlots:
    """How many probes run at once; slow shoots cannot fill the places of the others.

    A probe begins among the fast ones.  One that is not done after a second goes on, but no longer counts; and a shoot
    whose last probe was that slow begins among the slow ones, which have places of their own.
    """

    def __init__(self, fast: int = 64, slow: int = 256) -> None:
        self._fast = asyncio.Semaphore(fast)
        self._slow = asyncio.Semaphore(slow)

    @classmethod
    def of(cls, policy: ProberPolicy) -> Self:
        """As many as the mode needs."""
        return cls() if policy.endpoint_mode is None else cls(slow=SLOW_PATHS)

    def place(self, *, was_slow: bool) -> "Place":
        """A place for one probe, to be entered."""
        return Place(self._slow) if was_slow else Place(self._fast, SLOW)


class Place:
    """A place in one lane, for as long as it is entered, or as long as a probe may keep it, in seconds."""

    __slots__ = ("_held", "_lane", "_most", "_timer")

    def __init__(self, lane: asyncio.Semaphore, most: float | None = None) -> None:
        self._lane, self._most = lane, most
        self._held = False
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._lane.acquire()
        self._held = True
        if self._most is not None:
            self._timer = asyncio.get_running_loop().call_later(self._most, self._give_back)

    def _give_back(self) -> None:
        if self._held:
            self._held = False
            self._lane.release()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._give_back()


class ScaleUpPace:
    """After a mass outage, scale-ups begin for at most so many shoots a second."""

    def __init__(self, a_second: float = SCALE_UPS_A_SECOND) -> None:
        self._apart = 1.0 / a_second
        self._free_at = 0.0

    def turn(self, now: float) -> float:
        """Takes the next turn; returns the seconds until it comes."""
        at = max(now, self._free_at)
        self._free_at = at + self._apart
        return at - now
