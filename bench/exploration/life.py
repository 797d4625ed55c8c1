"""One run of a process of the watchdog on a machine of its own: its start, its ends, its election.

What `app.service` does around the loops is done here in the same order; there are no HTTP servers.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from app.core.clock import Clock
from app.core.errors import LeadershipLost
from app.core.kube.election import ElectionTimes, LeaseElection, SoleOwner
from app.core.metrics import Metrics
from app.core.ports import Leadership
from app.core.tasks import Job, SharedLoopDied, Tasks, cancelled
from app.simulation.builders import World
from app.simulation.leases import SimulatedLeaseStore
from bench.exploration.line import LinedApi, Lines, Watcher
from bench.exploration.timeline import Machine

TIMES: Final = ElectionTimes()
_STOP_LOOP: Final = 0.7
_STOP_CLUSTER: Final = 0.6


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


class Life(ABC):
    """One run of a process, from its start to its end."""

    lease: tuple[str, str]
    """Namespace and name of the Lease of its election."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        seed: str,
        *,
        world: World,
        around: Machine,
        watcher: Watcher,
        elected: bool,
    ) -> None:
        """Does nothing yet.

        Args:
            name: which run of which instance; its identity in the election.
            machine: what it runs on, alone.
            seed: of its chance.
            world: where it lives.
            around: the world's own machine.
            watcher: hears of its requests.
            elected: whether it takes part in an election.
        """
        self.name, self.machine = name, machine
        self._world, self._around, self._elected = world, around, elected
        self._chance = random.Random(seed)
        self._lines = Lines(name, machine, around, random.Random(f"{seed}/line"), watcher)
        self._api = LinedApi(self._lines, world.parts.api)
        self.leadership: Leadership | None = None
        self._stop: asyncio.Event | None = None
        self._gone: list[Callable[[str], None]] = []
        self._tasks: Tasks

    # What kind of process it is.

    @abstractmethod
    def failed(self, text: str) -> None:
        """Something in it failed that never should."""

    @abstractmethod
    def _connect(self) -> None:
        """It starts: what it watches with begins."""

    @abstractmethod
    def _begin(self, leadership: Leadership) -> None:
        """Its loop starts."""

    @abstractmethod
    async def _end(self, why: str) -> None:
        """Its loop ends."""

    @abstractmethod
    def _disconnect(self) -> None:
        """It is gone."""

    def _ended(self) -> None:  # noqa: B027  not every kind looks
        """All of its tasks are to have ended."""

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
        return self.leadership is not None and self.leadership.leading

    def _leave(self, why: str) -> None:
        told, self._gone = self._gone, []
        if told:
            self._disconnect()
        for gone in told:
            self._around.call_soon(gone, why)

    # Inside.

    async def _main(self) -> None:
        clock = self._world.clock
        self._stop = asyncio.Event()
        self._tasks = ReportingTasks(clock, self.failed)
        self._connect()
        leadership = self.leadership = self._owner(clock)
        election = self._take_part(leadership)
        self._begin(leadership)
        why = await self._until_the_end()
        self._tasks.stopping()
        await self._shut_down(leadership, election, why)
        self._ended()
        self.machine.destroy()
        self._leave(why)

    def _owner(self, clock: Clock) -> LeaseElection | SoleOwner:
        if not self._elected:
            return SoleOwner()
        api = cast("Any", self._api)
        store = SimulatedLeaseStore(api, self._world.store, clock, *self.lease)
        # The same methods on the simulated seed: the two adapters do not know each other.
        same = cast("Any", store)
        return LeaseElection(same, self.name, TIMES, clock, Metrics(), self._chance)

    def _take_part(self, leadership: Leadership) -> asyncio.Task[None] | None:
        if isinstance(leadership, LeaseElection):
            return self._tasks.shared(leadership.run, "leader election")
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
                self.failed(f"{error}: {error.__cause__!r}")
            return str(error)
        return "a signal"

    async def _shut_down(
        self, leadership: Leadership, election: asyncio.Task[None] | None, why: str
    ) -> None:
        """In the order and within the times of `app.service`."""
        await self._within(_STOP_LOOP, self._end(why))
        if election is not None and isinstance(leadership, LeaseElection):
            await self._within(_STOP_CLUSTER, _leave_election(leadership, election))
        await self._tasks.stop()

    async def _within(self, seconds: float, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            return  # what comes after it must have its turn too


async def _leave_election(leadership: LeaseElection, election: asyncio.Task[None]) -> None:
    await cancelled(election)
    await leadership.release()
