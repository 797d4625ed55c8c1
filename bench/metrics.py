"""What a scrape costs: `python -m bench.metrics [--shoots 1000 --nodes 3 --scrapes 10]`.

A prober on a simulated seed, on virtual time, goes through the worst of the normal: each shoot has lost its nodes, was
protected and came back, its API server was away for a while, its nodes are lost again, and somebody paused it. So each
has every series that a shoot can have. Then the very objects that a process scrapes are served on a socket, and
scraped in both formats; between two scrapes all shoots are looked at anew, so that nothing is drawn already.

Two figures in milliseconds for one scrape: the CPU of the thread with the event loop, and the longest stretch for which
that did nothing else.
Exit code 1 where a bound is not kept.
"""

import argparse
import asyncio
import gc
import random
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple

import looptime
import uvloop

from app.api.application import create_metrics_app
from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.workloads import ResourceRef
from app.core.reporting.metering import Metering
from app.core.tasks import Tasks
from app.core.web.serving import HttpServer
from app.service.loops import OverrideFeature, ProberLoop
from app.service.parts import Configured
from app.simulation import manifests
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.memory import MemoryPlace
from app.simulation.process import AMPLE, SimulatedProcess, core_of
from app.simulation.server import MemoryServers
from app.simulation.timers import EXACT_TICK

SERIES, CPU, STRETCH = 15_000, 0.1, 0.1
"""The bounds: series of the process; seconds of one scrape."""
FORMATS: Final = {
    "text": "text/plain; version=0.0.4",
    "OpenMetrics": "application/openmetrics-text; version=1.0.0",
}
_LEARNT, _PROTECTED, _AWAY, _LOOKED = 70.0, 150.0, 65.0, 31.0
_BACK: Final = 240.0
"""Seconds for a thousand shoots, of which ten a second begin to come back."""
_BETWEEN: Final = 1.0
"""Seconds between two scrapes: one address may not ask more often for long."""
POLICY: Final = ProberPolicy(
    kubeconfig_secret=manifests.SECRET_NAME,
    dependents=tuple(
        DependentPolicy(ResourceRef("apps/v1", "Deployment", name), ScalePolicy(0), ScalePolicy(0))
        for name in (
            "kube-controller-manager",
            "machine-controller-manager",
            "cluster-autoscaler",
        )
    ),
)


class Cost(NamedTuple):
    """Of one scrape."""

    cpu: float
    stretch: float
    waited: float
    bytes: int
    series: int
    of_shoots: int


@dataclass(frozen=True, slots=True)
class Seed:
    """A world whose prober runs on virtual time, and what is scraped of it."""

    loop: asyncio.AbstractEventLoop
    world: World
    metrics: Metrics
    names: tuple[str, ...]

    def pass_time(self, seconds: float) -> None:
        """Lets so much virtual time go by."""
        self.loop.run_until_complete(self.world.clock.sleep(seconds))

    def close(self) -> None:
        """Ends everything in it."""
        self.loop.run_until_complete(self.world.tasks.stop())
        self.loop.close()


async def build(shoots: int, nodes: int) -> tuple[World, Metrics, tuple[str, ...]]:
    """The world and the prober, started."""
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    place = MemoryPlace()
    world = World(clock, tasks, seed=1, place=place)
    names = tuple(f"shoot--bench--{number:04}" for number in range(shoots))
    for name in names:
        world.add_shoot(name, nodes=nodes)
    core = core_of(clock, tasks, random.Random(1))
    servers = MemoryServers(world, place)
    process = SimulatedProcess(
        servers,
        core,
        name="bench",
        user=WATCHDOG,
        prober=POLICY,
        enable_leader_election=False,
        **AMPLE,
    )
    cluster = process.adapters
    if cluster.prober is None:
        raise RuntimeError("a process of the prober has its adapters")
    decisions = OverrideFeature(core, cluster, dry_run=False)
    metering = Metering(core.metrics)
    core.notice_bus.subscribe(metering.note)
    configured = Configured(process.settings, "bench")
    prober = ProberLoop(configured, POLICY, core, cluster.prober, decisions, metering)
    prober.show()
    decisions.start()
    await cluster.begin()
    prober.start()
    return world, core.metrics, names


def prepare(shoots: int, nodes: int) -> Seed:
    """A seed on which every shoot has been through everything."""
    loop = looptime.new_event_loop(resolution=EXACT_TICK)
    found = Seed(loop, *loop.run_until_complete(build(shoots, nodes)))
    faults = found.world.faults
    found.pass_time(_LEARNT)
    with ExitStack() as outage:
        for name in found.names:
            outage.enter_context(faults.path_cut(name))
        found.pass_time(_PROTECTED)
    found.pass_time(_BACK)
    with ExitStack() as away:
        for name in found.names:
            away.enter_context(faults.api_down(name))
        found.pass_time(_AWAY)
    found.pass_time(_LEARNT)
    for name in found.names:
        faults.path_cut(name)
    found.pass_time(_PROTECTED)
    until = rfc3339(found.world.clock.now() + 3600)
    for name in found.names:
        found.world.people.create("Pause", name, "bench", reason="bench", until=until)
    return found


