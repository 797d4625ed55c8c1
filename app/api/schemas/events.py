"""What the stream of events tells beside shoots and operations, which look as they do elsewhere."""

from enum import StrEnum

from app.api.schemas.base import Schema, Time
from app.api.schemas.overrides import Hold, Pause
from app.core.model.weeding import Cause, End, Phase


class EventName(StrEnum):
    """The field `event` of each event."""

    SHOOT = "shoot"
    """A shoot changed; the data are the shoot."""
    SHOOT_GONE = "shoot-gone"
    """The seed has no such Cluster any more."""
    OPERATION = "operation"
    """A flow began, went a step further or ended; the data are the operation."""
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
