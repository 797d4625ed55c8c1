"""How soon waiting pods are deleted on a real kube-apiserver: `python -m bench.weeding.real [--runs N]`.

From the write of the EndpointSlice that makes a service ready to the first and the last of 50 pods of 10 owners
deleted, in one namespace: with the default rate of deletions, and with 100 a second. Times are the API server's own,
from its audit log. Exit code 0: the goals are reached.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.perf.figures import quantile
from bench.weeding.recoveries import EACH, OWNERS, Weeded, lone_seed, measured
from tests.e2e.controlplane import assets_in

FIRST_GOAL = 0.1


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table."""

    name: str
    flags: dict[str, str]
    last_goal: float


SETTINGS = (
    Setting("defaults (20 deletions a second)", {}, 3.0),
    Setting("--max-deletions-per-second=100", {"max_deletions_per_second": "100"}, 1.0),
)


async def measure(assets: Path, folder: Path, runs: int) -> dict[str, list[Weeded]]:
    """The recoveries of each setting."""
    found = {}
    async with lone_seed(assets, folder, []) as seed:
        for setting in SETTINGS:
            weeder = await seed.leader(**setting.flags)
            found[setting.name] = await measured(seed, weeder, runs)
            await weeder.terminate(within=5)
    return found


def tell(found: dict[str, list[Weeded]], runs: int) -> bool:
    """Prints the table; whether the goals were reached."""
    print(
        f"{OWNERS * EACH} pods of {OWNERS} owners, {runs} runs each, load {os.getloadavg()[0]:.1f}"
    )
    print("| setting | first p50 | first p99 | last p50 | last p99 | last goal |")
    print("|---|---|---|---|---|---|")
    reached = [_line(setting, found[setting.name]) for setting in SETTINGS]
    return all(reached)


def _line(setting: Setting, runs: Sequence[Weeded]) -> bool:
    firsts, lasts = [each.first for each in runs], [each.last for each in runs]
    cells = [f"{1000 * quantile(firsts, share):.0f} ms" for share in (0.5, 0.99)]
    cells += [f"{quantile(lasts, share):.2f} s" for share in (0.5, 0.99)]
    print(f"| {' | '.join([setting.name, *cells, f'{setting.last_goal:.0f} s'])} |")
    soon = quantile(firsts, 0.99) <= FIRST_GOAL
    return soon and quantile(lasts, 0.99) <= setting.last_goal


def main() -> int:
    """Measures and tells; the logs stay where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.weeding.real", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="of each setting")
    runs = parser.parse_args().runs
    assets = assets_in(os.environ.get("KUBEBUILDER_ASSETS"))
    if assets is None:
        print("KUBEBUILDER_ASSETS=$(hack/kube-assets etcd kube-apiserver)")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="weeding-"))
    print(f"logs: {folder}", file=sys.stderr)
    reached = tell(asyncio.run(measure(assets, folder, runs)), runs)
    if reached:
        shutil.rmtree(folder)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
