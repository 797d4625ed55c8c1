"""A token bucket that callers wait for."""

import asyncio
from typing import Final

from app.core.clock import Clock
from app.core.limits import Bucket

_LEAST_WAIT: Final = 0.001
"""Seconds: a token that is missing only by a rounding error is not waited for again and again at one instant."""


class TokenQueue:
    """A token bucket whose tokens callers wait for, in the order in which they came."""

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._bucket, self._clock = Bucket(rate, burst, clock.now()), clock
        self._turn = asyncio.Lock()

    def holds(self, tokens: float) -> bool:
        """Returns whether so many tokens are there, and nobody waits."""
        waiting = self._turn.locked()
        return not waiting and self._bucket.seconds_to(tokens, self._clock.now()) <= 0

    async def take(self) -> None:
        """Takes one token, as soon as there is one; a caller that gives up takes none."""
        async with self._turn:
            while not self._bucket.take(now := self._clock.now()):
                await self._clock.sleep(max(self._bucket.seconds_to(1, now), _LEAST_WAIT))
