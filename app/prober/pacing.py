"""Bounds on what all shoots do at once (threats T11; spec 4.3, budgets)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

SLOW: Final = 1.0
"""A probe that takes longer, in seconds, gives its place among the fast ones to the next."""
SCALE_UPS_A_SECOND: Final = 10


class ProbeSlots:
    """How many probes run at once; slow shoots cannot fill the places of the others.

    A probe begins among the fast ones.  One that is not done after a second goes on, but no longer counts; and a shoot
    whose last probe was that slow begins among the slow ones, which have places of their own.
    """

    def __init__(self, fast: int = 64, slow: int = 256) -> None:
        self._fast = asyncio.Semaphore(fast)
        self._slow = asyncio.Semaphore(slow)

    @asynccontextmanager
    async def place(self, *, was_slow: bool) -> AsyncIterator[None]:
        """A place for one probe."""
        lane = self._slow if was_slow else self._fast
        await lane.acquire()
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                lane.release()

        timer = None if was_slow else asyncio.get_running_loop().call_later(SLOW, give_back)
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
            give_back()


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
