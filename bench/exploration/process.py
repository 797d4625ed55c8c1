"""One run of the watchdog: the whole prober, with its own event loop, watches, connections and election.

What `app.service` does around the prober is done here in the same order; there are no HTTP servers.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from app.core.errors import LeadershipLost
from app.core.kube.election import ElectionTimes, LeaseElection, SoleOwner
from app.core.model.policy import ProberPolicy
from app.core.model.workloads import Patch, ResourceRef, ScaleView, WorkloadView
from app.core.ports import Ownership, Starting, Watched
from app.core.records.notices import Notice, NoticeBoard
from app.core.runtime.clock import Clock
from app.core.runtime.metrics import Metrics
from app.core.runtime.tasks import Job, SharedLoopDied, Tasks, cancelled
from app.core.simulation.builders import World
from app.core.simulation.cluster import SimulatedSeed
from app.core.simulation.leases import SimulatedLeaseStore
from app.core.simulation.shoot import ShootServer, SimulatedConnector
from app.core.simulation.stage import Stage
from app.prober.environment import Environment
from app.prober.pacing import ProbeSlots, ScaleUpPace
from app.prober.prober import Prober
from bench.exploration.line import LinedApi, LinedShoot, Lines, Sending, Watcher
from bench.exploration.timeline import Machine
from bench.exploration.watches import Outlets, ProcessWatches, Tap

LEASE: Final = ("garden", "dwd-prober-leader-election")
TIMES: Final = ElectionTimes()
_STOP_PROBER: Final = 0.7
_STOP_CLUSTER: Final = 0.6


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every process of a world is given."""

    world: World
    machine: Machine
    """The world's own."""
    tap: Tap
    outlets: Outlets
    watcher: Watcher
    policy: ProberPolicy
    elected: bool
    """Whether processes take part in an election."""
    watch_delay: float
    """Seconds from a change in the seed to its delivery."""
    heard: Callable[["Process", Notice], None]
    failed: Callable[["Process", str], None]
    """Something in it failed that never should."""


class ReportingTasks(Tasks):
    """Tasks whose unexpected ends are reported."""

    def __init__(self, clock: Clock, failed: Callable[[str], None]) -> None:
        super().__init__(clock)
        self._failed = failed

    def once(self, job: Job, name: str) -> asyncio.Task[None]:
        """Runs `job`; reports its failure."""

        async def reported() -> None:
            try:
                await job()
            except Exception as error:
                self._failed(f"task {name} failed: {error!r}")
                raise

        return super().once(reported, name)


class WatchedSeed(SimulatedSeed):
    """The seed as one process has it: each write is noted at the instant at which it is sent."""

    def __init__(self, stage: Stage, process: str, watcher: Watcher) -> None:
        super().__init__(stage)
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


