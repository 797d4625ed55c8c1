"""A watchdog on the event loop: for how long it was kept from everybody else, and by what.

What is measured is the CPU time of the loop's own thread between two of its turns, so that a busy machine holds
nothing.
Calls that block without working are another test's (`blockbuster`, in the root conftest).
"""

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

MOST = 0.05
"""Seconds for which the input of an outsider may hold the loop."""
_EVERY = 0.001
_OFTEN = 0.005
_WORTH_A_LOOK = 0.012


@dataclass(frozen=True)
class Hold:
    """One stretch without a turn for anybody else."""

    seconds: float
    by: str
    """Who was charged for most of it, where anybody was."""
    where: str
    """What ran in the midst of it, the innermost first; empty where it was too short to be seen."""

    def __str__(self) -> str:
        return f"{self.seconds * 1e3:.0f} ms by {self.by or 'nobody known'}, in {self.where or '?'}"


class Watchdog:
    """Watches the running loop."""

    def __init__(self, spent: Callable[[], Mapping[str, float]] = dict) -> None:
        """`spent`: the time that each of those who are charged for theirs has taken so far."""
        self.holds: list[Hold] = []
        """Stalls that are long enough to be reported."""
        self._spent, self._before = spent, dict(spent())
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._worked = time.thread_time()
        self._turned = time.monotonic()
        self._where = ""
        self._over = threading.Event()

    @property
    def worst(self) -> Hold:
        return max(self.holds, key=lambda hold: hold.seconds, default=Hold(0.0, "", ""))

    @property
    def too_long(self) -> list[str]:
        """Every hold that no outsider may bring about."""
        return [str(hold) for hold in self.holds if hold.seconds > MOST]

    def start(self) -> None:
        threading.Thread(target=self._sample, daemon=True).start()
        self._turn()

    def stop(self) -> None:
        self._note()
        self._over.set()

    def _turn(self) -> None:
        if not self._over.is_set():
            self._note()
            self._loop.call_later(_EVERY, self._turn)

    def _note(self) -> None:
        worked, before = time.thread_time(), self._worked
        if worked - before > _WORTH_A_LOOK:
            now = dict(self._spent())
            taken = {who: now[who] - self._before.get(who, 0.0) for who in now}
            by = max(taken, key=lambda who: taken[who], default="")
            self.holds.append(Hold(worked - before, by if taken.get(by) else "", self._where))
        self._before = dict(self._spent())
        self._where, self._turned, self._worked = "", time.monotonic(), time.thread_time()

    def _sample(self) -> None:
        while not self._over.wait(_OFTEN):
            if not self._where and time.monotonic() - self._turned > _WORTH_A_LOOK:
                frames = traceback.extract_stack(sys._current_frames()[self._thread])
                innermost = reversed([each for each in frames if "/asyncio/" not in each.filename])
                self._where = " < ".join(
                    f"{each.filename.rpartition('/')[2]}:{each.lineno} {each.name}"
                    for _, each in zip(range(4), innermost, strict=False)
                )


@contextmanager
def watched(spent: Callable[[], Mapping[str, float]] = dict) -> Iterator[Watchdog]:
    """Watches the loop for as long as it is entered; what was made before is no garbage to look through."""
    gc.collect()
    gc.freeze()  # as the program does when it has started
    found = Watchdog(spent)
    found.start()
    try:
        yield found
    finally:
        found.stop()
        gc.unfreeze()


def on_uvloop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs it as the program runs: uvloop hands over more at a time."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)
