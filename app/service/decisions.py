"""What people decided, in one process: read by both loops, written by whoever is asked, looked after by the prober."""

from collections.abc import Callable, Collection, Mapping

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
        self._book: OverrideCache | None = None
        self._writer: OverrideWriter | None = None
        self._upkeep: OverrideReconciler | None = None
        self.view: OverridesView = NoOverrides()
        self.desk: OverridesService = NoOverrides()
        if store is not None:
            self._book = OverrideCache(store, core.clock, core.metrics)
            self._writer = OverrideWriter(store, self._book, dry_run=dry_run)
            self.view, self.desk = self._book, OverrideService(self._writer, self._book, core.clock)

    def pauses(self) -> Pauses:
        """What may not be weeded."""
        return NoPauses() if self._book is None else WeederPauses(self._book)

    def look_after(self, doors: ProberAdapters, ignored: Callable[[], int]) -> None:
        """The prober runs here: its leader tidies, and tells; `ignored` counts resources with ignore-scaling."""
        if self._book is None or self._writer is None:
            return
        ownership = doors.ownership
        self._upkeep = OverrideReconciler(
            self._book,
            self._writer,
            self._core.board,
            self._core.clock,
            home=self._home,
            leading=lambda: ownership.leading,
            clusters=lambda: _names(doors.seed),
        )
        ownership.subscribe(self._upkeep.wake)
        OverrideGauges(
            self._core.metrics,
            self._book,
            self._core.clock,
            leading=lambda: ownership.leading,
            ignored=ignored,
        )

    def start(self) -> None:
        """Follows them from now on."""
        tasks = self._core.tasks
        if self._book is not None:
            _ = tasks.shared(self._book.run, "overrides")
        if self._upkeep is not None:
            _ = tasks.shared(self._upkeep.run, "upkeep of the overrides")

    def features_off(self) -> Mapping[str, str]:
        """The feature, where the overrides cannot be read."""
        off = None if self._book is None else self._book.feature_off
        return {} if off is None else {FEATURE: off}

    def checks(self) -> list[Check]:
        """For readiness: they have been read, or count as none; and what reading them suffers from."""
        book = self._book
        if book is None:
            return []
        return [
            Check("overrides-synced", lambda: None if book.synced else "not listed yet"),
            Check("overrides", lambda: book.trouble, advisory=True),
        ]


def _names(seed: SeedCluster) -> Collection[str] | None:
    """All Clusters; None while they are not known."""
    return seed.clusters().keys() if seed.watch_state(Watched.CLUSTERS).synced else None
