"""Services of the weeder, their recoveries, and the pods that these deleted or spared."""

from pydantic import Field, StrictBool

from app.api.schemas.base import GoDuration, ListMetadata, Order, Remark, Schema, Time
from app.core.model.weeding import Cause, DeletionResult, End, KeepReason, Phase


class WeedOrder(Order):
    """Begin a recovery by hand."""

    reason: Remark = ""
    force: StrictBool = Field(
        default=False,
        description="Despite the pause of scope `all` that covers the namespace now.",
    )
    dry_run: StrictBool = Field(
        default=False, description="Only show what would begin; begin nothing."
    )


class WeededPod(Schema):
    """A pod that was deleted, or that a recovery tried to delete."""

    pod: str
    owner: str | None
    """Its controller, such as `ReplicaSet/name`; null for a bare pod."""
    time: Time
    result: DeletionResult
    container: str
    """The container with the longest remaining back-off."""
    spared_backoff: GoDuration | None
    """The remaining back-off of that container; null if it was not known."""


class SparedPod(Schema):
    """A pod that matches a selector and was left alone."""

    pod: str
    time: Time
    """Since when it has been spared for this reason."""
    reason: KeepReason
    message: str


class Asked(Schema):
    """The order of a manual recovery."""

    author: str
    reason: str
    """Empty if none was given."""
    despite: str | None
    """The pause that it was forced against; null if there was none."""


class Recovery(Schema):
    """A recovery: what is done after a service became ready again."""

    id: int
    """Number of the recovery in this process."""
    cause: Cause
    phase: Phase
    began: Time
    due: Time
    """When it begins to delete; later than `began` if there were too many recoveries."""
    until: Time
    ended: Time | None
    end: End | None
    asked: Asked | None
    """The order of a manual recovery; null for an automatic one."""
    trouble: str | None
    """What hinders it, or ended it; null while all is well."""
    queued: int
    """Pods that wait for their deletion; in one that has ended, those that were left."""
    deletions: list[WeededPod]
    """Oldest first."""
    spared: list[SparedPod]
    """By name."""


class Weeder(Schema):
    """A service of one control plane with its recoveries, newest first."""

    namespace: str
    service: str
    ready: bool
    since: Time | None
    """When it became ready, or not ready; null if that is not known."""
    failing: str | None
    """The unexpected error after which its recovery is started again; null if there is none."""
    recoveries: list[Recovery]


class WeederList(Schema):
    """Services, those with the newest recoveries first."""

    items: list[Weeder]
    metadata: ListMetadata
