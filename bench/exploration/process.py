"""One run of the prober: the whole of it, with its own event loop, watches, connections and election."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from app.core.errors import WatchdogError
from app.core.kube.election import LeaseElection
from app.core.model.endpoints import EndpointProbeSpec, Ran, TargetAddress
from app.core.model.policy import ProberPolicy
from app.core.model.workloads import Patch, ResourceRef, ScaleView, WorkloadView
from app.core.ports import Leadership, Starting, Watched
from app.core.reporting.notices import Notice, NoticeBus
from app.prober.controller import Prober
from app.prober.environment import (
    EndpointAdapters,
    OperationLog,
    ProberEnvironment,
    ProbeSlots,
    ScaleUpRateLimit,
)
from app.simulation.builders import World
from app.simulation.cluster import SimulatedSeed
from app.simulation.parts import WorldParts
from app.simulation.probed_pods import SimulatedProbedPods
from app.simulation.shoot import ShootServer, SimulatedConnector
from bench.exploration.decisions import BookedOverrides, adapters, decisions
from bench.exploration.life import Life
from bench.exploration.line import LinedShoot, Sending, WriteWatcher
from bench.exploration.paths import LinedHandlers
from bench.exploration.timeline import Machine
from bench.exploration.watches import Outlets, ProcessStreams, ProcessWatches, Tap
from bench.exploration.wishes import Told

if TYPE_CHECKING:
    from app.core.ports import OverridesService

LEASE: Final = ("garden", "dwd-prober-leader-election")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every process of a world is given."""

    world: World
    machine: Machine
    """The world's own."""
    tap: Tap
    outlets: Outlets
    watcher: WriteWatcher
    policy: ProberPolicy
    elected: bool
    """Whether processes take part in an election."""
    watch_delay: float
    """Seconds from a change in the seed to its delivery."""
    told: Callable[[str], Told]
    """What a process was told of the overrides, by its name."""
    ran: Callable[["Process", EndpointProbeSpec, TargetAddress, Ran], None]
    """An endpoint probe of it has run."""
    heard: Callable[["Process", Notice], None]
    failed: Callable[["Process", str], None]
    """Something in it failed that never should."""
    answered: Callable[["Process", str], None]
    """What somebody asked of it has come to this."""


class WatchedSeed(SimulatedSeed):
    """The seed as one process has it: each write is noted at the instant at which it is sent."""

    def __init__(self, parts: WorldParts, process: str, watcher: WriteWatcher) -> None:
        super().__init__(parts)
        self._process = process
        self._watcher = watcher

    async def patch_dependent(
        self,
        namespace: str,
        ref: ResourceRef,
        patch: Patch,
        *,
        starting: Starting | None = None,
        urgent: bool = False,
    ) -> WorkloadView:
        """One merge patch of the object."""
        noted = self._noted(Sending(self._process, namespace, ref, patch), starting)
        return await super().patch_dependent(namespace, ref, patch, starting=noted, urgent=urgent)

    async def patch_scale(
        self,
        namespace: str,
        ref: ResourceRef,
        patch: Patch,
        *,
        starting: Starting | None = None,
        urgent: bool = False,
    ) -> ScaleView:
        """One merge patch of the `scale` subresource."""
        noted = self._noted(Sending(self._process, namespace, ref, patch), starting)
        return await super().patch_scale(namespace, ref, patch, starting=noted, urgent=urgent)

    def _noted(self, sending: Sending, starting: Starting | None) -> Starting:
        def begins() -> None:
            if starting is not None:
                starting()
            self._watcher.sending(sending)

        return begins


