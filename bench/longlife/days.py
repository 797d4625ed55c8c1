"""Days on virtual time.

The first hour is a storm: outages of all shoots and of all etcds fill what is bounded. At the end of each hour all
faults and wishes are over, so that each is measured in the same weather.
"""

import gc
import json
import random
import sys
import tempfile
import time
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import IO, TYPE_CHECKING, Final, cast
from unittest.mock import patch

from app.core.clock import Clock
from app.core.model.instants import rfc3339
from app.core.reporting import history
from app.prober import environment
from app.simulation.builders import World
from app.simulation.memory import MemoryPlace
from app.simulation.network import SEED
from app.simulation.server import MemoryServers, options
from app.simulation.store import ObjectKey
from app.weeder import recovery
from bench.exploration.life import ReportingTasks
from bench.exploration.play import EPOCH, silent, without_time
from bench.exploration.timeline import Timeline
from bench.longlife.measures import WINDOW, Hour, allocated, grown, kept, lines, verdict
from bench.longlife.program import Program
from bench.longlife.weather import Weather, born, die, storm

if TYPE_CHECKING:
    from app.simulation.faults import Fault
    from bench.exploration.process import Process

HOUR: Final = 3600.0
CALM: Final = 420.0
"""Seconds without a fault at the end of each hour: more than the longest back-off of a pod, or a recovery."""
OUTAGES: Final = 30
"""Of the storm: they fill what is bounded, of few shoots too."""
_PLACES: Final = 10
"""One shoot in so many is followed by another one every few hours; the others stay."""
_DUSK, _DAWN = 8, 16
"""Hours since the start, which is at noon."""
_SLEEPERS: Final = 5
"""One shoot in so many sleeps at night."""


@contextmanager
def _small(shoots: int) -> Iterator[None]:
    """Bounds that so few shoots would reach after days are so small that the first hours reach them."""
    with (
        patch.object(recovery, "_SERVICES", 2 * shoots + 10),  # instead of 1,000, gone ones too
        patch.object(recovery, "_PAST", 1),  # recoveries of each, instead of 5
        patch.object(environment, "_PAST", 20 * shoots),  # automatic runs, instead of 2,000
        patch.object(environment, "_BY_HAND", 50),  # scaling runs by hand, instead of 500
        patch.object(history, "_ENTRY_BYTES", 2_560),  # a tenth of the entries of each shoot
    ):
        yield


