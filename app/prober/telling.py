"""What the prober tells the notice board; one function for each thing that happens."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.core.model.instants import rfc3339
from app.core.model.operations import Operation
from app.core.model.probing import Decision, Failure, Probe, ProbeResult, Reason, Tally, Verdict
from app.core.model.workloads import Direction, ResourceRef
from app.core.records.notices import Kind, Notice, Severity
from app.prober import sentences
from app.prober.environment import Environment
from app.prober.flowcontext import FlowContext, FlowOrder, FlowResult, Result
from app.prober.observer import Look
from app.prober.resource import ResourceRun
from app.prober.rules.scaling import Step, Why

_REASONS: Final = {
    Result.DONE: "Scaled",
    Result.SKIPPED: "ScalingSkipped",
    Result.FAILED: "ScalingFailed",
    Result.CANCELLED: "ScalingCancelled",
    Result.DRY_RUN: "ScalingRehearsed",
}
_SEVERITIES: Final = {Result.FAILED: Severity.ERROR, Result.CANCELLED: Severity.WARNING}
_WORTH_AN_EVENT: Final = frozenset({Result.DONE, Result.FAILED})
_QUIET: Final = frozenset({Why.ALREADY, Why.GONE, Why.NOT_OURS})
_WARNINGS: Final = {
    "InvalidReplicasAnnotation": "the saved count is not one; 1 replica is used instead",
    "InvalidIgnoreScalingAnnotation": "ignore-scaling is neither true nor false; it is not heeded",
}
_UNTROUBLED: Final = frozenset({Reason.NO_CANDIDATES, Reason.ONE_CANDIDATE, Reason.FEW_CANDIDATES})
"""A HOLD for want of candidates: the shoot is healthy, as far as anybody can tell."""


def flow_began(environment: Environment, namespace: str, order: FlowOrder) -> None:
    """A flow begins."""
    by = f" by hand ({order.author}: {order.reason})" if order.manual else ""
    notice = Notice(
        Kind.SCALE,
        namespace,
        environment.clock.now(),
        "FlowStarted",
        f"scaling {order.direction}{by} begins",
        numbers={
            "direction": order.direction,
            "flow": "started",
            "operation": order.operation,
            "trigger": order.trigger,
        },
    )
    environment.board.publish(notice)


def cancelled(environment: Environment, operation: Operation, by: str | None) -> None:
    """A person has cancelled a flow: an Event on what it was about to scale next, or had scaled last.

    Args:
        environment: where it is told.
        operation: the flow as it was then.
        by: who cancelled it alone; None: somebody ended its hold, and `OverrideEnded` says who.
    """
    refs = [each.resource for each in operation.steps if each.ended is None]
    refs = refs or [each.ref for each in environment.policy.dependents]
    what = f"scaling {operation.direction} by hand (operation {operation.id})"
    how = "; its hold was ended" if by is None else f" by {by}; its hold goes on"
    text = f"{what} was cancelled{how}"
    told = text, sentences.cancelled(operation.direction, operation.id, by)
    _on_each(environment, operation.namespace, refs[:1], "ScalingCancelled", told, Severity.WARNING)


def flow_ended(environment: Environment, namespace: str, result: FlowResult) -> None:
    """A flow has ended, this way or that."""
    took = result.ended - result.started
    if result.cancelled is not None:
        text, severity = f"was ended: {result.cancelled}", Severity.WARNING
    elif result.failed:
        text, severity = f"failed for {'; '.join(result.failed)}", Severity.ERROR
    else:
        text, severity = f"is done, after {took:.1f} s", Severity.INFO
    notice = Notice(
        Kind.SCALE,
        namespace,
        result.ended,
        "FlowEnded",
        f"scaling {result.direction} {text}",
        severity,
        numbers={
            "direction": result.direction,
            "flow": "ended",
            "seconds": took,
            "operation": result.operation,
            "trigger": result.trigger,
        },
    )
    environment.board.publish(notice)


def resource_ended(
    environment: Environment, namespace: str, context: FlowContext, run: ResourceRun
) -> None:
    """A resource has come to its end in a flow; what there is to warn of is told beside it."""
    direction = context.direction
    task, result = run.task, run.result or Result.FAILED
    for warning in () if task is None else task.warnings:
        _warn(environment, namespace, run.ref, warning)
    why = None if task is None else task.why
    reason = _reason(direction, run, why)
    environment.board.publish(
        Notice(
            Kind.SCALE,
            namespace,
            environment.clock.now(),
            reason,
            sentences.line(direction, run),
            _SEVERITIES.get(result, Severity.DEBUG if why in _QUIET else Severity.INFO),
            resource=run.ref,
            event=_worth_an_event(run),
            note=sentences.note(context.order, run),
            numbers={
                "direction": direction,
                "result": result,
                "trigger": context.order.trigger,
                "operation": context.order.operation,
                "before": None if task is None else task.before,
                "after": None if task is None else task.after,
                "requested_at": run.requested_at,
            },
        )
    )


def _reason(direction: Direction, run: ResourceRun, why: Why | None) -> str:
    if run.result is not Result.DONE and not sentences.written_only(run):
        return _REASONS[run.result or Result.FAILED]
    if why is Why.KEYS_REMOVED:
        return "KeysRemoved"
    if why is Why.FOUND_AT_ZERO:
        return "FoundAtZero"
    return "ScaledUp" if direction is Direction.UP else "ScaledDown"


def _worth_an_event(run: ResourceRun) -> bool:
    if run.task is not None and run.task.why is Why.KEYS_REMOVED and run.result is Result.DONE:
        return False  # nothing was scaled
    if run.result in _WORTH_AN_EVENT or sentences.written_only(run):
        return run.task is not None and run.task.step is not Step.NOTHING
    return run.task is not None and run.task.why is Why.LEFT_AT_ZERO


def _warn(environment: Environment, namespace: str, ref: ResourceRef, reason: str) -> None:
    environment.board.publish(
        Notice(
            Kind.SCALE,
            namespace,
            environment.clock.now(),
            reason,
            f"{ref}: {_WARNINGS[reason]}",
            Severity.WARNING,
            resource=ref,
            event=True,
            note=sentences.ANNOTATIONS[reason],
        )
    )


def looked(
    environment: Environment,
    namespace: str,
    look: Look,
    decision: Decision,
    numbers: Mapping[str, Any],
) -> None:
    """A look has ended."""
    failed = isinstance(look.result, Failure)
    environment.board.publish(
        Notice(
            Kind.LOOK,
            namespace,
            look.ended,
            decision.reason,
            decision.message,
            Severity.DEBUG,
            decision.verdict,
            numbers={
                **numbers,
                "failed": failed,
                "probes": probe_results(look, decision),
                "seconds": look.ended - look.started,
                "durations": dict(look.probes),
                "leases": None if isinstance(look.result, Failure) else lease_numbers(look.result),
            },
        )
    )


def contact_failed(
    environment: Environment, namespace: str, failure: Failure, seconds: float
) -> None:
    """A contact between two looks failed: it counts as a failed probe."""
    environment.board.publish(
        Notice(
            Kind.LOOK,
            namespace,
            environment.clock.now(),
            failure.reason,
            f"contact failed: {failure.message}",
            Severity.DEBUG,
            Verdict.HOLD,
            numbers={
                "failed": True,
                "probes": {Probe.LEASE: _failure_word(failure)},
                "durations": {Probe.LEASE: seconds},
                "seconds": seconds,
                "lag": 0.0,
                "known_since": None,
                "leases": None,
            },
        )
    )


def probe_results(look: Look, decision: Decision) -> dict[Probe, ProbeResult]:
    """How each probe that was made ended."""
    results = dict.fromkeys(look.probes, ProbeResult.SUCCESS)
    if isinstance(look.result, Failure):
        results[look.result.probe] = _failure_word(look.result)
    elif Probe.LEASE in results and decision.would_be is Verdict.SCALE_DOWN:
        results[Probe.LEASE] = ProbeResult.FAILURE
    return results


def _failure_word(failure: Failure) -> ProbeResult:
    if failure.retry_after is not None:
        return ProbeResult.THROTTLED
    unreachable = failure.reason == "Unreachable" and failure.probe is Probe.API_SERVER
    return ProbeResult.FAILURE if unreachable else ProbeResult.ERROR


def lease_numbers(tally: Tally) -> dict[str, int]:
    """The leases of a shoot by what they count as."""
    found = tally.candidates
    return {
        "fresh": found.total - found.expired - found.unknown,
        "expired": found.expired,
        "unknown": found.unknown,
        "excluded": sum(tally.excluded.values()),
    }


def verdict_changed(environment: Environment, namespace: str, decision: Decision) -> None:
    """The verdict, or its reason, is another one than at the look before."""
    environment.board.publish(
        Notice(
            Kind.VERDICT,
            namespace,
            environment.clock.now(),
            decision.reason,
            decision.message,
            Severity.WARNING if _troubling(decision) else Severity.INFO,
            decision.verdict,
            numbers={"would_be": decision.would_be},
        )
    )


def _troubling(decision: Decision) -> bool:
    """Whether somebody may have to look: leases ask for a scale-down, or nothing can be said."""
    if decision.would_be is Verdict.HOLD:
        return decision.reason not in _UNTROUBLED
    return decision.would_be is Verdict.SCALE_DOWN


def protection_changed(
    environment: Environment, namespace: str, refs: Iterable[ResourceRef], why: str, *, began: bool
) -> None:
    """Protection began or ended."""
    reason = "MeltdownProtectionStarted" if began else "MeltdownProtectionEnded"
    message = f"meltdown protection {'began' if began else 'ended'}: {why}"
    texts = message, sentences.protection(why, began=began)
    _on_each(environment, namespace, refs, reason, texts, Severity.WARNING)


def protection_abandoned(
    environment: Environment, namespace: str, refs: Iterable[ResourceRef], why: str
) -> None:
    """The prober was stopped while protection was active."""
    text = f"probing ended ({why}) while protection was active; these stay as they are"
    told = text, sentences.abandoned(why)
    _on_each(environment, namespace, refs, "ProtectionAbandoned", told, Severity.WARNING)


def _on_each(
    environment: Environment,
    namespace: str,
    refs: Iterable[ResourceRef],
    reason: str,
    texts: tuple[str, str],
    severity: Severity,
) -> None:
    """A notice for each of `refs`, with these texts: the message, and the note of the Event."""
    for ref in refs:
        environment.board.publish(
            Notice(
                Kind.LIFECYCLE,
                namespace,
                environment.clock.now(),
                reason,
                texts[0],
                severity,
                resource=ref,
                event=True,
                note=texts[1],
            )
        )


def hold_ended(environment: Environment, namespace: str, why: str) -> None:
    """A hold ended before its time, by ourselves; that it did is told where the overrides are looked after."""
    now, text = environment.clock.now(), f"the hold ended: {why}"
    notice = Notice(Kind.OVERRIDE, namespace, now, "HoldEnded", text, Severity.WARNING)
    environment.board.publish(notice)


def released(environment: Environment, namespace: str, order: FlowOrder) -> None:
    """A protection has lasted for too long, and is let go."""
    refs = [each.ref for each in environment.policy.dependents]
    text = f"{order.reason}: scaled up, and held until {rfc3339(order.hold_until or 0.0)}"
    told = text, sentences.released(order)
    _on_each(environment, namespace, refs[:1], "ProtectionReleased", told, Severity.WARNING)


def not_released(environment: Environment, namespace: str, why: str) -> None:
    """A protection has lasted for too long, and could not be let go."""
    text = f"maxProtectionDuration is over, and the shoot is not released: {why}"
    now = environment.clock.now()
    environment.board.publish(
        Notice(Kind.OVERRIDE, namespace, now, "ProtectionNotReleased", text, Severity.ERROR)
    )


def lifecycle_changed(environment: Environment, namespace: str, reason: str, message: str) -> None:
    """Probing began, went on differently, or ended."""
    severity = Severity.WARNING if reason == "Undecodable" else Severity.INFO
    notice = Notice(Kind.LIFECYCLE, namespace, environment.clock.now(), reason, message, severity)
    environment.board.publish(notice)


def runner_failed(environment: Environment, namespace: str, error: Exception) -> None:
    """A runner failed unexpectedly and will be started again."""
    text = f"the runner failed and is started again: {type(error).__name__}"
    now = environment.clock.now()
    environment.board.publish(
        Notice(Kind.LIFECYCLE, namespace, now, "RunnerFailed", text, Severity.ERROR)
    )


def forgotten(environment: Environment, namespace: str) -> None:
    """The Cluster is gone: nothing of the shoot is kept."""
    now, text = environment.clock.now(), "the Cluster is gone; its history goes too"
    notice = Notice(Kind.LIFECYCLE, namespace, now, "ShootForgotten", text, Severity.DEBUG)
    environment.board.publish(notice)
