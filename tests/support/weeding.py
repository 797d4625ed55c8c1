"""A weeder on a simulated seed, on virtual time: the harness of its tests."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from app.core.clock import Clock
from app.core.kube.weeder_view import WeederSeed
from app.core.metrics import Metrics
from app.core.model import weeding
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.overrides.cache import OverrideCache
from app.core.ports import Leadership, Starting
from app.core.reporting.metering import Metering
from app.core.reporting.notices import Notice
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.faults import Fault
from app.simulation.identities import WEEDER
from app.simulation.process import SimulatedProcess
from app.simulation.seed_pods import PodDeletion
from app.simulation.views import pod_view
from app.simulation.workloads import API_SERVER, ETCD_SERVICE
from app.weeder.controller import WeederRunner
from app.weeder.environment import WeederEnvironment
from tests.support.doubles import SetLeadership, SetPauses
from tests.support.seed_lab import PLACE, ProcessHarness, SeedLab

NAMESPACE = PLACE
ETCD = weeding.ServiceKey(NAMESPACE, ETCD_SERVICE)
API = weeding.ServiceKey(NAMESPACE, API_SERVER)
SCHEDULER = "kube-scheduler"
THREE = (SCHEDULER, "cloud-controller-manager", "csi-driver-controller")
DELETE = frozenset({"delete"})
"""The verb of a deletion, for troubles of the seed."""


def requirement(key: str, operator: str, *values: str) -> Requirement:
    return Requirement(key, Operator(operator), frozenset(values))


CONTROL_PLANE = requirement("gardener.cloud/role", "In", "controlplane")
GARDENER_WEEDER = weeding.WeederPolicy(
    services={
        ETCD_SERVICE: (LabelSelector((CONTROL_PLANE, requirement("role", "In", "apiserver"))),),
        API_SERVER: (
            LabelSelector((CONTROL_PLANE, requirement("role", "NotIn", "main", "apiserver"))),
        ),
    }
)
"""Gardener's weeder file."""


class Sent(NamedTuple):
    """A deletion that was sent."""

    at: float
    pod: str
    uid: str
    resource_version: str


class RecordingSeed:
    """The seed as the weeder sees it, by the real adapter; keeps what was asked for."""

    def __init__(self, real: WeederSeed, world: World) -> None:
        self._real, self._world = real, world
        self.sent: list[Sent] = []
        self.reads: list[tuple[float, str]] = []
        """When a pod was read, and which."""
        self.watched: list[LabelSelector | None] = []
        """What each watch of pods selects."""
        self.subscribe, self.watch_state = real.subscribe, real.watch_state
        self.services, self.slices, self.any_pod = real.services, real.slices, real.any_pod

    @property
    def open_watches(self) -> int:
        """The number of open watches of pods."""
        return self._world.watches.open_now("Pod")

    @property
    def most_watches(self) -> int:
        """The maximum number of watches of pods that were open at the same time."""
        return self._world.watches.most["Pod"]

    def watch_pods(self, namespace, selector, changed, admitted):
        self.watched.append(selector)
        return self._real.watch_pods(namespace, selector, changed, admitted)

    async def read_pod(self, namespace: str, name: str) -> weeding.PodView | None:
        self.reads.append((self._world.clock.now(), name))
        return await self._real.read_pod(namespace, name)

    async def delete_pod(
        self, namespace: str, name: str, *, uid: str, resource_version: str, starting: Starting
    ) -> None:
        def started() -> None:
            starting()
            self.sent.append(Sent(self._world.clock.now(), name, uid, resource_version))

        await self._real.delete_pod(
            namespace, name, uid=uid, resource_version=resource_version, starting=started
        )


