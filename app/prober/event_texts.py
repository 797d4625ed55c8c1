"""Sentences about what happened to a dependent: for the log, with its name, and for an Event on the object itself.

Readers of an Event on kube-controller-manager may never have heard of the watchdog, so Events use no word that
Kubernetes does not have. All functions are pure.
"""

from typing import Final

from app.core.model import workloads as ann
from app.core.model.durations import format_duration
from app.core.model.scaling_runs import OURSELVES, ScaleSpec, ScalingRunStatus, ScalingStep
from app.core.model.workloads import Direction
from app.prober.rules.scaling import Task, Why
from app.prober.scaling.context import StepResult
from app.prober.scaling.resource import ResourceRun

ANNOTATIONS: Final = {
    "InvalidReplicasAnnotation": f"The annotation {ann.REPLICAS} has no valid number of replicas: 1 is used instead.",
    "InvalidIgnoreScalingAnnotation": f"The annotation {ann.IGNORE_SCALING} is neither true nor false: it "
    "is ignored.",
}
_AWAY: Final = "nodes cannot reach their API server"
_BACK: Final = "the nodes reach their API server"
_STOPPED: Final = "the controllers that would replace nodes or move their pods"


def written_only(run: ResourceRun) -> bool:
    """Whether the resource was scaled, and only the wait for its pods was ended early."""
    return run.result is StepResult.CANCELLED and run.accepted


# For the log and the history.


def line(direction: Direction, run: ResourceRun) -> str:
    """What became of the resource, with its name."""
    task, detail = run.task, f": {run.message}" if run.message else ""
    if task is not None and task.why is Why.LEFT_AT_ZERO:
        return f"{run.ref} has ignore-scaling and was left at 0; the meltdown key was removed"
    if written_only(run):
        return f"{run.ref} was scaled {direction}{_change(task)}; its pods were not awaited{detail}"
    if run.result is StepResult.DONE and task is not None and task.step is ScalingStep.TIDY:
        return f"{run.ref} was up already; its annotations were removed"
    return f"{_result(direction, run)}{detail}"


def _result(direction: Direction, run: ResourceRun) -> str:
    match run.result or StepResult.FAILED:
        case StepResult.DONE:
            return f"{run.ref} was scaled {direction}{_change(run.task)}"
        case StepResult.SKIPPED:
            return f"{run.ref} was not scaled {direction}"
        case StepResult.DRY_RUN:
            return f"{run.ref} would be scaled {direction}{_change(run.task)}"
        case StepResult.CANCELLED:
            return f"scaling {run.ref} {direction} was ended"
        case StepResult.FAILED:
            return f"scaling {run.ref} {direction} failed"


def _change(task: Task | None) -> str:
    if task is None or task.step is not ScalingStep.WRITE:
        return ""
    return f" from {task.before} to {task.after}"


# For Events.


def note(order: ScalingRunStatus, run: ResourceRun) -> str:
    """What became of the resource, for an Event on the object itself."""
    task = run.task
    if task is not None and task.why is Why.LEFT_AT_ZERO:
        return f"Left at 0 replicas, as the annotation {ann.IGNORE_SCALING} asks for."
    if run.result is StepResult.FAILED:
        return f"Could not be scaled {order.direction}: {run.message}."
    count = "" if task is None else f"from {task.before} to {task.after} replicas"
    text = f"Scaled {count}{_occasion(order, task)}."
    return f"{text} Its pods were not awaited: {run.message}." if written_only(run) else text


def _occasion(order: ScalingRunStatus, task: Task | None) -> str:
    if order.manual and order.author != OURSELVES:
        return f" for {order.author}: {order.reason}"
    if order.manual:
        return ", as the maximum protection duration was reached"
    if order.direction is Direction.DOWN:
        return f", as {_AWAY}{_coming_back(task)}"
    if task is not None and task.why is Why.FOUND_AT_ZERO:
        return f": {_BACK}, and nothing says why it was at 0"
    return f", as {_BACK} again"


def _coming_back(task: Task | None) -> str:
    patch = None if task is None else task.patch
    saved = None if patch is None else patch.annotations.get(ann.REPLICAS)
    return "" if saved is None else f"; it comes back with {saved} when they can"


def protection(why: str, *, began: bool) -> str:
    """The note for the begin or end of protection; `why` has the numbers."""
    if began:
        return f"Meltdown protection began: until {_BACK} again, {_STOPPED} are stopped. Reason: {why}."
    return f"Meltdown protection ended: {_STOPPED} are started again. Reason: {why}."


def abandoned(why: str) -> str:
    """The note for a protection that was active when probing ended."""
    return f"This cluster is no longer watched ({why}): stopped controllers stay stopped."


def released(spec: ScaleSpec) -> str:
    """The note for a protection that is released, as it lasted for `maxProtectionDuration`."""
    return (
        "Meltdown protection has reached its maximum duration: everything is started again, and not stopped for "
        f"{format_duration(spec.hold)} after that, whatever the state of the nodes."
    )


def cancelled(direction: Direction, operation: str, by: str | None) -> str:
    """The note for a manual scaling run that a person cancelled."""
    who = "" if by is None else f" by {by}"
    return f"Scaling {direction} (operation {operation}) was cancelled{who}."
