"""What a request costs that the real adapter sends to the simulated API servers in memory, both sides together.

python -m bench.seam [--shoots 30] [--minutes 10]
"""

import argparse
import asyncio
import random
import time
from typing import Any

from app.core.clock import Clock
from app.core.model.policy import DependentPolicy, ProberPolicy
from app.core.tasks import Tasks
from app.simulation import manifests
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.memory import MemoryPlace
from app.simulation.process import SimulatedProcess, core_of
from app.simulation.server import MemoryServers
from bench.exploration.recipe import KCM
from bench.exploration.timeline import Timeline

_POLICY = ProberPolicy(manifests.SECRET_NAME, (DependentPolicy(KCM),))


def main() -> None:
    """Probes shoots every ten seconds on virtual time, and prints what that took."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    asked.add_argument("--shoots", type=int, default=30)
    asked.add_argument("--minutes", type=int, default=10)
    options = asked.parse_args()
    timeline = Timeline()
    machine = timeline.machine("all")
    measured: dict[str, float] = {}
    timeline.run(_measure(options.shoots, options.minutes * 60.0, measured, timeline), machine)
    machine.destroy()
    machine.bury()
    for what, micros in measured.items():
        print(f"{what}: {micros:.0f} µs of CPU each")


async def _measure(
    shoots: int, seconds: float, measured: dict[str, float], timeline: Timeline
) -> None:
    clock = Clock(0.0, lambda: timeline.now)
    tasks, place = Tasks(clock), MemoryPlace()
    world = World(clock, tasks, seed=1, place=place)
    names = [f"shoot--bench--{number}" for number in range(shoots)]
    for name in names:
        world.add_shoot(name, nodes=10)
    servers = MemoryServers(world, place)
    core = core_of(clock, tasks, random.Random(1))
    process = SimulatedProcess(
        servers, core, name="a", user=WATCHDOG, prober=_POLICY, kube_api_qps=1e6, kube_api_burst=1e6
    )
    adapters: Any = process.adapters.prober
    links = [await adapters.connector.connect(await adapters.seed.read_secret(n)) for n in names]

    async def probe(link: Any) -> None:  # noqa: ANN401  a ShootCluster
        for _ in range(int(seconds / 10)):
            await link.version()
            await link.leases()
            await clock.sleep(10)

    async def read(name: str) -> None:
        for _ in range(int(seconds / 10)):
            await adapters.seed.read_dependent(name, KCM)
            await clock.sleep(10)

    for what, work, each in (
        ("a probe's request", [probe(link) for link in links], 2),
        ("a read of the seed", [read(name) for name in names], 1),
    ):
        begun = time.process_time()
        await asyncio.gather(*work)
        requests = shoots * int(seconds / 10) * each
        measured[what] = (time.process_time() - begun) / requests * 1e6
    await process.adapters.close()
    await tasks.stop()


if __name__ == "__main__":
    main()
