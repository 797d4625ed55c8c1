"""Checks of the seed: missing permissions (at start and hourly), and forgotten meltdown keys (once, at start)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from app.core.clock import Clock
from app.core.errors import ClusterError, Forbidden
from app.core.metrics import Metrics
from app.core.ports import Permission

if TYPE_CHECKING:
    from app.core.kube.reviews import AccessReviewer

log = structlog.get_logger(__name__)

_HOUR: Final = 3600.0
_AFTER_FAILURE: Final = 60.0


class PermissionCheck:
    """Reviews which permissions are missing, and keeps log and metrics about them (rules 4.4)."""

    def __init__(
        self,
        reviewer: "AccessReviewer",
        needed: Callable[[], Awaitable[tuple[Permission, ...]]],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._reviewer = reviewer
        self._needed = needed
        self._clock = clock
        self._metrics = metrics
        self.missing: tuple[Permission, ...] = ()
        self.checked_at: float | None = None
        """Instant of the last complete review; None before the first."""

    async def run(self) -> None:
        """Review for ever: hourly, or after a minute if the seed did not answer."""
        while True:
            answered = await self._check()
            await self._clock.sleep(_HOUR if answered else _AFTER_FAILURE)

    async def _check(self) -> bool:
        try:
            missing = await self._reviewer.missing(await self._needed())
        except ClusterError as error:
            log.warning("rights could not be checked", error=str(error))
            return False
        self._note(missing)
        self.checked_at = self._clock.now()
        return True

    def _note(self, missing: tuple[Permission, ...]) -> None:
        still = {(each.verb, each.resource) for each in missing}
        for mended in {(each.verb, each.resource) for each in self.missing} - still:
            self._metrics.missing_permissions.remove(*mended)
        for each in missing:
            self._metrics.missing_permissions.labels(each.verb, each.resource).set(1)
            self._report(each)
        features = {each.feature for each in (*missing, *self.missing) if each.feature}
        for feature in features:
            off = any(each.feature == feature for each in missing)
            self._metrics.feature_off.labels(feature).set(1 if off else 0)
        self.missing = missing

    def _report(self, lacking: Permission) -> None:
        what = f"{lacking.verb} {lacking.resource}"
        where = f"{lacking.group or 'core'}, name {lacking.name or 'any'}"
        if lacking.feature:
            log.warning(
                "a right is missing; one feature is off", right=what, feature=lacking.feature
            )
        else:
            log.error("a right is missing that the configuration needs", right=what, where=where)


# Objects that carry the meltdown key and are not configured (rules 4.3). Nothing brings them back: gardenlet leaves the
# replicas alone for as long as the key is there, and the watchdog writes only what is configured.


_TRIES: Final = 5
_PAUSE: Final = 60.0


class MeltdownScan:
    """Finds objects that carry the meltdown key and are not configured; reports them, and never writes them."""

    feature: Final = "metadata-scan"

    def __init__(
        self, scan: Callable[[], Awaitable[Sequence[str]]], clock: Clock, metrics: Metrics
    ) -> None:
        self._scan, self._clock, self._metrics = scan, clock, metrics
        self.found: tuple[str, ...] = ()
        """Names as `namespace/Kind/name`."""
        self.off: str | None = None
        """Why the scan has no result; None while the feature is on."""

    async def run(self) -> None:
        """Scan once; retry after a minute, a few times, if the seed did not answer."""
        for _ in range(_TRIES):
            try:
                self.found = tuple(await self._scan())
            except Forbidden as error:
                self._give_up(str(error), log.info)  # expected: the chart does not grant `list`
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
