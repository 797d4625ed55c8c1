"""Looks once, at start, for what carries the meltdown key and is not configured: told, never written."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from app.core.errors import ClusterError, Forbidden
from app.core.clock import Clock
from app.core.metrics import Metrics

log = structlog.get_logger(__name__)

_TRIES: Final = 5
_PAUSE: Final = 60.0


class MeltdownScan:
    """What was found."""

    feature: Final = "metadata-scan"

    def __init__(
        self, scan: Callable[[], Awaitable[Sequence[str]]], clock: Clock, metrics: Metrics
    ) -> None:
        self._scan, self._clock, self._metrics = scan, clock, metrics
        self.found: tuple[str, ...] = ()
        """Each as `namespace/Kind/name`."""
        self.off: str | None = None
        """Why nothing is known; None while the feature is on."""

    async def run(self) -> None:
        """Looks; again after a minute where the seed did not answer, a few times."""
        for _ in range(_TRIES):
            try:
                self.found = tuple(await self._scan())
            except Forbidden as error:
                self._give_up(str(error), log.info)  # the chart does not grant it: no news
                return
            except ClusterError as error:
                self.off = str(error)
                await self._clock.sleep(_PAUSE)
            else:
                self.off = None
                self._tell()
                return
        self._give_up(self.off or "the seed did not answer", log.warning)

    def _give_up(self, why: str, tell: Callable[..., object]) -> None:
        self.off = why
        self._metrics.feature_off.labels(self.feature).set(1)
        tell("objects with a meltdown key could not be listed", feature=self.feature, error=why)

    def _tell(self) -> None:
        for each in self.found:
            log.warning(
                "carries the meltdown key, is not configured, and is left alone", found=each
            )
