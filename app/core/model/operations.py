"""Scaling runs as people see them: what was asked for, by whom, and how far each step has come."""

from dataclasses import dataclass
from enum import StrEnum

from app.core.model.workloads import Direction, ResourceRef


class Trigger(StrEnum):
    """What a scaling run began for, as the metrics name it."""

    AUTO = "auto"
    """A verdict."""
    MANUAL = "manual"
    """A person, or the end of `maxProtectionDuration`: it has a hold of its own."""


class OperationPhase(StrEnum):
    """How far a scaling run has come."""

    PENDING = "Pending"
    """An automatic scaling run that it replaces has not ended yet."""
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"
    """It went to its end, and some resource failed; or a failure stopped it."""
    CANCELLED = "Cancelled"


class StepPhase(StrEnum):
    """How far one resource has come in a scaling run."""

    WAITING = "Waiting"
    """Its level has not begun."""
    RUNNING = "Running"
    """Its delay, its write, or the wait for its pods."""
    DONE = "Done"
    SKIPPED = "Skipped"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


@dataclass(frozen=True, slots=True)
class OperationStep:
    """One resource of a scaling run."""

    resource: ResourceRef
    level: int
    phase: StepPhase = StepPhase.WAITING
    message: str = ""
    """Why it was skipped, or what failed."""
    started: float | None = None
    written: float | None = None
    """When its write was sent."""
    ended: float | None = None
    before: int | None = None
    """Replicas before the write."""
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One scaling run."""

    id: str
    namespace: str
    direction: Direction
    trigger: Trigger
    phase: OperationPhase
    created: float
    reason: str = ""
    """What the author said, or the verdict's message."""
    author: str | None = None
    """Who asked for it; None of an automatic one."""
    forced: bool = False
    carried_on: bool = False
    """An earlier leader began it."""
    started: float | None = None
    ended: float | None = None
    message: str = ""
    """How it ended, or what it waits for."""
    hold_until: float | None = None
    """When the hold of a manual one ends."""
    steps: tuple[OperationStep, ...] = ()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.phase in {OperationPhase.PENDING, OperationPhase.RUNNING}


@dataclass(frozen=True, slots=True)
class ScaleOrder:
    """A person's wish to scale a shoot's dependents."""

    namespace: str
    direction: Direction
    reason: str
    author: str
    hold: float
    """Seconds that the automatic verdicts are not acted on."""
    force: bool = False
    if_match: str | None = None
    """The ETag that the caller saw."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """What a scaling run would do with one resource now."""

    resource: ResourceRef
    level: int
    action: str
    """Write, Tidy, Nothing, Skip or Failed (`prober.rules.scaling.Step`)."""
    reason: str
    """`prober.rules.scaling.Why`."""
    before: int | None
    after: int | None
    initial_delay: float
    """Seconds that it would wait before its write."""
    etag: str | None
    """Of the resource; None where it does not exist."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a scaling run would do now, level by level."""

    order: ScaleOrder
    steps: tuple[PlannedStep, ...]
    etag: str
    """Of all resources: for `If-Match`."""
    replaces: str | None = None
    """The id of the automatic scaling run that it would end."""
