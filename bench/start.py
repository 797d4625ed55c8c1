"""How long a start takes: `python -m bench.start [--shoots 300 --rounds 5 --decided 500]`.

`dwd serve` as in a pod, with Gardener's flags, on the simulated seed over HTTPS, which is a process of its own.
Counted from the moment at which the process is made: until it says that it lives, that it is ready, and until its
metrics show that each shoot was looked at. Then what importing takes of that, and which modules. With `--decided` a
second time, with so many Pauses and so many ended ScaleRequests, and what they cost. Exit code 1 where it is not ready
in time.
"""

import argparse
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.api import target
from bench.api.target import Target
from bench.perf import scrape, usage
from bench.perf.children import ROOT
from bench.perf.figures import quantile

READY: Final = 3.0
"""Seconds: the bound."""
_OFTEN: Final = 0.02
_GIVEN_UP: Final = 60.0
_LINE: Final = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| ( *)(\S+)")
_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the beginning of the process."""

    alive: float
    ready: float
    looked: float
    cpu: float
    """Used until it was ready."""
    memory: float
    """MiB when each shoot was looked at."""


def answers(port: int, path: str) -> bool:
    """Whether this is answered with 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:  # refused, cut, or another status
        return False


def looked(found: Target, shoots: int) -> bool:
    """Whether each shoot has been looked at."""
    shown = scrape.scrape(found.metrics).by("namespace", "dwd_shoot_last_probe_timestamp_seconds")
    return len(shown) == shoots


def until(so: Callable[[], bool], began: float, often: float = _OFTEN) -> float:
    """Seconds since `began` when it was so."""
    while not so():
        if time.monotonic() - began > _GIVEN_UP:
            raise SystemExit(f"not within {_GIVEN_UP:g} s")
        time.sleep(often)
    return time.monotonic() - began


def measure(seed: target.Seed, shoots: int) -> Start:
    """One process, from its beginning until it has looked at every shoot."""
    began = time.monotonic()
    with target.program(seed) as found:
        alive = until(lambda: answers(found.health, "/livez"), began)
        ready = until(lambda: answers(found.health, "/readyz"), began)
        cpu = usage.of(found.pid).cpu
        all_looked = until(lambda: looked(found, shoots), began, often=0.25)
        memory = usage.of(found.pid).rss
    return Start(alive, ready, all_looked, cpu, memory)


def imports() -> list[tuple[float, str]]:
    """Milliseconds of each module with all that it imports for the first time, the longest first."""
    words = [
        sys.executable,
        "-X",
        "importtime",
        "-c",
        "import app.__main__, app.main, app.realcluster",
    ]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stderr  # noqa: S603 - our own
    found = [match for match in map(_LINE.match, told.splitlines()) if match is not None]
    return sorted(((int(each[2]) / 1e3, each[4]) for each in found), reverse=True)


def report(starts: Sequence[Start], shoots: int) -> bool:
    """Prints the table; whether the bound is kept."""
    print(f"| {shoots} shoots | p50 | longest |\n|---|---|---|")
    rows = {
        "alive": [each.alive for each in starts],
        "ready": [each.ready for each in starts],
        "each shoot looked at": [each.looked for each in starts],
        "CPU until ready": [each.cpu for each in starts],
    }
    for name, found in rows.items():
        print(f"| {name} | {quantile(found, 0.5):.2f} s | {max(found):.2f} s |")
    memory = [each.memory for each in starts]
    print(f"| memory then | {quantile(memory, 0.5):.1f} MiB | {max(memory):.1f} MiB |")
    good = max(rows["ready"]) <= READY
    print(f"ready within {READY:g} s: {'yes' if good else 'NO'}\n")
    return good


def main(words: Sequence[str] | None = None) -> int:
    """Reads the flags and runs."""
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=__doc__)
    parser.add_argument("--shoots", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--decided", type=int, default=0, help="of Pauses, and of ScaleRequests")
    options = parser.parse_args(words)
    good = True
    for decided in dict.fromkeys((0, options.decided)):
        with target.seed(options.shoots, services=options.shoots, decided=decided) as running:
            starts = [measure(running, options.shoots) for _ in range(options.rounds)]
        print(f"with {decided} Pauses and {decided} ended ScaleRequests" if decided else "")
        good = report(starts, options.shoots) and good
    print("| ms | imported, with what it imports first |\n|---|---|")
    for milliseconds, name in imports()[:_SHOWN]:
        print(f"| {milliseconds:.0f} | {name} |")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
