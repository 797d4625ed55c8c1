"""Whether protection is active, since when, and what a scaling run would write now (rules 4.3)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.core.model import workloads as ann
from app.core.model.instants import parse_rfc3339
from app.core.model.policy import DependentPolicy
from app.core.model.scaling_runs import ScalingStep
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.prober.rules import scaling

# Annotations have whole seconds: what counts from one counts from the end of its second.
_WHOLE_SECONDS: Final = 1.0

Views = Mapping[ResourceRef, WorkloadView | None]


def active(views: Iterable[WorkloadView | None]) -> bool:
    """Whether at least one of the dependents carries the meltdown key."""
    return any(view is not None and view.protected for view in views)


def began_at(views: Iterable[WorkloadView | None]) -> float | None:
    """The earliest `meltdown-protection-since` of the protected dependents; None if none has one."""
    instants = (
        parse_rfc3339(view.annotations.get(ann.SINCE))
        for view in views
        if view is not None and view.protected
    )
    return min((instant for instant in instants if instant is not None), default=None)


def could_go_down(
    dependents: Sequence[DependentPolicy], views: Views, level: int, now: float
) -> float:
    """The instant at which a level of a scale-down could start: when the last dependent of lower levels went to 0.

    It is read from annotations, so a new leader waits only for what is left of a delay (rules 4.3). If no
    dependent of a lower level is at 0 by our hand, it is `now`.
    """
    below = [each.ref for each in dependents if each.scale(Direction.DOWN).level < level]
    taken = (view for view in map(views.get, below) if view is not None and not view.replicas)
    instants = [began_at([view]) for view in taken]
    last = max((each for each in instants if each is not None), default=now)
    return min(last + _WHOLE_SECONDS, now)


def at_zero(views: Iterable[WorkloadView | None]) -> int:
    """Counts the dependents that are at 0, whatever their annotations."""
    return sum(1 for view in views if view is not None and view.replicas == 0)


@dataclass(frozen=True, slots=True)
class PendingWrites:
    """What a scaling run of either direction would write now."""

    up_writes: bool
    """A scale-up would write something."""
    down_writes: bool
    """A scale-down would write something."""
    protected: bool
    exposed: bool = False
    """A dependent is up that a scale-down would take down: it has no ignore-scaling."""
    ignored: bool = False
    """Nothing was taken down, and every dependent that is up has ignore-scaling."""

    def writes(self, direction: Direction) -> bool:
        """Whether a scaling run in this direction would write something."""
        return self.down_writes if direction is Direction.DOWN else self.up_writes


def pending_writes(
    dependents: Sequence[DependentPolicy], views: Views, now: float
) -> PendingWrites:
    """What a scaling run of either direction would write now.

    A resource at 0 without our keys counts as one that a scale-up would write, as the second such verdict writes it.
    """
    up = [view for view in views.values() if view is not None and _is_up(view)]
    ignored = [view for view in up if ann.ignore_scaling(view.annotations) is ann.Ignore.YES]
    protected, exposed = active(views.values()), len(up) > len(ignored)
    return PendingWrites(
        scaling.writes(plan(dependents, views, Direction.UP, now)),
        scaling.writes(plan(dependents, views, Direction.DOWN, now)),
        protected,
        exposed,
        ignored=bool(ignored) and not exposed and not protected,
    )


def _is_up(view: WorkloadView) -> bool:
    """Whether the resource is not at 0; if only its `scale` shows replicas, whether it has no meltdown key."""
    return not view.protected if view.replicas is None else view.replicas > 0


def plan(
    dependents: Iterable[DependentPolicy],
    views: Views,
    direction: Direction,
    now: float,
    *,
    found_at_zero: Callable[[ResourceRef], bool] = lambda _: True,
) -> scaling.Plan:
    """The plan of a run, as far as the watch shows the dependents (`assumed`)."""
    return scaling.plan(
        dependents,
        lambda ref: assumed(views.get(ref), direction),
        direction,
        now,
        found_at_zero=found_at_zero,
    )


def assumed(view: WorkloadView | None, direction: Direction) -> WorkloadView | None:
    """Assumes replicas where only `scale` shows them, such that a run reads `scale` if it could have to write.

    In the steady state `scale` is not read (rules 3.2). The meltdown key alone does not prove 0 replicas: a
    process may have been killed between writing the key and scaling.
    """
    if view is None or view.replicas is not None:
        return view
    return replace(view, replicas=0 if direction is Direction.UP and view.protected else 1)


def complete(
    each: DependentPolicy, view: WorkloadView | None, direction: Direction, now: float
) -> bool:
    """Whether a dependent, its pods included, is as a run in `direction` leaves it, or would skip it."""
    task = scaling.decide(assumed(view, direction), direction, now, optional=each.optional)
    if task.step is ScalingStep.SKIP:
        return True
    settled = view is not None and scaling.settled(view, direction)
    return task.step is ScalingStep.NOTHING and settled
