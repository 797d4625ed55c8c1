"""Pauses, holds and ignore-scaling: orders and what is in force."""

from enum import StrEnum
from typing import Any

from pydantic import Field, StrictBool

from app.api.schemas.base import Length, ListMetadata, Order, Reason, Schema, Time
from app.core.model.overrides import Scope
from app.core.model.workloads import Direction


class Covers(StrEnum):
    """The shoots that a pause covers."""

    SHOOT = "shoot"
    ALL = "all"


class PauseOrder(Order):
    """Pause a shoot, or all of them."""

    reason: Reason
    duration: Length = Field(
        "1h", description="A Go duration, at most 24h; then the verdicts act again."
    )
    scope: Scope = Field(
        Scope.ALL,
        description="all: no scaling in either direction, no weeding. scaleDown: no scaling down.",
    )
    force: StrictBool = Field(
        default=False,
        description="Even if controllers are at 0, and would stay there (scope all).",
    )
    dry_run: StrictBool = Field(
        default=False, description="Only show what would change; write nothing."
    )


class IgnoreOrder(Order):
    """Set ignore-scaling on a resource."""

    reason: Reason
    force: StrictBool = Field(
        default=False, description="Even if it is at 0, and would stay there."
    )
    dry_run: StrictBool = Field(
        default=False, description="Only show what would change; write nothing."
    )


class PlannedChange(Schema):
    """One object that a call would change now."""

    object: str
    """Such as `Deployment/kube-controller-manager, annotation ...`, or `Pause garden/api`."""
    before: Any
    """Null: nothing is there."""
    after: Any
    """Null: nothing would be there."""


class Changes(Schema):
    """What a call would change now, as asked for with `dryRun`; nothing was written. Empty: it would change nothing."""

    changes: list[PlannedChange]


class Pause(Schema):
    """A pause that is in force: a Pause of the seed."""

    name: str
    """Of the Pause, in the control plane's namespace, or in the watchdog's own if it covers all shoots."""
    covers: Covers
    scope: Scope
    reason: str
    author: str
    verified: bool
    """Whether `author` is the caller of this API who made it; otherwise somebody else has written the name."""
    created_at: Time
    """When the Pause was made; a `PUT` that replaces what it says leaves this as it is."""
    until: Time


class PauseList(Schema):
    """Pauses that are in force, the one that acts first."""

    items: list[Pause]
    metadata: ListMetadata


class Hold(Schema):
    """A hold that is in force: automatic verdicts are shown, and not acted on."""

    direction: Direction
    operation: str
    """The scaling run that the hold belongs to: `/api/v1/operations/{id}`."""
    force: bool
    done: bool
    """Whether that scaling run has ended."""
    reason: str
    author: str
    verified: bool
    """Whether the API wrote the author; otherwise somebody with kubectl did, and may have written anything."""
    created_at: Time
    until: Time
    """While that scaling run is under way, at the earliest: it lasts on for as long after the end of the run."""