class LongLife:
    """A seed on virtual time, and the program that lives on it."""

    def __init__(self, shoots: int, seed: int, *, outages: int = OUTAGES) -> None:
        """Makes nothing yet.

        Args:
            shoots: how many there are at once.
            seed: of all chance.
            outages: those of the storm.
        """
        self._shoots, self._seed, self._outages = shoots, seed, outages
        self._timeline = Timeline()
        self._machine = self._timeline.machine("world")
        self._rng = random.Random(f"long life/{seed}")
        self._names = (f"shoot--long--{number:05}" for number in count())
        self._staying: list[str] = []
        self._passing: deque[str] = deque()
        """Those that are deleted soon, the oldest first."""
        self._asleep: list[Fault] = []
        self.strays: list[str] = []
        """What nobody has taken."""
        self._machine.on_stray = self.strays.append
        self._before = allocated()
        self.program: Program
        self.weather: Weather

    def live(
        self,
        hours: int,
        told: Callable[[int, Hour], None] = lambda _number, _hour: None,
        begun: Callable[["LongLife"], None] = lambda _: None,
    ) -> list[Hour]:
        """Lets so many hours pass; calls `told` after each, and `begun` when the program has started."""
        found: list[Hour] = []
        for second in range(4_096):
            rfc3339(EPOCH - second)  # fills its cache, as some hours would
        # What is kept is written away until the end: in memory it would be taken for something that grows.
        with tempfile.TemporaryFile("w+") as aside:
            with (
                silent(),
                without_time(self._machine.time),
                self._unraisable(),
                _small(self._shoots),
            ):
                try:
                    self._timeline.run(self._live(hours, found, aside, told, begun), self._machine)
                finally:
                    self._end()
            aside.seek(0)
            return [
                each._replace(kept=json.loads(line))
                for each, line in zip(found, aside, strict=True)
            ]

    @contextmanager
    def _unraisable(self) -> Iterator[None]:
        before = sys.unraisablehook
        sys.unraisablehook = lambda found: self.strays.append(
            f"{found.object!r}: {found.exc_value!r}"
        )
        try:
            yield
        finally:
            sys.unraisablehook = before

    def _end(self) -> None:
        program = self.program
        program.machine.destroy()
        program.process.network.stop()
        program.machine.at_burial = program.process.adapters.close
        program.machine.bury()
        self._machine.destroy()
        self._machine.bury()

    async def _live(
        self,
        hours: int,
        found: list[Hour],
        aside: IO[str],
        told: Callable[[int, Hour], None],
        begun: Callable[["LongLife"], None],
    ) -> None:
        clock = self.clock = Clock(EPOCH, self._machine.time)
        self._tasks = ReportingTasks(clock, self.strays.append)
        place = MemoryPlace()
        self.world = World(clock, self._tasks, seed=self._seed, place=place)
        passing = max(self._shoots // _PLACES, 1)
        self._staying = [self._born() for _ in range(self._shoots - passing)]
        self._passing.extend(self._born() for _ in range(passing))
        self.servers = MemoryServers(self.world, place, watch_delay=0.05)
        self.program = Program(self.servers, self._timeline.machine("program"), self.strays)
        processes = cast("Sequence[Process]", (self.program,))
        self.weather = Weather(self.world, self._tasks, self._rng, lambda: processes)
        await clock.sleep(60.0)
        begun(self)
        for number in range(1, hours + 1):
            await self._hour(number, clock.now() + HOUR)
            hour = self._measured()
            told(number, hour)
            aside.write(json.dumps(hour.kept) + "\n")
            found.append(hour._replace(kept={}))

    def _born(self) -> str:
        return born(self.world, self._rng, next(self._names))

    async def _hour(self, number: int, end: float) -> None:
        self._night((number - 1) % 24)
        if number == 1:
            names = [*self._staying, *self._passing]
            await storm(self.world, names, self._outages)
            end = max(end, self.clock.now() + CALM)
        else:
            doomed = self._passing.popleft()
            self.weather.begin([*self._staying, *self._passing])
            await die(self.world, self._rng, doomed)
            self._passing.append(self._born())
            await self.clock.sleep_until(end - CALM)
            self.weather.lift()
        await self.clock.sleep_until(end)

    def _night(self, hour: int) -> None:
        if hour == _DUSK:
            sleepers = self._staying[::_SLEEPERS]
            self._asleep = [self.world.faults.hibernated(name) for name in sleepers]
        elif hour == _DAWN:
            for each in self._asleep:
                each.lift()

    def _measured(self) -> Hour:
        self._tidy()
        program, watches = self.program, self.world.watches
        series, tasks = program.series(), len(program.machine.unfinished())
        self._machine.forget_ended()
        gc.collect()  # once neither machine holds an ended task any more
        memory = allocated() - self._before
        port = self.servers.place.port
        servers = [port(name) for name in (SEED, *self.world.shoots)]
        numbers = {
            "tasks": tasks,
            "watches": sum(map(watches.open_now, watches.most)),
            "connections": program.process.network.connections,
            "connections at servers": sum(each.connections for each in servers),
            "series": series,
        }
        return Hour(memory, numbers, kept())

    def _tidy(self) -> None:
        """The world forgets what it only remembers for those who judge it; Events live for an hour in a real seed."""
        options.parse.cache_clear()  # the path of each pod that there ever was
        world = self.world
        world.requests.reset()
        world.journal.clear()
        world.seed_pods.deletions.clear()
        world.seed_pods.kubelet.became_ready.clear()
        for event in world.store.list("Event"):
            key = event["metadata"]
            world.store.delete(ObjectKey("Event", key["namespace"], key["name"]))
        world.store.compact()
        for shoot in world.shoots.values():
            for kubelet in shoot.fleet.kubelets:
                kubelet.gaps.clear()
            shoot.store.compact()  # after its kubelets, which just caught up with their renewals


def live(days: float, shoots: int, seed: int, *, traced: bool = False) -> int:
    """Lives so many days; 1 if something has grown, or nobody has taken an exception.

    Args:
        days: how many.
        shoots: how many there are at once.
        seed: of all chance.
        traced: tells in the end which lines allocate more than in the beginning.
    """
    gc.set_threshold(100_000, 20, 20)  # what a world is made of lives long
    if traced:
        tracemalloc.start()
    life, began, marks = LongLife(shoots, seed), time.process_time(), list[Counter[str]]()

    def told(number: int, hour: Hour) -> None:
        print(f"hour {number} ({time.process_time() - began:,.0f} s of CPU): {hour}", flush=True)
        if traced and number in {min(WINDOW, hours // 2), hours}:
            marks.append(lines())

    hours = round(days * 24)
    found = grown(life.live(hours, told))
    print(f"drawn: {', '.join(f'{name} {n}' for name, n in sorted(life.weather.counts.items()))}")
    if traced:
        for line, more in (marks[1] - marks[0]).most_common(20):
            print(f"{more / 1024:,.0f} KiB more: {line}")
    return verdict(found, life.strays)
