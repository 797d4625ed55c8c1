"""Simulated seeds on virtual time, processes that reach them by the real adapter, and how to wait for what they do."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from app.core.clock import Clock
from app.core.reporting.notices import Notice
from app.core.tasks import Tasks
from app.service.parts import Core
from app.simulation.builders import World
from app.simulation.memory import MemoryPlace
from app.simulation.process import AMPLE, SimulatedProcess, core_of
from app.simulation.server import MemoryServers
from tests.support.doubles import SetLeadership

PLACE = "shoot--local--a"
"""The namespace of the usual shoot."""


class SeedLab:
    """Makes worlds with their API servers, and the adapters of processes on them."""

    def __init__(self, tasks: Tasks, clock: Clock) -> None:
        self.tasks, self.clock = tasks, clock
        self._servers: dict[int, MemoryServers] = {}
        self._processes = 0

    def world(self, *, seed: int = 1, watch_delay: float = 0.0, **options) -> World:
        place = MemoryPlace()
        world = World(self.clock, self.tasks, seed=seed, place=place, **options)
        self.serve(world, MemoryServers(world, place, watch_delay=watch_delay))
        return world

    def serve(self, world: World, servers: MemoryServers) -> None:
        """Takes a world that was made elsewhere, with its API servers."""
        self._servers[id(world)] = servers

    def core(self) -> Core:
        """What the parts of a new process share."""
        return core_of(self.clock, Tasks(self.clock), random.Random(7))

    def process(self, world: World, core: Core, user: str, **loops: Any) -> SimulatedProcess:
        """A process of `user` on the API servers of `world`; `loops` are the policies of those that run in it."""
        self._processes += 1
        name = f"{user} {self._processes}"
        return SimulatedProcess(
            self._servers[id(world)], core, name=name, user=user, **AMPLE, **loops
        )


_SETTLING: Counter[int] = Counter()
"""How many tasks of an event loop wait for the present instant to end."""


async def wait_until(so: Callable[[], object], within: float) -> None:
    """Waits until `so` is true, for at most `within` seconds.

    Something changes only where a timer fires, so this asks at each instant that has one, after everything of that
    instant has run. A poll each 10 ms took most of the time of the tests that wait for minutes.
    """
    loop: Any = asyncio.get_running_loop()
    last = loop.time() + within
    while True:
        await _settled(loop)
        if so():
            return
        now = loop.time()
        assert now < last, f"not within {within:g} s"
        timers = (timer.when() for timer in loop._scheduled[:1])
        await asyncio.sleep(min(max(next(timers, last), now), last) - now)


async def _settled(loop: Any) -> None:
    """Waits until nothing is left to run at this instant but others that wait for the same."""
    _SETTLING[id(loop)] += 1
    try:
        while len(loop._ready) >= _SETTLING[id(loop)]:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    finally:
        _SETTLING[id(loop)] -= 1


class ProcessHarness:
    """A process on a world, and what it told: what the harnesses of the two loops have in common."""

    world: World
    process: SimulatedProcess
    environment: Any
    notices: list[Notice]

    @property
    def clock(self) -> Clock:
        return self.world.clock

    @property
    def now(self) -> float:
        return self.world.clock.now()

    @property
    def leadership(self) -> SetLeadership:
        leadership = self.environment.leadership
        assert isinstance(leadership, SetLeadership)
        return leadership

    async def run(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    async def until(self, so: Callable[[], object], within: float = 60.0) -> float:
        """Waits until it is `so`; the instant at which it was."""
        await wait_until(so, within)
        return self.now

    async def kill(self) -> None:
        """Ends the process as kill -9 does: nothing is finished."""
        await self.process.kill()

    def reasons(self, namespace: str = PLACE) -> list[str]:
        return [notice.reason for notice in self.notices if notice.namespace == namespace]

    def told(self, reason: str, namespace: str = PLACE) -> list[Notice]:
        """The notices with this reason."""
        return [n for n in self.notices if n.reason == reason and n.namespace == namespace]
