"""One strike at one boundary of a request: which boundaries there are, the world notes itself when it is rehearsed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from bench.exploration.instances import Instance
from bench.exploration.line import Boundary, Passage
from bench.exploration.story import Story

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

    def __init__(self, how: How, case: Case | None = None) -> None:
        """`case`: where to strike; None: nowhere, only to note the boundaries."""
        self.how, self._case = how, case
        self.done = False
        """Whether the boundary was reached."""
        self.passed: list[Case] = []

    def note(self, passage: Passage) -> None:
        """It could be here."""
        request = passage.request
        what = f"{request.host} {request.verb} {request.what}"
        self.passed.append(Case(self.how, passage.process, passage.number, passage.boundary, what))

    def fall(self, passage: Passage, instances: Iterable[Instance[Any]]) -> None:
        """Strikes, where it is to be here."""
        case = self._case
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
