"""Services that came back, and the pods that were deleted then."""

from pydantic import Field, StrictBool

from app.api.schemas.base import GoDuration, ListMetadata, Order, Remark, Schema, Time
from app.core.model.weeding import Cause, DeletionResult, End, KeepReason, Phase


class WeedOrder(Order):
    """Weed now."""

    reason: Remark = ""
    force: StrictBool = Field(
        default=False,
        description="In spite of the pause of scope `all` that covers the namespace now.",
    )


class WeededPod(Schema):
    """A pod that was deleted, or that was to be."""

    pod: str
    owner: str | None
    """Its controller, as `ReplicaSet/name`; null of a bare pod."""
    time: Time
    result: DeletionResult
    container: str
    """The container that would have waited longest."""
    spared_backoff: GoDuration | None
    """What that container would still have waited; null where that was not known."""


class SparedPod(Schema):
    """A pod that matches a selector and is left alone."""

    pod: str
    time: Time
    """Since when for this reason."""
    reason: KeepReason
    message: str


class Asked(Schema):
    """A person who asked for a recovery."""

    author: str
    reason: str
    """Empty where none was given."""
    despite: str | None
    """The pause that it goes on in spite of; null where there was none."""


class Recovery(Schema):
    """What was done after a service became ready again."""

    id: int
    """Counts the recoveries of this process."""
    cause: Cause
    phase: Phase
    began: Time
    due: Time
    """When it begins to delete; later than `began` where there were too many recoveries."""
    until: Time
    ended: Time | None
    end: End | None
    asked: Asked | None
    """Who asked for it; null where nobody had to."""
    trouble: str | None
    """What keeps it from its work, or ended it; null while all is well."""
    queued: int
    """Pods that wait for their deletion; of one that has ended, those that were left."""
    deletions: list[WeededPod]
    """Oldest first."""
    spared: list[SparedPod]
    """By name."""


class Weeder(Schema):
    """A service of one control plane, with its recoveries: newest first."""

    namespace: str
    service: str
    ready: bool
    since: Time | None
    """When it became ready, or was lost; null where that is not known."""
    failing: str | None
    """The unexpected error after which its recovery is started again; null where there is none."""
    recoveries: list[Recovery]


class WeederList(Schema):
    """Services, those with the newest recoveries first."""

    items: list[Weeder]
    metadata: ListMetadata
