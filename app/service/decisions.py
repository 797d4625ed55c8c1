"""The overrides (pauses and holds) of one process.

Both loops read them, the API of any replica writes them, and the prober's leader maintains the ConfigMap (rules 7).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from app.api.health import Check
from app.core.overrides.cache import FEATURE, OverrideCache, WeederPauses
from app.core.overrides.notices import OverrideGauges
from app.core.overrides.reconciler import OverrideReconciler
from app.core.overrides.service import OverrideService
from app.core.overrides.writer import OverrideWriter
from app.core.ports import (
    NoOverrides,
    NoPauses,
    OverridesService,
    OverridesStore,
    OverridesView,
    Pauses,
    SeedCluster,
    Watched,
)
from app.service.parts import Core, ProberAdapters


class OverrideFeature:
    """Builds and runs what a process needs for overrides.

    Args:
        core: Infrastructure that all parts share.
        store: The ConfigMap; None: there are no overrides.
        home: Namespace of the ConfigMap.
        dry_run: Refuse all writes.
    """

    def __init__(
        self, core: Core, store: OverridesStore | None, home: str, *, dry_run: bool
    ) -> None:
        self._core, self._home = core, home
        self._cache: OverrideCache | None = None
        self._writer: OverrideWriter | None = None
        self._reconciler: OverrideReconciler | None = None
        self.view: OverridesView = NoOverrides()
        self.override_service: OverridesService = NoOverrides()
        if store is not None:
            self._cache = OverrideCache(store, core.clock, core.metrics)
            self._writer = OverrideWriter(store, self._cache, dry_run=dry_run)
            self.view, self.override_service = (
                self._cache,
                OverrideService(self._writer, self._cache, core.clock),
            )

    def pauses(self) -> Pauses:
        """The pauses that keep the weeder from weeding."""
        return NoPauses() if self._cache is None else WeederPauses(self._cache)

    def maintain(self, adapters: ProberAdapters, ignored: Callable[[], int]) -> None:
        """Maintain the ConfigMap, its Events and gauges while this process leads the prober.

        Args:
            adapters: Those of the prober, which runs in this process.
            ignored: Returns the number of resources with ignore-scaling, for the gauge.
        """
        if self._cache is None or self._writer is None:
            return
        leadership = adapters.leadership
        self._reconciler = OverrideReconciler(
            self._cache,
            self._writer,
            self._core.notice_bus,
            self._core.clock,
            home=self._home,
            leading=lambda: leadership.leading,
            clusters=lambda: _names(adapters.seed),
        )
        leadership.subscribe(self._reconciler.wake)
        OverrideGauges(
            self._core.metrics,
            self._cache,
            self._core.clock,
            leading=lambda: leadership.leading,
            ignored=ignored,
        )

    def start(self) -> None:
        """Start the tasks that follow and maintain the ConfigMap."""
        tasks = self._core.tasks
        if self._cache is not None:
            _ = tasks.shared(self._cache.run, "overrides")
        if self._reconciler is not None:
            _ = tasks.shared(self._reconciler.run, "maintenance of the overrides")

    def features_off(self) -> Mapping[str, str]:
        """The feature `FEATURE` with the reason, if the overrides cannot be read."""
        off = None if self._cache is None else self._cache.feature_off
        return {} if off is None else {FEATURE: off}

    def checks(self) -> list[Check]:
        """Readiness checks: one fails until the overrides have been read, or count as none; one shows troubles."""
        cache = self._cache
        if cache is None:
            return []
        return [
            Check("overrides-synced", lambda: None if cache.synced else "not listed yet"),
            Check("overrides", lambda: cache.trouble or _unreadable(cache), advisory=True),
        ]


# Unreadable keys that the check names; an Event for each says what is wrong.
_NAMED: Final = 5


def _unreadable(cache: OverrideCache) -> str | None:
    keys = sorted(key for key, known in cache.knowledge.items() if known.problem is not None)
    if not keys:
        return None
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    count = "1 key" if len(keys) == 1 else f"{len(keys)} keys"
    named = ", ".join(keys[:_NAMED])
    return f"{count} cannot be read, and each pauses its shoot for a while: {named}{more}"


def _names(seed: SeedCluster) -> Collection[str] | None:
    """Names of all Clusters; None before they were listed once."""
    return seed.clusters().keys() if seed.watch_state(Watched.CLUSTERS).synced else None
