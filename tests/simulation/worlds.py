"""Worlds for tests, and the adapter of a process that looks at them.

Virtual time begins with the test itself, fixtures still live in real time; so a world is made inside the test.
"""

import inspect
import random
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from app.core.clock import Clock
from app.core.errors import NotFound
from app.core.kube.shoot import ShootCluster
from app.core.model.policy import ProberPolicy
from app.core.model.shoots import Route
from app.core.tasks import Tasks
from app.simulation import manifests
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.memory import MemoryPlace
from app.simulation.process import AMPLE, SimulatedProcess, core_of
from app.simulation.server import MemoryServers

Test = Callable[..., Awaitable[None]]
Provider = Callable[[World], Any]
_processes: WeakKeyDictionary[World, SimulatedProcess] = WeakKeyDictionary()


def about(instant: float) -> Any:
    """An instant or a duration, but for what a float of seconds since the epoch cannot hold."""
    return pytest.approx(instant, abs=1e-4)


def adapters(world: World) -> Any:
    """The `ProberAdapters` of a process in the world; no watch is open."""
    if world not in _processes:
        assert isinstance(world.place, MemoryPlace)
        endpoint_mode = Route.EXTERNAL in world.secret_names
        policy = ProberPolicy(
            manifests.SECRET_NAME,
            (),
            external_secret=manifests.EXTERNAL_SECRET_NAME if endpoint_mode else None,
        )
        _processes[world] = SimulatedProcess(
            MemoryServers(world, world.place),
            core_of(world.clock, world.tasks, random.Random(1)),
            name="the test",
            user=WATCHDOG,
            prober=policy,
            **AMPLE,
        )
    return _processes[world].adapters.prober


async def connect(world: World, namespace: str, route: Route = Route.INTERNAL) -> ShootCluster:
    """Connects to a shoot with the kubeconfig that is in its Secret now.

    Raises:
        NotFound: there is no such Secret.
        CredentialRefused: the kubeconfig is not acceptable.
    """
    secret = await adapters(world).seed.read_secret(namespace, route=route)
    if secret is None:
        raise NotFound(f"no Secret of {namespace} for the {route} route")
    found: ShootCluster = await adapters(world).connector.connect(secret)
    return found


async def disconnect() -> None:
    """Closes what `connect` has opened; a test that makes its worlds itself ends with it."""
    processes = list(_processes.values())
    _processes.clear()
    for process in processes:
        await process.kill()


def simulated(**providers: Provider) -> Callable[[Test], Test]:
    """A decorator: gives a test what it names of `clock`, `tasks`, `world` and `providers`; ends all tasks after it."""
    given: dict[str, Provider] = {
        "world": lambda world: world,
        "clock": lambda world: world.clock,
        "tasks": lambda world: world.tasks,
        **providers,
    }

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        own = [name for name in signature.parameters if name in given]

        @wraps(test)
        async def run(**others: Any) -> None:
            clock = Clock.of_loop()
            tasks = Tasks(clock)
            world = World(clock, tasks, seed=1, place=MemoryPlace())
            try:
                await test(**{name: given[name](world) for name in own}, **others)
            finally:
                await tasks.stop()
                await disconnect()

        left = [p for p in signature.parameters.values() if p.name not in given]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # what pytest reads
        return run

    return decorate
