"""The table of shoots, worst first; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.core.model.probing import ShootState
from app.simulation.demo.program_api import DemoLeases, ShootReport

CONTROLLERS: Final = {
    "kcm": "kube-controller-manager",
    "mcm": "machine-controller-manager",
    "ca": "cluster-autoscaler",
}
"""The columns of replicas: their heads, and whose they are."""

STARTING: Final = "Starting"
"""In the place of a state before there is one."""

_RANKS: Final = {state: rank for rank, state in enumerate(ShootState)}
_SETTLED: Final = frozenset({ShootState.HEALTHY, ShootState.NOT_PROBED})
_UNSEEN: Final = len(_RANKS)


@dataclass(frozen=True, slots=True)
class TrueReplicas:
    """The true replicas of a controller."""

    wanted: int
    ready: int

    def __str__(self) -> str:
        return f"{self.ready}/{self.wanted}"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a shoot."""

    shoot: str
    """Its short name."""
    state: ShootState | None
    reason: str
    leases: DemoLeases | None
    """As of the last probe; None where it read none."""
    replicas: tuple[TrueReplicas | None, ...]
    """One for each of CONTROLLERS; None where it does not exist."""
    scenes: tuple[str, ...] = ()
    """The actions of the scenes that it is in."""
    waiting: int = 0
    """Its pods that wait in CrashLoopBackOff."""

    @property
    def happens(self) -> str:
        """What happens to it: `etcd-outage, 5 waiting`."""
        waiting = (f"{self.waiting} waiting",) if self.waiting else ()
        return ", ".join((*self.scenes, *waiting))

    @property
    def settled(self) -> bool:
        """Whether the shoot is in a normal state, in no scene, and without waiting pods."""
        return self.state in _SETTLED and not self.happens

    @property
    def word(self) -> str:
        """Its state, as a word."""
        return STARTING if self.state is None else str(self.state)


def row(
    shoot: str,
    said: ShootReport | None,
    replicas: Iterable[TrueReplicas | None],
    scenes: Mapping[str, Sequence[str]],
    waiting: int = 0,
) -> Row:
    """Builds the row of one shoot.

    Args:
        shoot: its short name.
        said: what the program says of it; None: nothing yet.
        replicas: its controllers, as they truly are.
        scenes: the actions that each shoot is in the middle of.
        waiting: its pods that wait in CrashLoopBackOff.
    """
    mine = tuple(scenes.get(shoot, ()))
    if said is None:
        return Row(shoot, None, "", None, tuple(replicas), mine, waiting)
    seen = None if said.old else said.leases
    return Row(shoot, said.state, said.reason, seen, tuple(replicas), mine, waiting)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Worst first; of one state, those to which something happens first; else in the order in which they came."""
    return sorted(rows, key=lambda each: (_rank(each.state), not each.happens))


def _rank(state: ShootState | None) -> int:
    return _UNSEEN if state is None else _RANKS[state]


def counted(rows: Iterable[Row]) -> str:
    """How many are in which state, worst first: `1 Protected, 29 Healthy`."""
    found = Counter((_rank(each.state), each.word) for each in rows)
    return ", ".join(f"{number} {word}" for (_, word), number in sorted(found.items()))


def leases(seen: DemoLeases | None) -> str:
    """`10 fresh`, or what else there is: `3 fresh, 7 expired of 10`."""
    if seen is None:
        return "-"
    parts = [(seen.fresh, "fresh"), (seen.expired, "expired"), (seen.unknown, "unknown")]
    shown = [f"{number} {word}" for number, word in parts if number]
    whole = f" of {seen.of}" if len(shown) > 1 else ""
    return (", ".join(shown) or "none") + whole


def shown(rows: Sequence[Row], room: int) -> tuple[Sequence[Row], Sequence[Row]]:
    """The rows that fit into so many lines, and those that do not: a line is kept to say how many these are."""
    if len(rows) <= room:
        return rows, ()
    kept = max(room - 1, 0)
    return rows[:kept], rows[kept:]
