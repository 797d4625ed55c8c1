"""Whether the seed lets us do what the configuration needs: asked at start and hourly."""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from app.core.errors import ClusterError
from app.core.ports import AccessReviewer, Permission
from app.core.clock import Clock
from app.core.metrics import Metrics

log = structlog.get_logger(__name__)

_HOUR: Final = 3600.0
_AFTER_FAILURE: Final = 60.0


class PermissionCheck:
    """Knows which rights are missing."""

    def __init__(
        self,
        reviewer: AccessReviewer,
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
        """When the seed last answered all questions."""

    async def run(self) -> None:
        """Asks for ever: hourly, or after a minute where the seed did not answer."""
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
