"""The life of a service of each shape on a simulated seed, with free ports; and a client that asks what it serves."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType
from typing import Any

from app.core.clock import Clock
from app.core.kube.election import SoleOwner
from app.core.metrics import Metrics
from app.core.model.policy import Loop
from app.core.model.weeding import WeederPolicy
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from app.service.parts import Cluster, Configured, Core, ProberAdapters, WeederAdapters
from app.service.service import Service
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.memory import MemoryPlace
from app.simulation.process import SimulatedProcess
from app.simulation.server import MemoryServers
from tests.support.harness import GARDENER, SHOOT
from tests.support.weeding import GARDENER_WEEDER

FREE = dict.fromkeys(("metrics_bind_addr", "health_bind_addr", "api_bind_addr"), "127.0.0.1:0")
SERVERS = ("health", "metrics", "API")
PROBER, WEEDER, BOTH = (Loop.PROBER,), (Loop.WEEDER,), tuple(Loop)
"""The shapes of a process."""
FLOW_LIMIT, WHOLE = 0.7, 2.0
"""Seconds that a stop waits for the loops, and those that it takes at most."""
SERVICE = "kube-apiserver"
WEEDING = WeederPolicy({SERVICE: GARDENER_WEEDER.services[SERVICE]})
"""Gardener's: all of a control plane waits for kube-apiserver, but etcd and itself."""


async def nothing() -> None:
    return


@dataclass
class Life:
    """A service and what it lives on."""

    service: Any
    core: Core
    world: World
    cluster: Cluster

    async def ready(self) -> None:
        """Waits until it is."""
        async with asyncio.timeout(5):
            while (await self.get("health", "/readyz"))[0] != 200:  # noqa: ASYNC110 - nothing tells us
                await asyncio.sleep(0.02)

    async def get(self, server: str, path: str, host: str = "localhost") -> tuple[int, str]:
        """Status and body of what a server answers."""
        return await get(self.service.address(server), path, host)


def life(
    *,
    loops=PROBER,
    warnings=(),
    flags=MappingProxyType({}),
    scan=None,
    begin=nothing,
    troubled=lambda _: None,
    **adapters: Any,
) -> Life:
    """A service of these loops that was not started yet.

    Its watches open after `begin`; `flags` are values by name; `adapters` are fields of its Cluster; `troubled` is done
    to the faults of the world before.
    """
    clock = Clock.of_loop()
    core = Core(clock, Tasks(clock), Metrics(), NoticeBus(), Random(1))
    place = MemoryPlace()
    world = World(clock, core.tasks, seed=1, place=place)
    world.add_shoot(SHOOT, nodes=3)
    process = SimulatedProcess(
        MemoryServers(world, place),
        core,
        name="the service",
        user=WATCHDOG,
        prober=GARDENER if Loop.PROBER in loops else None,
        weeder=WEEDING if Loop.WEEDER in loops else None,
        **{**FREE, **flags},
    )
    real = process.adapters
    troubled(world.faults)

    async def begun() -> None:
        await begin()
        await real.begin()

    cluster = Cluster(
        begin=begun,
        end=nothing,
        close=real.close,
        identity="me",
        pauses=real.pauses,
        requests=real.requests,
    )
    configured = Configured(process.settings, "1.2.3", warnings=tuple(warnings))
    if real.prober is not None:
        prober = ProberAdapters(real.prober.seed, real.prober.connector, SoleOwner(), scan)
        cluster, configured = replace(cluster, prober=prober), replace(configured, prober=GARDENER)
    if real.weeder is not None:
        world.add_control_plane(SHOOT)
        weeder = WeederAdapters(real.weeder.seed, SoleOwner())
        cluster, configured = replace(cluster, weeder=weeder), replace(configured, weeder=WEEDING)
    cluster = replace(cluster, **adapters)
    return Life(Service(configured, core, cluster), core, world, cluster)


@asynccontextmanager
async def living(**options: Any) -> AsyncIterator[Life]:
    """A service from its start to its stop."""
    found = life(**options)
    try:
        await found.service.start()
        yield found
    finally:
        await found.service.stop("the test is over")


async def get(address: tuple[str, int], path: str, host: str = "localhost") -> tuple[int, str]:
    """Status and body."""
    return await call(address, "GET", path, host=host)


async def call(
    address: tuple[str, int], method: str, path: str, body: Any = None, host: str = "localhost"
) -> tuple[int, str]:
    """Status and body; `body` is sent as JSON."""
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    sent = "" if body is None else json.dumps(body)
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(sent)}"]
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(("\r\n".join(head) + "\r\n\r\n" + sent).encode())
        answer, _, received = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        await writer.wait_closed()
    return int(answer.split(" ")[1]), received


async def listens(address: tuple[str, int]) -> bool:
    """Whether somebody takes connections there."""
    try:
        _, writer = await asyncio.open_connection(*address)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


class Leaving:
    """The end of a cluster: when it came, and what it does."""

    def __init__(self, *, hangs=False, fails=None):
        self.at = None
        self.finished = False
        self._hangs, self._fails = hangs, fails

    async def __call__(self):
        self.at = asyncio.get_running_loop().time()
        if self._fails is not None:
            raise self._fails
        if self._hangs:
            await asyncio.sleep(60)
        self.finished = True


async def stopped(found):
    """Stops it; seconds from the signal, and the instant of the signal."""
    began = asyncio.get_running_loop().time()
    await found.service.stop("a signal")
    return asyncio.get_running_loop().time() - began, began
