"""Scaling runs as the API shows them: who asked for what, and the progress of each step."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.core.model.workloads import Direction, ResourceRef

OURSELVES: Final = "dependency-watchdog"
"""The author of what no person asked for: the release of a protection."""


class Trigger(StrEnum):
    """What started a scaling run, as in the metrics."""

    AUTO = "auto"
    """A verdict."""
    MANUAL = "manual"
    """A person, or the end of `maxProtectionDuration`: it has a hold of its own."""


class OperationPhase(StrEnum):
    """The progress of a scaling run."""

    PENDING = "Pending"
    """Nobody has begun it yet, or another scaling run has to end before."""
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"
    """It was completed but some resource failed, or a failure ended it."""
    CANCELLED = "Cancelled"
    REFUSED = "Refused"
    """A rule forbade it before anything was written."""

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self is OperationPhase.PENDING or self is OperationPhase.RUNNING


class ScalingStep(StrEnum):
    """What kind of action a resource needs."""

    WRITE = "Write"
    """Replicas change."""
    TIDY = "Tidy"
    """Only our annotations change."""
    NOTHING = "Nothing"
    """The resource is as it should be."""
    SKIP = "Skip"
    """The resource is left alone, for the reason given."""
    FAILED = "Failed"


class StepPhase(StrEnum):
    """The progress of one resource in a scaling run."""

    WAITING = "Waiting"
    """Its level has not begun."""
    RUNNING = "Running"
    """In its delay, its write, or the wait for its pods."""
    DONE = "Done"
    SKIPPED = "Skipped"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class StepResult(StrEnum):
    """How a scaling run ended for one resource, as metrics name it."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DRY_RUN = "dry-run"


@dataclass(frozen=True, slots=True)
class RunStep:
    """One resource of a scaling run."""

    resource: ResourceRef
    level: int
    phase: StepPhase = StepPhase.WAITING
    message: str = ""
    """Why it was skipped, or what failed."""
    started: float | None = None
    written: float | None = None
    """When the budget let its write go."""
    ended: float | None = None
    before: int | None = None
    """Replicas before the write."""
    after: int | None = None
    unavailable: bool = False
    """It failed because its kind is not served, or may not be listed (rules 4.3)."""


@dataclass(frozen=True, slots=True)
class ScalingRunStatus:
    """One scaling run."""

    id: str
    namespace: str
    direction: Direction
    trigger: Trigger
    phase: OperationPhase
    created: float
    reason: str = ""
    """The author's reason, or the message of the verdict."""
    author: str | None = None
    """Who asked for it; None for an automatic run."""
    forced: bool = False
    """A manual run that goes on though its shoot is not probed; a release does not, though its hold has `force`."""
    carried_on: bool = False
    """Whether an earlier leader began it."""
    started: float | None = None
    ended: float | None = None
    message: str = ""
    """How it ended, or what it is waiting for."""
    hold_until: float | None = None
    """When the hold of a manual run ends."""
    steps: tuple[RunStep, ...] = ()
    verified: bool = True
    """Whether the API wrote the author; otherwise somebody with kubectl did, and may have written anything."""

    @property
    def manual(self) -> bool:
        """Whether it has a hold of its own and is ended by no verdict."""
        return self.trigger is Trigger.MANUAL

    @property
    def running(self) -> bool:
        """Whether it is pending or running."""
        return self.phase.running

    @property
    def failed(self) -> dict[ResourceRef, str]:
        """The resources that failed, unavailable ones left out, with the reason."""
        failed = [each for each in self.steps if each.phase is StepPhase.FAILED]
        return {each.resource: each.message for each in failed if not each.unavailable}

    @property
    def only_unavailable(self) -> bool:
        """Whether it failed of nothing but unavailable resources (rules 4.3)."""
        return self.phase is OperationPhase.FAILED and not self.failed


@dataclass(frozen=True, slots=True)
class ScaleSpec:
    """What a person asks for: to scale a shoot's dependents."""

    direction: Direction
    reason: str
    author: str
    hold: float
    """Seconds for which automatic verdicts are not acted on after the end of the scaling run."""
    force: bool = False


@dataclass(frozen=True, slots=True)
class PlannedResource:
    """What a scaling run would do with one resource now."""

    resource: ResourceRef
    level: int
    action: ScalingStep
    reason: str
    """`prober.rules.scaling.Why`."""
    before: int | None
    after: int | None
    initial_delay: float
    """Delay before its write, in seconds."""
    etag: str | None
    """ETag of the resource; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class ScalingPlan:
    """What a scaling run would do now, level by level."""

    namespace: str
    direction: Direction
    steps: tuple[PlannedResource, ...]
    etag: str
    """ETag of all resources, for `If-Match`."""
    replaces: str | None = None
    """The id of the automatic scaling run that it would end."""
