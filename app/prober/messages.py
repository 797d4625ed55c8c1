"""The notices of probes, verdicts, protections and scaling runs, one function for each thing that happens.

Log, metrics, history and Events are made from them. The note of an Event is for readers of the object that it is on:
whoever looks after kube-controller-manager may never have heard of the watchdog, so notes use no word that Kubernetes
does not have.
"""

from collections.abc import Iterable
from typing import Final

from app.core.model import workloads as ann
from app.core.model.instants import format_duration, rfc3339
from app.core.model.overrides import API_VERSION, ScaleRequest, hold_end
from app.core.model.probing import (
    Decision,
    Failure,
    ProbeResult,
    Reading,
    RequestKind,
    ShootState,
    Tally,
    Verdict,
    VerdictReason,
)
from app.core.model.scaling_runs import (
    OURSELVES,
    OperationPhase,
    ScaleSpec,
    ScalingRunStatus,
    ScalingStep,
    StepResult,
)
from app.core.model.workloads import Direction, ResourceRef
from app.core.reporting.notices import (
    AnnotationInvalid,
    LifecycleChanged,
    OverrideChanged,
    OverrideNotice,
    Probed,
    ProtectionAbandoned,
    ProtectionBegan,
    ResourceScaled,
    RunnerFailed,
    ScalingRunBegan,
    ScalingRunEnded,
    Severity,
    ShootForgotten,
    VerdictChanged,
    report,
)
from app.prober.environment import ProberEnvironment
from app.prober.rules import schedule
from app.prober.rules.scaling import Task, Why
from app.prober.scaling.resource import ResourceRun
from app.prober.shoot_probe import PROBES

NODES_AWAY: Final = "nodes cannot reach their API server"
NODES_BACK: Final = "the nodes reach their API server"
_STOPPED: Final = "the controllers that would replace nodes or move their pods"
# Reasons of a HOLD for want of candidates: as far as can be known, the shoot is healthy.
_UNTROUBLED: Final = frozenset(
    {VerdictReason.NO_CANDIDATES, VerdictReason.ONE_CANDIDATE, VerdictReason.FEW_CANDIDATES}
)


def probed(
    environment: ProberEnvironment,
    namespace: str,
    reading: Reading,
    decision: Decision,
    *,
    lag: float,
    known_since: float | None,
    state: ShootState,
    postponed: bool,
) -> None:
    """Reports that a probe has ended.

    Args:
        environment: has the notice bus.
        namespace: of the shoot.
        reading: what the probe has read.
        decision: on it.
        lag: seconds by which it began late.
        known_since: when the outage that it shows could be known.
        state: of the shoot from now on.
        postponed: the next one is put off, as the shoot has used up its share of time.
    """
    notice = Probed(
        namespace,
        reading.ended,
        decision.reason,
        decision.message,
        Severity.DEBUG,
        verdict=decision.verdict,
        failed=isinstance(reading.result, Failure),
        probes=probe_results(reading, decision),
        durations=dict(reading.probes),
        seconds=reading.ended - reading.started,
        leases=reading.result.leases if isinstance(reading.result, Tally) else None,
        lag=lag,
        known_since=known_since,
        state=state,
        postponed=postponed,
    )
    environment.notice_bus.publish(notice)


def contact_failed(
    environment: ProberEnvironment, namespace: str, failure: Failure, seconds: float
) -> None:
    """Reports a contact between two probes that failed; it counts as a failed probe."""
    report(
        environment,
        Probed,
        namespace,
        failure.reason,
        f"contact failed: {failure.message}",
        Severity.DEBUG,
        verdict=Verdict.HOLD,
        failed=True,
        probes={RequestKind.LEASE: _failure_word(failure)},
        durations={RequestKind.LEASE: seconds},
        seconds=seconds,
        leases=None,
    )


def probe_results(reading: Reading, decision: Decision) -> dict[RequestKind, ProbeResult]:
    """The result of each kind of request that a probe made, as the metrics count it."""
    results = dict.fromkeys(reading.probes, ProbeResult.SUCCESS)
    if reading.paths:
        return {PROBES[each.route]: each.result for each in reading.paths.values()}
    if isinstance(reading.result, Failure):
        results[reading.result.kind] = _failure_word(reading.result)
    elif RequestKind.LEASE in results and decision.would_be is Verdict.SCALE_DOWN:
        results[RequestKind.LEASE] = ProbeResult.FAILURE
    return results


def _failure_word(failure: Failure) -> ProbeResult:
    if failure.retry_after is not None:
        return ProbeResult.THROTTLED
    unreachable = (
        failure.reason is VerdictReason.UNREACHABLE and failure.kind is RequestKind.API_SERVER
    )
    return ProbeResult.FAILURE if unreachable else ProbeResult.ERROR


