"""The notices of scaling runs and of the resources in them, one function for each thing that happens."""

from typing import Final

from app.core.model import workloads as ann
from app.core.model.instants import rfc3339
from app.core.model.overrides import API_VERSION, ScaleRequest, hold_end
from app.core.model.probing import NoticeKind
from app.core.model.scaling_runs import OURSELVES, OperationPhase, ScalingRunStatus, ScalingStep
from app.core.model.workloads import Direction, ResourceRef
from app.core.reporting.notices import Severity
from app.prober.environment import ProberEnvironment
from app.prober.messages import NODES_AWAY, NODES_BACK, on_each, publish
from app.prober.rules.scaling import Task, Why
from app.prober.scaling.context import ScalingContext, ScalingResult, StepResult
from app.prober.scaling.resource import ResourceRun

_REASONS: Final = {
    StepResult.DONE: "Scaled",
    StepResult.SKIPPED: "ScalingSkipped",
    StepResult.FAILED: "ScalingFailed",
    StepResult.CANCELLED: "ScalingCancelled",
    StepResult.DRY_RUN: "ScalingRehearsed",
}
_SEVERITIES: Final = {StepResult.FAILED: Severity.ERROR, StepResult.CANCELLED: Severity.WARNING}
_WORTH_AN_EVENT: Final = frozenset({StepResult.DONE, StepResult.FAILED})
_QUIET: Final = frozenset({Why.ALREADY, Why.GONE, Why.NOT_OURS})
# What a person wrote into an annotation: for the log, and for the Event on the object.
_WARNINGS: Final = {
    "InvalidReplicasAnnotation": (
        "the saved count is not one; 1 replica is used instead",
        f"The annotation {ann.REPLICAS} has no valid number of replicas: 1 is used instead.",
    ),
    "InvalidIgnoreScalingAnnotation": (
        "ignore-scaling is neither true nor false; it is ignored",
        f"The annotation {ann.IGNORE_SCALING} is neither true nor false: it is ignored.",
    ),
}


def run_began(environment: ProberEnvironment, namespace: str, order: ScalingRunStatus) -> None:
    """Reports that a scaling run begins."""
    by = f" by hand ({order.author}: {order.reason})" if order.manual else ""
    publish(
        environment,
        NoticeKind.SCALE,
        namespace,
        "FlowStarted",
        f"scaling {order.direction}{by} begins",
        numbers={
            "direction": order.direction,
            "flow": "started",
            "operation": order.id,
            "trigger": order.trigger,
        },
    )


def cancelled(environment: ProberEnvironment, operation: ScalingRunStatus, by: str | None) -> None:
    """Reports that a person cancelled a scaling run, by deleting its ScaleRequest.

    The Event is on the first dependent that the run had not finished with; if there is none, on the first of all.

    Args:
        environment: has the notice bus.
        operation: the scaling run as it was when it was cancelled.
        by: the person; None if that is not known, as somebody used kubectl or another replica.
    """
    refs = [each.resource for each in operation.steps if each.ended is None]
    refs = refs or [each.ref for each in environment.policy.dependents]
    what = f"scaling {operation.direction} by hand (operation {operation.id})"
    who = "" if by is None else f" by {by}"
    how = "; its ScaleRequest was ended" if by is None else who
    told = (
        f"{what} was cancelled{how}",
        f"Scaling {operation.direction} (operation {operation.id}) was cancelled{who}.",
    )
    on_each(environment, operation.namespace, refs[:1], "ScalingCancelled", told, Severity.WARNING)


def request_began(
    environment: ProberEnvironment, request: ScaleRequest, *, carried_on: bool
) -> None:
    """Reports that a ScaleRequest is carried out, and holds verdicts back until its end and after it."""
    spec = request.spec
    verb = "is carried on" if carried_on else "begins"
    text = (
        f"scaling {spec.direction} by {spec.author} {verb} (operation {request.id.uid}); verdicts of "
        f"{request.id.namespace} are not acted on until {spec.hold:g} s after its end: {spec.reason}"
    )
    _request_changed(environment, request, "ScaleRequestStarted", text, Severity.INFO)


_ENDS: Final = {
    OperationPhase.DONE: ("Succeeded", "is done", Severity.INFO),
    OperationPhase.FAILED: ("Failed", "failed", Severity.ERROR),
    OperationPhase.CANCELLED: ("Cancelled", "was cancelled", Severity.WARNING),
    OperationPhase.REFUSED: ("Refused", "was refused", Severity.WARNING),
}


def request_ended(environment: ProberEnvironment, request: ScaleRequest) -> None:
    """Reports how a ScaleRequest has ended, and how long its hold goes on."""
    word, how, severity = _ENDS[request.phase]
    until = request.hold_until
    held = "verdicts act again" if until is None else f"verdicts are held until {rfc3339(until)}"
    why = f": {request.message}" if request.message else ""
    spec = request.spec
    text = (
        f"scaling {spec.direction} by {spec.author} {how}{why} (operation {request.id.uid}); {held}"
    )
    _request_changed(environment, request, f"ScaleRequest{word}", text, severity)


