"""Data of the event stream, apart from shoots and operations, and records of the audit."""

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
    """A scaling run began, progressed or ended; the data are the operation."""
    WEEDER = "weeder"
    """A recovery began, progressed or ended."""
    OVERRIDE = "override"
    """A pause, a hold or ignore-scaling was set, changed or ended."""
    AUDIT = "audit"
    """Somebody has tried to change something; only with `kind=audit`, which needs the right to read the audit."""
    GAP = "gap"
    """Events after the last one that the client knows are lost; everything as it is now follows."""
    SNAPSHOT_END = "snapshot-end"
    """The end of the snapshot; what follows are changes."""
    END = "end"
    """The stream ends."""


class ShootGone(Schema):
    """A shoot that does not exist any more."""

    namespace: str


class NewestRecovery(Schema):
    """A recovery without its pods: `/api/v1/weeders/{namespace}/{service}` has them."""

    id: int
    cause: Cause
    author: str | None
    """The author of a manual recovery; null for an automatic one."""
    phase: Phase
    began: Time
    due: Time
    until: Time
    ended: Time | None
    end: End | None
    trouble: str | None
    queued: int
    deletions: int
    """Number of pods."""
    spared: int


class WeederChange(Schema):
    """A service of one control plane with its newest recovery."""

    namespace: str
    service: str
    ready: bool
    since: Time | None
    failing: str | None
    recovery: NewestRecovery | None


class OverrideKind(StrEnum):
    """The kind of an override."""

    PAUSE = "pause"
    HOLD = "hold"
    IGNORE_SCALING = "ignore-scaling"


class OverrideChange(Schema):
    """An override that was set, changed or ended."""

    namespace: str | None
    """Null for all shoots."""
    kind: OverrideKind
    resource: str | None
    """The resource of ignore-scaling."""
    author: str | None
    """Author of the change, as far as it is known; null for an expiry, and for kubectl."""
    before: Pause | Hold | bool | None
    """For ignore-scaling, whether it was set; null: nothing was in force."""
    after: Pause | Hold | bool | None


class AuditChange(Schema):
    """There are attempts that were not there before, a fifth of a second ago; `/api/v1/audit` has them."""

    time: Time
    """When this was noticed."""


class Gap(Schema):
    """The reason for a gap."""

    reason: str


class SnapshotEnd(Schema):
    """The end of a snapshot."""

    items: int
    """Number of events in the snapshot."""


class StreamEnd(Schema):
    """The reason for the end of a stream; the answer to a new connection shows what to do."""

    reason: str


# The audit.


class AuditEntry(Schema):
    """An attempt to change something, or several equal refused ones: the fields then describe the last."""

    time: Time
    """Time of the last attempt."""
    first_time: Time
    times: int
    """How often the same call on the same shoot was refused with the same problem."""
    request: str
    """The `X-Request-Id` of the answer."""
    method: str
    path: str
    peer: str
    """The address that the request came from."""
    caller: str | None
    """Null if the caller was not identified."""
    claimed: str | None
    """The person who used the account, as the client claims (`dwd --service-account`); nobody has verified it."""
    action: str | None
    """Null if the request was refused before it reached the call."""
    namespace: str | None
    target: str | None
    reason: str | None
    """The reason that the caller gave."""
    status: int | None
    """Null if the process ended before it answered."""
    problem: str | None
    """The `type` of the problem; null if the call succeeded."""
    before: Any
    after: Any


class AuditMetadata(ListMetadata):
    """Metadata of the audit."""

    since: Time
    """Since when this process has kept records; older ones are in the log only."""


class AuditList(Schema):
    """Audit records, newest first."""

    items: list[AuditEntry]
    metadata: AuditMetadata