def verdict_changed(
    environment: ProberEnvironment, namespace: str, before: Decision | None, decision: Decision
) -> None:
    """Reports that the verdict or its reason changed.

    Single nodes come and go in a large seed, so a SCALE UP that only has another reason is in the history, not in the
    log.
    """
    well = before is not None and before.verdict is decision.verdict is Verdict.SCALE_UP
    # A warning if somebody may have to act: a scale-down is asked for, or nothing is known of the nodes.
    if decision.would_be is Verdict.HOLD:
        troubling = decision.reason not in _UNTROUBLED
    else:
        troubling = decision.would_be is Verdict.SCALE_DOWN
    severity = Severity.WARNING if troubling else Severity.INFO
    report(
        environment,
        VerdictChanged,
        namespace,
        decision.reason,
        decision.message,
        Severity.DEBUG if well else severity,
        verdict=decision.verdict,
        would_be=decision.would_be,
    )


def protection_changed(
    environment: ProberEnvironment,
    namespace: str,
    refs: Iterable[ResourceRef],
    why: str,
    *,
    began: bool,
) -> None:
    """Reports that protection began or ended, with an Event on each of `refs`."""
    reason = "MeltdownProtectionStarted" if began else "MeltdownProtectionEnded"
    message = f"meltdown protection {'began' if began else 'ended'}: {why}"
    note = f"Meltdown protection ended: {_STOPPED} are started again. Reason: {why}."
    if began:
        note = f"Meltdown protection began: until {NODES_BACK} again, {_STOPPED} are stopped. Reason: {why}."
    of = ProtectionBegan if began else LifecycleChanged
    _on_each(environment, namespace, refs, reason, (message, note), of)


def protection_abandoned(
    environment: ProberEnvironment, namespace: str, refs: Iterable[ResourceRef], why: str
) -> None:
    """Reports that probing ended while protection was active, with an Event on each of `refs`."""
    text = f"probing ended ({why}) while protection was active; these stay as they are"
    note = f"This cluster is no longer watched ({why}): stopped controllers stay stopped."
    _on_each(environment, namespace, refs, "ProtectionAbandoned", (text, note), ProtectionAbandoned)


def _on_each(
    environment: ProberEnvironment,
    namespace: str,
    refs: Iterable[ResourceRef],
    reason: str,
    texts: tuple[str, str],
    of: type[LifecycleChanged] = LifecycleChanged,
) -> None:
    """Publishes a warning with an Event for each of `refs`; `texts` are its message and the note of the Event."""
    warning = (reason, texts[0], Severity.WARNING)
    for ref in refs:
        report(environment, of, namespace, *warning, resource=ref, event=texts[1])


def released(environment: ProberEnvironment, namespace: str, spec: ScaleSpec) -> None:
    """Reports that a protection has lasted for `maxProtectionDuration`, and is released."""
    refs = [each.ref for each in environment.policy.dependents]
    text = f"{spec.reason}: scaled up, and held for {spec.hold:g} s after that"
    note = (
        "Meltdown protection has reached its maximum duration: everything is started again, and not stopped for "
        f"{format_duration(spec.hold)} after that, whatever the state of the nodes."
    )
    _on_each(environment, namespace, refs[:1], "ProtectionReleased", (text, note))


def not_released(environment: ProberEnvironment, namespace: str, why: str) -> None:
    """Reports that a protection has lasted for `maxProtectionDuration`, and could not be released."""
    text = f"maxProtectionDuration is over, but the shoot is not released: {why}"
    report(environment, OverrideNotice, namespace, "ProtectionNotReleased", text, Severity.ERROR)


def lifecycle_changed(
    environment: ProberEnvironment, namespace: str, reason: str, message: str
) -> None:
    """Reports that probing began or ended, or that the Shoot cannot be decoded."""
    severity = Severity.WARNING if reason == "Undecodable" else Severity.INFO
    report(environment, LifecycleChanged, namespace, reason, message, severity)


def runner_failed(environment: ProberEnvironment, namespace: str, failed: Exception) -> None:
    """Reports that a runner failed unexpectedly, and will be started again."""
    text = f"the runner failed and is started again: {type(failed).__name__}"
    report(environment, RunnerFailed, namespace, "RunnerFailed", text, Severity.ERROR)


def probed_less_often(environment: ProberEnvironment, namespace: str) -> None:
    """Reports that a shoot's answers have used up its share of time (rules 4.4)."""
    text = schedule.PROBED_LESS_OFTEN
    report(environment, LifecycleChanged, namespace, "ProbedLessOften", text, Severity.WARNING)


