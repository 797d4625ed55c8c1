"""Whether protection is active, since when, and what a flow would write now (spec, words; 4.3)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from app.core.model import annotations as ann
from app.core.model.instants import parse_rfc3339
from app.core.model.policy import DependentPolicy
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.prober.rules import scaling
from app.prober.rules.tally import Stakes

Views = Mapping[ResourceRef, WorkloadView | None]


def active(views: Iterable[WorkloadView | None]) -> bool:
    """At least one configured dependent carries the meltdown key."""
    return any(view is not None and view.protected for view in views)


def began_at(views: Iterable[WorkloadView | None]) -> float | None:
    """The earliest time in the annotations of protected dependents; None where none says."""
    instants = (
        parse_rfc3339(view.annotations.get(ann.SINCE))
        for view in views
        if view is not None and view.protected
    )
    return min((instant for instant in instants if instant is not None), default=None)


def at_zero(views: Iterable[WorkloadView | None]) -> int:
    """How many are at 0, whatever their annotations."""
    return sum(1 for view in views if view is not None and view.replicas == 0)


def stakes(dependents: Iterable[DependentPolicy], views: Views, now: float) -> Stakes:
    """What a flow of either direction would write now.

    A resource at 0 without our keys counts as one that a scale-up would write: two such verdicts do.
    """
    up = down = False
    for each in dependents:
        case = scaling.Case(assumed(views.get(each.ref)), each.optional, found_at_zero=True)
        up = up or scaling.decide(case, Direction.UP, now).writes
        down = down or scaling.decide(case, Direction.DOWN, now).writes
    return Stakes(up, down, active(views.values()))


def assumed(view: WorkloadView | None) -> WorkloadView | None:
    """`view`; where only its `scale` knows the replicas, what our key says of them, until a flow asks."""
    if view is None or view.replicas is not None:
        return view
    return replace(view, replicas=0 if view.protected else 1)
