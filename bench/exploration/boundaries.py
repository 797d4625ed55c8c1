"""A strike at every boundary of every request of both scaling runs, in turn; the program lists them itself.

One shoot loses its path for 100 s and gets it back, once in lease mode and once in endpoint mode; and once somebody
scales it down and up with ScaleRequests. It is played once to note every boundary that a request passes while a scaling
run runs, then once for each of them: the process is killed
just there and followed by another one; or, with a second instance beside it, it is stopped for as long as it takes to
lose the Lease.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeVar

from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.workloads import ResourceRef
from app.core.reporting.notices import Notice
from app.simulation import manifests
from app.simulation.traffic import Host
from bench.exploration.facts import OverrideChange
from bench.exploration.line import Passage
from bench.exploration.process import Process
from bench.exploration.recipe import CA, ETCD, KCM, MCM, Recipe, ShootRecipe
from bench.exploration.story import Story
from bench.exploration.strikes import Case, How, Strike, played, rehearsed, struck_everywhere
from bench.exploration.world import Exploration

T = TypeVar("T")
SHOOT: Final = "shoot--world--a"
_QUIET: Final = 60.0
_OUTAGE: Final = 100.0
_RECOVERY: Final = 90.0
"""The way up, and a strike in its midst, take no longer: from then on everything must become right."""

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


class Outage(Exploration):
    """One outage, and at most one strike."""

    carries_on = True
    policy = POLICY

    def __init__(self, strike: Strike) -> None:
        shoot = ShootRecipe(SHOOT, nodes=5, counts=COUNTS)
        instances = strike.how.instances
        super().__init__(Recipe("boundaries", self.policy, (shoot,), instances=instances))
        self._strike = strike
        self._flows = 0

    async def _chaos(self) -> None:
        for instance in self.instances:
            instance.start()
        await self._pass(_QUIET)
        self.ledger.observe()
        bring_back = self._take_down()
        await self._pass(_OUTAGE)
        self._check_protected()
        self.ledger.observe()
        _ = bring_back()
        await self._pass(_RECOVERY)

    def _take_down(self) -> Callable[[], object]:
        """Begins the outage; returns what ends it."""
        return self.world.faults.path_cut(SHOOT).lift

    def _check_protected(self) -> None:
        up = [str(ref) for ref in COUNTS if self.world.replicas(SHOOT, ref)]
        if up:
            self._violated("what_was_begun_is_finished", f"{', '.join(up)} still up in the outage")

    def _passed(self, passage: Passage) -> None:
        super()._passed(passage)
        if self._flows and self._notes(passage):
            self._strike.note(passage)
        self._strike.fall(passage, self.instances)

    def _notes(self, passage: Passage) -> bool:
        """Whether a strike could be here."""
        del passage
        return True

    def _heard(self, process: Process, notice: Notice) -> None:
        super()._heard(process, notice)
        if not process.machine.alive:
            return
        if notice.reason == "FlowStarted":
            self._flows += 1
        elif notice.reason == "FlowEnded":
            self._flows -= 1


class PathOutage(Outage):
    """The same where two paths decide."""

    policy = replace(POLICY, external_secret=manifests.EXTERNAL_SECRET_NAME, failure_threshold=3)


class ByHand(Outage):
    """Nothing goes wrong; somebody scales down by hand, and up again."""

    def _take_down(self) -> Callable[[], object]:
        self._request("Down", hold="3m")
        return lambda: self._request("Up", hold="0s")

    def _request(self, direction: str, *, hold: str) -> None:
        self.world.people.create(
            "ScaleRequest", SHOOT, direction.lower(), direction=direction, reason="mine", hold=hold
        )

    def _notes(self, passage: Passage) -> bool:
        """Probes go on beside it, as ever."""
        return passage.request.host is Host.SEED

    def _override_changed(self, change: OverrideChange) -> None:
        """The run of a request begins with its creation, and ends with its status."""
        super()._override_changed(change)
        if change.before is None:
            self._flows += 1
        elif change.phases[1] not in {"Pending", "Running"} and change.after is not None:
            self._flows -= 1

    def _heard(self, process: Process, notice: Notice) -> None:
        """Its runs are known by the requests."""
        Exploration._heard(self, process, notice)  # noqa: SLF001  not that of an outage


_WORLDS: Final[Mapping[str, type[Outage]]] = MappingProxyType(
    {"lease mode": Outage, "endpoint mode": PathOutage, "by hand": ByHand}
)


@lru_cache
def cases() -> tuple[Case, ...]:
    """All of them, in the order in which they are passed."""
    return tuple(case for name, world in _WORLDS.items() for case in rehearsed(world, name))


def play(case: Case) -> Story:
    """Plays one of them."""
    return played(_WORLDS[case.world], case)


def play_all(jobs: int, what: Callable[[Case, Story], T]) -> Iterator[T]:
    """`what` comes of each, in their order; so many at once."""
    for name, world in _WORLDS.items():
        yield from struck_everywhere(world, name, jobs, what)


def of_flows(every: tuple[Case, ...], how: How) -> tuple[int, ...]:
    """Which of these are at requests of the scaling run itself, not of what goes on beside it."""
    own = ("seed get etcd", "seed get deployments", "seed patch")
    return tuple(
        number for number, case in enumerate(every) if case.how is how and case.what.startswith(own)
    )
