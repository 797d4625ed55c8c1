"""What endpoint probes have found out."""

from enum import StrEnum

from app.api.schemas.base import Schema, Time
from app.core.model.endpoints import Effect, Outcome, ProbeType
from app.prober.rules.endpoints import Result, Waiting
from app.prober.rules.gates import GateReason


class GateState(StrEnum):
    """Whether a scale-down may start, as far as a gate is concerned."""

    OPEN = "Open"
    CLOSED = "Closed"


class EndpointTarget(Schema):
    """Who is asked: a host, or a container of a pod."""

    host: str | None
    pod: str | None
    container: str | None


class EndpointProbe(Schema):
    """One endpoint probe on one target."""

    name: str
    type: ProbeType
    effect: Effect
    target: EndpointTarget
    result: Result
    counted: bool
    """Whether runs said so, as often in a row as it takes; not so of an initial value."""
    since: Time | None
    """Of `result`."""
    last_time: Time | None
    last_result: Outcome | None
    """Of the last run alone; an Error says nothing about the target."""
    message: str
    """What that run brought."""
    waiting: Waiting | None
    """Why it is not run at present."""
    gate: GateState | None
    """Of the whole probe in this namespace; null where it is none."""


class Gate(Schema):
    """An endpoint probe that can keep a scale-down from starting, over all its targets."""

    name: str
    state: GateState
    reason: GateReason
    message: str
    since: Time
