"""What the stream of events tells beside shoots and operations, which look as they do elsewhere."""

from enum import StrEnum
from typing import Any

from app.api.schemas.base import ListMetadata, Schema, Time
from app.api.schemas.overrides import Hold, Pause
from app.core.model.weeding import Cause, End, Phase


class EventName(StrEnum):
    """The field `event` of each event."""

    SHOOT = "shoot"
    """A shoot changed; the data are the shoot."""
    SHOOT_GONE = "shoot-gone"
    """The seed has no such Cluster any more."""
    OPERATION = "operation"
    """A scaling run began, went a step further or ended; the data are the operation."""
    WEEDER = "weeder"
    """A recovery began, went on or ended."""
    OVERRIDE = "override"
    """A pause, a hold or ignore-scaling was set, changed or ended."""
    GAP = "gap"
    """What the client missed is not known; everything as it is now follows."""
    SNAPSHOT_END = "snapshot-end"
    """That was everything; what follows are changes."""
    END = "end"
    """The stream ends."""


class ShootGone(Schema):
    """A shoot that the seed has no more."""

    namespace: str


class NewestRecovery(Schema):
    """A recovery without its pods: `/api/v1/weeders/{namespace}/{service}` has them."""

    id: int
    cause: Cause
    author: str | None
    """Who asked for it; null where nobody had to."""
    phase: Phase
    began: Time
    due: Time
    until: Time
    ended: Time | None
    end: End | None
    trouble: str | None
    queued: int
    deletions: int
    """How many there are."""
    spared: int


class WeederChange(Schema):
    """A service of one control plane, and its newest recovery."""

    namespace: str
    service: str
    ready: bool
    since: Time | None
    failing: str | None
    recovery: NewestRecovery | None


class OverrideKind(StrEnum):
    """What people decide."""

    PAUSE = "pause"
    HOLD = "hold"
    IGNORE_SCALING = "ignore-scaling"


class OverrideChange(Schema):
    """A decision that is in force now, is another one, or is over."""

    namespace: str | None
    """Null: of all shoots."""
    kind: OverrideKind
    resource: str | None
    """Of ignore-scaling."""
    author: str | None
    """Who did it, as far as that is known here; null where the clock did, or kubectl."""
    before: Pause | Hold | bool | None
    """Of ignore-scaling, whether it was set; null: nothing was in force."""
    after: Pause | Hold | bool | None


class Gap(Schema):
    """Why there is a gap."""

    reason: str


class SnapshotEnd(Schema):
    """The end of a snapshot."""

    items: int
    """Events that it had."""


class StreamEnd(Schema):
    """Why a stream ends; connecting again shows what is to be done."""

    reason: str


# Who tried to change what, and what came of it.


class AuditEntry(Schema):
    """One attempt to change something, or several alike that were refused: all but their number is of the last."""

    time: Time
    """Of the last of them."""
    first_time: Time
    times: int
    """How often the same call on the same shoot was refused with the same problem."""
    request: str
    """The `X-Request-Id` of its answer."""
    method: str
    path: str
    peer: str
    """The address that it came from."""
    caller: str | None
    """Null where nobody was known to call."""
    action: str | None
    """Null where the call did not get so far."""
    namespace: str | None
    target: str | None
    reason: str | None
    """What the caller said."""
    status: int | None
    """Null where the process ended before it was answered."""
    problem: str | None
    """The `type` of the problem; null where it was done, or begun."""
    before: Any
    after: Any


class AuditMetadata(ListMetadata):
    """About the audit."""

    since: Time
    """Since when this process keeps records; what was before is in the log alone."""


class AuditList(Schema):
    """Attempts, newest first."""

    items: list[AuditEntry]
    metadata: AuditMetadata
