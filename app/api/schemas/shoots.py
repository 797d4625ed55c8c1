"""A shoot, its nodes and its history."""

from enum import StrEnum

from app.api.schemas.base import GoDuration, ListMetadata, Schema, Time
from app.api.schemas.overrides import Hold, Pause
from app.core.model.endpoints import Effect, ProbeOutcome, ProbeType
from app.core.model.probing import LeaseState, ShootState, Verdict
from app.core.reporting.notices import NoticeKind
from app.prober.rules.endpoints import CachedResult, Waiting
from app.prober.rules.gates import GateReason

# What endpoint probes have found out.


class GateState(StrEnum):
    """Whether a scale-down may start, as far as a gate is concerned."""

    OPEN = "Open"
    CLOSED = "Closed"


class EndpointTarget(Schema):
    """Who is asked: a host, or a container of a pod."""

    host: str | None
    pod: str | None
    container: str | None


class EndpointProbe(Schema):
    """One endpoint probe on one target."""

    name: str
    type: ProbeType
    effect: Effect
    target: EndpointTarget
    result: CachedResult
    counted: bool
    """Whether runs said so, as often in a row as it takes; not so of an initial value."""
    since: Time | None
    """Of `result`."""
    last_time: Time | None
    last_result: ProbeOutcome | None
    """Of the last run alone; an Error says nothing about the target."""
    message: str
    """What that run brought."""
    waiting: Waiting | None
    """Why it is not run at present."""
    gate: GateState | None
    """Of the whole probe in this namespace; null where it is none."""


class Gate(Schema):
    """An endpoint probe that can keep a scale-down from starting, over all its targets."""

    name: str
    state: GateState
    reason: GateReason
    message: str
    since: Time


class Condition(Schema):
    """One aspect of a shoot."""

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
    """What the leases, or the two paths, alone asked for; differs from `verdict` where something holds back."""
    count: int
    consecutive_failures: int


class Leases(Schema):
    """The leases of the last probe that ended in a reading."""

    as_of: Time | None
    """When that look ended: before `probe.lastTime` where they could not be read since."""
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
    """A dependent; `replicas.spec`, `ignoreScaling` and `protectionActive` are null where there is none to be seen."""

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
    """A dependent as it is now, read for this answer."""

    annotations: dict[str, str] | None
    """Ours only; null where it does not exist."""
    etag: str | None
    """For `If-Match`: covers uid, `replicas.spec` and `annotations`; null where it does not exist."""


class ResourceList(Schema):
    """The dependents of a shoot; the ETag of the answer covers all of them, whatever the page."""

    items: list[LiveResource]
    metadata: ListMetadata


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
    """Null before the first reading, and in endpoint mode."""
    resources: list[Resource]
    pause: Pause | None
    """The one that holds back most: its own, or that of all shoots."""
    hold: Hold | None
    endpoint_probes: list[EndpointProbe]
    """By name and target: 50 at most, the worst of them."""
    endpoint_probes_total: int
    """Of all that there are."""
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
    """About a list of nodes."""

    candidates_as_of: Time | None
    """When Nodes were read."""
    leases_as_of: Time | None
    """When leases were read: their ages are those of then."""


class NodeList(Schema):
    """Nodes."""

    items: list[Node]
    metadata: NodeMetadata


class HistoryEntry(Schema):
    """Something that happened."""

    time: Time
    type: NoticeKind
    verdict: Verdict | None
    reason: str
    message: str
    resource: str | None


class HistoryList(Schema):
    """What happened, newest first."""

    items: list[HistoryEntry]
    metadata: ListMetadata
