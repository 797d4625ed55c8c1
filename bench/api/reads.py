"""What reading costs: `python -m bench.api.reads [--shoots 500 --seconds 60]`.

`dwd serve` as in a pod, on the simulated seed. First each call by itself, a few hundred times at a steady pace: how
long its caller waits, and what it takes of the process beyond what that takes anyway. Then 50 requests a second for
the shoots, for a minute, each at its own time whether the ones before were answered or not; meanwhile the lag of the
probes is read from the metrics.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import uvloop

from bench.api import target
from bench.api.asking import Line, settled
from bench.api.target import ADMIN, Seed, Target
from bench.perf import scrape, usage
from bench.perf.figures import quantile
from bench.perf.steady import since
from bench.perf.validity import Watch

_SERVICES: Final = 20
_FLOWS: Final = 20
_SETTLED: Final = 40.0
"""Seconds: Leases are learnt, scaling runs and recoveries have ended."""
_PACE, _OFTEN = 20.0, 50.0
"""Requests a second: of each call by itself, and for a minute."""
_LIVE: Final = 5.0
"""The same, of what asks the seed: that is asked 20 times a second at most."""
_EACH: Final = 200
_VIEWERS: Final = ("viewer-a", "viewer-b")
_LINES: Final = 10
_READ, _LAG = 0.05, 0.25
"""Figure 1: seconds."""
_SHOOTS: Final = "/api/v1/shoots"
_ONE: Final = f"{_SHOOTS}/{target.name(7)}"
_PATHS: Final = {
    "health": "/livez",
    "status": "/api/v1/status",
    "shoots, the default 100": _SHOOTS,
    "shoots, limit=500": f"{_SHOOTS}?limit=500",
    "shoots, limit=1": f"{_SHOOTS}?limit=1",
    "one shoot": _ONE,
    "its nodes": f"{_ONE}/nodes",
    "its history": f"{_ONE}/history",
    "its resources (live)": f"{_ONE}/resources",
    "operations": "/api/v1/operations",
    "weeders": "/api/v1/weeders",
    "openapi": "/openapi.json",
}


@dataclass(slots=True)
class Seen:
    """What callers saw."""

    waits: list[float] = field(default_factory=list)
    """Seconds, from when each request was due."""
    statuses: Counter[int] = field(default_factory=Counter)
    bytes: int = 0
    """Of the longest body."""


@dataclass(frozen=True, slots=True)
class Load:
    """A path, asked for at a steady pace."""

    path: str
    pace: float
    """Requests a second."""
    number: int

    async def run(self, port: int) -> Seen:
        """Asks, over some connections of some callers."""
        seen, began = Seen(), time.perf_counter() + 0.1
        turns = [
            self._line(port, _VIEWERS[each % len(_VIEWERS)], each, began, seen)
            for each in range(_LINES)
        ]
        await asyncio.gather(*turns)
        return seen

    async def _line(self, port: int, viewer: str, first: int, began: float, seen: Seen) -> None:
        line = await Line.to(port, viewer)
        for number in range(first, self.number, _LINES):
            due = began + number / self.pace
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            answer = await line.get(self.path)
            seen.waits.append(time.perf_counter() - due)
            seen.statuses[answer.status] += 1
            seen.bytes = max(seen.bytes, len(answer.body))
        line.close()


async def prepare(found: Target, shoots: int) -> None:
    """Waits until all shoots are healthy, then has people scale and weed, so that there is something to read."""
    await settled(found.api, ADMIN, shoots)
    line = await Line.to(found.api, ADMIN)
    order = {"direction": "up", "reason": "bench", "hold": "1m"}
    for number in range(_FLOWS):
        await _done(line, f"{_SHOOTS}/{target.name(number)}/scale", order)
    for number in range(_SERVICES):
        await _done(line, f"/api/v1/weeders/{target.name(number)}/kube-apiserver", None)
    line.close()
    await asyncio.sleep(_SETTLED)


async def _done(line: Line, path: str, order: object) -> None:
    answer = await line.ask("POST", path, order)
    if answer.status != 202:
        raise SystemExit(f"POST {path}: {answer.status} {answer.body[:500]!r}")


async def idle(found: Target) -> float:
    """What the process takes when nobody asks: a share of a core."""
    seconds = 2 * target.INTERVAL
    before = usage.of(found.pid).cpu
    await asyncio.sleep(seconds)
    return (usage.of(found.pid).cpu - before) / seconds


async def table(found: Target, pace: float, number: int) -> float:
    """Prints a row for each call; returns how long callers waited for the shoots, p99."""
    calm = await idle(found)
    print(f"nobody asks: {calm:.1%} of a core\n")
    print("| GET | KiB | ms CPU | waited p50/p99/max ms |\n|---|---|---|---|")
    shoots = 0.0
    for name, path in _PATHS.items():
        before, began = usage.of(found.pid).cpu, time.perf_counter()
        rate = _LIVE if path.endswith("/resources") else pace
        seen = await Load(path, rate, round(number * rate / pace)).run(found.api)
        seconds = time.perf_counter() - began
        cpu = (usage.of(found.pid).cpu - before - calm * seconds) / len(seen.waits)
        print(
            f"| {name} | {seen.bytes / 1024:.1f} | {cpu * 1e3:.2f} | {_waits(seen)} |", flush=True
        )
        _check(seen)
        if path == _SHOOTS:
            shoots = quantile(seen.waits, 0.99)
    return shoots


def _waits(seen: Seen) -> str:
    return "/".join(f"{quantile(seen.waits, share) * 1e3:.1f}" for share in (0.5, 0.99, 1.0))


def _check(seen: Seen) -> None:
    if set(seen.statuses) != {200}:
        raise SystemExit(f"not all were served: {dict(seen.statuses)}")


async def minute(found: Target, running: Seed, seconds: float) -> tuple[float, float]:
    """The shoots, 50 times a second; returns p99 of the lag of probes, and of how long callers waited."""
    watch = Watch(running.load)
    before, used = await asyncio.to_thread(scrape.scrape, found.metrics), usage.of(found.pid)
    seen = await Load(_SHOOTS, _OFTEN, int(_OFTEN * seconds)).run(found.api)
    now, after = usage.of(found.pid), await asyncio.to_thread(scrape.scrape, found.metrics)
    stretch = watch.end()
    lag = since("dwd_probe_lag_seconds", before, after)
    loop = since("dwd_event_loop_lag_seconds", before, after)
    print(
        f"\n{len(seen.waits)} requests for the shoots in {seconds:g} s, {seen.statuses[200]} served: waited "
        f"p50/p99/max {_waits(seen)} ms; probe lag p50/p99 {lag.quantile(0.5) * 1e3:.0f}/"
        f"{lag.quantile(0.99) * 1e3:.0f} ms, loop lag p99 {loop.quantile(0.99) * 1e3:.0f} ms; "
        f"{(now.cpu - used.cpu) / stretch.seconds:.0%} of a core; {now.rss:.0f} MiB (peak {now.peak:.0f}); "
        f"{stretch.idle:.0%} of the machine idle"
    )
    for doubt in stretch.doubts():
        print(f"may be wrong, as {doubt}")
    _check(seen)
    return lag.quantile(0.99), quantile(seen.waits, 0.99)


async def measure(found: Target, running: Seed, options: argparse.Namespace) -> int:
    """Everything; the exit code."""
    await prepare(found, options.shoots)
    alone = await table(found, options.pace, options.each)
    lag, _ = await minute(found, running, options.seconds)
    good = alone <= _READ and lag <= _LAG
    print(
        f"the shoots p99 at most {_READ * 1e3:.0f} ms: {alone * 1e3:.1f}; lag of probes p99 at most "
        f"{_LAG * 1e3:.0f} ms: {lag * 1e3:.0f}: {'yes' if good else 'NO'}",
        flush=True,
    )
    return 0 if good else 1


def main(words: Sequence[str] | None = None) -> int:
    """Reads the flags and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shoots", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pace", type=float, default=_PACE, help="of the table, a second")
    parser.add_argument("--each", type=int, default=_EACH, help="requests in a row of the table")
    options = parser.parse_args(words)
    with (
        target.seed(options.shoots, services=_SERVICES) as running,
        target.program(running, _VIEWERS) as found,
    ):
        return uvloop.run(measure(found, running, options))


if __name__ == "__main__":
    sys.exit(main())
