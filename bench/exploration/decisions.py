"""The overrides of one process, as `app.service` wires them, at the end of its own line."""

import random
from collections.abc import Mapping
from typing import cast

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.ports import Leadership, OverridesDocument, SeedCluster, ShootConnector, Starting
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from app.service.decisions import OverrideFeature
from app.service.parts import Core, Election, ProberAdapters
from app.simulation.overrides_store import GARDEN, SimulatedOverridesStore
from app.simulation.parts import WorldParts
from bench.exploration.wishes import Told


class BookedOverrides(SimulatedOverridesStore):
    """The ConfigMap as one process has it: all that the process is told of it is noted, before it hears of it."""

    def __init__(self, parts: WorldParts, told: Told) -> None:
        super().__init__(parts)
        self._clock, self._told = parts.clock, told
        self.subscribe(self._shown)

    def _shown(self) -> None:
        self._told.forbidden = self.forbidden is not None
        synced = self.watch_state().synced
        self._told.shown(self.document(), synced=synced, now=self._clock.now())

    async def read(self) -> OverridesDocument | None:
        """As it is now."""
        found = await super().read()
        if found is None:
            self._told.not_there()
            return None
        return self._answered(found)

    async def create(
        self, data: Mapping[str, str], *, starting: Starting | None = None
    ) -> OverridesDocument:
        """Makes it."""
        return self._answered(await super().create(data, starting=starting))

    async def replace(
        self,
        document: OverridesDocument,
        data: Mapping[str, str],
        *,
        starting: Starting | None = None,
    ) -> OverridesDocument:
        """Writes over it."""
        return self._answered(await super().replace(document, data, starting=starting))

    def _answered(self, document: OverridesDocument) -> OverridesDocument:
        self._told.answered(document, self._clock.now())
        return document


def decisions(
    store: BookedOverrides, clock: Clock, tasks: Tasks, board: NoticeBus, chance: random.Random
) -> OverrideFeature:
    """What people decided, for one process."""
    _ = tasks.shared(store.run, "watch of overrides")
    return OverrideFeature(
        Core(clock, tasks, Metrics(), board, chance), store, GARDEN, dry_run=False
    )


def adapters(
    seed: SeedCluster, connector: ShootConnector, leadership: Leadership
) -> ProberAdapters:
    """What the upkeep looks through; of an election it asks no more than who leads."""
    return ProberAdapters(seed, connector, cast("Election", leadership))
