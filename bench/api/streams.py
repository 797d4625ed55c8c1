"""A hundred streams of events: `python -m bench.api.streams [--shoots 500 --streams 100 --seconds 60]`.

The prober, its API and a simulated seed run in one process, the clients in another.  Five times a second somebody
pauses a shoot and says in the reason when: that is the change whose way to each client is timed.  In the middle of it
the path of every tenth shoot is cut, so that flows, and hundreds of other events, come in between.  The same is run
without any stream first: what both differ by is what streams take.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final

import uvloop
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import handle_problems
from app.api.routers import events
from app.api.streaming.streams import EventStreams
from app.api.views import Context, ProberView
from app.core.model.callers import Caller, Role
from app.core.model.loops import Loop
from app.core.model.overrides import Hold, Pause, Standing
from app.core.model.overrides import Scope as Held
from app.core.records.history import History
from app.core.records.metering import Metering
from app.core.records.notices import NoticeBoard
from app.core.runtime.clock import Clock
from app.core.runtime.metrics import Metrics
from app.core.runtime.serving import HttpServer
from app.core.runtime.tasks import Tasks
from app.core.simulation.builders import World
from app.prober.environment import Environment
from app.prober.pacing import TOGETHER, ProbeSlots, ScaleUpPace
from app.prober.prober import Prober
from app.service.selfview import Shoots
from bench.detection import GARDENER
from bench.perf import usage
from bench.perf.figures import quantile

_REACH, _RSS = 1.0, 50.0
"""Figure 2: seconds at p99, MiB more."""
_SETTLED: Final = 40.0
_EVERY: Final = 0.2
_EACH: Final = 10
"""Streams of one caller."""
_OUTAGE: Final = 10
"""Every so many shoots lose their path."""


@dataclass
class Decisions:
    """The overrides, in memory: only pauses of single shoots."""

    pauses: dict[str, Pause] = field(default_factory=dict)
    listeners: list[Callable[[], None]] = field(default_factory=list)
    synced: bool = True
    off: str | None = None

    def standing(self, namespace: str) -> Standing:
        """As the view has it; so the next three."""
        return Standing(self.pauses.get(namespace))

    def global_pause(self) -> Pause | None:
        """None."""
        return None

    def holds(self) -> Mapping[str, Hold]:
        """None."""
        return {}

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` hears of each decision."""
        self.listeners.append(listener)

    def decide(self, namespace: str, now: float) -> None:
        """Pauses it, or says anew why; the reason is the instant on the clock that all processes share."""
        reason = repr(time.monotonic())
        self.pauses[namespace] = Pause(Held.SCALE_DOWN, reason, "bench", now, now + 3_600)
        for each in self.listeners:
            each()


class Everybody:
    """Who may what, and who leads: everybody everything, and this process."""

    leading = True
    leader_identity = "bench"
    address = None

    @property
    def leaders(self) -> Mapping[Loop, "Everybody"]:
        """Of the prober: this process."""
        return {Loop.PROBER: self}

    async def check(self, *_: object) -> None:
        """Returns."""


class Measured:
    """What runs in the process that is measured: a prober on a simulated seed, and the streams."""

    def __init__(self, shoots: int) -> None:
        self.clock, self.decisions = Clock.system(), Decisions()
        self.tasks, self._board = Tasks(self.clock), NoticeBoard()
        self.world = World(self.clock, self.tasks, latency=0.02)
        self.names = [f"shoot--bench--{number:04}" for number in range(shoots)]
        for each in self.names:
            self.world.add_shoot(each)
        self._prober = self._make_prober()
        self.server = HttpServer("api", self._make_api(), "127.0.0.1", 0)

    def _make_prober(self) -> Prober:
        world, slots, pace = self.world, ProbeSlots(), ScaleUpPace()
        return Prober(
            Environment(
                GARDENER, world.seed, world.connector, world.ownership, self.clock, self.tasks,
                self._board, random.Random(1), slots, pace, overrides=self.decisions, together=TOGETHER,
            )
        )  # fmt: skip

    def _make_api(self) -> ASGIApp:
        prober, everybody, metrics, history = self._prober, Everybody(), Metrics(), History()
        view = ProberView(
            Shoots(prober.registry, history),
            GARDENER,
            self.decisions,
            prober.flows,
            prober.dependents,
        )
        context = Context(everybody, self.decisions, None, everybody, None, view)  # type: ignore[arg-type]  # no more is asked for
        self._streams = EventStreams(context, self.clock, random.Random(), metrics)
        for subscriber in (history.note, Metering(metrics).note, self._streams.note):
            self._board.subscribe(subscriber)
        self.world.seed.subscribe(self._streams.seed_changed)
        return _application(context, self._streams)

    def start(self) -> asyncio.Task[None]:
        """Starts everything; returns the server's task."""
        self._prober.start()
        self._streams.start(self.tasks)
        return asyncio.ensure_future(self.server.run())