@dataclass
class WeederHarness(ProcessHarness):
    """A world, a weeder on it, and what it told."""

    world: World
    weeder: WeederRunner
    seed: RecordingSeed
    environment: WeederEnvironment
    process: SimulatedProcess
    again: Callable[..., "WeederHarness"]
    """Starts another process of the same configuration on the same world; options replace the first one's."""
    notices: list[Notice] = field(default_factory=list)

    @property
    def pauses(self) -> SetPauses:
        pauses: object = self.environment.pauses
        assert isinstance(pauses, SetPauses)
        return pauses

    @property
    def metrics(self) -> Metrics:
        return self.environment.metrics

    def hold_deletions(self) -> list[Starting]:
        """From now on no deletion is sent; returns what each of them would be told by right before it is."""
        held: list[Starting] = []

        async def wait(*_: object, starting: Starting, **__: object) -> None:
            held.append(starting)
            await self.run(1000)

        self.seed.delete_pod = wait  # type: ignore[method-assign]
        return held

    def delay_deletions(self, seconds: float) -> None:
        """From now on each deletion is sent so much later, as for a connection."""
        send = self.seed.delete_pod

        async def wait_first(namespace: str, name: str, **more) -> None:
            await self.run(seconds)
            await send(namespace, name, **more)

        self.seed.delete_pod = wait_first  # type: ignore[method-assign]

    def crash(self, *workloads: str, restarts: int = 7, namespace: str = NAMESPACE) -> None:
        """Their pods have just crashed once more; after 7 restarts each waits for 300 s."""
        for workload in workloads:
            self.world.crash_looped(namespace, workload, restarts)

    async def lose(self, key: weeding.ServiceKey = API) -> Fault:
        """The service is no longer ready, and everybody knows; lifting the fault makes it ready again."""
        fault = self.world.faults.service_unready(*key)
        await self.until(lambda: not self.world.served(*key))
        await self.run(0.2)
        return fault

    async def recover(
        self, *workloads: str, key: weeding.ServiceKey = API, restarts: int = 7, settle: float = 1.0
    ) -> float:
        """The service is away for a moment, in which pods crash; when it was ready again, `settle` seconds ago."""
        fault = await self.lose(key)
        self.crash(*workloads, restarts=restarts, namespace=key.namespace)
        fault.lift()
        back = await self.until(lambda: self.world.served(*key))
        await self.run(settle)
        return back

    async def stop(self) -> None:
        """Ends the weeder as SIGTERM does."""
        await self.weeder.stop()
        await self.kill()

    @property
    def died(self) -> bool:
        """Whether a loop that serves all namespaces has ended by itself, which ends the process."""
        death = self.environment.tasks._death
        return death.done() and not death.cancelled()

    def status(self, key: weeding.ServiceKey = API) -> weeding.ServiceStatus:
        found = self.weeder.controller.status(key)
        assert found is not None
        return found

    def recoveries(self, key: weeding.ServiceKey = API) -> tuple[weeding.RecoveryStatus, ...]:
        """Newest first."""
        return self.weeder.registry.recoveries(key)

    def recovery(self, key: weeding.ServiceKey = API) -> weeding.RecoveryStatus:
        """The newest one."""
        return self.recoveries(key)[0]

    def watching(self, key: weeding.ServiceKey = API) -> bool:
        recoveries = self.recoveries(key)
        return bool(recoveries) and recoveries[0].phase is weeding.Phase.WATCHING

    def deleted(self, namespace: str | None = None) -> list[PodDeletion]:
        """What weeders deleted, in the seed's own books."""
        return [
            each
            for each in self.world.seed_pods.deletions
            if each.by == WEEDER and namespace in (None, each.pod.namespace)
        ]

    def names(self, namespace: str | None = None) -> list[str]:
        return [each.pod.name for each in self.deleted(namespace)]

    def pods(self, namespace: str = NAMESPACE) -> list[weeding.PodView]:
        return [pod_view(obj) for obj in self.world.store.list("Pod", namespace)]

    def waiting(self, namespace: str = NAMESPACE) -> list[weeding.PodView]:
        """Pods with a container in CrashLoopBackOff."""
        return [p for p in self.pods(namespace) if any(c.crash_loops for c in p.containers)]

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def results(self, result: str) -> float:
        """How many deletions for kube-apiserver were counted with this result."""
        return self.count("dwd_weeder_pod_deletions_total", service=API.service, result=result)


class WeederLab(SeedLab):
    """Makes worlds and weeders, and ends them."""

    def __init__(self, tasks: Tasks, clock: Clock) -> None:
        super().__init__(tasks, clock)
        self.leadership, self.pauses = SetLeadership(), SetPauses()
        """Those of weeders that are given none of their own."""
        self._harnesses: list[WeederHarness] = []

    def weeder(
        self,
        world: World,
        policy: weeding.WeederPolicy = GARDENER_WEEDER,
        *,
        leadership: Leadership | None = None,
        pauses: OverrideCache | None = None,
        dry_run: bool = False,
        deletions_a_second: float = 20.0,
        **changes,
    ) -> WeederHarness:
        """Starts a weeder on `world`, a process of its own, with a watch of its own."""
        core, changed = self.core(), replace(policy, **changes)
        process = self.process(world, core, WEEDER, weeder=changed, dry_run=dry_run)
        adapters = process.adapters.weeder
        assert adapters is not None
        seed = RecordingSeed(adapters.seed, world)
        environment = WeederEnvironment(
            changed,
            cast("WeederSeed", seed),
            leadership or self.leadership,
            pauses=cast("OverrideCache", pauses or self.pauses),
            clock=self.clock,
            tasks=core.tasks,
            notice_bus=core.notice_bus,
            metrics=core.metrics,
            deletions_a_second=deletions_a_second,
            dry_run=dry_run,
        )

        def again(**other) -> WeederHarness:
            same = {
                "leadership": leadership,
                "pauses": pauses,
                "dry_run": dry_run,
                "deletions_a_second": deletions_a_second,
            }
            return self.weeder(world, policy, **{**same, **changes, **other})

        harness = WeederHarness(world, WeederRunner(environment), seed, environment, process, again)
        environment.notice_bus.subscribe(harness.notices.append)
        environment.notice_bus.subscribe(Metering(environment.metrics).note)
        process.start()
        harness.weeder.start()
        self._harnesses.append(harness)
        return harness

    def control_plane(self, *policy: weeding.WeederPolicy, **options) -> WeederHarness:
        """One control plane that runs well, and a weeder; with Gardener's file, unless one is given."""
        world = self.world()
        world.add_control_plane(NAMESPACE, bare=options.pop("bare", False))
        return self.weeder(world, *policy, **options)

    async def close(self) -> None:
        """Ends all weeders; not gently: virtual time ended with the test, so nothing can be waited for."""
        for harness in self._harnesses:
            await harness.kill()
        assert not [harness for harness in self._harnesses if harness.died]
