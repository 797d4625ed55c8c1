"""What the controllers of a simulated seed did to its shoots: nodes marked NotReady, machines deleted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from app.core.simulation.builders import World
from app.core.simulation.scenarios.casting import short
from app.core.simulation.scenarios.player import Performance
from app.core.simulation.store import Happened, Listener, Object, StoreEvent
from app.core.simulation.views import machine_view, ready


class Harm(StrEnum):
    """What is lost."""

    NODE = "nodes marked NotReady"
    MACHINE = "machines deleted"
    """Counted when machine-controller-manager gives it up: from there on there is no way back."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One node or machine."""

    at: float
    shoot: str
    """Its short name."""
    harm: Harm


class Seen(Protocol):
    """Something that happened to a shoot."""

    @property
    def at(self) -> float:
        """When."""
        ...

    @property
    def shoot(self) -> str:
        """Its short name."""
        ...


T = TypeVar("T", bound=Seen)


@dataclass(frozen=True, slots=True)
class Toll:
    """How many."""

    nodes: int = 0
    machines: int = 0

    @classmethod
    def of(cls, losses: Iterable[Loss]) -> "Toll":
        """Counts them."""
        harms = [loss.harm for loss in losses]
        return cls(harms.count(Harm.NODE), harms.count(Harm.MACHINE))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same time with the watchdog and without it."""

    having: Toll = Toll()
    lacking: Toll = Toll()


class Witness:
    """Sees what is lost in one world, from now on."""

    def __init__(self, world: World, namespaces: Iterable[str]) -> None:
        self._clock = world.clock
        self._losses: list[Loss] = []
        self._nodes = self._machines = 0
        world.store.subscribe(self._seed_changed)
        for namespace in namespaces:
            world.shoot(namespace).store.subscribe(self._of_shoot(namespace))

    @property
    def losses(self) -> Sequence[Loss]:
        """All of them, in their order."""
        return self._losses

    @property
    def toll(self) -> Toll:
        """How many there are."""
        return Toll(self._nodes, self._machines)

    def _seed_changed(self, event: StoreEvent) -> None:
        if event.key.kind == "Machine" and _changed(event, _given_up):
            self._machines += 1
            self._lost(event.key.namespace, Harm.MACHINE)

    def _of_shoot(self, namespace: str) -> Listener:
        def changed(event: StoreEvent) -> None:
            if event.key.kind == "Node" and _changed(event, _marked):
                self._nodes += 1
                self._lost(namespace, Harm.NODE)

        return changed

    def _lost(self, namespace: str, harm: Harm) -> None:
        self._losses.append(Loss(self._clock.now(), short(namespace), harm))


def _changed(event: StoreEvent, into: Callable[[Object], bool]) -> bool:
    """Whether an object has just become so."""
    before = event.before
    if event.happened is not Happened.MODIFIED or before is None:
        return False
    return into(event.object) and not into(before)


def _given_up(machine: Object) -> bool:
    return machine_view(machine).phase == "Terminating"


def _marked(node: Object) -> bool:
    return not ready(node)


def by_scene(
    performances: Sequence[Performance], having: Sequence[Loss], lacking: Sequence[Loss]
) -> Mapping[int, Comparison]:
    """What was lost in each scene, by its number.

    A loss belongs to the last scene that had begun with its shoot: machines are deleted when the path may be back.
    """
    mine, theirs = sorted_out(performances, having), sorted_out(performances, lacking)
    return {
        each.number: Comparison(Toll.of(mine[each.number]), Toll.of(theirs[each.number]))
        for each in performances
    }


def sorted_out(performances: Sequence[Performance], seen: Iterable[T]) -> Mapping[int, list[T]]:
    """What was seen in each scene, by its number: in the last scene that had begun with its shoot."""
    found: dict[int, list[T]] = {each.number: [] for each in performances}
    for one in seen:
        to_blame = [
            each for each in performances if one.shoot in each.shoots and each.began <= one.at
        ]
        if to_blame:
            found[max(to_blame, key=lambda each: each.began).number].append(one)
    return found
