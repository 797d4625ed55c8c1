"""Flows and plans, from the prober's words to the shapes of the API; pure."""

import math
from itertools import groupby

from app.api import schemas
from app.api.times import time
from app.core.config.durations import format_duration
from app.core.errors import trimmed
from app.core.model.instants import rfc3339
from app.core.model.operations import Operation, OperationStep, Plan, PlannedStep
from app.prober.rules.scaling import Step


def operation(found: Operation) -> schemas.Operation:
    """One flow, as far as it has come."""
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
        reason=trimmed(found.reason),
        message=trimmed(found.message),
        forced=found.forced,
        carried_on=found.carried_on,
        hold_until=_rounded_up(found.hold_until),
        steps=[_step(each) for each in found.steps],
    )


def _rounded_up(instant: float | None) -> str | None:
    """To whole seconds, as the hold itself is written: both show the same end."""
    return None if instant is None else rfc3339(math.ceil(instant))


def _step(step: OperationStep) -> schemas.OperationStep:
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


def plan(found: Plan) -> schemas.Plan:
    """What a flow would do, its levels in the order in which they come."""
    ordered = sorted(found.steps, key=lambda each: each.level)
    return schemas.Plan(
        namespace=found.order.namespace,
        direction=found.order.direction,
        levels=[
            schemas.PlannedLevel(level=level, steps=[_planned(each) for each in steps])
            for level, steps in groupby(ordered, key=lambda each: each.level)
        ],
        etag=found.etag,
        replaces=found.replaces,
    )


def _planned(step: PlannedStep) -> schemas.PlannedStep:
    return schemas.PlannedStep(
        resource=str(step.resource),
        action=Step(step.action),
        reason=step.reason,
        before=step.before,
        after=step.after,
        initial_delay=format_duration(step.initial_delay),
        etag=step.etag,
    )
