"""Translates scaling runs, plans and recoveries into schemas of the API; pure."""

from itertools import groupby

from app.api import schemas
from app.api.presenting import rounded_up, time
from app.core.errors import trimmed
from app.core.model.durations import format_duration
from app.core.model.instants import rfc3339
from app.core.model.scaling_runs import (
    OperationPhase,
    PlannedResource,
    RunStep,
    ScalingPlan,
    ScalingRunStatus,
    StepPhase,
)
from app.core.model.weeding import DeletedPod, KeptPod, RecoveryStatus, ServiceStatus, WeedRequest


def operation(found: ScalingRunStatus) -> schemas.Operation:
    """A scaling run with its steps so far."""
    return schemas.Operation(
        id=found.id,
        namespace=found.namespace,
        direction=found.direction,
        trigger=found.trigger,
        phase=found.phase,
        created=rfc3339(found.created),
        started=time(found.started),
        ended=time(found.ended),
        author=None if found.author is None else trimmed(found.author),
        verified=found.verified,
        reason=trimmed(found.reason),
        message=trimmed(found.message),
        forced=found.forced,
        carried_on=found.carried_on,
        hold_until=None if found.hold_until is None else rounded_up(found.hold_until),
        steps=[_step(each) for each in found.steps],
    )


def _step(step: RunStep) -> schemas.OperationStep:
    return schemas.OperationStep(
        resource=str(step.resource),
        level=step.level,
        phase=step.phase,
        message=trimmed(step.message),
        started=time(step.started),
        written=time(step.written),
        ended=time(step.ended),
        before=step.before,
        after=step.after,
    )


def cancelled(found: ScalingRunStatus) -> list[schemas.PlannedChange]:
    """What its cancellation would change: the run, and each resource whose write has not been sent."""
    run = schemas.PlannedChange(
        object=f"operation {found.id}, scaling {found.direction}",
        before=str(found.phase),
        after=str(OperationPhase.CANCELLED),
    )
    left = [each for each in found.steps if each.ended is None and each.written is None]
    return [run] + [
        schemas.PlannedChange(
            object=f"{each.resource}, level {each.level} of that run",
            before=str(each.phase),
            after=str(StepPhase.CANCELLED),
        )
        for each in left
    ]


def plan(found: ScalingPlan) -> schemas.Plan:
    """The plan of a scaling run, its levels in ascending order."""
    ordered = sorted(found.steps, key=lambda each: each.level)
    return schemas.Plan(
        namespace=found.namespace,
        direction=found.direction,
        levels=[
            schemas.PlannedLevel(level=level, steps=[_planned(each) for each in steps])
            for level, steps in groupby(ordered, key=lambda each: each.level)
        ],
        etag=found.etag,
        replaces=found.replaces,
    )


def _planned(step: PlannedResource) -> schemas.PlannedStep:
    return schemas.PlannedStep(
        resource=str(step.resource),
        action=step.action,
        reason=step.reason,
        before=step.before,
        after=step.after,
        initial_delay=format_duration(step.initial_delay),
        etag=step.etag,
    )


# Services of the weeder and their recoveries.


# Decimals of a back-off in seconds; more would be noise, as its start is known in whole seconds only.
_DECIMALS = 3


def weeder(status: ServiceStatus) -> schemas.Weeder:
    """A service with its recoveries."""
    return schemas.Weeder(
        namespace=status.key.namespace,
        service=status.key.service,
        ready=status.ready,
        since=time(status.since),
        failing=_line(status.failing),
        recoveries=[recovery(each) for each in status.recoveries],
    )


def pods(status: ServiceStatus) -> int:
    """Number of pods in the recoveries of a service, which determines the cost of rendering it."""
    return sum(len(each.deletions) + len(each.spared) for each in status.recoveries)


def recovery(status: RecoveryStatus) -> schemas.Recovery:
    """A recovery with the pods that it deleted and those that it spared."""
    return schemas.Recovery(
        id=status.id,
        cause=status.cause,
        phase=status.phase,
        began=rfc3339(status.began),
        due=rfc3339(status.due),
        until=rfc3339(status.until),
        ended=time(status.ended),
        end=status.end,
        asked=_asked(status.asked),
        trouble=_line(status.trouble),
        queued=status.queued,
        deletions=[_weeded(each) for each in status.deletions],
        spared=[_spared(each) for each in status.spared],
    )


def _asked(asked: WeedRequest | None) -> schemas.Asked | None:
    if asked is None:
        return None
    return schemas.Asked(
        author=trimmed(asked.author), reason=trimmed(asked.reason), despite=_line(asked.despite)
    )


def _weeded(deletion: DeletedPod) -> schemas.WeededPod:
    left = deletion.remaining
    return schemas.WeededPod(
        pod=deletion.pod,
        owner=None if deletion.owner is None else str(deletion.owner),
        time=rfc3339(deletion.at),
        result=deletion.result,
        container=deletion.container,
        spared_backoff=None if left is None else format_duration(round(left, _DECIMALS)),
    )


def _spared(pod: KeptPod) -> schemas.SparedPod:
    return schemas.SparedPod(
        pod=pod.pod, time=rfc3339(pod.at), reason=pod.reason, message=trimmed(pod.message)
    )


def _line(text: str | None) -> str | None:
    return None if text is None else trimmed(text)
