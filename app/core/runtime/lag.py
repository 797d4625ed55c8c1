"""How late the event loop comes back to a timer: what every detection and every answer waits for on top."""

from typing import Final

from prometheus_client import Histogram

from app.core.clock import Clock

EVERY: Final = 0.5
"""Seconds between two samples."""


class LagSampler:
    """Measures the lag of the loop that it runs in."""

    def __init__(self, clock: Clock, histogram: Histogram, every: float = EVERY) -> None:
        self._clock = clock
        self._histogram = histogram
        self._every = every

    async def run(self) -> None:
        """Measures for ever; a shared loop."""
        while True:
            due = self._clock.now() + self._every
            await self._clock.sleep(self._every)
            self._histogram.observe(max(self._clock.now() - due, 0.0))
