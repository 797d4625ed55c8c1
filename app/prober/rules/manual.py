"""What people may scale, and what is to be done about a ScaleRequest (rules 7)."""

from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import Final

from app.core.model.overrides import ScaleRequest, hold_end
from app.core.model.probing import Verdict
from app.core.model.scaling_runs import (
    OperationPhase,
    RunStep,
    ScalingRunStatus,
    StepPhase,
    Trigger,
)
from app.core.model.workloads import Direction, ResourceRef


@dataclass(frozen=True, slots=True)
class ManualContext:
    """What decides whether a manual scaling run needs `force`."""

    probed: bool
    """The shoot is probed."""
    would_be: Verdict | None = None
    """What the leases or paths ask for, whatever holds it back; None before the first probe."""
    exists: bool = True
    """There is such a shoot."""
    judged: bool = True
    """There has been a first probe, or there will be none."""


def objection(direction: Direction, context: ManualContext) -> str | None:
    """Why a manual scaling run needs `force`, in words; None if it does not."""
    if not context.probed:
        return "the shoot is not probed, so nothing scales it back; use force to scale it anyway"
    if direction is Direction.UP and context.would_be is Verdict.SCALE_DOWN:
        return (
            "the verdict would be SCALE DOWN: controllers that come back now would act on expired "
            "leases; use force to scale it anyway"
        )
    return None


@unique
class RequestStep(Enum):
    """What a leader does next about a ScaleRequest that it does not carry out yet."""

    WAIT = "wait"
    BEGIN = "begin"
    CARRY_ON = "carry on"
    """An earlier leader has begun it."""
    REFUSE = "refuse"
    CANCEL = "cancel"


NEVER_STARTED: Final = 3_600.0
"""Seconds after which a request that nobody has begun is not begun any more."""


def next_step(
    request: ScaleRequest, context: ManualContext | None, now: float
) -> tuple[RequestStep, str]:
    """Decides about the next open request of a shoot, of which no scaling run is under way; the text says why not.

    | phase   | what is known            | step     |
    |---------|--------------------------|----------|
    | any     | nothing of the shoot     | wait     |
    | Pending | older than an hour       | refuse   |
    | Pending | no such shoot            | refuse   |
    | Pending | a rule forbids it        | refuse   |
    | Pending | up, and no verdict yet   | wait     |
    | Pending | else                     | begin    |
    | Running | not probed, not forced   | cancel   |
    | Running | else                     | carry on |
    """
    if context is None:
        return RequestStep.WAIT, "the shoot is not known yet"
    force = request.spec.force if context.probed else request.outlives_probing
    if request.phase is OperationPhase.RUNNING:
        if not context.probed and not force:
            return RequestStep.CANCEL, "the shoot is not probed, and it was not forced"
        return RequestStep.CARRY_ON, ""
    if now >= request.created_at + NEVER_STARTED:
        return RequestStep.REFUSE, "it was not begun within an hour"
    if not context.exists:
        return RequestStep.REFUSE, "its namespace is not that of a shoot"
    text = objection(request.spec.direction, context)
    if text is not None and not force:
        return RequestStep.REFUSE, text
    if request.spec.direction is Direction.UP and not context.judged and not force:
        return RequestStep.WAIT, "there is no verdict yet"
    return RequestStep.BEGIN, ""


def ordered(request: ScaleRequest, *, carried_on: bool) -> ScalingRunStatus:
    """The scaling run that a request asks for, which an earlier leader may have begun."""
    spec = request.spec
    return ScalingRunStatus(
        id=request.id.uid,
        namespace=request.id.namespace,
        direction=spec.direction,
        trigger=Trigger.MANUAL,
        phase=OperationPhase.PENDING,
        created=request.created_at,
        reason=spec.reason,
        author=spec.author,
        forced=request.outlives_probing,
        carried_on=carried_on,
        hold_until=hold_end(request),
        verified=request.verified,
    )


def shown(request: ScaleRequest, run: ScalingRunStatus, leader: str) -> ScaleRequest:
    """Returns the request with the progress of its scaling run; what an earlier leader saw first stays."""
    before = {str(each.resource): each for each in request.steps}
    steps = tuple(_joined(before.get(str(each.resource)), each) for each in run.steps)
    return replace(
        request,
        phase=OperationPhase.RUNNING,
        message=run.message if run.phase is OperationPhase.PENDING else request.message,
        # The status `Running` may not have been accepted.
        started=run.started if request.started is None else request.started,
        steps=steps or request.steps,
        observed_by=leader,
    )


def _joined(before: RunStep | None, now: RunStep) -> RunStep:
    plain = replace(now, resource=ResourceRef("", now.resource.kind, now.resource.name))
    if before is None:
        return plain
    if before.phase is StepPhase.DONE and now.phase in {StepPhase.WAITING, StepPhase.SKIPPED}:
        return before  # there is nothing left to do, as an earlier leader has done it
    return replace(
        plain,
        started=plain.started if before.started is None else before.started,
        before=plain.before if before.before is None else before.before,
    )


def ended(
    request: ScaleRequest,
    phase: OperationPhase,
    message: str,
    now: float,
    *,
    only_unavailable: bool = False,
) -> ScaleRequest:
    """Returns the request with its end, and with the end of its hold if it has one.

    A failure of nothing but what is unavailable ends no hold (rules 4.3): every scaling run fails then.
    """
    over = replace(request, phase=phase, message=message, ended=now, hold_until=None)
    held = now + request.spec.hold if only_unavailable else hold_end(over)
    return replace(over, hold_until=held)
