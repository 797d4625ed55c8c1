"""A strike at every boundary of every request of both flows, in turn; the program lists them itself.

One shoot loses its path for 100 s and gets it back.  It is played once to note every boundary that a request passes
while a flow runs, then once for each of them: the process is killed just there and followed by another one; or, with a
second instance beside it, it is stopped for as long as it takes to lose the Lease.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.workloads import ResourceRef
from app.core.records.notices import Notice
from app.core.simulation import manifests
from bench.exploration.line import Boundary, Passage
from bench.exploration.process import Process
from bench.exploration.recipe import CA, ETCD, KCM, MCM, Recipe, ShootRecipe
from bench.exploration.story import Story
from bench.exploration.world import Exploration

SHOOT: Final = "shoot--world--a"
_QUIET: Final = 60.0
_OUTAGE: Final = 100.0
_RECOVERY: Final = 90.0
"""The way up, and a strike in its midst, take no longer: from then on everything must become right."""
_RESTART: Final = 3.0
_PAUSE: Final = 20.0

POLICY: Final = ProberPolicy(
    kubeconfig_secret=manifests.SECRET_NAME,
    dependents=(
        DependentPolicy(KCM, ScalePolicy(0), ScalePolicy(1)),
        DependentPolicy(MCM, ScalePolicy(1, 5.0), ScalePolicy(0)),
        DependentPolicy(CA, ScalePolicy(2), ScalePolicy(0), optional=True),
        DependentPolicy(ETCD, ScalePolicy(3), ScalePolicy(2)),
    ),
    initial_delay=0.0,
)
COUNTS: Final[Mapping[str | ResourceRef, int]] = MappingProxyType({KCM: 3, MCM: 1, CA: 2, ETCD: 5})


class How(StrEnum):
    """What is done to the process."""

    KILL = "kill"
    PAUSE = "pause"
    """For longer than a term, while another instance waits to take over."""


@dataclass(frozen=True, slots=True)
class Case:
    """One boundary, and what is done there."""

    how: How
    process: str
    number: int
    boundary: Boundary
    what: str
    """The request, for people."""

    def __str__(self) -> str:
        return f"{self.how} of {self.process} at #{self.number} {self.what}, {self.boundary}"


class Outage(Exploration):
    """One outage, and at most one strike."""

    def __init__(self, how: How, case: Case | None = None) -> None:
        instances = 2 if how is How.PAUSE else 1
        shoot = ShootRecipe(SHOOT, nodes=5, counts=COUNTS)
        super().__init__(Recipe("boundaries", POLICY, (shoot,), instances=instances))
        self._how, self._case = how, case
        self.done = False
        """Whether the boundary was reached."""
        self._flows = 0
        self.passed: list[Case] = []
        """Every boundary that was passed while a flow ran."""

    async def _chaos(self) -> None:
        for instance in self.instances:
            instance.start()
        await self._pass(_QUIET)
        self.ledger.observe()
        fault = self.world.faults.path_cut(SHOOT)
        await self._pass(_OUTAGE)
        self._check_protected()
        self.ledger.observe()
        fault.lift()
        await self._pass(_RECOVERY)

    def _check_protected(self) -> None:
        up = [str(ref) for ref in COUNTS if self.world.replicas(SHOOT, ref)]
        if up:
            self._violated("what_was_begun_is_finished", f"{', '.join(up)} still up in the outage")

    def _passed(self, passage: Passage) -> None:
        super()._passed(passage)
        request = passage.request
        if self._flows:
            self.passed.append(
                Case(
                    self._how,
                    passage.process,
                    passage.number,
                    passage.boundary,
                    f"{request.host} {request.verb} {request.what}",
                )
            )
        if self._case is not None and not self.done:
            self._strike_at(passage, self._case)

    def _strike_at(self, passage: Passage, case: Case) -> None:
        place = (passage.process, passage.number, passage.boundary)
        if place != (case.process, case.number, case.boundary):
            return
        self.done = True
        (instance,) = (i for i in self.instances if i.process and i.process.name == case.process)
        if case.how is How.KILL:
            instance.kill(restart=_RESTART)
        else:
            instance.pause(_PAUSE)

    def _heard(self, process: Process, notice: Notice) -> None:
        super()._heard(process, notice)
        if not process.machine.alive:
            return
        if notice.reason == "FlowStarted":
            self._flows += 1
        elif notice.reason == "FlowEnded":
            self._flows -= 1


@lru_cache
def cases() -> tuple[Case, ...]:
    """All of them, in the order in which they are passed."""
    found: list[Case] = []
    for how in How:
        rehearsal = Outage(how)
        story = rehearsal.run()
        if story.violations:
            raise RuntimeError(f"the rehearsal failed: {story.violations[0]}")
        found += rehearsal.passed
    return tuple(found)


def play(case: Case) -> Story:
    """Plays one of them."""
    outage = Outage(case.how, case)
    story = outage.run()
    if not outage.done and not story.violations:
        raise RuntimeError(f"{case} was not reached")
    return story


def of_flows(every: tuple[Case, ...], how: How) -> tuple[int, ...]:
    """Which of these are at requests of the flow itself, not of what goes on beside it."""
    own = ("seed get etcd", "seed get deployments", "seed patch")
    return tuple(
        number for number, case in enumerate(every) if case.how is how and case.what.startswith(own)
    )
