"""Hours of the real program: a process of `dwd serve` on a seed on loopback, with the same weather."""

import random
import tempfile
import time
import urllib.request
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from app.core.clock import Clock
from app.core.model.policy import Loop
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.faults import ConnectionFaults
from app.simulation.server import Loopback, SimulatedServers
from bench.longlife.measures import MOST, verdict
from bench.longlife.weather import Weather, born, die, storm
from bench.perf.children import ROOT, Child, child
from bench.perf.pipe import answer
from bench.perf.program import free_port

IN_MEMORY: Final = frozenset(name for name in vars(ConnectionFaults) if not name.startswith("_"))
"""Faults that only connections in memory have."""
_OUTAGES: Final = 2
"""The storm, in the first ten minutes: what a process once needed all at once stays with it."""
_WARM, _TEN = 60, 10
"""Minutes after which it is warm, and that are compared: the first after that, and the last."""
_COMES_EVERY: Final = 300.0
"""Seconds after which a shoot is followed by another one."""


def live_for_real(hours: float, shoots: int, seed: int) -> int:
    """Looks at a process of `dwd serve` for so many hours after a warm one; 1 if its memory has grown."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        folder = Path(place)
        command = ["-m", "bench.longlife", f"--serve={folder}"]
        command += [f"--shoots={shoots}", f"--seed={seed}"]
        load = running.enter_context(child("load", command, folder, environ={}))
        load.ready()
        ports = {name: free_port() for name in ("api", "health", "metrics")}
        words = ["-m", "app", "serve", f"--kubeconfig={folder / 'kubeconfig'}"]
        words += [f"--shoot-server-pattern={(folder / 'pattern').read_text()}"]
        words += [f"--{loop}-config-file={ROOT / 'config' / loop}.yaml" for loop in Loop]
        words += [f"--{name}-bind-addr=127.0.0.1:{port}" for name, port in ports.items()]
        words += ["--enable-leader-election=false", "--auth-mode=none"]
        program = running.enter_context(child("program", words, folder, environ={}))
        sizes = _sizes(program, ports, _WARM + round(hours * 60))
        print(f"drawn: {load.ask('drawn')}")
    before, after = median(sizes[_WARM : _WARM + _TEN]), median(sizes[-_TEN:])
    more = [f"VmRSS: {before:.1f} MiB, then {after:.1f} MiB"]
    print(*more)
    return verdict(more if after > before * MOST else [], ())


def _sizes(program: Child, ports: Mapping[str, int], minutes: int) -> list[float]:
    """VmRSS each minute, in MiB; each minute it is also scraped, and asked for all shoots."""
    found: list[float] = []
    for minute in range(1, minutes + 1):
        time.sleep(60.0)
        series = len(_got(ports["metrics"], "/metrics").splitlines())
        shoots = len(_got(ports["api"], "/api/v1/shoots"))
        found.append(program.usage().rss)
        text = f"{found[-1]:.1f} MiB, {series:,} lines of metrics, {shoots:,} bytes of shoots"
        print(f"minute {minute}: {text}", flush=True)
    return found


def _got(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        text: str = answer.read().decode()
        return text


async def serve(folder: Path, shoots: int, seed: int) -> None:
    """A seed with its weather on loopback, steered by lines on its pipe; `folder` gets what its client needs."""
    clock, rng = Clock.system(), random.Random(f"long life/{seed}")
    tasks, place = Tasks(clock), Loopback()
    world = World(clock, tasks, seed=seed, latency=0.0, place=place)
    names = [born(world, rng, f"shoot--long--{number:05}") for number in range(shoots)]
    servers = SimulatedServers(world, place)
    await servers.start()
    (folder / "kubeconfig").write_text(servers.kubeconfig())
    (folder / "pattern").write_text(servers.shoot_server_pattern)
    weather = Weather(world, tasks, rng, without=IN_MEMORY)
    passing = deque([names.pop()])

    async def come_and_go() -> None:
        for number in count(shoots):
            await clock.sleep(_COMES_EVERY)
            passing.append(born(world, rng, f"shoot--long--{number:05}"))
            await servers.start()
            await die(world, rng, passing.popleft())

    async def live() -> None:
        await storm(world, names, _OUTAGES)
        weather.begin(names)
        await come_and_go()

    _ = tasks.shared(live, "weather")
    print("ready", flush=True)
    await answer({"drawn": lambda: weather.counts})
    await tasks.stop()
    await servers.stop()
