"""Checks whether each selector still matches pods, as a renamed label must not silently switch weeding off."""

from typing import Final

import structlog

from app.core import errors
from app.core.model.names import LabelSelector
from app.weeder.environment import WeederEnvironment

log = structlog.get_logger(__name__)

_HOUR: Final = 3600.0
_AFTER_FAILURE: Final = 60.0
_POLL: Final = 5.0


class SelectorCheck:
    """Checks all selectors hourly, on the leader; reports one that has matched nothing for an hour."""

    def __init__(self, environment: WeederEnvironment) -> None:
        self._env = environment
        self._empty_since: dict[tuple[str, int], float] = {}
        self._reported: set[tuple[str, int]] = set()

    def troubles(self) -> tuple[str, ...]:
        """The selectors that match nothing, in words, for `/readyz?verbose` and the API."""
        return tuple(
            f"{service}, selector {number}: no pod matches"
            for service, number in sorted(self._reported)
        )

    async def run(self) -> None:
        """Checks for ever."""
        while True:
            while not self._env.leadership.leading:
                await self._env.clock.sleep(_POLL)
            pause = _HOUR
            for service, selectors in self._env.policy.services.items():
                for number, selector in enumerate(selectors):
                    try:
                        await self._check(service, number, selector)
                    except errors.ClusterError as error:
                        log.warning(
                            "a selector could not be checked", service=service, error=str(error)
                        )
                        pause = _AFTER_FAILURE
            await self._env.clock.sleep(pause)

    async def _check(self, service: str, number: int, selector: LabelSelector) -> None:
        matches = await self._env.seed.any_pod(selector)
        self._env.metrics.weeder_selector_matches.labels(service, str(number)).set(int(matches))
        which, now = (service, number), self._env.clock.now()
        if matches:
            self._empty_since.pop(which, None)
            self._reported.discard(which)
        elif now - self._empty_since.setdefault(which, now) >= _HOUR:
            self._reported.add(which)
            log.warning(
                "a selector has matched no pod anywhere for an hour: what it should select is not weeded",
                service=service,
                selector=number,
                labels=str(selector) or "(all pods)",
            )
