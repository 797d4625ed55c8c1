"""The damage that controllers did to shoots: nodes marked NotReady, machines deleted.

Not all of it is preventable: where fewer nodes are cut off than the limit, the watchdog does nothing, by design. Such
losses are counted separately because they would look like failures.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.simulation.builders import World, known_at
from app.simulation.demo.pod_story import Restart
from app.simulation.demo.program_api import ShootReport
from app.simulation.scenarios.player import Performance
from app.simulation.scenarios.scenario import short
from app.simulation.store import Happened, Object, StoreEvent
from app.simulation.views import machine_view, ready


class Harm(StrEnum):
    """A kind of loss."""

    NODE = "nodes marked NotReady"
    MACHINE = "machines deleted"
    """Counted when machine-controller-manager begins to delete it, which is irreversible."""


@dataclass(frozen=True, slots=True)
class NodeLoss:
    """One lost node or machine."""

    at: float
    shoot: str
    """The short name of the shoot."""
    harm: Harm
    below_limit: bool = False
    """Whether too few Leases of the shoot were late for a scale-down."""


@dataclass(frozen=True, slots=True)
class Toll:
    """Numbers of losses."""

    nodes: int = 0
    machines: int = 0

    @classmethod
    def of(cls, losses: Iterable[NodeLoss]) -> "Toll":
        """Counts them."""
        harms = [loss.harm for loss in losses]
        return cls(harms.count(Harm.NODE), harms.count(Harm.MACHINE))

    def __bool__(self) -> bool:
        return bool(self.nodes or self.machines)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The losses in the same period with the watchdog and without it."""

    having: Toll = Toll()
    lacking: Toll = Toll()
    below: tuple[Toll, Toll] = (Toll(), Toll())
    """Further losses where too few nodes were cut off, with the watchdog and without it."""

    @classmethod
    def of(cls, having: Iterable[NodeLoss], lacking: Iterable[NodeLoss]) -> "Comparison":
        """Counts them."""
        (mine, below), (theirs, twin_below) = _parted(having), _parted(lacking)
        return cls(mine, theirs, (below, twin_below))


def _parted(losses: Iterable[NodeLoss]) -> tuple[Toll, Toll]:
    """Returns the losses at or above the limit, and those below it."""
    parts: tuple[list[NodeLoss], list[NodeLoss]] = ([], [])
    for loss in losses:
        parts[loss.below_limit].append(loss)
    return Toll.of(parts[0]), Toll.of(parts[1])


LIMIT: Final = 0.6
"""`nodeLeaseFailureFraction` of the shipped prober file."""
EXPIRY: Final = 30.0
"""The expiry time, in seconds, with the grace period of the shipped prober file."""
# Seconds for which an outage counts after its end, because nodes are given up after the path is back.
_REMEMBERED: Final = 60.0
# Seconds for which an answer is cached, because a controller marks many nodes at once.
_FRESH: Final = 1.0


class Witness:
    """Counts the losses of one world from now on."""

    def __init__(self, world: World, namespaces: Iterable[str]) -> None:
        self._world, self._clock = world, world.clock
        self._losses: list[NodeLoss] = []
        self._judged: dict[str, tuple[float, bool]] = {}
        world.store.subscribe(self._seed_changed)
        for namespace in namespaces:
            changed = partial(self._shoot_changed, namespace)
            world.shoot(namespace).store.subscribe(changed)

    @property
    def losses(self) -> Sequence[NodeLoss]:
        """All losses, in order."""
        return self._losses

    def _seed_changed(self, event: StoreEvent) -> None:
        if event.key.kind == "Machine" and _changed(
            event, lambda machine: machine_view(machine).phase == "Terminating"
        ):
            self._lost(event.key.namespace, Harm.MACHINE)

    def _shoot_changed(self, namespace: str, event: StoreEvent) -> None:
        if event.key.kind == "Node" and _changed(event, lambda node: not ready(node)):
            self._lost(namespace, Harm.NODE)

    def _lost(self, namespace: str, harm: Harm) -> None:
        below = self._below_limit(namespace)
        self._losses.append(NodeLoss(self._clock.now(), short(namespace), harm, below))

    def _below_limit(self, namespace: str) -> bool:
        """Returns whether no outage of the shoot could be known, according to the true renewals of its nodes."""
        now = self._clock.now()
        at, below = self._judged.get(namespace, (float("-inf"), False))
        if now - at >= _FRESH:
            kubelets = self._world.shoot(namespace).fleet.kubelets
            known = known_at(
                kubelets,
                limit=LIMIT,
                expiry=EXPIRY,
                now=now,
                since=now - _REMEMBERED,
            )
            at, below = self._judged[namespace] = (now, known is None)
        return below