async def serve(shoots: int, pipe: Connection) -> None:
    """Runs it until it is told to stop."""
    found, rng = Measured(shoots), random.Random(2)
    serving = found.start()
    pipe.send(found.server.address[1])
    cuts = [found.world.faults.path_cut(each) for each in found.names[::_OUTAGE]]
    word = ""
    while word != "stop":
        found.decisions.decide(rng.choice(found.names), found.clock.now())
        await asyncio.sleep(_EVERY)
        word = pipe.recv() if pipe.poll() else ""
        for each in cuts:
            if word == "cut":
                each.__enter__()
            elif word == "mend":
                each.__exit__(None, None, None)
    began = time.monotonic()
    found.server.stop()
    await serving
    pipe.send(time.monotonic() - began)
    await found.tasks.stop()


def _application(context: Context, streams: EventStreams) -> ASGIApp:
    app = FastAPI()
    app.state.context, app.state.streams = context, streams
    app.include_router(events.router)
    handle_problems(app)

    async def identified(scope: Scope, receive: Receive, send: Send) -> None:
        name = dict(scope["headers"]).get(b"x-caller", b"nobody").decode()
        scope["state"]["caller"] = Caller(name, Role.VIEWER)
        await app(scope, receive, send)

    return identified


def child(shoots: int, pipe: Connection) -> None:
    """Where that process begins."""
    uvloop.run(serve(shoots, pipe))


@dataclass(slots=True)
class Heard:
    """What one client heard."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    delays: list[float] = field(default_factory=list)
    events: int = 0
    bytes: int = 0
    ended: bool = False


async def listen(port: int, number: int, heard: Heard) -> None:
    """One client, until its stream ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    head = f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nX-Caller: caller-{number // _EACH}\r\n\r\n"
    writer.write(head.encode())
    if not (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200"):
        raise SystemExit("a stream was refused")
    heard.begun.set()
    name = b""
    while line := await reader.readline():
        heard.bytes += len(line)
        if line.startswith(b"event: "):
            name = line[7:-1]
            heard.events += 1
        elif name == b"override" and line.startswith(b"data: "):
            after = json.loads(line[6:])["after"]
            heard.delays.append(time.monotonic() - float(after["reason"]))
    heard.ended = name == b"end"
    writer.close()


@dataclass(frozen=True, slots=True)
class Taken:
    """What one run took."""

    heard: list[Heard]
    peak: float
    """MiB."""
    cpu: float
    """Of a core."""
    stopped: float
    """Seconds that the stop of the server took."""


async def measure(shoots: int, number: int, seconds: float) -> Taken:
    """Runs it with so many streams."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=child, args=(shoots, theirs))
    process.start()
    pid = process.pid or os.getpid()
    port = await asyncio.to_thread(ours.recv)
    await asyncio.sleep(_SETTLED)
    heard = [Heard() for _ in range(number)]
    clients = [asyncio.ensure_future(listen(port, n, each)) for n, each in enumerate(heard)]
    await asyncio.gather(*(each.begun.wait() for each in heard))
    before = usage.of(pid)
    for word in ("cut", "mend", "stop"):
        await asyncio.sleep(seconds / 3)
        after = usage.of(pid)
        ours.send(word)
    stopped = await asyncio.to_thread(ours.recv)
    await asyncio.gather(*clients)
    process.join()
    return Taken(heard, after.peak, (after.cpu - before.cpu) / seconds, stopped)


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
    ends = sum(each.ended for each in found.heard)
    print(f"the stop took {found.stopped:.2f} s; {ends} streams were told of it")
    print(f"a core without and with streams: {without.cpu:.1%}, {found.cpu:.1%}")
    more = found.peak - without.peak
    whole = counts[0] == counts[-1] and ends == len(counts)
    good = reach[0.99] <= _REACH and more <= _RSS and whole
    verdict = "yes" if good else "NO"
    print(
        f"p99 at most {_REACH:g} s, {_RSS:g} MiB more: {reach[0.99]:.3f}, "
        f"{more:.1f} ({without.peak:.1f} and {found.peak:.1f}): {verdict}",
        flush=True,
    )
    return 0 if good else 1


async def run(shoots: int, number: int, seconds: float) -> int:
    """Measures without streams and with them."""
    without = await measure(shoots, 0, seconds)
    return judge(without, await measure(shoots, number, seconds))


def main() -> int:
    """Reads the flags and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shoots", type=int, default=500)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    return asyncio.run(run(options.shoots, options.streams, options.seconds))


if __name__ == "__main__":
    sys.exit(main())
