"""A world as it is played, whatever runs in it; it ends with the first invariant that does not hold."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from logging import CRITICAL
from types import SimpleNamespace
from typing import Any, ClassVar, Final, Generic, NoReturn, Protocol, TypeVar
from unittest.mock import patch
from uuid import UUID

import structlog

from app.core import clock as clock_module
from app.core.clock import Clock
from app.core.kube import resources, shoot
from app.core.tasks import Job
from app.prober import environment
from app.simulation.builders import World
from app.simulation.memory import MemoryPlace
from app.simulation.server import MemoryServers
from bench.exploration.director import Director
from bench.exploration.instances import Instance
from bench.exploration.life import Grounds, Life, ReportingTasks
from bench.exploration.line import GIVEN_UP, Boundary, Passage, ServedLines, Watcher
from bench.exploration.story import Story, Violation
from bench.exploration.timeline import Machine, Timeline, TimeStandsStill

EPOCH: Final = 1_800_000_000.0
_MOST: Final = 1
"""After so many violations a world ends: what follows is their consequence."""


def _silence(*_: object) -> NoReturn:
    raise structlog.DropEvent


@contextmanager
def silent() -> Iterator[None]:
    """Drops what the processes log: notices and strays tell the same."""
    before = structlog.get_config()
    structlog.configure(
        processors=[_silence], wrapper_class=structlog.make_filtering_bound_logger(CRITICAL)
    )
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def without_time(now: Callable[[], float]) -> Iterator[None]:
    """No code takes time, all clocks are the world's, and ids are as drawn: a world is the same each time."""
    stopped = SimpleNamespace(time=lambda: EPOCH + now(), monotonic=now, perf_counter=now)
    ids = random.Random("ids")
    with (
        patch.object(clock_module, "time", stopped),
        patch.object(environment, "uuid4", lambda: UUID(int=ids.getrandbits(128))),
    ):
        yield


class Played(Protocol):
    """What is known of a world before it is played."""

    @property
    def seed(self) -> str:
        """Of its chance."""
        ...

    @property
    def elected(self) -> bool:
        """Whether the instances elect a leader."""
        ...

    @property
    def page(self) -> int:
        """Objects of one page of a list."""
        ...

    @property
    def watch_delay(self) -> float:
        """Seconds from a change in the seed to its delivery."""
        ...


P = TypeVar("P", bound=Life)
R = TypeVar("R", bound=Played)


class Over(Exception):
    """An invariant was violated: the world need not go on."""


