"""One strike at one boundary of a request: which boundaries there are, the world notes itself when it is rehearsed.

To strike at all of them, a world is played once: at each boundary its process forks, and the child goes on with the
strike. What comes before the boundary, half of a play, is not played again and again.
"""

import asyncio
import os
import pickle
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

from bench.exploration.instances import Instance
from bench.exploration.line import Boundary, Passage
from bench.exploration.story import Story

T = TypeVar("T")
_RESTART: Final = 3.0
_PAUSE: Final = 20.0


class How(StrEnum):
    """What is done to the process."""

    KILL = "kill"
    PAUSE = "pause"
    """For longer than a term, while another instance waits to take over."""

    @property
    def instances(self) -> int:
        """How many it takes."""
        return 2 if self is How.PAUSE else 1


@dataclass(frozen=True, slots=True)
class Case:
    """One boundary, and what is done there."""

    how: How
    process: str
    number: int
    boundary: Boundary
    what: str
    """The request, for people."""
    world: str = ""
    """Which world it is in."""

    def __str__(self) -> str:
        where = f" in {self.world}" if self.world else ""
        return f"{self.how} of {self.process} at #{self.number} {self.what}, {self.boundary}{where}"


class Strike:
    """At most one, and every boundary at which it could be."""

    def __init__(
        self, how: How, case: Case | None = None, chosen: Callable[[Case], bool] | None = None
    ) -> None:
        """Prepares it.

        Args:
            how: what is done to the process.
            case: where to strike; None: nowhere, only to note the boundaries.
            chosen: asked at each boundary, whether to strike there after all.
        """
        self.how, self.case, self._chosen = how, case, chosen
        self.done = False
        """Whether the boundary was reached."""
        self.passed: list[Case] = []

    def note(self, passage: Passage) -> None:
        """It could be here."""
        request = passage.request
        what = f"{request.host} {request.verb} {request.what}"
        here = Case(self.how, passage.process, passage.number, passage.boundary, what)
        self.passed.append(here)
        if self.case is None and self._chosen is not None and self._chosen(here):
            self.case = here

    def fall(self, passage: Passage, instances: Iterable[Instance[Any]]) -> None:
        """Strikes, where it is to be here."""
        case = self.case
        place = (passage.process, passage.number, passage.boundary)
        if case is None or self.done or place != (case.process, case.number, case.boundary):
            return
        self.done = True
        (hit,) = (i for i in instances if i.process and i.process.name == case.process)
        if case.how is How.KILL:
            hit.kill(restart=_RESTART)
        else:
            hit.pause(_PAUSE)


class Struck(Protocol):
    """A world in which it strikes."""

    def run(self) -> Story:
        """Plays it."""
        ...


def rehearsed(world: Callable[[Strike], Struck], name: str = "") -> tuple[Case, ...]:
    """All cases of the world of this name, in the order in which they are passed.

    Raises:
        RuntimeError: something is wrong in it without any strike.
    """
    found: list[Case] = []
    for how in How:
        strike = Strike(how)
        story = world(strike).run()
        if story.violations:
            raise RuntimeError(f"the rehearsal failed: {story.violations[0]}")
        found += [replace(each, world=name) for each in strike.passed]
    return tuple(found)


def played(world: Callable[[Strike], Struck], case: Case) -> Story:
    """Plays one of them.

    Raises:
        RuntimeError: its boundary was not reached.
    """
    strike = Strike(case.how, case)
    story = world(strike).run()
    if not strike.done and not story.violations:
        raise RuntimeError(f"{case} was not reached")
    return story


def struck_everywhere(
    world: Callable[[Strike], Struck], name: str, jobs: int, what: Callable[[Case, Story], T]
) -> Iterator[T]:
    """`what` comes of each case of `rehearsed`, in their order; so many plays at once.

    Raises:
        RuntimeError: something is wrong in the world without any strike, or a play has ended without a result.
    """
    for how in How:
        branches = _Branches[T](jobs)
        strike = Strike(how, chosen=branches.off)
        try:
            story = world(strike).run()
            if strike.case is not None:
                branches.end(what(replace(strike.case, world=name), story))
        except BaseException:
            if strike.case is None:
                raise
            traceback.print_exc()
            os._exit(1)  # not on with what is the parent's
        yield from branches.results()
        if story.violations:
            raise RuntimeError(f"the rehearsal failed: {story.violations[0]}")


class _Branches(Generic[T]):
    """One play, and its continuations in processes of their own."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._to = -1
        """In a branch: where its result goes."""
        self._running: deque[tuple[int, int, Case]] = deque()
        self._results: list[T] = []
        self._failed: list[str] = []

    def off(self, case: Case) -> bool:
        """Branches off here, once there is room. Whether this is the branch."""
        while len(self._running) >= self._jobs:
            self._take()
        result, to = os.pipe()
        loop = asyncio.get_running_loop()
        if not (pid := os.fork()):
            asyncio._set_running_loop(loop)  # noqa: SLF001  which asyncio forgets in a child
            self._to = to
            return True
        os.close(to)
        self._running.append((pid, result, case))
        return False

    def end(self, result: T) -> NoReturn:
        """Ends this branch with its result."""
        with os.fdopen(self._to, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)

    def results(self) -> list[T]:
        """Of all branches, once they have ended.

        Raises:
            RuntimeError: one has ended without a result.
        """
        while self._running:
            self._take()
        if self._failed:
            raise RuntimeError("; ".join(self._failed))
        return self._results

    def _take(self) -> None:
        pid, result, case = self._running.popleft()
        with os.fdopen(result, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(pid, 0)
        if status:
            self._failed.append(f"{case} ended without a result: status {status}")
        else:
            self._results.append(pickle.loads(told))  # noqa: S301  our own
