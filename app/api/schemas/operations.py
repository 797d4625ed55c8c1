"""Scaling runs: orders, plans and progress."""

from pydantic import Field, StrictBool

from app.api.schemas.base import GoDuration, Length, ListMetadata, Order, Reason, Schema, Time
from app.core.model.scaling_runs import OperationPhase, ScalingStep, StepPhase, Trigger
from app.core.model.workloads import Direction


class ScaleOrder(Order):
    """Scale the dependents of a shoot."""

    direction: Direction
    reason: Reason
    hold: Length = Field(
        "30m",
        description="How long the automatic verdicts are not acted on after its end: a Go duration, at most 24h.",
    )
    dry_run: StrictBool = Field(default=False, description="Only show the plan; write nothing.")
    force: StrictBool = Field(
        default=False,
        description="Even if the shoot is not probed; and up even if the verdict would be ScaleDown.",
    )


class OperationStep(Schema):
    """One resource of a scaling run."""

    resource: str
    """Such as `Deployment/kube-controller-manager`."""
    level: int
    phase: StepPhase
    message: str
    """Why it was skipped, or what failed."""
    started: Time | None
    written: Time | None
    """When the write was sent."""
    ended: Time | None
    before: int | None
    """Replicas before the write."""
    after: int | None


class Operation(Schema):
    """A scaling run."""

    id: str
    namespace: str
    direction: Direction
    trigger: Trigger
    phase: OperationPhase
    created: Time
    started: Time | None
    ended: Time | None
    author: str | None
    """Author of a manual run; null for an automatic one."""
    verified: bool
    """Whether the API wrote the author; otherwise somebody with kubectl did, and may have written anything."""
    reason: str
    """The author's reason, or the message of the verdict."""
    message: str
    """How it ended, or what it waits for."""
    forced: bool
    carried_on: bool
    """Whether an earlier leader began it."""
    hold_until: Time | None
    """When the hold of a manual run ends: while it is under way, at the earliest. Null: it holds nothing."""
    steps: list[OperationStep]
    """In the order of levels."""


class OperationList(Schema):
    """Scaling runs, newest first."""

    items: list[Operation]
    metadata: ListMetadata


class PlannedStep(Schema):
    """What a scaling run would do with one resource now."""

    resource: str
    action: ScalingStep
    reason: str
    """Why it would be written or skipped."""
    before: int | None
    after: int | None
    initial_delay: GoDuration
    """How long it would wait before the write."""
    etag: str | None
    """ETag of the resource; null if it does not exist."""


class PlannedLevel(Schema):
    """Resources that are scaled together."""

    level: int
    steps: list[PlannedStep]


class Plan(Schema):
    """What a scaling run would do now, level by level."""

    namespace: str
    direction: Direction
    levels: list[PlannedLevel]
    etag: str
    """ETag of all resources, for `If-Match` of a scale order."""
    replaces: str | None
    """The automatic scaling run that it would end."""


class Look(Schema):
    """A requested probe."""

    at: Time
    """When it is due: now, or as soon as the rules allow."""