class Process:
    """One run of the watchdog, from its start to its end."""

    def __init__(self, around: Surroundings, name: str, machine: Machine, seed: str) -> None:
        """Does nothing yet.

        Args:
            around: the world and who watches it.
            name: which run of which instance; its identity in the election.
            machine: what it runs on, alone.
            seed: of its chance.
        """
        self.name, self.machine = name, machine
        self._around = around
        self._chance = random.Random(seed)
        lines = Lines(name, machine, around.machine, random.Random(f"{seed}/line"), around.watcher)
        self._lines = lines
        self._api = LinedApi(lines, around.world.stage.api)
        self.prober: Prober | None = None
        self.ownership: Ownership | None = None
        self._stop: asyncio.Event | None = None
        self._gone: list[Callable[[str], None]] = []
        self.watches: ProcessWatches
        self._tasks: Tasks

    # From outside.

    def start(self, gone: Callable[[str], None]) -> None:
        """Starts it; `gone` is called, in the world, when it has ended, with the reason."""
        self._gone.append(gone)
        _ = self.machine.create_task(self._main(), name=f"main of {self.name}")

    def kill(self) -> None:
        """Ends it as kill -9 does."""
        self.machine.destroy()
        self._leave("killed")

    def terminate(self) -> None:
        """Asks it to end, as SIGTERM does."""
        if self._stop is not None:
            self.machine.call_soon(self._stop.set)

    @property
    def leading(self) -> bool:
        """Whether it leads, as it knows."""
        return self.ownership is not None and self.ownership.leading

    def _leave(self, why: str) -> None:
        told, self._gone = self._gone, []
        if told and self in self._around.outlets.processes:
            self._around.outlets.left(self)
            self.watches.close()
        for gone in told:
            self._around.machine.call_soon(gone, why)

    # Inside.

    async def _main(self) -> None:
        clock = self._around.world.clock
        self._stop = asyncio.Event()
        self._tasks = ReportingTasks(clock, lambda text: self._around.failed(self, text))
        self.watches = ProcessWatches(
            self.machine, clock, self._around.tap, self._api, self._around.watch_delay
        )
        _ = self._tasks.shared(self.watches.caches.run, "watches")
        self._around.outlets.joined(self)
        environment = self._environment(clock)
        election = self._take_part(environment.ownership)
        self.prober = Prober(environment)
        self.prober.start()
        why = await self._until_the_end()
        self._tasks.stopping()
        await self._shut_down(environment.ownership, election, why)
        self.machine.destroy()
        self._leave(why)

    def lists(self, what: Watched) -> None:
        """A watch may be listed: at its start, or again."""
        self.machine.call_soon(lambda: self._tasks.once(lambda: self.watches.list(what), "list"))

    def _environment(self, clock: Clock) -> Environment:
        world, board = self._around.world, NoticeBoard()
        connector = SimulatedConnector(clock)
        for server in world.stage.shoots.values():
            connector.serve(cast("ShootServer", LinedShoot(self._lines, server)))
        own = {"api": self._api, "caches": _Caches(self.watches)}
        seed = WatchedSeed(
            replace(world.stage, **cast("Any", own)), self.name, self._around.watcher
        )
        self.ownership = self._owner(clock)
        board.subscribe(lambda notice: self._around.heard(self, notice))
        return Environment(
            policy=self._around.policy,
            seed=seed,
            connector=connector,
            ownership=self.ownership,
            clock=clock,
            tasks=self._tasks,
            board=board,
            chance=self._chance,
            slots=ProbeSlots(),
            scale_ups=ScaleUpPace(),
        )

    def _owner(self, clock: Clock) -> LeaseElection | SoleOwner:
        if not self._around.elected:
            return SoleOwner()
        store = SimulatedLeaseStore(cast("Any", self._api), self._around.world.store, *LEASE)
        # The same methods on the simulated seed: the two adapters do not know each other.
        same = cast("Any", store)
        return LeaseElection(same, self.name, TIMES, clock, Metrics(), self._chance)

    def _take_part(self, ownership: Ownership) -> asyncio.Task[None] | None:
        if isinstance(ownership, LeaseElection):
            return self._tasks.shared(ownership.run, "leader election")
        return None

    async def _until_the_end(self) -> str:
        stop, died = asyncio.Event() if self._stop is None else self._stop, self._tasks.died()
        ends = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(died)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        error = ends[1].exception() if ends[1].done() and not ends[1].cancelled() else None
        if isinstance(error, SharedLoopDied):
            if not isinstance(error.__cause__, LeadershipLost):
                self._around.failed(self, f"{error}: {error.__cause__!r}")
            return str(error)
        return "a signal"

    async def _shut_down(
        self, ownership: Ownership, election: asyncio.Task[None] | None, why: str
    ) -> None:
        """In the order and within the times of `app.service`."""
        if self.prober is not None:
            await self._within(_STOP_PROBER, self.prober.stop(why))
        if election is not None and isinstance(ownership, LeaseElection):
            await self._within(_STOP_CLUSTER, _leave_election(ownership, election))
        await self._tasks.stop()

    async def _within(self, seconds: float, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            return  # what comes after it must have its turn too


async def _leave_election(ownership: LeaseElection, election: asyncio.Task[None]) -> None:
    await cancelled(election)
    await ownership.release()


class _Caches:
    """A process's watch caches, whose listeners are called on its machine."""

    def __init__(self, watches: ProcessWatches) -> None:
        self._watches = watches

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the caches have
        return getattr(self._watches.caches, name)

    def subscribe(self, listener: Callable[[Any], None]) -> None:
        self._watches.subscribe(listener)
