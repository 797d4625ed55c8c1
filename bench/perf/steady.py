"""The steady state: what a probe costs, beside what its requests alone would cost; and how it began."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.perf import children, sockets
from bench.perf.children import Child, ChildFailed
from bench.perf.figures import Buckets
from bench.perf.program import Program, program
from bench.perf.scrape import Scrape
from bench.perf.sides import Side
from bench.perf.validity import Stretch, Watch

LOOKED_WITHIN: Final = 120.0
_POLL: Final = 0.2
SETTLE: Final = 25.0
"""Seconds after the first probes: until then leases are learnt, which takes looks of its own."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to look at."""

    shoots: int
    nodes: int
    interval: float = 10.0
    """Seconds between two probes."""


@dataclass(frozen=True, slots=True)
class Steady:
    """The program at one size."""

    probes: float
    cpu: float
    """Seconds per probe."""
    cores: float
    floor: float
    """Seconds per probe of the bare loop, at the same time."""
    requests: float
    """Per probe."""
    sent: float
    received: float
    """Bytes per probe, TLS included."""
    handshakes: float
    """Per probe."""
    rss: float
    peak: float
    """MiB."""
    lag: Buckets
    loop_lag: Buckets
    errors: float
    """Probes that failed, and requests to shoots without an answer."""
    stretch: Stretch


@dataclass(frozen=True, slots=True)
class Start:
    """From the start of the process to the first probe of the last shoot."""

    seconds: float
    rss: float
    """MiB, just after the last first probe."""


def started(load: Child, running: Program, shoots: int) -> Start:
    """Waits for the first probe of every shoot."""
    until = time.monotonic() + LOOKED_WITHIN
    while time.monotonic() < until:
        looked = load.ask("looked")
        if len(looked) == shoots:
            seconds = max(looked.values()) - running.child.started
            return Start(seconds, running.child.usage().rss)
        running.child.check()
        time.sleep(_POLL)
    raise ChildFailed(f"not every shoot was looked at within {LOOKED_WITHIN:g} s")


def measure(load: Child, running: Program, floor: Child, seconds: float) -> Steady:
    """Program and bare loop, both settled, for so many seconds side by side: what else the machine does hits both."""
    watch, before, open_before = Watch(load), running.scrape(), running.connections()
    cpu, floor_cpu = running.child.usage().cpu, floor.usage().cpu
    floor_probes = floor.ask("probes")
    time.sleep(seconds)
    now, floor_now = running.child.usage(), floor.usage()
    floor_probes = floor.ask("probes") - floor_probes
    stretch, after, open_after = watch.end(), running.scrape(), running.connections()
    probes = looks(after) - looks(before)
    sent, received = sockets.moved(open_before, open_after)
    requests = _requests(after) - _requests(before)
    return Steady(
        probes=probes,
        cpu=(now.cpu - cpu) / probes,
        cores=(now.cpu - cpu) / stretch.seconds,
        floor=(floor_now.cpu - floor_cpu) / floor_probes,
        requests=requests / probes,
        sent=sent / probes,
        received=received / probes,
        handshakes=stretch.counts["handshakes"] / probes,
        rss=now.rss,
        peak=now.peak,
        lag=since("dwd_probe_lag_seconds", before, after),
        loop_lag=since("dwd_event_loop_lag_seconds", before, after),
        errors=_errors(after) - _errors(before),
        stretch=stretch,
    )


def looks(found: Scrape) -> float:
    """How many probes there were: each asks for the version once."""
    return found.total("dwd_probes_total", probe="apiserver")


def _requests(found: Scrape) -> float:
    return found.total("rest_client_requests_total", host="shoot")


def since(histogram: str, before: Scrape, after: Scrape) -> Buckets:
    """What a histogram of the program observed between two scrapes."""
    return after.buckets(histogram).since(before.buckets(histogram))


def _errors(found: Scrape) -> float:
    good = found.total("dwd_probes_total", result="success")
    unanswered = found.total("rest_client_requests_total", host="shoot", code="<error>")
    return found.total("dwd_probes_total") - good + unanswered


def measure_program(
    side: Side, load: Child, folder: Path, size: Size, seconds: float
) -> tuple[Start, Steady]:
    """A fresh process of one side, from its start to the end of its steady state."""
    load.ask("begin")
    with program(side, folder, size.interval) as running:
        start = started(load, running, size.shoots)
        with children.bare(folder, size.interval) as floor:
            time.sleep(SETTLE)
            return start, measure(load, running, floor, seconds)
