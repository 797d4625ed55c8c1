"""What people decided, in one process: read by both loops, written by whoever is asked, looked after by the prober."""

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
    """The overrides of a process; without a store there are none.

    Args:
        core: what everything shares.
        store: the ConfigMap.
        home: the namespace that it is in.
        dry_run: nothing is written.
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
        """What may not be weeded."""
        return NoPauses() if self._cache is None else WeederPauses(self._cache)

    def look_after(self, adapters: ProberAdapters, ignored: Callable[[], int]) -> None:
        """The prober runs here: its leader tidies, and tells; `ignored` counts resources with ignore-scaling."""
        if self._cache is None or self._writer is None:
            return
        leadership = adapters.leadership
        self._reconciler = OverrideReconciler(
            self._cache,
            self._writer,
            self._core.board,
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
        """Follows them from now on."""
        tasks = self._core.tasks
        if self._cache is not None:
            _ = tasks.shared(self._cache.run, "overrides")
        if self._reconciler is not None:
            _ = tasks.shared(self._reconciler.run, "upkeep of the overrides")

    def features_off(self) -> Mapping[str, str]:
        """The feature, where the overrides cannot be read."""
        off = None if self._cache is None else self._cache.feature_off
        return {} if off is None else {FEATURE: off}

    def checks(self) -> list[Check]:
        """For readiness: they have been read, or count as none; and what reading them suffers from."""
        cache = self._cache
        if cache is None:
            return []
        return [
            Check("overrides-synced", lambda: None if cache.synced else "not listed yet"),
            Check("overrides", lambda: cache.trouble or _unreadable(cache), advisory=True),
        ]


_NAMED: Final = 5
"""So many keys are named; the Events have the mistake of each."""


def _unreadable(cache: OverrideCache) -> str | None:
    """The keys with a mistake; None where there is none."""
    keys = sorted(key for key, known in cache.knowledge.items() if known.problem is not None)
    if not keys:
        return None
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    count = "1 key" if len(keys) == 1 else f"{len(keys)} keys"
    named = ", ".join(keys[:_NAMED])
    return f"{count} cannot be read, and each pauses its shoot for a while: {named}{more}"


def _names(seed: SeedCluster) -> Collection[str] | None:
    """All Clusters; None while they are not known."""
    return seed.clusters().keys() if seed.watch_state(Watched.CLUSTERS).synced else None
