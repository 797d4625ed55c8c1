"""What to do with one resource, and in which order resources are scaled (rules 4.3, steps 1, 3, 4 and 5).

A scale-down saves the replicas in an annotation and sets the meltdown key together with replicas 0; a scale-up restores
the saved count and removes the annotations. Of Deployments, StatefulSets and ReplicaSets that is one patch, so nothing
can be lost in between; of other kinds `app.prober.scaling.resource` writes annotations and `scale` one after the other.
`decide` returns the patch as data, `plan` what is decided of all dependents, level by level, and `pending_writes` the
plans of both directions as far as the watch shows the dependents: one of them goes with each decision of a probe.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple

from app.core.model import workloads as ann
from app.core.model.instants import parse_rfc3339, rfc3339
from app.core.model.policy import DependentPolicy
from app.core.model.scaling_runs import ScalingStep
from app.core.model.workloads import Direction, Patch, ResourceRef, WorkloadView

# Annotations have whole seconds: what counts from one counts from the end of its second.
_WHOLE_SECONDS: Final = 1.0
FOUND_AT_ZERO_APART: Final = 15.0
"""A resource at 0 without our keys is scaled up only if two SCALE UP verdicts this many seconds apart found it so."""


class Why(StrEnum):
    """Reasons, as log, history and Events name them."""

    SCALED_DOWN = "ScaledDown"
    SCALED_UP = "ScaledUp"
    FOUND_AT_ZERO = "FoundAtZero"
    KEYS_REMOVED = "KeysRemoved"
    ALREADY = "AlreadyScaled"
    GONE = "Gone"
    NOT_FOUND = "NotFound"
    IGNORED = "IgnoreScaling"
    LEFT_AT_ZERO = "LeftAtZero"
    NOT_OURS = "AtZeroNotOurs"
    NOT_REACHED = "NotReached"
    """Only in plans that people ask for: a lower level fails, which ends the run."""


@dataclass(frozen=True, slots=True)
class Task:
    """What to do with one resource, and why; the patch is data, and sent by the caller."""

    step: ScalingStep
    why: Why
    patch: Patch | None = None
    before: int | None = None
    after: int | None = None
    warnings: tuple[str, ...] = ()
    """Reasons of warning Events: InvalidReplicasAnnotation, InvalidIgnoreScalingAnnotation."""

    @property
    def writes(self) -> bool:
        """Whether the cluster would be changed."""
        return self.patch is not None


def decide(
    view: WorkloadView | None,
    direction: Direction,
    now: float,
    *,
    optional: bool = False,
    found_at_zero: bool = False,
) -> Task:
    """Decides what a scaling run does with a resource now.

    Args:
        view: the resource; None if it does not exist.
        direction: of the run.
        now: the present instant.
        optional: the resource need not exist.
        found_at_zero: scale it up even if it is at 0 without our keys: it was so for long enough, or a person asks.
    """
    if view is None:
        if optional:
            return Task(ScalingStep.SKIP, Why.GONE)
        return Task(ScalingStep.FAILED, Why.NOT_FOUND)
    ignore = ann.ignore_scaling(view.annotations)
    if ignore is ann.Ignore.YES:
        # It is left to people: without the meltdown key gardenlet manages it again; the saved count stays.
        if not view.protected:
            return Task(ScalingStep.SKIP, Why.IGNORED)
        patch = Patch(view.resource_version, None, _removed(view, (ann.MELTDOWN, ann.SINCE)))
        why = Why.LEFT_AT_ZERO if view.replicas == 0 else Why.IGNORED
        return Task(ScalingStep.TIDY, why, patch, view.replicas, view.replicas)
    warnings = ("InvalidIgnoreScalingAnnotation",) if ignore is ann.Ignore.INVALID else ()
    if direction is Direction.DOWN:
        return _down(view, warnings, now)
    return _up(view, warnings, found_at_zero=found_at_zero)


def _down(view: WorkloadView, warnings: tuple[str, ...], now: float) -> Task:
    current = 1 if view.replicas is None else view.replicas
    if current == 0:
        return Task(ScalingStep.NOTHING, Why.ALREADY, warnings=warnings)
    # A renewed scale-down keeps when protection began, and of the saved and the current count the larger one
    # (rules 4.3, step 3).
    saved = ann.saved_count(view.annotations) if view.protected else None
    since = view.annotations.get(ann.SINCE) if view.protected else None
    if since is None or parse_rfc3339(since) is None:
        since = rfc3339(now)
    keep = current if saved is None else max(saved, current)
    keys = {ann.REPLICAS: str(keep), ann.MELTDOWN: "", ann.SINCE: since}
    patch = Patch(view.resource_version, 0, keys)
    return Task(ScalingStep.WRITE, Why.SCALED_DOWN, patch, current, 0, warnings)


def _up(view: WorkloadView, warnings: tuple[str, ...], *, found_at_zero: bool) -> Task:
    keys = (ann.REPLICAS, ann.MELTDOWN, ann.SINCE)
    if view.replicas:
        removed = _removed(view, keys)
        if not removed:
            return Task(ScalingStep.NOTHING, Why.ALREADY, warnings=warnings)
        patch = Patch(view.resource_version, None, removed)
        return Task(
            ScalingStep.TIDY, Why.KEYS_REMOVED, patch, view.replicas, view.replicas, warnings
        )
    ours = ann.REPLICAS in view.annotations or view.protected
    if not ours and not found_at_zero:
        return Task(ScalingStep.SKIP, Why.NOT_OURS, warnings=warnings)
    if ann.saved_count_is_invalid(view.annotations):
        warnings = (*warnings, "InvalidReplicasAnnotation")
    # Without a valid saved count it comes back with one replica (rules 4.3, step 4).
    count = ann.saved_count(view.annotations) or 1
    patch = Patch(view.resource_version, count, _removed(view, keys))
    why = Why.SCALED_UP if ours else Why.FOUND_AT_ZERO
    return Task(ScalingStep.WRITE, why, patch, 0, count, warnings)


def _removed(view: WorkloadView, keys: tuple[str, ...]) -> Mapping[str, str | None]:
    return {key: None for key in keys if key in view.annotations}


def settled(view: WorkloadView, direction: Direction) -> bool:
    """Whether the pods have followed a write in `direction`: one is ready (up), or none is left (down); step 5."""
    if not view.observed:
        return False
    if direction is Direction.DOWN:
        return not view.current
    ready = view.current if view.ready is None else view.ready
    return ready is None or ready >= 1


def levels(
    dependents: Iterable[DependentPolicy], direction: Direction
) -> tuple[tuple[DependentPolicy, ...], ...]:
    """Groups the dependents by their level in this direction, ascending; those of one level are scaled at once."""

    def level(dependent: DependentPolicy) -> int:
        return dependent.scale(direction).level

    return tuple(tuple(group) for _, group in groupby(sorted(dependents, key=level), key=level))


class Planned(NamedTuple):
    """What a scaling run does with one dependent, and what that was decided on."""

    dependent: DependentPolicy
    view: WorkloadView | None
    task: Task


Plan = tuple[tuple[Planned, ...], ...]
"""What a scaling run does, level by level; all of one level at once."""


def plan(
    dependents: Iterable[DependentPolicy],
    view_of: Callable[[ResourceRef], WorkloadView | None],
    direction: Direction,
    now: float,
    *,
    found_at_zero: Callable[[ResourceRef], bool] = lambda _: True,
) -> Plan:
    """Plans a run over these dependents: whatever begins, shows or makes a run asks this.

    Before each write the resource is decided on anew, by `decide` as here. `found_at_zero` says of a resource at 0
    without our keys whether it is to be scaled up.
    """

    def planned(each: DependentPolicy) -> Planned:
        view, found = view_of(each.ref), found_at_zero(each.ref)
        task = decide(view, direction, now, optional=each.optional, found_at_zero=found)
        return Planned(each, view, task)

    return tuple(tuple(map(planned, level)) for level in levels(dependents, direction))


def until_failure(plan: Plan) -> Plan:
    """The plan of a run that a failure ends: what comes after a level with a failure is skipped."""
    fails = [any(each.task.step is ScalingStep.FAILED for each in level) for level in plan]
    reached = fails.index(True) + 1 if True in fails else len(plan)
    skipped = Task(ScalingStep.SKIP, Why.NOT_REACHED)
    left = (tuple(each._replace(task=skipped) for each in level) for level in plan[reached:])
    return (*plan[:reached], *left)


def writes(plan: Iterable[Iterable[Planned]]) -> bool:
    """Whether these levels of a plan would change the cluster."""
    return any(each.task.writes for level in plan for each in level)


# Protection, and what of the dependents would be written if a verdict asked for it.

Views = Mapping[ResourceRef, WorkloadView | None]


def protection_active(views: Iterable[WorkloadView | None]) -> bool:
    """Whether at least one of the dependents carries the meltdown key."""
    return any(view is not None and view.protected for view in views)


def protected_since(views: Iterable[WorkloadView | None]) -> float | None:
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
    instants = [protected_since([view]) for view in taken]
    last = max((each for each in instants if each is not None), default=now)
    return min(last + _WHOLE_SECONDS, now)


@dataclass(frozen=True, slots=True)
class PendingWrites:
    """What a scaling run of either direction would write now."""

    plans: Mapping[Direction, Plan]
    protected: bool
    exposed: bool
    """A dependent is up that a scale-down would take down: it has no ignore-scaling."""
    ignored: bool
    """Nothing was taken down, and every dependent that is up has ignore-scaling."""

    def writes(self, direction: Direction) -> bool:
        """Whether a run in this direction would write something."""
        return writes(self.plans[direction])


def pending_writes(
    dependents: Sequence[DependentPolicy], views: Views, now: float
) -> PendingWrites:
    """What a scaling run of either direction would write now, as far as the watch shows the dependents.

    A resource at 0 without our keys counts as one that a scale-up would write, as the second such verdict writes it.
    """
    # If only its `scale` shows replicas, a resource without the meltdown key counts as up.
    up = [
        view
        for view in views.values()
        if view is not None and (not view.protected if view.replicas is None else view.replicas > 0)
    ]
    ignored = [view for view in up if ann.ignore_scaling(view.annotations) is ann.Ignore.YES]
    protected, exposed = protection_active(views.values()), len(up) > len(ignored)

    def planned(way: Direction) -> Plan:
        return plan(dependents, lambda ref: assumed(views.get(ref), way), way, now)

    return PendingWrites(
        {way: planned(way) for way in Direction},
        protected,
        exposed,
        ignored=bool(ignored) and not exposed and not protected,
    )


def assumed(view: WorkloadView | None, direction: Direction) -> WorkloadView | None:
    """Assumes replicas where only `scale` shows them, such that a run reads `scale` if it could have to write.

    In the steady state `scale` is not read (rules 3.2). The meltdown key alone does not prove 0 replicas: a
    process may have been killed between writing the key and scaling.
    """
    if view is None or view.replicas is not None:
        return view
    return replace(view, replicas=0 if direction is Direction.UP and view.protected else 1)


def complete(planned: Planned, direction: Direction) -> bool:
    """Whether a dependent, its pods included, is as a run in `direction` leaves it, or would skip it."""
    task, view = planned.task, planned.view
    if task.step is ScalingStep.SKIP or task.why is Why.FOUND_AT_ZERO:
        return True
    return task.step is ScalingStep.NOTHING and view is not None and settled(view, direction)
