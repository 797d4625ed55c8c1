"""What the bench of endpoint probes measures in: a seed, its shoots, who is probed, and one process of the program."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.perf import children
from bench.perf.children import Child, child
from bench.perf.figures import Buckets
from bench.perf.program import program
from bench.perf.scrape import Scrape
from bench.perf.sides import Side, here
from bench.perf.steady import SETTLE, looks, since, started
from bench.perf.validity import Stretch, Watch

INTERVAL: Final = 10.0
"""Seconds between two looks at a shoot."""
MS: Final = 1e3
"""Milliseconds of a second."""
_NODES: Final = 10


@dataclass(frozen=True, slots=True)
class Found:
    """One process of the program, in its steady state."""

    cores: float
    looks: float
    runs: float
    """Of endpoint probes, those that succeeded."""
    failed: float
    """Probes that did not succeed."""
    asked: int
    """Connections that the servers of the probes have seen, or calls."""
    rss: float
    """MiB."""
    lag: Buckets
    stretch: Stretch

    def a_run(self, without: "Found") -> float:
        """Milliseconds of CPU of one run, what goes on without any left out."""
        return (self.cores - without.cores) * self.stretch.seconds / max(self.runs, 1) * MS


@dataclass(frozen=True, slots=True)
class Bench:
    """What is there for all measurements."""

    side: Side
    folder: Path
    load: Child
    targets: Child
    shoots: int
    seconds: float

    @property
    def ports(self) -> Mapping[str, int]:
        """Of the servers that probes ask, by name."""
        found: Mapping[str, int] = json.loads((self.folder / "targets.json").read_text())
        return found

    def measure(
        self, change: Callable[[dict[str, Any]], dict[str, Any]], flags: Sequence[str] = ()
    ) -> Found:
        """One process with this prober file."""
        self.load.ask("begin")
        with program(self.side, self.folder, INTERVAL, change, flags) as running:
            _ = started(self.load, running, self.shoots)
            time.sleep(SETTLE)
            asked, watch = _all(self.targets), Watch(self.load)
            before, cpu = running.scrape(), running.child.usage().cpu
            time.sleep(self.seconds)
            now, stretch, after = running.child.usage(), watch.end(), running.scrape()
        return Found(
            cores=(now.cpu - cpu) / stretch.seconds,
            looks=_looks(after) - _looks(before),
            runs=_runs(after) - _runs(before),
            failed=_failed(after) - _failed(before),
            asked=_all(self.targets) - asked,
            rss=now.rss,
            lag=since("dwd_probe_lag_seconds", before, after),
            stretch=stretch,
        )


def _looks(found: Scrape) -> float:
    return looks(found) + found.total("dwd_probes_total", probe="internal")


def _runs(found: Scrape) -> float:
    return found.total("dwd_probes_total", probe="endpoint", result="success")


def _failed(found: Scrape) -> float:
    return found.total("dwd_probes_total") - found.total("dwd_probes_total", result="success")


def _all(targets: Child) -> int:
    return sum(targets.ask("counts").values())


@contextmanager
def bench(shoots: int, seconds: float, *, endpoint_mode: bool) -> Iterator[Bench]:
    """The seed, its shoots, and the servers that probes ask."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="dwd-bench-")))
        load = children.load(folder, shoots, _NODES, endpoint_mode=endpoint_mode)
        command = ["-m", "bench.endpoints_targets", f"--folder={folder}"]
        targets = opened.enter_context(child("targets", command, folder, environ={}))
        targets.ready()
        yield Bench(here(), folder, opened.enter_context(load), targets, shoots, seconds)
