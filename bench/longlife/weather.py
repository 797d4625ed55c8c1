"""The weather of a long life: faults and people at a modest rate, and shoots that come and go; nobody judges it."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from app.core.model.policy import DependentPolicy, ProberPolicy, ScalePolicy
from app.core.model.weeding import WeederPolicy
from app.core.tasks import Tasks
from app.simulation import manifests
from app.simulation.builders import World
from app.simulation.workloads import ETCD_SERVICE
from bench.exploration import draws, operators, people
from bench.exploration.director import Director
from bench.exploration.draws import Arguments, Draw, Hand
from bench.exploration.people import Act
from bench.exploration.recipe import CA, KCM, MCM
from bench.exploration.weeder import draws as pod_draws
from bench.exploration.weeder import people as pod_people
from bench.exploration.weeder.draws import PlaneHand
from bench.exploration.weeder.recipe import GARDENER, PlaneRecipe, WeederRecipe

if TYPE_CHECKING:
    from bench.exploration.process import Process

PROBING: Final = ProberPolicy(
    kubeconfig_secret=manifests.SECRET_NAME,
    dependents=(
        DependentPolicy(KCM, ScalePolicy(0), ScalePolicy(1)),
        DependentPolicy(MCM, ScalePolicy(1), ScalePolicy(0)),
        DependentPolicy(CA, ScalePolicy(2), ScalePolicy(0), optional=True),
    ),
)
WEEDING: Final = WeederPolicy(services=GARDENER)
_FAULT_EVERY, _POD_FAULT_EVERY, _DEED_EVERY = 120.0, 180.0, 400.0
"""Seconds, on average."""
_LASTING: Final = frozenset({"changes a machine", "relabels a pod"})
"""Deeds that nobody undoes: after a week no machine would have a node, and few pods an owner."""
_NODES: Final = (2, 3, 3, 4)
_OUTAGE, _MENDED = 75.0, 105.0
"""Seconds of each outage of a storm, and after it."""
_CUT, _DYING = 60.0, 120.0
"""Seconds from the outage of a shoot to its deletion, and from that until it is gone."""


@dataclass(frozen=True, slots=True)
class StayingHand(Hand):
    """Draws from the shoots that are not about to be deleted."""

    staying: Sequence[str] = ()

    def shoot(self) -> str:
        """One of them."""
        return self.rng.choice(self.staying)


@dataclass(slots=True)
class _NoBooks:
    """Books that nobody keeps."""

    world: World

    def observe(self) -> None:
        """Does nothing."""

    def unsettle(self, namespace: str) -> None:
        """Does nothing."""

    def begins(self, name: str, arguments: Arguments) -> None:
        """Does nothing."""


@dataclass(slots=True)
class Weather:
    """Faults and people, for as long as they are let."""

    world: World
    tasks: Tasks
    rng: random.Random
    processes: "Callable[[], Sequence[Process]]" = lambda: ()
    """Whom operators ask; those with kubectl ask nobody."""
    without: frozenset[str] = frozenset()
    """Faults that cannot be played."""
    counts: dict[str, int] = field(default_factory=dict)
    """How often each fault and deed came about."""
    _directors: Sequence[Director[Any]] = ()
    _going: list[asyncio.Task[None]] = field(default_factory=list)

    def begin(self, staying: Sequence[str]) -> None:
        """Lets things go wrong from now on, in these shoots and in the seed."""
        hand = StayingHand(self.rng, self.world, PROBING, self.processes, staying=staying)
        planes = tuple(PlaneRecipe(name) for name in staying)
        pods = PlaneHand(self.rng, self.world, WeederRecipe("weather", WEEDING, planes))
        acts = {**people.ACTS, **operators.ACTS}
        self._directors = (
            self._director(hand, draws.FAULTS, acts, _FAULT_EVERY),
            self._director(pods, pod_draws.FAULTS, pod_people.ACTS, _POD_FAULT_EVERY),
        )

    def _director(
        self,
        hand: Any,  # noqa: ANN401  of either kind, as the tables are
        faults: Mapping[str, Draw[Any]],
        acts: Mapping[str, Act[Any]],
        every: float,
    ) -> Director[Any]:
        director = Director(
            hand,
            _NoBooks(self.world),
            self.tasks,
            lambda _who, _text: None,
            self.counts,
            {name: each for name, each in faults.items() if name not in self.without},
            {name: each for name, each in acts.items() if name not in _LASTING},
        )
        self._go_on(lambda: director.faults(every))
        self._go_on(lambda: director.people(_DEED_EVERY))
        return director

    def _go_on(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._going.append(self.tasks.once(work, "weather"))

    def lift(self) -> None:
        """Makes everything right again; nobody wishes for anything any more."""
        for task in self._going:
            task.cancel()
        self._going.clear()
        for director in self._directors:
            director.lift_all()
        self._directors = ()
        for kind in ("Pause", "ScaleRequest"):
            for each in self.world.store.list(kind):
                where = each["metadata"]
                self.world.people.delete(kind, where["namespace"], where["name"])


def born(world: World, rng: random.Random, name: str) -> str:
    """A shoot is created; returns its name."""
    world.add_shoot(name, nodes=rng.choice(_NODES))
    world.add_control_plane(name)
    return name


async def die(world: World, rng: random.Random, name: str) -> None:
    """A shoot is deleted, in every second case in the midst of an outage."""
    if rng.random() < 0.5:
        world.faults.path_cut(name)
        await world.clock.sleep(_CUT)
    world.faults.deleted(name)
    await world.clock.sleep(_DYING)
    world.remove_shoot(name)


async def storm(world: World, names: Sequence[str], outages: int) -> None:
    """So many outages of these shoots, one after the other; in every second one the etcds are away, too."""
    for number in range(outages):
        with ExitStack() as outage:
            for name in names:
                outage.enter_context(world.faults.path_cut(name))
                if number % 2:
                    outage.enter_context(world.faults.service_unready(name, ETCD_SERVICE))
            await world.clock.sleep(_OUTAGE)
        await world.clock.sleep(_MENDED)
