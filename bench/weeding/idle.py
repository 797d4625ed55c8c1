"""The weeder with nothing to do: `python -m bench.weeding.idle [--services 0,1000 --minutes 2]`.

The program runs as it does in a pod, on the simulated seed over HTTPS, once for each number of services, all of them
ready for an hour. It prints its memory, its CPU, and each request that it made once it had settled.
"""

import argparse
import asyncio
import base64
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from app.core.clock import Clock
from app.core.tasks import Tasks
from app.simulation.builders import World
from app.simulation.server import Loopback, SimulatedServers
from app.simulation.workloads import API_SERVER, ETCD_SERVICE, ROLE, Workload
from bench.perf import scrape, usage
from bench.perf.children import ROOT
from bench.perf.program import FLAGS, free_port
from bench.perf.scrape import Scrape

_POD = ROOT / "bench" / "perf" / "pod.py"
_SETTLED = 10.0
_READS_A_SECOND = 50
"""Of the pods behind services, after the start."""
_RSS_MORE, _RSS = 20.0, 130.0
"""Figure 3 of the weeder's issue, MiB."""


def populate(world: World, services: int) -> None:
    """So many ready services, two in each namespace, one pod behind each."""
    for number in range(services):
        name = (ETCD_SERVICE, API_SERVER)[number % 2]
        labels = {ROLE: "controlplane", "role": "apiserver" if number % 2 else "main"}
        namespace = f"shoot--idle--{number // 2:04}"
        world.add_workload(Workload(namespace, name, labels=labels, service=name))


def reach(servers: SimulatedServers, folder: Path) -> dict[str, str]:
    """Writes a ServiceAccount's files; returns the environment of its pod."""
    config = yaml.safe_load(servers.kubeconfig())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    (folder / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    (folder / "token").write_text(user["token"])
    seed = urlsplit(cluster["server"])
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "KUBERNETES_SERVICE_HOST": seed.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(seed.port),
        "DWD_AUTH_MODE": "none",  # nobody calls its API
    }


def requests(found: Scrape) -> Counter[str]:
    """Requests to the seed, by method and code."""
    return Counter(
        {
            f"{each.labels['method']} {each.labels['code']}": round(each.value)
            for each in found.samples
            if each.name == "rest_client_requests_total"
        }
    )


async def measure(services: int, minutes: float) -> float:
    """Runs it, prints what it took, and returns its memory in MiB."""
    clock = Clock.system()
    tasks = Tasks(clock)
    world = World(clock, tasks, latency=0.0, place=(place := Loopback()))
    populate(world, services)
    servers = SimulatedServers(world, place)
    await servers.start()
    try:
        with tempfile.TemporaryDirectory(prefix="dwd-bench-") as made:
            return await _run(Path(made), reach(servers, Path(made)), services, minutes)
    finally:
        await servers.stop()
        await tasks.stop()


async def _run(folder: Path, environ: dict[str, str], services: int, minutes: float) -> float:
    ports = [free_port() for _ in range(3)]
    binds = zip(("metrics", "health", "api"), ports, strict=True)
    flags = [f"--{name}-bind-addr=127.0.0.1:{port}" for name, port in binds]
    file = f"--config-file={ROOT / 'config' / 'weeder.yaml'}"
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", str(_POD), str(folder), "weeder", file, *FLAGS, *flags,
            env=environ, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        await asyncio.sleep(_SETTLED + services / _READS_A_SECOND)
        before, used = await asyncio.to_thread(scrape.scrape, ports[0]), usage.of(process.pid)
        await asyncio.sleep(minutes * 60)
        after, now = await asyncio.to_thread(scrape.scrape, ports[0]), usage.of(process.pid)
    finally:
        process.terminate()
        await process.wait()
    made = requests(after) - requests(before)
    share = (now.cpu - used.cpu) / (minutes * 60)
    watches = after.total("dwd_weeder_watches_active")
    start = sum(requests(before).values())
    print(
        f"{services:>5} services: {now.rss:.1f} MiB (peak {now.peak:.1f}), {share:.2%} of a core, "
        f"{watches:.0f} pod watches; start: {start} requests; then in {minutes:g} min: {dict(made)}",
        flush=True,
    )
    return now.rss


async def run(numbers: list[int], minutes: float) -> int:
    """Measures each; the exit code."""
    found = [await measure(number, minutes) for number in numbers]
    more, most = max(found) - found[0], max(found)
    good = more <= _RSS_MORE and most <= _RSS
    verdict = "yes" if good else "NO"
    print(f"at most {_RSS_MORE:g} MiB more, {_RSS:g} MiB in all: {more:.1f}, {most:.1f}: {verdict}")
    return 0 if good else 1


def main() -> int:
    """Reads the flags and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", default="0,1000")
    parser.add_argument("--minutes", type=float, default=2.0)
    options = parser.parse_args()
    numbers = [int(each) for each in options.services.split(",")]
    return asyncio.run(run(numbers, options.minutes))


if __name__ == "__main__":
    sys.exit(main())