def _changed(event: StoreEvent, into: Callable[[Object], bool]) -> bool:
    """Returns whether a change made a predicate true for an object."""
    before = event.before
    if event.happened is not Happened.MODIFIED or before is None:
        return False
    return into(event.object) and not into(before)


def by_scene(
    performances: Sequence[Performance], having: Sequence[NodeLoss], lacking: Sequence[NodeLoss]
) -> Mapping[int, Comparison]:
    """Returns the losses in each scene, by its number.

    A loss belongs to the last scene that had begun with its shoot: machines are deleted when the path may be back.
    """
    mine, theirs = sorted_out(performances, having), sorted_out(performances, lacking)
    return {
        each.number: Comparison.of(mine[each.number], theirs[each.number]) for each in performances
    }


Seen = TypeVar("Seen", NodeLoss, "Met", Restart)


def sorted_out(
    performances: Sequence[Performance], seen: Iterable[Seen], *, of_seed: bool = False
) -> Mapping[int, list[Seen]]:
    """Groups events by scene: each belongs to the last scene that had begun with its shoot, or `of_seed`."""
    found: dict[int, list[Seen]] = {each.number: [] for each in performances}
    for one in seen:
        to_blame = [
            each
            for each in performances
            if (one.shoot in each.shoots or (of_seed and not each.shoots)) and each.began <= one.at
        ]
        if to_blame:
            found[max(to_blame, key=lambda each: each.began).number].append(one)
    return found


# Shoots that only a closed gate kept from being scaled down, as the program reports it.


_AT_ZERO = frozenset({ShootState.PROTECTING, ShootState.PROTECTED})


class GateOutcome(StrEnum):
    """The outcome for a shoot that seemed to be cut off."""

    SCALED = "scaled to 0"
    HELD_BACK = "held back by the gate"
    """Without the gate, its dependents would have been scaled to 0."""


@dataclass(frozen=True, slots=True)
class Met:
    """An outcome for one shoot."""

    at: float
    shoot: str
    """Its short name."""
    fate: GateOutcome


def met(
    before: Mapping[str, ShootReport], after: Mapping[str, ShootReport], now: float
) -> list[Met]:
    """Detects outcomes by comparing what the program reports with its previous report."""
    return [
        Met(now, short(namespace), fate)
        for namespace, said in after.items()
        if (fate := _fate(before.get(namespace), said)) is not None
    ]


def _fate(was: ShootReport | None, said: ShootReport) -> GateOutcome | None:
    """Returns the outcome since the previous report; None if there is no new one."""
    state = None if was is None else was.state
    if said.state in _AT_ZERO:
        return None if state in _AT_ZERO else GateOutcome.SCALED
    if said.state is ShootState.RECOVERING:  # scaled down and up again between two polls
        return None if state in {*_AT_ZERO, ShootState.RECOVERING} else GateOutcome.SCALED
    return GateOutcome.HELD_BACK if is_gated(said) and not (was and is_gated(was)) else None


def is_gated(said: ShootReport) -> bool:
    """Returns whether only a closed gate keeps a shoot from being scaled down."""
    return said.reason == VerdictReason.GATED and said.probe.would_be is Verdict.SCALE_DOWN


Fates = Mapping[GateOutcome, int]
"""How many shoots met with each."""


def fates_by_scene(performances: Sequence[Performance], seen: Iterable[Met]) -> Mapping[int, Fates]:
    """How many shoots met with which fate in each scene, by its number; each shoot once.

    It belongs to the last scene that had begun with its shoot or with the seed.
    """
    counted: dict[int, Fates] = {}
    for number, found in sorted_out(performances, seen, of_seed=True).items():
        fates = [fate for _, fate in {(each.shoot, each.fate) for each in found}]
        counted[number] = {fate: fates.count(fate) for fate in GateOutcome}
    return counted


def added_up(scenes: Iterable[Fates]) -> Fates:
    """All of them together."""
    several = list(scenes)
    return {fate: sum(each[fate] for each in several) for fate in GateOutcome}
