"""`dwd serve` as a process of its own, on a simulated seed over HTTPS: what an operator's Prometheus meets."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from app.core.clock import Clock
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.server import Loopback, SimulatedServers
from app.simulation.workloads import API_SERVER, Workload
from tests.e2e.processes import Child, eventually, free_port

ROOT = Path(__file__).parents[2]
SHOOTS = ("shoot--local--a", "shoot--local--b")
_LIMIT = aiohttp.ClientTimeout(total=10)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    text: str
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Seeded:
    """The process, and the seed that it works on."""

    world: World
    child: Child
    ports: Mapping[str, int]
    """By the name of the server."""

    async def get(self, server: str, path: str, method: str = "GET", **headers: str) -> Answer:
        url = f"http://127.0.0.1:{self.ports[server]}{path}"
        async with (
            aiohttp.ClientSession(timeout=_LIMIT) as session,
            session.request(method, url, headers=headers) as answer,
        ):
            return Answer(answer.status, await answer.text(), answer.headers)

    async def metrics(self, accept: str = "", **headers: str) -> Answer:
        return await self.get("metrics", "/metrics", Accept=accept, **headers)

    async def is_ready(self) -> bool:
        try:
            return (await self.get("health", "/readyz")).status == 200
        except aiohttp.ClientError:
            assert self.child.running, self.child.log.read_text()
            return False

    async def probed(self) -> bool:
        """Whether each shoot has been looked at."""
        found = await self.get("metrics", "/metrics")
        return found.text.count("dwd_shoot_last_probe_timestamp_seconds{") == len(SHOOTS)


@asynccontextmanager
async def seeded(folder: Path, *flags: str) -> AsyncIterator[Seeded]:
    """Two shoots, a service whose pods are weeded, and the process with these flags; from ready to its end."""
    clock = Clock.system()
    tasks, place = Tasks(clock), Loopback()
    world = World(clock, tasks, seed=1, latency=0.0, place=place)
    for name in SHOOTS:
        world.add_shoot(name, nodes=3)
        world.add_workload(Workload(name, API_SERVER, service=API_SERVER))
    servers = SimulatedServers(world, place)
    await servers.start()
    config = folder / "kubeconfig"
    config.write_text(servers.kubeconfig())
    ports = {name: free_port() for name in ("api", "health", "metrics")}
    words = [
        *(sys.executable, "-m", "app", "serve"),
        *(f"--{loop}-config-file={ROOT / 'config' / loop}.yaml" for loop in ("prober", "weeder")),
        f"--kubeconfig={config}",
        f"--shoot-server-pattern={servers.shoot_server_pattern}",
        *("--kube-api-qps=1000", "--kube-api-burst=1000", "--enable-leader-election"),
        *(f"--{name}-bind-addr=127.0.0.1:{port}" for name, port in ports.items()),
        *flags,
    ]
    child = Child("serve", words, folder, environment={"PATH": os.environ["PATH"]})
    found = Seeded(world, child, ports)
    try:
        await child.start()
        await eventually(found.is_ready, "it is ready", within=60)
        yield found
    finally:
        await child.kill()
        await servers.stop()
        await tasks.stop()
        await asyncio.sleep(0)