class Scraper:
    """Serves the metrics on a socket, and asks for them from another thread."""

    def __init__(self, metrics: Metrics) -> None:
        clock = Clock.of_loop()
        self._server = HttpServer("metrics", create_metrics_app(metrics, clock.now), "127.0.0.1", 0)
        self._running = asyncio.ensure_future(self._server.run())

    async def close(self) -> None:
        """Ends the server."""
        self._server.stop()
        await self._running
        self._server.close()

    async def warm_up(self) -> None:
        """What happens once in the life of a process: the first request makes the application."""
        await asyncio.sleep(0.1)
        await asyncio.to_thread(self._ask, "text/plain")
        await asyncio.sleep(_BETWEEN)

    async def cost(self, accept: str) -> Cost:
        """One scrape for the CPU, one for the stretch: who looks for the one spoils the other."""
        body, cpu, waited = await self._cpu(accept)
        await asyncio.sleep(_BETWEEN)
        stretch = await self._stretch(accept)
        lines = [line for line in body.splitlines() if not line.startswith("#")]
        of_shoots = sum('namespace="' in line for line in lines)
        return Cost(cpu, stretch, waited, len(body), len(lines), of_shoots)

    async def _cpu(self, accept: str) -> tuple[str, float, float]:
        cpu, began = time.thread_time(), time.perf_counter()
        body = await asyncio.to_thread(self._ask, accept)
        return body, time.thread_time() - cpu, time.perf_counter() - began

    async def _stretch(self, accept: str) -> float:
        asked = asyncio.ensure_future(asyncio.to_thread(self._ask, accept))
        longest, before = 0.0, time.thread_time()
        while not asked.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now
        return longest

    def _ask(self, accept: str) -> str:
        url = "http://127.0.0.1:{1}/metrics".format(*self._server.address)
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept})) as got:  # noqa: S310 - our own server
            text: str = got.read().decode()
            return text


async def scrape(metrics: Metrics) -> dict[str, Cost]:
    """One cost for each format."""
    scraper = Scraper(metrics)
    await scraper.warm_up()
    found = {}
    for name, accept in FORMATS.items():
        found[name] = await scraper.cost(accept)
        await asyncio.sleep(_BETWEEN)
    await scraper.close()
    return found


def measure(found: Seed, scrapes: int) -> dict[str, list[Cost]]:
    """All probes of half a minute, a scrape, and again; the first of them warms up."""
    costs: dict[str, list[Cost]] = {name: [] for name in FORMATS}
    for number in range(scrapes + 1):
        found.pass_time(_LOOKED)
        gc.collect()
        gc.freeze()  # else a collection would go through the world, which is no part of what is measured
        for name, cost in uvloop.run(scrape(found.metrics)).items():
            if number > 0:
                costs[name].append(cost)
    return costs


def report(costs: dict[str, list[Cost]], shoots: int) -> bool:
    """Prints the table; whether all bounds are kept."""
    print(
        f"| {shoots} shoots | series | with a namespace | MiB | ms CPU p50/most | ms in one stretch p50/most |"
    )
    print("|---|---|---|---|---|---|")
    good = True
    for name, of_format in costs.items():
        last = of_format[-1]
        cpu, stretch = sorted(c.cpu for c in of_format), sorted(c.stretch for c in of_format)
        print(
            f"| {name} | {last.series:,} | {last.of_shoots:,} | {last.bytes / (1 << 20):.2f} | "
            f"{_ms(cpu)} | {_ms(stretch)} |"
        )
        good &= last.series <= SERIES and cpu[-1] <= CPU and stretch[-1] <= STRETCH
    print(f"at most {SERIES:,} series, {CPU * 1e3:.0f} ms: {'yes' if good else 'NO'}")
    return good


def _ms(found: Sequence[float]) -> str:
    return f"{found[len(found) // 2] * 1e3:.1f}/{found[-1] * 1e3:.1f}"


def main(words: Sequence[str] | None = None) -> int:
    """Reads the flags and runs."""
    parser = argparse.ArgumentParser(prog="python -m bench.metrics", description=__doc__)
    parser.add_argument("--shoots", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--scrapes", type=int, default=10, help="of each format")
    options = parser.parse_args(words)
    found = prepare(options.shoots, options.nodes)
    costs = measure(found, options.scrapes)
    found.close()
    return 0 if report(costs, options.shoots) else 1


if __name__ == "__main__":
    sys.exit(main())
