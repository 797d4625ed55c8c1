"""One run of a process of the watchdog on a machine of its own: its start, its ends, its election.

Its adapters are the real ones, on the API servers of the world in memory. What `app.service` does around the loops is
done here in the same order; there are no HTTP servers.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from app.core.clock import Clock
from app.core.errors import LeadershipLost
from app.core.kube.election import ElectionTimes
from app.core.tasks import Job, SharedLoopDied, Tasks
from app.service.loops import OverrideFeature, RunningLoop
from app.service.parts import Cluster, Configured, Core
from app.simulation.process import SimulatedProcess, core_of
from app.simulation.server import MemoryServers
from bench.exploration.hearing import Hearing
from bench.exploration.line import Line, ServedLines
from bench.exploration.timeline import Machine
from bench.exploration.wishes import Told

TIMES: Final = ElectionTimes()
_STOP_LOOP: Final = 0.7
_STOP_CLUSTER: Final = 0.6
_CLOSED_WITHIN: Final = 0.05
"""What a kernel takes to close the connections of a process that was killed, seconds."""
_WITHOUT_A_WORD: Final = 0.25
"""How often the machine goes with its process, so that servers do not hear of it."""


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


@dataclass(frozen=True, slots=True)
class Grounds:
    """What every process of a world stands on."""

    servers: MemoryServers
    lines: ServedLines
    machine: Machine
    """The world's own."""
    elected: bool
    """Whether processes take part in an election."""

    @property
    def clock(self) -> Clock:
        """The time of the world."""
        return self.servers.world.clock


class Life(ABC):
    """One run of a process, from its start to its end."""

    user: str
    """Whose token it has."""

    def __init__(
        self, grounds: Grounds, name: str, machine: Machine, seed: str, told: Told
    ) -> None:
        """Does nothing yet.

        Args:
            grounds: the world that it lives in.
            name: which run of which instance; its identity in the election.
            machine: what it runs on, alone.
            seed: of its chance.
            told: what it is told of the overrides.
        """
        self.name, self.machine, self.told = name, machine, told
        self._grounds, self._chance = grounds, random.Random(seed)
        self._fate = random.Random(f"{seed}/end")
        self.line = Line(name, machine, grounds.lines.watcher, Hearing(told))
        self.process: SimulatedProcess | None = None
        """Its adapters; None before its start."""
        self._stop: asyncio.Event | None = None
        self._gone: list[Callable[[str], None]] = []
        self._tasks: Tasks

    # What kind of process it is.

    @abstractmethod
    def failed(self, text: str) -> None:
        """Something in it failed that never should."""

    @abstractmethod
    def _policies(self) -> dict[str, Any]:
        """The policies of its loops, and its flags."""

    @abstractmethod
    def _loop(
        self, core: Core, cluster: Cluster, configured: Configured, decisions: OverrideFeature
    ) -> RunningLoop:
        """Makes its loop, as `app.service` does."""

    def _ended(self) -> None:  # noqa: B027  not every kind looks
        """All of its tasks are to have ended."""

    # From outside.

    def start(self, gone: Callable[[str], None]) -> None:
        """Starts it; `gone` is called, in the world, when it has ended, with the reason."""
        self._gone.append(gone)
        self._grounds.lines.joins(self.line)
        _ = self.machine.create_task(self._main(), name=f"main of {self.name}")

    def kill(self) -> None:
        """Ends it as kill -9 does; its kernel closes its connections soon, or its machine is gone without a word."""
        self.machine.destroy()
        if self.process is not None:
            network = self.process.network
            network.stop()
            how = network.vanish if self._fate.random() < _WITHOUT_A_WORD else network.killed
            self._grounds.machine.call_later(self._fate.uniform(0.0, _CLOSED_WITHIN), how)
        self._leave("killed")

    def bury(self) -> None:
        """Ends what is left of it, with its world."""
        self.machine.destroy()
        if self.process is not None:
            self.process.network.stop()
        self.machine.bury()

    def terminate(self) -> None:
        """Asks it to end, as SIGTERM does."""
        if self._stop is not None:
            self.machine.call_soon(self._stop.set)

    @property
    def leading(self) -> bool:
        """Whether it leads, as it knows."""
        elections = () if self.process is None else self.process.adapters.elections.values()
        return any(each.leading for each in elections)

    def _leave(self, why: str) -> None:
        told, self._gone = self._gone, []
        for gone in told:
            self._grounds.machine.call_soon(gone, why)

    # Inside.

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        self._tasks = ReportingTasks(self._grounds.clock, self.failed)
        core = core_of(self._grounds.clock, self._tasks, self._chance)
        process = self.process = SimulatedProcess(
            self._grounds.servers,
            core,
            name=self.name,
            user=self.user,
            tap=self.line,
            identity=self.name,
            enable_leader_election=self._grounds.elected,
            **self._policies(),
        )
        cluster = process.adapters
        self.machine.at_burial = cluster.close
        decisions = OverrideFeature(core, cluster, dry_run=False)
        configured = Configured(process.settings, "exploration")
        loop = self._loop(core, cluster, configured, decisions)
        decisions.start()
        await cluster.begin()
        loop.start()
        why = await self._until_the_end()
        self._tasks.stopping()
        await self._shut_down(loop, cluster, why)
        self._ended()
        self.machine.destroy()
        process.network.killed()
        self._leave(why)

    async def _until_the_end(self) -> str:
        stop, died = asyncio.Event() if self._stop is None else self._stop, self._tasks.died()
        ends = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(died)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        error = ends[1].exception() if ends[1].done() and not ends[1].cancelled() else None
        if isinstance(error, SharedLoopDied):
            if not isinstance(error.__cause__, LeadershipLost):
                self.failed(f"{error}: {error.__cause__!r}")
            return str(error)
        return "a signal"

    async def _shut_down(self, loop: RunningLoop, cluster: Cluster, why: str) -> None:
        """In the order and within the times of `app.service`."""
        await self._within(_STOP_LOOP, loop.stop(why))
        await self._within(_STOP_CLUSTER, cluster.end())
        await self._tasks.stop()
        await cluster.close()

    async def _within(self, seconds: float, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            return  # what comes after it must have its turn too