class Process(Life):
    """One run of the prober."""

    lease = LEASE

    def __init__(self, around: Surroundings, name: str, machine: Machine, seed: str) -> None:
        """Does nothing yet; the arguments are those of `Life`."""
        super().__init__(
            name,
            machine,
            seed,
            world=around.world,
            around=around.machine,
            watcher=around.watcher,
            elected=around.elected,
        )
        self._surroundings = around
        self.prober: Prober | None = None
        self.override_service: OverridesService
        """There as soon as the prober is."""
        self.watches: ProcessWatches

    def failed(self, text: str) -> None:
        """Something in it failed that never should."""
        self._surroundings.failed(self, text)

    def lists(self, what: Watched) -> None:
        """A watch may be listed: at its start, or again; in endpoint mode Machines are not watched."""
        if what is Watched.MACHINES and self._surroundings.policy.endpoint_mode is not None:
            return
        self.machine.call_soon(lambda: self._tasks.once(lambda: self.watches.list(what), "list"))

    def asked(self, what: str, call: Callable[["Process", Prober], Awaitable[object]]) -> None:
        """Somebody asks it for something, as through its API; one that stands still hears of it when it goes on."""

        async def serve() -> None:
            if self.prober is None:
                return
            try:
                await call(self, self.prober)
            except WatchdogError as error:
                self._surroundings.answered(self, f"{what}: {type(error).__name__}: {error}")
            else:
                self._surroundings.answered(self, f"{what}: done")

        self.machine.call_soon(lambda: self._tasks.once(serve, what))

    def _connect(self) -> None:
        around = self._surroundings
        self.watches = ProcessWatches(
            self.machine, self._world.clock, around.tap, self._api, around.watch_delay
        )
        _ = self._tasks.shared(self.watches.caches.run, "watches")
        around.outlets.joined(self)

    def _begin(self, leadership: Leadership) -> None:
        self.prober = Prober(self._environment(leadership))
        if isinstance(leadership, LeaseElection):
            leadership.prepare(self.prober.prepared)
        self.prober.start()

    async def _end(self, why: str) -> None:
        if self.prober is not None:
            await self.prober.stop(why)

    def _disconnect(self) -> None:
        if self in self._surroundings.outlets.processes:
            self._surroundings.outlets.left(self)
            self.watches.close()

    def _environment(self, leadership: Leadership) -> ProberEnvironment:
        around, clock, board = self._surroundings, self._world.clock, NoticeBus()
        board.subscribe(lambda notice: around.heard(self, notice))
        seed, connector = self._seed(), self._connector()
        store = BookedOverrides(self._parts(), around.told(self.name))
        decided = decisions(store, clock, self._tasks, board, self._chance)
        decided.maintain(adapters(seed, connector, leadership), lambda: 0)
        decided.start()
        self.override_service = decided.override_service
        return ProberEnvironment(
            policy=around.policy,
            seed=seed,
            connector=connector,
            leadership=leadership,
            clock=clock,
            tasks=self._tasks,
            notice_bus=board,
            chance=self._chance,
            slots=ProbeSlots(),
            scale_ups=ScaleUpRateLimit(),
            overrides=decided.view,
            override_service=decided.override_service,
            operations=OperationLog(f"{self._chance.randrange(1 << 32):08x}"),
            endpoints=self._endpoints(),
        )

    def _endpoints(self) -> EndpointAdapters | None:
        around = self._surroundings
        if not around.policy.endpoint_probes:
            return None
        handlers = LinedHandlers(
            around.world.handlers,
            self.machine,
            around.machine,
            lambda probe, address, ran: around.ran(self, probe, address, ran),
        )
        return EndpointAdapters(handlers, SimulatedProbedPods(self._parts(), (), self._tasks))

    def _parts(self) -> WorldParts:
        """The world as it reaches it: at the end of its own line, through its own watches."""
        own = {
            "api": self._api,
            "caches": _Caches(self.watches),
            "watches": ProcessStreams(self._world.parts.watches, self.machine),
        }
        return replace(self._world.parts, **cast("Any", own))

    def _seed(self) -> WatchedSeed:
        return WatchedSeed(self._parts(), self.name, self._surroundings.watcher)

    def _connector(self) -> SimulatedConnector:
        connector = SimulatedConnector(self._world.clock)
        for server in self._world.parts.shoots.values():
            connector.serve(cast("ShootServer", LinedShoot(self._lines, server)))
        return connector


class _Caches:
    """A process's watch caches, whose listeners are called on its machine."""

    def __init__(self, watches: ProcessWatches) -> None:
        self._watches = watches

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the caches have
        return getattr(self._watches.caches, name)

    def subscribe(self, listener: Callable[[Any], None]) -> None:
        self._watches.subscribe(listener)
