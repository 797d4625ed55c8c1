"""What people may scale, and what becomes of a hold whose scaling run no process runs (rules 7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, unique

from app.core.model.overrides import Hold
from app.core.model.policy import DependentPolicy
from app.core.model.probing import Verdict
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.prober.rules import scaling
from app.prober.rules.scaling import Case, Task


@dataclass(frozen=True, slots=True)
class ManualContext:
    """What decides whether a manual scaling run needs `force`."""

    probed: bool
    """The shoot is probed."""
    would_be: Verdict | None = None
    """What the leases or paths ask for, whatever holds it back; None before the first probe."""


def objection(direction: Direction, position: ManualContext) -> str | None:
    """Why a manual scaling run needs `force`, in words; None if it does not."""
    if not position.probed:
        return "the shoot is not probed, so nothing scales it back; use force to scale it anyway"
    if direction is Direction.UP and position.would_be is Verdict.SCALE_DOWN:
        return (
            "the verdict would be SCALE DOWN: controllers that come back now would act on expired "
            "leases; use force to scale it anyway"
        )
    return None


def plan(
    dependents: Sequence[DependentPolicy],
    views: Mapping[ResourceRef, WorkloadView | None],
    direction: Direction,
    now: float,
) -> list[tuple[DependentPolicy, Task]]:
    """What a manual scaling run would do with each resource now, in the order of the levels."""
    return [
        (each, scaling.decide(_case(each, views.get(each.ref)), direction, now))
        for level in scaling.levels(dependents, direction)
        for each in level
    ]


def _case(dependent: DependentPolicy, view: WorkloadView | None) -> Case:
    return Case(view, dependent.optional, found_at_zero=True)


@unique
class HoldAction(Enum):
    """What a leader does about a hold whose scaling run it does not run itself."""

    NOTHING = "nothing"
    """The run has ended: the hold stays until its time is over."""
    CARRY_ON = "carry on"
    """The run is carried on under the same id."""
    OVER = "over"
    """The run may not be carried on, and the hold is ended."""


def hold_action(hold: Hold, *, probed: bool, now: float) -> tuple[HoldAction, str]:
    """Decides about a hold whose scaling run no process runs; the text says why a hold is over."""
    if hold.done:
        return HoldAction.NOTHING, ""
    if hold.operation is None or hold.direction is None:
        return HoldAction.OVER, "it names no scaling run that could be carried on"
    if now >= hold.until:
        return HoldAction.OVER, "its time is over, and its scaling run was not done"
    if not probed and not hold.force:
        return HoldAction.OVER, "the shoot is not probed, and its scaling run was not forced"
    return HoldAction.CARRY_ON, ""
