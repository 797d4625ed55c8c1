"""Two odd shoots among many: one whose server sends one byte a second, and one with 5,000 nodes."""

import time
from dataclasses import dataclass
from pathlib import Path

from bench.perf.children import Child
from bench.perf.figures import Buckets
from bench.perf.program import program
from bench.perf.sides import Side
from bench.perf.steady import SETTLE, Size, since, started
from bench.perf.validity import Stretch, Watch


@dataclass(frozen=True, slots=True)
class Odd:
    """How late looks began beside them."""

    lag: Buckets
    """Of all probes, those at the two odd ones too."""
    loop_lag: Buckets
    cores: float
    """That the program used."""
    peak: float
    """MiB."""
    stretch: Stretch


def measure_odd(side: Side, load: Child, folder: Path, size: Size, seconds: float) -> Odd:
    """A fresh process of one side, beside two odd shoots."""
    load.ask("begin")
    with program(side, folder, size.interval) as running:
        started(load, running, size.shoots)
        time.sleep(SETTLE)
        watch, before, cpu = Watch(load), running.scrape(), running.child.usage().cpu
        time.sleep(seconds)
        now, stretch, after = running.child.usage(), watch.end(), running.scrape()
    return Odd(
        since("dwd_probe_lag_seconds", before, after),
        since("dwd_event_loop_lag_seconds", before, after),
        (now.cpu - cpu) / stretch.seconds,
        now.peak,
        stretch,
    )
