"""The shapes of `api.md`: camelCase, RFC 3339, null for what has no value."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.core.model.probing import LeaseState, ShootState, Verdict
from app.core.model.weeding import Cause, End, Phase, Reason, Result
from app.core.records.notices import Kind

Time = Annotated[str, Field(description="RFC 3339, UTC", examples=["2026-11-20T14:02:11Z"])]
GoDuration = Annotated[str, Field(description="A Go duration", examples=["30s"])]


class Schema(BaseModel):
    """The base of all shapes."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class FieldError(Schema):
    """One bad input of a problem."""

    path: str
    message: str


class ProblemDetails(Schema):
    """An error (RFC 9457)."""

    type: str = Field(examples=["urn:dependency-watchdog:problem:not-found"])
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldError] | None = None


class ListMetadata(Schema):
    """About a list."""

    total: int
    """Of all pages."""
    continue_: str | None = Field(alias="continue")
    """For the next page."""


class Condition(Schema):
    """One aspect of a shoot."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: Time


class ProbeInfo(Schema):
    """The last look."""

    last_time: Time | None
    next_time: Time | None
    duration_seconds: float | None
    verdict: Verdict | None
    would_be: Verdict | None
    """What the leases alone asked for; differs from `verdict` where something holds back."""
    count: int
    consecutive_failures: int


class Leases(Schema):
    """The leases of the last look that ended in a reading."""

    candidates: int
    expired: int
    unknown: int
    candidates_as_of: Time | None
    fraction: float
    threshold: float
    expiry_after: GoDuration | None
    excluded: dict[str, int]


class Replicas(Schema):
    """Replicas of a dependent."""

    spec: int | None
    ready: int | None
    saved: int | None


class Resource(Schema):
    """A dependent; `replicas.spec`, `ignoreScaling` and `protectionActive` are null where it does not exist."""

    api_version: str
    kind: str
    name: str
    optional: bool
    scale_up_level: int
    scale_down_level: int
    replicas: Replicas
    ignore_scaling: bool | None
    protection_active: bool | None


class Shoot(Schema):
    """A shoot, all that is known."""

    namespace: str
    state: ShootState
    reason: str
    message: str
    since: Time
    conditions: list[Condition]
    probe: ProbeInfo
    leases: Leases | None
    resources: list[Resource]
    pause: None = None
    hold: None = None
    endpoint_probes: list[Any] = []


class ShootList(Schema):
    """Shoots."""

    items: list[Shoot]
    metadata: ListMetadata


class Node(Schema):
    """A node and its lease."""

    name: str
    pool: str | None
    zone: str | None
    candidate: bool | None
    reason: str | None
    lease: LeaseState | str
    """Fresh, Expired, Unknown or Missing."""
    renew_time: Time | None
    age_seconds: float | None
    clock_offset_seconds: float | None


class NodeMetadata(ListMetadata):
    """About a list of nodes."""

    candidates_as_of: Time | None


class NodeList(Schema):
    """Nodes."""

    items: list[Node]
    metadata: NodeMetadata


class HistoryEntry(Schema):
    """Something that happened."""

    time: Time
    type: Kind
    verdict: Verdict | None
    reason: str
    message: str
    resource: str | None


class HistoryList(Schema):
    """What happened, newest first."""

    items: list[HistoryEntry]
    metadata: ListMetadata


class WeededPod(Schema):
    """A pod that was deleted, or that was to be."""

    pod: str
    owner: str | None
    """Its controller, as `ReplicaSet/name`; null of a bare pod."""
    time: Time
    result: Result
    container: str
    """The container that would have waited longest."""
    spared_backoff: GoDuration | None
    """What that container would still have waited; null where that was not known."""


class SparedPod(Schema):
    """A pod that matches a selector and is left alone."""

    pod: str
    time: Time
    """Since when for this reason."""
    reason: Reason
    message: str


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


class Leader(Schema):
    """Who leads a loop."""

    identity: str | None
    address: str | None


class FeatureOff(Schema):
    """A feature that is off."""

    feature: str
    reason: str


class MissingPermission(Schema):
    """A right that is missing."""

    verb: str
    group: str
    resource: str
    name: str | None
    namespace: str | None
    feature: str | None
    """The feature that is off without it; null: needed to protect."""


class Warning(Schema):  # noqa: A001 - the word of the contract; nothing here warns by Python's
    """Something in flags or file that deserves a look."""

    path: str
    line: int | None
    message: str


class Status(Schema):
    """This process."""

    version: str
    started_at: Time
    role: str
    """`leader` or `standby`."""
    dry_run: bool
    leaders: dict[str, Leader]
    """By loop."""
    counts: dict[str, int] | None
    """Shoots in each state; null on a standby."""
    pause: None = None
    """Of all shoots."""
    features_off: list[FeatureOff]
    missing_permissions: list[MissingPermission]
    config_warnings: list[Warning]
    found_unconfigured: list[str]
    """Objects that carry the meltdown key and are not configured: never written."""
    selectors_without_pods: list[str]
    """Selectors of the weeder that have matched no pod for an hour."""