def _request_changed(
    environment: ProberEnvironment,
    request: ScaleRequest,
    reason: str,
    text: str,
    severity: Severity,
) -> None:
    until = hold_end(request)
    publish(
        environment,
        NoticeKind.OVERRIDE,
        request.id.namespace,
        reason,
        text,
        severity,
        resource=ResourceRef(API_VERSION, "ScaleRequest", request.id.name),
        resource_uid=request.id.uid,
        event=text,
        numbers={
            "action": "EndOverride" if until is None else "SetOverride",
            "override": "hold",
            "operation": request.id.uid,
            "author": request.spec.author,
        }
        | ({} if until is None else {"until": rfc3339(until)}),
    )


def run_ended(environment: ProberEnvironment, namespace: str, result: ScalingResult) -> None:
    """Reports that a scaling run has ended, and how."""
    took = result.ended - result.started
    if result.cancelled is not None:
        text, severity = f"was ended: {result.cancelled}", Severity.WARNING
    elif result.failures:
        text, severity = f"failed for {'; '.join(result.failures)}", Severity.ERROR
    else:
        text, severity = f"is done, after {took:.1f} s", Severity.INFO
    publish(
        environment,
        NoticeKind.SCALE,
        namespace,
        "FlowEnded",
        f"scaling {result.direction} {text}",
        severity,
        at=result.ended,
        numbers={
            "direction": result.direction,
            "flow": "ended",
            "seconds": took,
            "operation": result.operation,
            "trigger": result.trigger,
        },
    )


def resource_ended(
    environment: ProberEnvironment, namespace: str, context: ScalingContext, run: ResourceRun
) -> None:
    """Reports what became of a resource in a scaling run, with a notice of its own for each warning."""
    direction = context.direction
    task, result = run.task, run.result or StepResult.FAILED
    for warning in () if task is None else task.warnings:
        text, told = _WARNINGS[warning]
        publish(
            environment,
            NoticeKind.SCALE,
            namespace,
            warning,
            f"{run.ref}: {text}",
            Severity.WARNING,
            resource=run.ref,
            event=told,
        )
    why = None if task is None else task.why
    publish(
        environment,
        NoticeKind.SCALE,
        namespace,
        _reason(direction, run, why),
        line(direction, run),
        _SEVERITIES.get(result, Severity.DEBUG if why in _QUIET else Severity.INFO),
        resource=run.ref,
        event=note(context.order, run) if _worth_an_event(run) else None,
        numbers={
            "direction": direction,
            "result": result,
            "trigger": context.order.trigger,
            "operation": context.order.id,
            "before": None if task is None else task.before,
            "after": None if task is None else task.after,
            "requested_at": run.requested_at,
        },
    )


def _reason(direction: Direction, run: ResourceRun, why: Why | None) -> str:
    if run.result is not StepResult.DONE and not _written_only(run):
        return _REASONS[run.result or StepResult.FAILED]
    if why is Why.KEYS_REMOVED:
        return "KeysRemoved"
    if why is Why.FOUND_AT_ZERO:
        return "FoundAtZero"
    return "ScaledUp" if direction is Direction.UP else "ScaledDown"


def _worth_an_event(run: ResourceRun) -> bool:
    if run.task is not None and run.task.why is Why.KEYS_REMOVED and run.result is StepResult.DONE:
        return False  # nothing was scaled
    if run.result in _WORTH_AN_EVENT or _written_only(run):
        return run.task is not None and run.task.step is not ScalingStep.NOTHING
    return run.task is not None and run.task.why is Why.LEFT_AT_ZERO


# What became of a resource, in words.


def _written_only(run: ResourceRun) -> bool:
    """Whether the resource was scaled, and only the wait for its pods was ended early."""
    return run.result is StepResult.CANCELLED and run.accepted


def line(direction: Direction, run: ResourceRun) -> str:
    """What became of the resource, with its name."""
    task, detail = run.task, f": {run.message}" if run.message else ""
    if task is not None and task.why is Why.LEFT_AT_ZERO:
        return f"{run.ref} has ignore-scaling and was left at 0; the meltdown key was removed"
    if _written_only(run):
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


def note(order: ScalingRunStatus, run: ResourceRun) -> str:
    """What became of the resource, for an Event on the object itself."""
    task = run.task
    if task is not None and task.why is Why.LEFT_AT_ZERO:
        return f"Left at 0 replicas, as the annotation {ann.IGNORE_SCALING} asks for."
    if run.result is StepResult.FAILED:
        return f"Could not be scaled {order.direction}: {run.message}."
    count = "" if task is None else f"from {task.before} to {task.after} replicas"
    text = f"Scaled {count}{_occasion(order, task)}."
    return f"{text} Its pods were not awaited: {run.message}." if _written_only(run) else text


def _occasion(order: ScalingRunStatus, task: Task | None) -> str:
    if order.manual and order.author != OURSELVES:
        return f" for {order.author}: {order.reason}"
    if order.manual:
        return ", as the maximum protection duration was reached"
    if order.direction is Direction.DOWN:
        patch = None if task is None else task.patch
        saved = None if patch is None else patch.annotations.get(ann.REPLICAS)
        back = "" if saved is None else f"; it comes back with {saved} when they can"
        return f", as {NODES_AWAY}{back}"
    if task is not None and task.why is Why.FOUND_AT_ZERO:
        return f": {NODES_BACK}, and nothing says why it was at 0"
    return f", as {NODES_BACK} again"
