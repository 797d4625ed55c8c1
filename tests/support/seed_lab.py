"""Simulated seeds on virtual time, and processes that reach them by the real adapter."""

import random
from typing import Any

from app.core.clock import Clock
from app.core.tasks import Tasks
from app.service.parts import Core
from app.simulation.builders import World
from app.simulation.memory import MemoryPlace
from app.simulation.process import AMPLE, SimulatedProcess, core_of
from app.simulation.server import MemoryServers


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
