"""Processes that follow and write the overrides of a simulated seed, without prober and weeder."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, cast

from app.core.model.overrides import API_PAUSE, Pause, ScaleRequest, Scope
from app.core.model.scaling_runs import ScaleSpec
from app.core.model.workloads import Direction
from app.core.ports import WatchState
from app.core.reporting.notices import Notice
from app.service.loops import OverrideFeature
from app.service.parts import Core
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.process import SimulatedProcess
from app.simulation.store import ObjectKey
from tests.support.doubles import SetLeadership
from tests.support.harness import GARDENER
from tests.support.seed_lab import SeedLab

HOME = "garden"
SHOOT, OTHER = "shoot--local--a", "shoot--local--b"
UP, DOWN = Direction.UP, Direction.DOWN


class Clusters:
    """The seed of a leader, as far as overrides ask it: which shoots there are; None: that is not known yet."""

    def __init__(self) -> None:
        self.known: Mapping[str, None] | None = {SHOOT: None, OTHER: None}

    def clusters(self) -> Mapping[str, None] | None:
        return self.known

    def watch_state(self, _what: object) -> WatchState:
        return WatchState(self.known is not None, None)


class Replica:
    """One process: what it knows of the overrides, and what it can do to them."""

    def __init__(
        self, world: World, core: Core, process: SimulatedProcess, *, leads: bool, dry_run: bool
    ) -> None:
        self.world, self.core, self.process = world, core, process
        requests = process.adapters.requests
        assert requests is not None
        self.pauses, self.requests = process.adapters.pauses, requests
        feature = OverrideFeature(core, process.adapters, dry_run=dry_run)
        self.cache, self.service = feature.view, feature.override_service
        self.leadership, self.seed = SetLeadership(leading=leads), Clusters()
        feature.maintain(cast("Any", self), lambda: 3)
        self.notices: list[Notice] = []
        core.notice_bus.subscribe(self.notices.append)
        process.start()
        feature.start()

    @property
    def now(self) -> float:
        return self.core.clock.now()

    async def run(self, seconds: float) -> None:
        await self.core.clock.sleep(seconds)

    def wish(self, scope: Scope = Scope.ALL, *, seconds: float = 600.0, reason: str = "r") -> Pause:
        return Pause(scope, reason, "alice", self.now, self.now + seconds)

    async def seed_answers(self) -> None:
        """The seed answers a request that is not about overrides."""
        prober = self.process.adapters.prober
        assert prober is not None
        await prober.seed.read_cluster(SHOOT)

    async def pause(self, namespace: str | None = SHOOT, **wish: object) -> Pause:
        wanted = self.wish(**wish)  # type: ignore[arg-type]  # a test's own words
        return (await self.service.set_pause(namespace, wanted)).after

    async def resume(self, namespace: str | None = SHOOT, *, name: str = API_PAUSE) -> Pause | None:
        return await self.service.end_pause(namespace, name, by="bob")

    async def ask(self, direction: Direction = DOWN, *, hold: float = 600.0) -> ScaleRequest:
        spec = ScaleSpec(direction, "r", "alice", hold)
        return await self.service.request_scaling(SHOOT, spec)

    def acting(self, namespace: str = SHOOT) -> Pause | None:
        return self.cache.effective(namespace).covering

    def told(self, reason: str) -> list[Notice]:
        return [each for each in self.notices if each.reason == reason]

    def sample(self, name: str, **labels: str) -> float | None:
        return self.core.metrics.registry.get_sample_value(name, labels)

    def there(self, kind: str, name: str, namespace: str = SHOOT) -> bool:
        return self.world.store.find(ObjectKey(kind, namespace, name)) is not None


class Lab(SeedLab):
    """Makes worlds, and processes on them."""

    def __init__(self, *parts) -> None:
        super().__init__(*parts)
        self._replicas: list[Replica] = []

    def replica(self, world: World, *, leads: bool = False, dry_run: bool = False) -> Replica:
        core = replace(self.core(), chance=Random(len(self._replicas)))  # names of their own
        process = self.process(world, core, WATCHDOG, prober=GARDENER, dry_run=dry_run)
        self._replicas.append(Replica(world, core, process, leads=leads, dry_run=dry_run))
        return self._replicas[-1]

    async def started(self, **options: bool) -> Replica:
        """A replica on a world of its own that has listed everything."""
        replica = self.replica(self.world(), **options)
        await self.clock.sleep(1)
        assert replica.cache.synced
        return replica

    async def close(self) -> None:
        """Ends all processes."""
        for each in self._replicas:
            await each.process.kill()
