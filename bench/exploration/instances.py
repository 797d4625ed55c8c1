"""Instances of the watchdog, as a Deployment keeps them: each process that ends is followed by another one."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.core.records.notices import Notice
from app.core.runtime.clock import Clock
from app.core.runtime.tasks import Tasks
from bench.exploration.line import Passage
from bench.exploration.process import Process, Surroundings
from bench.exploration.timeline import Timeline

_RESTART: Final = (0.5, 20.0)
_LONGEST_PAUSE: Final = 60.0
_AROUND_A_TERM: Final = (9.0, 18.0)
"""Pauses in which a term ends, but not much more."""
_IN_A_FLOW: Final = 0.4
"""How often a flow is struck at one of the boundaries of its requests."""
_BOUNDARIES: Final = 60
"""Among how many of them, from its start."""


@dataclass(slots=True, eq=False)
class Instance:
    """One instance: a line of processes."""

    name: str
    around: Surroundings
    timeline: Timeline
    clock: Clock
    tasks: Tasks
    rng: random.Random
    seed: str
    log: Callable[[str, str], None]
    counts: dict[str, int]
    """How often what was done to processes."""
    striking: bool = False
    """Whether its processes are struck."""
    process: Process | None = None
    _runs: int = 0
    _restart_after: float = 0.1
    _fuse: int | None = None
    """After so many boundaries it is struck."""

    def start(self) -> None:
        """Starts the next process."""
        self._runs += 1
        name = f"{self.name}{self._runs}"
        machine = self.timeline.machine(name)
        process = self.process = Process(self.around, name, machine, f"{self.seed}/{name}")
        machine.on_stray = lambda text: self.around.failed(process, text)
        self.log(name, "starts")
        process.start(lambda why: self._gone(process, why))

    def _gone(self, process: Process, why: str) -> None:
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

    def heard(self, notice: Notice) -> None:
        """A flow that begins may be struck at one of its boundaries."""
        if self.striking and notice.reason == "FlowStarted" and self.rng.random() < _IN_A_FLOW:
            self._fuse = self.rng.randint(1, _BOUNDARIES)

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

    def _kill(self, process: Process) -> None:
        self._note("killed")
        self.log(process.name, "is killed")
        process.kill()

    def _terminate(self, process: Process) -> None:
        self._note("told to end")
        self.log(process.name, "is told to end")
        process.terminate()

    def _pause(self, process: Process) -> None:
        if process.machine.paused:
            return
        seconds = self.rng.choice(
            (self.rng.uniform(*_AROUND_A_TERM), self.rng.uniform(0.5, _LONGEST_PAUSE))
        )
        self._stop_for(process, seconds)

    def _stop_for(self, process: Process, seconds: float) -> None:
        self._note("stopped")
        self.log(process.name, f"stands still for {seconds:.3f} s")
        process.machine.pause()

        async def wake() -> None:
            await self.clock.sleep(seconds)
            self._wake(process)

        _ = self.tasks.once(wake, "wake")

    def _wake(self, process: Process) -> None:
        if process.machine.paused:
            self.log(process.name, "goes on")
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
