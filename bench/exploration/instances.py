"""Instances of the watchdog, as a Deployment keeps them: each process that ends is followed by another one."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from app.core.clock import Clock
from app.core.tasks import Tasks
from bench.exploration.life import Life
from bench.exploration.line import Passage
from bench.exploration.timeline import Machine, Timeline

L = TypeVar("L", bound=Life)

_RESTART: Final = (0.5, 20.0)
_LONGEST_PAUSE: Final = 60.0
_AROUND_A_TERM: Final = (9.0, 18.0)
"""Pauses in which a term ends, but not much more."""
_IN_THE_MIDST: Final = 0.4
"""How often what begins is struck at one of the boundaries of its requests."""


@dataclass(slots=True, eq=False)
class Instance(Generic[L]):
    """One instance: a line of processes."""

    name: str
    make: Callable[[str, Machine, str], L]
    """A process from its name, its machine and its seed."""
    timeline: Timeline
    world: Machine
    """The world's own machine."""
    clock: Clock
    tasks: Tasks
    rng: random.Random
    seed: str
    log: Callable[[str, str], None]
    counts: dict[str, int]
    """How often what was done to processes."""
    woken: Callable[[L], None] = lambda _: None
    """Called right before a process goes on that stood still."""
    boundaries: int = 60
    """Among how many of them, from the beginning of something, it may be struck."""
    striking: bool = False
    """Whether its processes are struck."""
    process: L | None = None
    _runs: int = 0
    _restart_after: float = 0.1
    _fuse: int | None = None
    """After so many boundaries it is struck."""

    def start(self) -> None:
        """Starts the next process."""
        self._runs += 1
        name = f"{self.name}{self._runs}"
        machine = self.timeline.machine(name)
        process = self.process = self.make(name, machine, f"{self.seed}/{name}")
        machine.on_stray = process.failed
        self.log(name, "starts")
        process.start(lambda why: self._gone(process, why))

    def _gone(self, process: L, why: str) -> None:
        self.log(process.name, f"has ended: {why}")
        if self.process is process:
            self.process, self._fuse = None, None
            wait = self.rng.uniform(*_RESTART) if self.striking else self._restart_after
            _ = self.tasks.once(lambda: self._restart(wait), "restart")

    async def _restart(self, wait: float) -> None:
        await self.clock.sleep(wait)
        if self.process is None:
            self.start()

    # Strikes.

    def something_begins(self) -> None:
        """What its process begins now may be struck at one of the boundaries of its requests."""
        if self.striking and self.rng.random() < _IN_THE_MIDST:
            self._fuse = self.rng.randint(1, self.boundaries)

    def passed(self, passage: Passage) -> None:
        """A request of it passes a boundary."""
        if self._fuse is None or self.process is None or passage.process != self.process.name:
            return
        self._fuse -= 1
        if self._fuse <= 0:
            self._fuse = None
            self.strike()

    def strike(self) -> None:
        """Something is done to the process that runs."""
        if self.process is None or not self.striking:
            return
        how = self.rng.choice((self._kill, self._kill, self._terminate, self._pause))
        how(self.process)

    def kill(self, *, restart: float) -> None:
        """Kills the process that runs; another one follows after `restart` seconds."""
        self._restart_after = restart
        if self.process is not None:
            self._kill(self.process)

    def pause(self, seconds: float) -> None:
        """Stops the process that runs for so long."""
        if self.process is not None:
            self._stop_for(self.process, seconds)

    def _kill(self, process: L) -> None:
        self._note("killed")
        self.log(process.name, "is killed")
        process.kill()

    def _terminate(self, process: L) -> None:
        self._note("told to end")
        self.log(process.name, "is told to end")
        process.terminate()

    def _pause(self, process: L) -> None:
        if process.machine.paused:
            return
        seconds = self.rng.choice(
            (self.rng.uniform(*_AROUND_A_TERM), self.rng.uniform(0.5, _LONGEST_PAUSE))
        )
        self._stop_for(process, seconds)

    def _stop_for(self, process: L, seconds: float) -> None:
        self._note("stopped")
        self.log(process.name, f"stands still for {seconds:.3f} s")
        process.machine.pause()
        # A strike at a boundary runs on the machine that is stopped here: another one has to wake it.
        self.world.call_later(seconds, self._wake, process)

    def _wake(self, process: L) -> None:
        if process.machine.paused and process.machine.alive:
            self.log(process.name, "goes on")
            self.woken(process)
            process.machine.resume()

    def _note(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def leave_alone(self) -> None:
        """Nothing is done to it any more: what stands still goes on, what has ended starts at once."""
        self.striking, self._fuse = False, None
        if self.process is not None:
            self._wake(self.process)
        else:
            self.start()

    async def be_struck(self, every: float) -> None:
        """Strikes from time to time, for ever."""
        while True:
            await self.clock.sleep(self.rng.expovariate(1 / every))
            self.strike()