def probed_as_usual(environment: ProberEnvironment, namespace: str) -> None:
    """Reports that a shoot's answers have been within its share of time for a while."""
    text = "probed as often as usual again"
    report(environment, LifecycleChanged, namespace, "ProbedAsUsual", text)


def forgotten(environment: ProberEnvironment, namespace: str) -> None:
    """Reports that the Cluster is gone, so that nothing of the shoot is kept."""
    text = "the Cluster is gone; its history goes too"
    report(environment, ShootForgotten, namespace, "ShootForgotten", text, Severity.DEBUG)


# Scaling runs.

_REASONS: Final = {
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


def annotation_invalid(
    environment: ProberEnvironment, namespace: str, resource: ResourceRef, warning: str
) -> None:
    """Reports that an annotation of a dependent means nothing."""
    text, told = _WARNINGS[warning]
    words = (warning, f"{resource}: {text}", Severity.WARNING)
    report(environment, AnnotationInvalid, namespace, *words, resource=resource, event=told)


def run_began(environment: ProberEnvironment, order: ScalingRunStatus) -> None:
    """Reports that a scaling run begins."""
    by = f" {asked(order)}" if order.manual else ""
    report(
        environment,
        ScalingRunBegan,
        order.namespace,
        "FlowStarted",
        f"scaling {order.direction}{by} begins",
        direction=order.direction,
        operation=order.id,
        trigger=order.trigger,
    )


def asked(order: ScalingRunStatus) -> str:
    """Whose wish a manual run carries out, and why: a person's, or our own (`maxProtectionDuration`)."""
    whose = "" if order.author == OURSELVES else "by hand "
    return f"{whose}({order.author}: {order.reason})"


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
    _on_each(environment, operation.namespace, refs[:1], "ScalingCancelled", told)


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
    report(
        environment,
        OverrideChanged,
        request.id.namespace,
        reason,
        text,
        severity,
        resource=ResourceRef(API_VERSION, "ScaleRequest", request.id.name),
        resource_uid=request.id.uid,
        event=text,
        action="EndOverride" if until is None else "SetOverride",
        override="hold",
        operation=request.id.uid,
        author=request.spec.author,
        until=None if until is None else rfc3339(until),
    )


def run_ended(environment: ProberEnvironment, end: ScalingRunStatus) -> None:
    """Reports that a scaling run has ended just now, and how."""
    took = 0.0 if end.started is None else environment.clock.now() - end.started
    match end.phase:
        case OperationPhase.CANCELLED:
            text, severity = f"was ended: {end.message}", Severity.WARNING
        case OperationPhase.FAILED:
            text, severity = f"failed: {end.message}", Severity.ERROR
        case _:
            text, severity = f"is done, after {took:.1f} s", Severity.INFO
    report(
        environment,
        ScalingRunEnded,
        end.namespace,
        "FlowEnded",
        f"scaling {end.direction} {text}",
        severity,
        direction=end.direction,
        seconds=took,
        operation=end.id,
        trigger=end.trigger,
    )


def resource_ended(
    environment: ProberEnvironment, order: ScalingRunStatus, run: ResourceRun
) -> None:
    """Reports what became of a resource in a scaling run, with a notice of its own for each warning."""
    direction, task = order.direction, run.task
    result = run.result or StepResult.FAILED
    for warning in () if task is None else task.warnings:
        annotation_invalid(environment, order.namespace, run.ref, warning)
    why = None if task is None else task.why
    severity = _SEVERITIES.get(result, Severity.DEBUG if why in _QUIET else Severity.INFO)
    if _written_only(run):
        severity = Severity.INFO  # it was scaled; that the run was ended is told of the run
    report(
        environment,
        ResourceScaled,
        order.namespace,
        _reason(direction, run, why),
        line(direction, run),
        severity,
        resource=run.ref,
        event=note(order, run) if _worth_an_event(run) else None,
        direction=direction,
        result=result,
        trigger=order.trigger,
        operation=order.id,
        before=None if task is None else task.before,
        after=None if task is None else task.after,
        requested_at=run.requested_at,
    )


def _reason(direction: Direction, run: ResourceRun, why: Why | None) -> str:
    if run.result is not StepResult.DONE and not _written_only(run):
        return _REASONS[run.result or StepResult.FAILED]
    if why in {Why.KEYS_REMOVED, Why.FOUND_AT_ZERO, Why.ALREADY}:
        return why
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
    if run.result is StepResult.DONE and task is not None and task.step is ScalingStep.NOTHING:
        return f"{run.ref} was up already; its pods are ready"
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