class Play(ABC, Generic[P, R]):
    """One world, whatever runs in it."""

    carries_on: ClassVar[bool] = False
    """Whether a write is always worked on that its client has given up; else that is drawn."""
    world: World
    instances: Sequence[Instance[P]] = ()
    director: Director[Any]

    def __init__(self, recipe: R, *, strikes: bool, every: float) -> None:
        """Prepares nothing yet.

        Args:
            recipe: what it is made of.
            strikes: whether processes are struck.
            every: seconds between two strikes at random times, on average.
        """
        self.story, self.recipe = Story(), recipe
        self._strikes, self._strike_every = strikes, every
        self._timeline = Timeline()
        self._machine: Machine = self._timeline.machine("world")
        self._machine.on_stray = lambda text: self._violated("the_world_itself_is_sound", text)

    @abstractmethod
    def _set_up(self, clock: Clock) -> None:
        """Makes the world, its instances and its director."""

    @abstractmethod
    async def _chaos(self) -> None:
        """Everything goes wrong."""

    @abstractmethod
    async def _settle(self) -> None:
        """Everything becomes right again."""

    def run(self) -> Story:
        """Lets it happen."""
        pages = self._in_pages(self.recipe.page)
        with silent():
            try:
                with without_time(self._machine.time), pages:
                    self._timeline.run(self._play(), self._machine)
            except TimeStandsStill as error:
                self._violated("no_loop_turns_on_the_spot", str(error))
            finally:
                self._bury()
        self.story.seconds = self._timeline.now
        return self.story

    @contextmanager
    def _in_pages(self, most: int) -> Iterator[None]:
        """Lists come in pages of so many objects, so that a small world has several."""
        with (
            patch.object(resources, "CLUSTER_PAGE", min(most, resources.CLUSTER_PAGE)),
            patch.object(resources, "POD_PAGE", min(most, resources.POD_PAGE)),
            patch.object(shoot, "PAGE", min(most, shoot.PAGE)),
        ):
            yield

    def _bury(self) -> None:
        for instance in self.instances:
            if instance.process is not None:
                instance.process.bury()
        self._machine.destroy()
        self._machine.bury()

    async def _play(self) -> None:
        clock = Clock(EPOCH, self._machine.time)
        self.tasks = ReportingTasks(
            clock, lambda text: self._violated("the_world_itself_is_sound", text)
        )
        self._set_up(clock)
        try:
            await self._chaos()
            await self._settle()
        except Over:
            return

    async def _go_wrong(self, seconds: float, *, faults: float, people: float) -> None:
        """Starts all instances, and draws faults and deeds for so long, so many seconds apart on average."""
        for instance in self.instances:
            instance.start()
            instance.striking = self._strikes
        going = [
            self.tasks.once(lambda: self.director.faults(faults), "faults"),
            self.tasks.once(lambda: self.director.people(people), "people"),
            *(self.tasks.once(self._struck(each), "strikes") for each in self.instances),
        ]
        await self._pass(seconds)
        for task in going:
            task.cancel()

    def _grounds(self, world: World, place: MemoryPlace, watcher: Watcher) -> Grounds:
        """What every process stands on: the API servers, on the world's own machine."""
        chance = None if self.carries_on else random.Random(f"{self.recipe.seed}/given up")
        lines = ServedLines(watcher, chance)
        servers = MemoryServers(world, place, lines, self.recipe.watch_delay)
        return Grounds(servers, lines, self._machine, self.recipe.elected)

    def _struck(self, instance: Instance[P]) -> Job:
        return lambda: instance.be_struck(self._strike_every)

    def _right_again(self) -> None:
        self.director.lift_all()
        for instance in self.instances:
            instance.leave_alone()
        self.log("world", "everything is right again")

    async def _pass(self, seconds: float) -> None:
        """Lets time pass, until an invariant does not hold."""
        until = self.world.clock.now() + seconds
        while (left := until - self.world.clock.now()) > 0:
            await self.world.clock.sleep(min(left, 1.0))
            self._each_second()
            if len(self.story.violations) >= _MOST:
                raise Over

    def _each_second(self) -> None:
        """Looks at what cannot be heard."""

    # What is heard of it.

    def log(self, who: str, text: str) -> None:
        """One more line."""
        self.story.log.append(f"{self._timeline.now:12.6f} {who:6} {text}")

    def _violated(self, name: str, detail: str) -> None:
        violation = Violation(self._timeline.now, name, detail)
        self.story.violations.append(violation)
        self.log("VIOLATION", str(violation))

    def _passed(self, passage: Passage) -> None:
        if passage.outcome == GIVEN_UP:
            return  # those of a process that ends are given up in any order
        if passage.boundary is Boundary.ANSWERED:
            self.story.requests += 1
            request = passage.request
            self.log(
                passage.process,
                f"#{passage.number} {request.host} {request.verb} {request.what} "
                f"{request.namespace}: {passage.outcome}",
            )
        for instance in self.instances:
            instance.passed(passage)

    def _something_begins(self, process: P) -> None:
        for instance in self.instances:
            if instance.process is process:
                instance.something_begins()

    def _failed(self, process: P, text: str) -> None:
        if process.machine.alive:
            self._violated("nothing_fails_that_was_not_foreseen", f"{process.name}: {text}")
