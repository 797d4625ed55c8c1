"""A shoot, its nodes and its history."""

from enum import StrEnum

from app.api.schemas.base import GoDuration, ListMetadata, Schema, Time
from app.api.schemas.overrides import Hold, Pause
from app.core.model.endpoints import (
    CachedResult,
    Effect,
    GateReason,
    ProbeOutcome,
    ProbeType,
    Waiting,
)
from app.core.model.probing import LeaseState, NoticeKind, ShootState, Verdict

# Results of endpoint probes.


class GateState(StrEnum):
    """State of a gate: open, or closed so that no scale-down starts."""

    OPEN = "Open"
    CLOSED = "Closed"


class EndpointTarget(Schema):
    """The target of an endpoint probe: a host, or a container of a pod."""

    host: str | None
    pod: str | None
    container: str | None


class EndpointProbe(Schema):
    """The result of one endpoint probe on one target."""

    name: str
    type: ProbeType
    effect: Effect
    target: EndpointTarget
    result: CachedResult
    counted: bool
    """Whether as many runs in a row as the threshold asks for led to `result`; false for an initial value."""
    since: Time | None
    """Since when `result` holds."""
    last_time: Time | None
    last_result: ProbeOutcome | None
    """Of the last run alone; an Error says nothing about the target."""
    message: str
    """Message of the last run."""
    waiting: Waiting | None
    """Why it is not run at present."""
    gate: GateState | None
    """State of the gate over all targets in this namespace; null if the probe is no gate."""


class Gate(Schema):
    """An endpoint probe that can keep a scale-down from starting, over all its targets."""

    name: str
    state: GateState
    reason: GateReason
    message: str
    since: Time


class Condition(Schema):
    """A condition of the shoot."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: Time


class ProbeInfo(Schema):
    """The last probe."""

    last_time: Time | None
    next_time: Time | None
    duration_seconds: float | None
    verdict: Verdict | None
    would_be: Verdict | None
    """The verdict by the leases, or by the two paths, alone; differs from `verdict` if something holds it back."""
    count: int
    consecutive_failures: int


class Leases(Schema):
    """The leases of the last probe that ended in a reading."""

    as_of: Time | None
    """When that probe ended: before `probe.lastTime` if later ones could not read leases."""
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
    """A dependent; `replicas.spec`, `ignoreScaling` and `protectionActive` are null if there is none to be seen."""

    api_version: str
    kind: str
    name: str
    optional: bool
    scale_up_level: int
    scale_down_level: int
    replicas: Replicas
    ignore_scaling: bool | None
    protection_active: bool | None


class LiveResource(Resource):
    """A dependent, read live for this answer."""

    annotations: dict[str, str] | None
    """The watchdog's own annotations only; null if it does not exist."""
    etag: str | None
    """For `If-Match`: covers uid, `replicas.spec` and `annotations`; null if it does not exist."""


class ResourceList(Schema):
    """The dependents of a shoot; the ETag of the answer covers all of them, whatever the page."""

    items: list[LiveResource]
    metadata: ListMetadata


class Shoot(Schema):
    """A shoot."""

    namespace: str
    state: ShootState
    reason: str
    message: str
    since: Time
    conditions: list[Condition]
    probe: ProbeInfo
    leases: Leases | None
    """Null before the first reading, and in endpoint mode."""
    resources: list[Resource]
    pause: Pause | None
    """The pause that holds back most, of those in force for the shoot or for all shoots."""
    pauses: int
    """Number of the pauses in force, which `/api/v1/shoots/{namespace}/pauses` lists."""
    hold: Hold | None
    endpoint_probes: list[EndpointProbe]
    """By name and target: the worst 50 at most."""
    endpoint_probes_total: int
    """Number of all results."""
    gates: list[Gate]
    """Each endpoint probe that can keep a scale-down from starting."""


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
    """Metadata of a list of nodes."""

    candidates_as_of: Time | None
    """When Nodes were read."""
    leases_as_of: Time | None
    """When leases were read, which their ages refer to."""


class NodeList(Schema):
    """Nodes."""

    items: list[Node]
    metadata: NodeMetadata


class HistoryEntry(Schema):
    """An entry of the history."""

    time: Time
    type: NoticeKind
    verdict: Verdict | None
    reason: str
    message: str
    resource: str | None


class HistoryList(Schema):
    """History, newest first."""

    items: list[HistoryEntry]
    metadata: ListMetadata
