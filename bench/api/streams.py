"""A hundred streams of events: `python -m bench.api.streams [--shoots 500 --streams 100 --seconds 60]`.

`dwd serve` as in a pod, on the simulated seed; the clients are in this process. Five times a second somebody pauses a
shoot through the API and says in the reason when: that is the change whose way into the Pause, back through the
watch and out to each client is timed. After a third of the time the path of every tenth shoot is cut, so that scaling
runs, and hundreds of other events, come in between; after the second third it is mended. The same is run without any
stream first: what both differ by is what streams take.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass, field
from typing import Final

import uvloop

from bench.api import target
from bench.api.asking import Line, settled
from bench.api.target import ADMIN, Seed, Target
from bench.perf import scrape, usage
from bench.perf.figures import quantile
from bench.perf.steady import since
from bench.perf.validity import Stretch, Watch

_REACH, _RSS = 1.0, 50.0
"""Figure 2: seconds at p99, MiB more."""
_SETTLED: Final = 20.0
_EVERY: Final = 0.2
_EACH: Final = 10
"""Streams of one caller."""
_OUTAGE: Final = 10
"""Every so many shoots lose their path."""
_PAUSED: Final = 100
"""Shoots that are paused, one or the other."""


@dataclass(slots=True)
class Heard:
    """What one client heard."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    delays: list[float] = field(default_factory=list)
    events: int = 0
    bytes: int = 0


async def listen(port: int, caller: str, heard: Heard) -> None:
    """One client, until it is cancelled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    head = (
        f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {caller}\r\n\r\n"
    )
    writer.write(head.encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"a stream was refused: {answer!r}")
    heard.begun.set()
    try:
        await _hear(reader, heard)
    finally:
        writer.close()


async def _hear(reader: asyncio.StreamReader, heard: Heard) -> None:
    name = b""
    while line := await reader.readline():
        heard.bytes += len(line)
        if line.startswith(b"event: "):
            name = line[7:-1]
            heard.events += 1
        elif name == b"override" and line.startswith(b"data: "):
            after = json.loads(line[6:])["after"]
            if after is not None and "reason" in after:
                heard.delays.append(time.monotonic() - float(after["reason"]))
    raise SystemExit(f"a stream has ended with {name!r}")


async def pause(port: int) -> None:
    """Decides five times a second, for ever."""
    line, rng = await Line.to(port, ADMIN), random.Random(2)
    while True:
        path = f"/api/v1/shoots/{target.name(rng.randrange(_PAUSED))}/pause"
        order = {"scope": "scaleDown", "reason": repr(time.monotonic())}
        answer = await line.ask("PUT", path, order)
        if answer.status != 200:
            raise SystemExit(f"PUT {path}: {answer.status} {answer.body!r}")
        await asyncio.sleep(_EVERY)


@dataclass(frozen=True, slots=True)
class Taken:
    """What one run took."""

    heard: list[Heard]
    rss: float
    peak: float
    """MiB."""
    cpu: float
    """Of a core."""
    lag: float
    """Seconds, of probes, p99."""
    stretch: Stretch


async def measure(running: Seed, found: Target, streams: int, seconds: float) -> Taken:
    """Listens with so many streams while people decide and paths are cut."""
    heard = [Heard() for _ in range(streams)]
    clients = [
        asyncio.ensure_future(listen(found.api, caller(number), each))
        for number, each in enumerate(heard)
    ]
    await asyncio.gather(*(each.begun.wait() for each in heard))
    clients.append(asyncio.ensure_future(pause(found.api)))
    before, watch = await asyncio.to_thread(scrape.scrape, found.metrics), Watch(running.load)
    used = usage.of(found.pid)
    for command in ("cut", "mend", None):
        done, _ = await asyncio.wait(clients, timeout=seconds / 3)
        for each in done:
            await each
        if command is not None:
            await asyncio.to_thread(running.load.ask, command)
    now, stretch = usage.of(found.pid), await asyncio.to_thread(watch.end)
    after = await asyncio.to_thread(scrape.scrape, found.metrics)
    for each in clients:
        each.cancel()
    await asyncio.wait(clients)
    lag = since("dwd_probe_lag_seconds", before, after).quantile(0.99)
    return Taken(heard, now.rss, now.peak, (now.cpu - used.cpu) / seconds, lag, stretch)


def caller(number: int) -> str:
    """Whose stream this is."""
    return f"listener-{number // _EACH}"


def run(shoots: int, streams: int, seconds: float) -> Taken:
    """A fresh seed and a fresh process, settled, then measured."""
    viewers = tuple(sorted({caller(number) for number in range(streams)}))
    with (
        target.seed(shoots, cut_every=_OUTAGE) as running,
        target.program(running, viewers) as found,
    ):

        async def whole() -> Taken:
            await settled(found.api, ADMIN, shoots)
            await asyncio.sleep(_SETTLED)
            return await measure(running, found, streams, seconds)

        return uvloop.run(whole())


def judge(without: Taken, found: Taken) -> int:
    """Prints what it took; the exit code."""
    delays = [each for one in found.heard for each in one.delays]
    reach = {share: quantile(delays, share) for share in (0.5, 0.99, 1.0)}
    counts = sorted(each.events for each in found.heard)
    print(
        f"{len(counts)} streams, {counts[0]}-{counts[-1]} events each, "
        f"{sum(each.bytes for each in found.heard) / 2**20:.1f} MiB in all; {len(delays)} timed: "
        f"p50 {reach[0.5] * 1000:.0f} ms, p99 {reach[0.99] * 1000:.0f} ms, most {reach[1.0] * 1000:.0f} ms"
    )
    print(f"a core without and with streams: {without.cpu:.1%}, {found.cpu:.1%}")
    print(f"probe lag p99 without and with streams: {without.lag:.3f}, {found.lag:.3f} s")
    for doubt in (*without.stretch.doubts(), *found.stretch.doubts()):
        print(f"may be wrong, as {doubt}")
    more = found.peak - without.peak
    good = reach[0.99] <= _REACH and more <= _RSS
    print(
        f"p99 at most {_REACH:g} s, {_RSS:g} MiB more: {reach[0.99]:.3f}, "
        f"{more:.1f} (peaks {without.peak:.1f} and {found.peak:.1f}): {'yes' if good else 'NO'}",
        flush=True,
    )
    return 0 if good else 1


def main() -> int:
    """Reads the flags, measures without streams and with them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shoots", type=int, default=500)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    without = run(options.shoots, 0, options.seconds)
    return judge(without, run(options.shoots, options.streams, options.seconds))


if __name__ == "__main__":
    sys.exit(main())
