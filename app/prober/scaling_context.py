"""What a scaling run is begun for, what its resources share, and the words for how it ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from app.core.model.operations import Operation, OperationPhase, Trigger
from app.core.model.overrides import Hold
from app.core.model.workloads import Direction, ResourceRef
from app.prober.environment import ProberEnvironment
from app.prober.run_guard import RunGuard
from app.prober.saved_counts import SavedCounts

OURSELVES: Final = "dependency-watchdog"
"""The author of what nobody asked for."""


class StepResult(StrEnum):
    """How it ended for one resource, as the metrics name it."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DRY_RUN = "dry-run"


@dataclass(frozen=True, slots=True)
class ScalingOrder:
    """What a scaling run is begun for."""

    operation: str
    """Its id."""
    direction: Direction
    created: float
    trigger: Trigger = Trigger.AUTO
    reason: str = ""
    author: str | None = None
    forced: bool = False
    """It goes on where the shoot is not probed."""
    carried_on: bool = False
    hold_until: float | None = None

    @property
    def manual(self) -> bool:
        """Whether it has a hold of its own, and no verdict ends it."""
        return self.trigger is Trigger.MANUAL

    @staticmethod
    def of(hold: Hold) -> "ScalingOrder | None":
        """The scaling run of a hold that an earlier leader wrote; None where it has none."""
        if hold.operation is None or hold.direction is None:
            return None
        return ScalingOrder(
            hold.operation,
            hold.direction,
            hold.created_at,
            Trigger.MANUAL,
            hold.reason,
            hold.author,
            hold.force,
            carried_on=True,
            hold_until=hold.until,
        )

    def hold(self) -> Hold:
        """What keeps verdicts away until it is done and for a while after, and tells the next leader of it."""
        return Hold(
            self.reason,
            self.author or OURSELVES,
            self.created,
            self.created if self.hold_until is None else self.hold_until,
            self.direction,
            self.operation,
            self.forced,
            done=False,
        )

    def shown(self, namespace: str, phase: OperationPhase, message: str = "") -> Operation:
        """It as an operation without steps."""
        return Operation(
            self.operation,
            namespace,
            self.direction,
            self.trigger,
            phase,
            self.created,
            self.reason,
            self.author,
            self.forced,
            self.carried_on,
            message=message,
            hold_until=self.hold_until,
        )


@dataclass(frozen=True, slots=True)
class ScalingContext:
    """What all resources of a scaling run share."""

    environment: ProberEnvironment
    namespace: str
    order: ScalingOrder
    guard: RunGuard
    memory: SavedCounts

    @property
    def direction(self) -> Direction:
        """Which way the scaling run scales."""
        return self.order.direction

    def found_at_zero(self, ref: ResourceRef) -> bool:
        """Whether a resource at 0 without our keys is to be scaled up: by hand, always."""
        return self.order.manual or self.memory.found_at_zero(ref)


@dataclass(frozen=True, slots=True)
class ScalingResult:
    """How a scaling run ended."""

    operation: str
    direction: Direction
    trigger: Trigger
    started: float
    ended: float
    failed: tuple[str, ...]
    """What failed and might have been scaled, one line for each resource."""
    cancelled: str | None
    """Why it was ended before its time."""
    unavailable: Mapping[ResourceRef, str] = field(default_factory=dict)
    """What failed as its kind is not served or may not be listed, and what the seed says to that."""

    @property
    def failures(self) -> tuple[str, ...]:
        """All that failed, one line for each resource."""
        return (*self.failed, *(f"{ref}: {why}" for ref, why in self.unavailable.items()))
