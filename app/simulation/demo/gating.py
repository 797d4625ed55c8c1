"""Shoots that only a closed gate kept from being scaled down, as the program reports it; pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.simulation.demo.losses import sorted_out
from app.simulation.demo.program_api import ShootReport
from app.simulation.scenarios.casting import short
from app.simulation.scenarios.player import Performance

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
    return said.reason == VerdictReason.GATED and said.would_be is Verdict.SCALE_DOWN


Fates = Mapping[GateOutcome, int]
"""How many shoots met with each."""


def by_scene(performances: Sequence[Performance], seen: Iterable[Met]) -> Mapping[int, Fates]:
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
