"""Processes that follow and write the overrides of a simulated seed, without prober and weeder."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

from app.core.kube.custom_objects import CustomObjects
from app.core.model.overrides import API_PAUSE, Pause, ScaleRequest, Scope
from app.core.model.scaling_runs import ScaleSpec
from app.core.model.workloads import Direction
from app.core.overrides.cache import OverrideCache
from app.core.overrides.gauges import OverrideGauges
from app.core.overrides.reconciler import OverrideReconciler
from app.core.overrides.service import OverrideService
from app.core.reporting.notices import Notice
from app.service.parts import Core
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.process import SimulatedProcess
from app.simulation.store import ObjectKey
from tests.support.harness import GARDENER
from tests.support.seed_lab import SeedLab

HOME = "garden"
SHOOT, OTHER = "shoot--local--a", "shoot--local--b"
UP, DOWN = Direction.UP, Direction.DOWN


@dataclass
class Replica:
    """One process: what it knows of the overrides, and what it can do to them."""

    world: World
    core: Core
    process: SimulatedProcess
    pauses: CustomObjects[Pause]
    requests: CustomObjects[ScaleRequest]
    cache: OverrideCache
    service: OverrideService
    reconciler: OverrideReconciler
    leads: list[bool]
    clusters: list[Iterable[str] | None]
    notices: list[Notice] = field(default_factory=list)

    @property
    def now(self) -> float:
        return self.core.clock.now()

    def wish(self, scope: Scope = Scope.ALL, *, seconds: float = 600.0, reason: str = "r") -> Pause:
        return Pause(scope, reason, "alice", self.now, self.now + seconds)

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
        adapters = process.adapters
        pauses, requests = adapters.pauses, adapters.requests
        assert pauses is not None
        assert requests is not None
        cache = OverrideCache(pauses, requests, HOME, core.clock)
        service = OverrideService(
            pauses, requests, cache, HOME, core.clock, core.chance, dry_run=dry_run
        )
        leading, clusters = [leads], [[SHOOT, OTHER]]
        reconciler = OverrideReconciler(
            cache,
            service,
            pauses,
            core.notice_bus,
            core.clock,
            home=HOME,
            leading=lambda: leading[0],
            clusters=lambda: clusters[0],
        )
        OverrideGauges(
            core.metrics,
            cache,
            core.clock,
            leading=lambda: leading[0],
            concerns_a_shoot=reconciler.concerns_a_shoot,
            ignored=lambda: 3,
        )
        made = Replica(
            world,
            core,
            process,
            pauses,
            requests,
            cache,
            service,
            reconciler,
            leading,
            clusters,  # type: ignore[arg-type]  # of names
        )
        core.notice_bus.subscribe(made.notices.append)
        process.start()
        _ = core.tasks.shared(cache.run, "overrides")
        _ = core.tasks.shared(reconciler.run, "maintenance")
        self._replicas.append(made)
        return made

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
