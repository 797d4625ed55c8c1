"""What the API answers (docs/api.md), and the data of its events; plain pydantic, which the client reads them by, too.

What is asked of it is in `app.api.request_bodies`.

Names are camelCase, times RFC 3339, and a missing value is null. `Schema.of` reads a record of the loops by attribute:
a field that has the name and the meaning of the record's, or says by `read_from` what it is there, needs no other code.
Beside a field stands its example, from which the examples of the OpenAPI document are made (`example`), and below it
its description, which a server reads (`app.api.document.build`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Self, get_args, get_origin

from pydantic import AfterValidator, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.core.config.values import LogLevel
from app.core.errors import trimmed
from app.core.model.endpoints import (
    CachedResult,
    Effect,
    GateReason,
    ProbeOutcome,
    ProbeType,
    Waiting,
)
from app.core.model.instants import format_duration, rfc3339
from app.core.model.overrides import Scope
from app.core.model.probing import LeaseState, NoticeKind, ShootState, Verdict
from app.core.model.scaling_runs import OperationPhase, ScalingStep, StepPhase, Trigger
from app.core.model.weeding import Cause, DeletionResult, End, KeepReason, Phase
from app.core.model.workloads import Direction

# Bases.


@dataclass(frozen=True, slots=True)
class Example:
    """The value of a field in the examples of the document."""

    value: object


def read_from(path: str) -> Any:  # noqa: ANN401 - of a field, as pydantic's own `Field` is
    """The attribute of the record that a field is read from, where it has another name; null if the path ends early."""
    path_of = AliasPath(*path.split("."))
    return Field(validation_alias=path_of, default_factory=lambda: None, validate_default=True)


class _WithFields:
    """A record of which some attributes are others."""

    def __init__(self, record: object, fields: Mapping[str, object]) -> None:
        self._record, self._fields = record, fields

    def __getattr__(self, name: str) -> object:
        return self._fields[name] if name in self._fields else getattr(self._record, name)


class Schema(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        from_attributes=True,
        frozen=True,
        defer_build=True,  # `dwd` imports all of them, and needs few
        json_schema_serialization_defaults_required=True,
    )

    @classmethod
    def of(cls, record: object, **fields: object) -> Self:
        """The schema of a record: each field is the record's attribute of that name, unless `fields` has it.

        A field of schemas has those of the records that stand there.
        """
        return cls.model_validate(_WithFields(record, fields) if fields else record)

    def public(self) -> dict[str, Any]:
        """As JSON has it: values of JSON by their public names."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def example(cls, **fields: object) -> dict[str, Any]:
        """The example of the schema, of those of its fields; `fields`, by their public names, go first."""
        found = {}
        for field in cls.model_fields.values():
            own = [each.value for each in field.metadata if isinstance(each, Example)]
            name = field.serialization_alias or ""
            found[name] = own[-1] if own else _example(field.annotation)
        return found | fields


def _example(annotation: Any) -> object:  # noqa: ANN401 - any type
    """The example of a field that has none of its own: null, or the examples of the schemas in it, or empty."""
    inner = get_args(annotation)
    if type(None) in inner:
        return None
    kind = get_origin(annotation) or annotation
    if issubclass(kind, Schema):
        return kind.example()
    if kind is list and issubclass(inner[0], Schema):
        return [inner[0].example()]
    return kind()


# Types. Instants and durations of a record become text; each text is one line of limited length.


def _shown_by(shown: Callable[[float], object]) -> BeforeValidator:
    """An instant or a duration of a record is shown so; in an answer that is read it is a text already."""
    return BeforeValidator(lambda value: value if isinstance(value, str) else shown(value))


_RFC3339 = Field(description="RFC 3339, UTC", examples=["2026-11-20T14:02:11Z"])
_MOMENT: Final = Example("2026-11-20T14:10:00Z")
Time = Annotated[str, _RFC3339, _shown_by(rfc3339), _MOMENT]
EndTime = Annotated[str, _RFC3339, _shown_by(lambda end: rfc3339(math.ceil(end))), _MOMENT]
"""Rounded up: a part of a second counts as a whole one, as nothing ends before the time that is shown."""
GoDuration = Annotated[
    str,
    Field(description="A Go duration", examples=["30s"]),
    _shown_by(format_duration),
    Example("30s"),
]
Seconds = Annotated[float, AfterValidator(lambda value: round(value, 3))]
Line = Annotated[str, BeforeValidator(trimmed)]
ShortLine = Annotated[str, BeforeValidator(lambda text: trimmed(text, 300))]
Shown = Annotated[str, BeforeValidator(str)]
"""A reference, or a word of an enumeration, as text."""
Filled = Annotated[str | None, BeforeValidator(lambda text: text or None)]
"""Null for a text that is empty."""

# Errors and lists.


class FieldError(Schema):
    """One bad input of a request."""

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
    """Metadata of a list."""

    total: Annotated[int, Example(1)]
    """Number of items on all pages."""
    continue_: str | None = Field(alias="continue")
    """Token of the next page; null on the last."""


# Pauses, holds and ignore-scaling.


class Covers(StrEnum):
    """The shoots that a pause covers."""

    SHOOT = "shoot"
    ALL = "all"


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

    name: Annotated[str, Example("api"), read_from("id.name")]
    """Of the Pause, in the control plane's namespace, or in the watchdog's own if it covers all shoots."""
    covers: Annotated[Covers, Example("shoot")]
    scope: Annotated[Scope, Example("all")]
    reason: Annotated[str, Example("the load balancer is being replaced")]
    author: Annotated[str, Example("alice")]
    verified: Annotated[bool, Example(value=True)]
    """Whether `author` is the caller of this API who made it; otherwise somebody else has written the name."""
    created_at: Time
    """When the Pause was made; a `PUT` that replaces what it says leaves this as it is."""
    until: Annotated[EndTime, Example("2026-11-20T15:10:00Z")]


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
    until: EndTime
    """While that scaling run is under way, at the earliest: it lasts on for as long after the end of the run."""


# A shoot, its nodes and its history.

NAMESPACE: Final = Example("shoot--acme--prod")
_KCM: Final = Example("kube-controller-manager")
_KCM_REF: Final = Example("Deployment/kube-controller-manager")


class GateState(StrEnum):
    """State of a gate: open, or closed so that no scale-down starts."""

    OPEN = "Open"
    CLOSED = "Closed"


_CLOSED: Final = {True: GateState.CLOSED, False: GateState.OPEN}
Closed = Annotated[
    GateState, BeforeValidator(lambda value: _CLOSED[value] if isinstance(value, bool) else value)
]
"""From whether it is closed, or the word for that."""


class EndpointTarget(Schema):
    """The target of an endpoint probe: a host, or a container of a pod."""

    host: Annotated[Filled, Example("canary.example.org")]
    pod: Filled
    container: Filled


class EndpointProbe(Schema):
    """The result of one endpoint probe on one target."""

    name: Annotated[str, Example("canary")]
    type: Annotated[ProbeType, Example("Readiness")]
    effect: Annotated[Effect, Example("GateScaleDown")]
    target: EndpointTarget
    result: Annotated[CachedResult, Example("Success")]
    counted: Annotated[bool, Example(value=True)]
    """Whether as many runs in a row as the threshold asks for led to `result`; false for an initial value."""
    since: Annotated[Time | None, Example("2026-11-20T09:12:41Z")]
    """Since when `result` holds."""
    last_time: Annotated[Time | None, Example("2026-11-20T14:10:03Z"), read_from("last_run")]
    last_result: Annotated[ProbeOutcome | None, Example("Success"), read_from("last_outcome")]
    """Of the last run alone; an Error says nothing about the target."""
    message: Annotated[ShortLine, Example("HTTP 200")]
    """Message of the last run."""
    waiting: Waiting | None
    """Why it is not run at present."""
    gate: Annotated[Closed | None, Example("Open"), read_from("closed")]
    """State of the gate over all targets in this namespace; null if the probe is no gate."""


class Gate(Schema):
    """An endpoint probe that can keep a scale-down from starting, over all its targets."""

    name: Annotated[str, Example("canary")]
    state: Annotated[Closed, Example("Open"), read_from("closed")]
    reason: Annotated[GateReason, Example("Passing")]
    message: Annotated[ShortLine, Example("the gate canary is open: well: canary.example.org")]
    since: Annotated[Time, Example("2026-11-20T09:12:41Z")]


class Condition(Schema):
    """A condition of the shoot."""

    type: Annotated[str, Example("APIServerReachable")]
    status: Annotated[str, Example("True")]
    reason: Annotated[Shown, Example("Answered")]
    message: Annotated[str, Example("the API server answered")]
    last_transition_time: Annotated[Time, Example("2026-11-20T09:12:40Z"), read_from("since")]


class ProbeInfo(Schema):
    """The last probe."""

    last_time: Annotated[Time | None, Example("2026-11-20T14:10:01Z"), read_from("last_probe")]
    next_time: Annotated[Time | None, Example("2026-11-20T14:10:06Z"), read_from("next_probe")]
    duration_seconds: Annotated[
        Annotated[float, AfterValidator(lambda value: round(value, 6))] | None,
        Example(0.021),
        read_from("probe_seconds"),
    ]
    verdict: Annotated[Verdict | None, Example("ScaleDown"), read_from("decision.verdict")]
    would_be: Annotated[Verdict | None, Example("ScaleDown"), read_from("decision.would_be")]
    """The verdict by the leases, or by the two paths, alone; differs from `verdict` if something holds it back."""
    count: Annotated[int, Example(812), read_from("probes")]
    consecutive_failures: Annotated[int, read_from("failures")]


class Leases(Schema):
    """The leases of the last probe that ended in a reading."""

    as_of: Annotated[Time | None, Example("2026-11-20T14:10:01Z"), read_from("read_at")]
    """When that probe ended: before `probe.lastTime` if later ones could not read leases."""
    candidates: Annotated[int, Example(100), read_from("tally.candidates.total")]
    expired: Annotated[int, Example(63), read_from("tally.candidates.expired")]
    unknown: Annotated[int, read_from("tally.candidates.unknown")]
    candidates_as_of: Annotated[
        Time | None, Example("2026-11-20T14:09:56Z"), read_from("candidacy.at")
    ]
    fraction: Annotated[float, Example(0.63)]
    threshold: Annotated[float, Example(0.6)]
    expiry_after: Annotated[GoDuration | None, Example("30s"), read_from("expiry")]
    excluded: Annotated[dict[str, int], Example({"NotManaged": 2})]


class Replicas(Schema):
    """Replicas of a dependent."""

    spec: Annotated[int | None, Example(0)]
    ready: Annotated[int | None, Example(0)]
    saved: Annotated[int | None, Example(1)]


class Resource(Schema):
    """A dependent; `replicas.spec`, `ignoreScaling` and `protectionActive` are null if there is none to be seen."""

    api_version: Annotated[str, Example("apps/v1")]
    kind: Annotated[str, Example("Deployment")]
    name: Annotated[str, _KCM]
    optional: bool
    scale_up_level: int
    scale_down_level: Annotated[int, Example(1)]
    replicas: Replicas
    ignore_scaling: Annotated[bool | None, Example(value=False)]
    protection_active: Annotated[bool | None, Example(value=True)]


class LiveResource(Resource):
    """A dependent, read live for this answer."""

    annotations: Annotated[
        dict[str, str] | None,
        Example(
            {
                "dependency-watchdog.gardener.cloud/replicas": "1",
                "dependency-watchdog.gardener.cloud/meltdown-protection-active": "",
            }
        ),
    ]
    """The watchdog's own annotations only; null if it does not exist."""
    etag: Annotated[str | None, Example('"5f0a3c9be2d14a7788aa"')]
    """For `If-Match`: covers uid, `replicas.spec` and `annotations`; null if it does not exist."""


class ResourceList(Schema):
    """The dependents of a shoot; the ETag of the answer covers all of them, whatever the page."""

    items: list[LiveResource]
    metadata: ListMetadata


class Shoot(Schema):
    """A shoot."""

    namespace: Annotated[str, NAMESPACE]
    state: Annotated[ShootState, Example("Protected")]
    reason: Annotated[Shown, Example("LeasesExpired")]
    message: Annotated[
        str,
        Example(
            "63 of 100 node leases are older than 30 s (limit 60%); kube-controller-manager is at 0"
        ),
    ]
    since: Annotated[Time, Example("2026-11-20T14:02:11Z")]
    conditions: list[Condition]
    probe: ProbeInfo
    leases: Annotated[Leases | None, Example(Leases.example())]
    """Null before the first reading, and in endpoint mode."""
    resources: list[Resource]
    pause: Pause | None
    """The pause that holds back most, of those in force for the shoot or for all shoots."""
    pauses: int
    """Number of the pauses in force, which `/api/v1/shoots/{namespace}/pauses` lists."""
    hold: Hold | None
    endpoint_probes: list[EndpointProbe]
    """By name and target: the worst 50 at most."""
    endpoint_probes_total: Annotated[int, Example(1)]
    """Number of all results."""
    gates: list[Gate]
    """Each endpoint probe that can keep a scale-down from starting."""


class ShootList(Schema):
    """Shoots."""

    items: list[Shoot]
    metadata: ListMetadata


class Node(Schema):
    """A node and its lease."""

    name: Annotated[str, Example("ip-10-250-3-17")]
    pool: Annotated[str | None, Example("worker-a"), read_from("node.pool")]
    zone: Annotated[str | None, Example("eu-central-1a"), read_from("node.zone")]
    candidate: Annotated[bool | None, Example(value=True)]
    reason: str | None
    lease: Annotated[LeaseState | str, Example("Expired")]
    """Fresh, Expired, Unknown or Missing."""
    renew_time: Annotated[
        Time | None, Example("2026-11-20T14:01:40Z"), read_from("judgement.renew_time")
    ]
    age_seconds: Annotated[Seconds | None, Example(31.2), read_from("judgement.age")]
    clock_offset_seconds: Annotated[Seconds | None, Example(0.0), read_from("judgement.offset")]


class NodeMetadata(ListMetadata):
    """Metadata of a list of nodes."""

    candidates_as_of: Annotated[Time | None, Example("2026-11-20T14:09:56Z")]
    """When Nodes were read."""
    leases_as_of: Annotated[Time | None, Example("2026-11-20T14:10:01Z")]
    """When leases were read, which their ages refer to."""


class NodeList(Schema):
    """Nodes."""

    items: list[Node]
    metadata: NodeMetadata


class HistoryEntry(Schema):
    """An entry of the history."""

    time: Annotated[Time, Example("2026-11-20T14:02:11Z"), read_from("at")]
    type: Annotated[NoticeKind, Example("Scale"), read_from("kind")]
    verdict: Annotated[Verdict | None, Example("ScaleDown")]
    reason: Annotated[str, Example("ScaledDown")]
    message: Annotated[str, Example("kube-controller-manager scaled from 1 to 0")]
    resource: Annotated[Shown | None, _KCM_REF]


class HistoryList(Schema):
    """History, newest first."""

    items: list[HistoryEntry]
    metadata: ListMetadata


# Scaling runs: orders, plans and progress.


class OperationStep(Schema):
    """One resource of a scaling run."""

    resource: Annotated[Shown, _KCM_REF]
    """Such as `Deployment/kube-controller-manager`."""
    level: int
    phase: Annotated[StepPhase, Example("Running")]
    message: Line
    """Why it was skipped, or what failed."""
    started: Annotated[Time | None, Example("2026-11-20T14:10:02Z")]
    written: Annotated[Time | None, Example("2026-11-20T14:10:02Z")]
    """When the write was sent."""
    ended: Time | None
    before: Annotated[int | None, Example(0)]
    """Replicas before the write."""
    after: Annotated[int | None, Example(1)]


class Operation(Schema):
    """A scaling run."""

    id: Annotated[str, Example("0b6c1f0e-6a0d-4a58-9b1c-2f0d9b1e7c55")]
    namespace: Annotated[str, NAMESPACE]
    direction: Annotated[Direction, Example("up")]
    trigger: Annotated[Trigger, Example("manual")]
    phase: Annotated[OperationPhase, Example("Running")]
    created: Annotated[Time, Example("2026-11-20T14:10:02Z")]
    started: Annotated[Time | None, Example("2026-11-20T14:10:02Z")]
    ended: Time | None
    author: Annotated[Line | None, Example("alice")]
    """Author of a manual run; null for an automatic one."""
    verified: Annotated[bool, Example(value=True)]
    """Whether the API wrote the author; otherwise somebody with kubectl did, and may have written anything."""
    reason: Annotated[Line, Example("the load balancer is back")]
    """The author's reason, or the message of the verdict."""
    message: Line
    """How it ended, or what it waits for."""
    forced: bool
    carried_on: bool
    """Whether an earlier leader began it."""
    hold_until: Annotated[EndTime | None, Example("2026-11-20T14:40:02Z")]
    """When the hold of a manual run ends: while it is under way, at the earliest. Null: it holds nothing."""
    steps: list[OperationStep]
    """In the order of levels."""


class OperationList(Schema):
    """Scaling runs, newest first."""

    items: list[Operation]
    metadata: ListMetadata


class PlannedStep(Schema):
    """What a scaling run would do with one resource now."""

    resource: Annotated[Shown, _KCM_REF]
    action: Annotated[ScalingStep, Example("Write")]
    reason: Annotated[str, Example("ScaledUp")]
    """Why it would be written or skipped."""
    before: Annotated[int | None, Example(0)]
    after: Annotated[int | None, Example(1)]
    initial_delay: Annotated[GoDuration, Example("0s")]
    """How long it would wait before the write."""
    etag: Annotated[str | None, Example('"5f0a3c9be2d14a7788aa"')]
    """ETag of the resource; null if it does not exist."""


class PlannedLevel(Schema):
    """Resources that are scaled together."""

    level: int
    steps: list[PlannedStep]


class Plan(Schema):
    """What a scaling run would do now, level by level."""

    namespace: Annotated[str, NAMESPACE]
    direction: Annotated[Direction, Example("up")]
    levels: list[PlannedLevel]
    etag: Annotated[str, Example('"c2b86f0e9d7715a4f0e1"')]
    """ETag of all resources, for `If-Match` of a scale order."""
    replaces: str | None
    """The automatic scaling run that it would end."""


class Look(Schema):
    """A requested probe."""

    at: Annotated[Time, Example("2026-11-20T14:10:02Z")]
    """When it is due: now, or as soon as the rules allow."""


# Services of the weeder, their recoveries, and the pods that these deleted or spared.


class WeededPod(Schema):
    """A pod that was deleted, or that a recovery tried to delete."""

    pod: Annotated[str, Example("kube-scheduler-5d9f-x2p7v")]
    owner: Annotated[Shown | None, Example("ReplicaSet/kube-scheduler-5d9f")]
    """Its controller, such as `ReplicaSet/name`; null for a bare pod."""
    time: Annotated[Time, Example("2026-11-20T14:21:31Z"), read_from("at")]
    result: Annotated[DeletionResult, Example("deleted")]
    container: Annotated[str, Example("kube-scheduler")]
    """The container with the longest remaining back-off."""
    spared_backoff: Annotated[
        # More decimals would be noise, as the start of a back-off is known in whole seconds only.
        Annotated[GoDuration, _shown_by(lambda seconds: round(seconds, 3))] | None,
        Example("4m43s"),
        read_from("remaining"),
    ]
    """The remaining back-off of that container; null if it was not known."""


class SparedPod(Schema):
    """A pod that matches a selector and was left alone."""

    pod: Annotated[str, Example("etcd-main-0")]
    time: Annotated[Time, Example("2026-11-20T14:21:31Z"), read_from("at")]
    """Since when it has been spared for this reason."""
    reason: Annotated[KeepReason, Example("NotWaiting")]
    message: Annotated[Line, Example("none of its 2 containers waits in CrashLoopBackOff")]


class Asked(Schema):
    """The order of a manual recovery."""

    author: Annotated[Line, Example("alice")]
    reason: Annotated[Line, Example("kube-scheduler hangs")]
    """Empty if none was given."""
    despite: Line | None
    """The pause that it was forced against; null if there was none."""


class Recovery(Schema):
    """A recovery: what is done after a service became ready again."""

    id: Annotated[int, Example(12)]
    """Number of the recovery in this process."""
    cause: Annotated[Cause, Example("BecameReady")]
    phase: Annotated[Phase, Example("Watching")]
    began: Annotated[Time, Example("2026-11-20T14:21:30Z")]
    due: Annotated[Time, Example("2026-11-20T14:21:30Z")]
    """When it begins to delete; later than `began` if there were too many recoveries."""
    until: Annotated[Time, Example("2026-11-20T14:26:30Z")]
    ended: Time | None
    end: End | None
    asked: Asked | None
    """The order of a manual recovery; null for an automatic one."""
    trouble: Line | None
    """What hinders it, or ended it; null while all is well."""
    queued: int
    """Pods that wait for their deletion; in one that has ended, those that were left."""
    deletions: list[WeededPod]
    """Oldest first."""
    spared: list[SparedPod]
    """By name."""


class Weeder(Schema):
    """A service of one control plane with its recoveries, newest first."""

    namespace: Annotated[str, NAMESPACE, read_from("key.namespace")]
    service: Annotated[str, Example("kube-apiserver"), read_from("key.service")]
    ready: Annotated[bool, Example(value=True)]
    since: Annotated[Time | None, Example("2026-11-20T14:21:30Z")]
    """When it became ready, or not ready; null if that is not known."""
    failing: Line | None
    """The unexpected error after which its recovery is started again; null if there is none."""
    recoveries: list[Recovery]


class WeederList(Schema):
    """Services, those with the newest recoveries first."""

    items: list[Weeder]
    metadata: ListMetadata


# The process; its configuration is in `app.api.routers.status`.


class Leader(Schema):
    """The leader of a loop."""

    identity: Annotated[str | None, Example("dwd-7f9"), read_from("leader_identity")]
    address: str | None


class FeatureOff(Schema):
    """A feature that is off."""

    feature: str
    reason: str


class MissingPermission(Schema):
    """A permission that the process lacks."""

    verb: str
    group: str
    resource: str
    name: Filled
    namespace: Filled
    feature: Filled
    """The feature that is off without it; null: needed to protect."""


class ConfigFinding(Schema):
    """A warning about flags or files."""

    path: Annotated[str, Example("name")]
    line: Annotated[int | None, Example(3)]
    message: Annotated[str, Example("obsolete; it is not used")]


class Status(Schema):
    """The status of this process."""

    version: Annotated[str, Example("1.2.3")]
    identity: Annotated[str, Example("dwd-7f9")]
    """The holder identity of this process in the elections, as `leaders` has that of the leaders."""
    started_at: Annotated[Time, Example("2026-11-20T09:12:33Z")]
    role: Annotated[str, Example("leader")]
    """`leader` or `standby`."""
    dry_run: bool
    leaders: Annotated[dict[str, Leader], Example({"prober": Leader.example()})]
    """By loop."""
    counts: Annotated[dict[str, int] | None, Example({"Protected": 1, "Healthy": 111})]
    """Number of shoots in each state; null on a standby."""
    pause: Pause | None
    """The pause of all shoots."""
    features_off: Annotated[list[FeatureOff], Example([])]
    missing_permissions: Annotated[list[MissingPermission], Example([])]
    config_warnings: Annotated[list[ConfigFinding], Example([])]
    found_unconfigured: list[str]
    """Objects that carry the meltdown key and are not configured; they are never written."""
    selectors_without_pods: list[str]
    """Selectors of the weeder that have matched no pod for an hour."""


class LogLevelNow(Schema):
    """The log level in force until the next start."""

    level: Annotated[LogLevel, Example("debug")]


class AuditEntry(Schema):
    """An attempt to change something, or several equal refused ones: the fields then describe the last."""

    time: Time
    """Time of the last attempt."""
    first_time: Time
    times: Annotated[int, Example(1)]
    """How often the same call on the same shoot was refused with the same problem."""
    request: Annotated[str, Example("6a1f0c")]
    """The `X-Request-Id` of the answer."""
    method: Annotated[str, Example("PUT")]
    path: Annotated[str, Example("/api/v1/shoots/shoot--acme--prod/pause")]
    peer: Annotated[str, Example("10.4.7.21")]
    """The address that the request came from."""
    caller: Annotated[
        str | None, Example("system:serviceaccount:garden:dependency-watchdog-operator")
    ]
    """Null if the caller was not identified."""
    claimed: Annotated[str | None, Example("alice@example.org")]
    """The person who used the account, as the client claims (`dwd --service-account`); nobody has verified it."""
    action: Annotated[Filled, Example("pause")]
    """Null if the request was refused before it reached the call."""
    namespace: Annotated[str | None, NAMESPACE]
    target: str | None
    reason: Annotated[str | None, Example("the load balancer is being replaced")]
    """The reason that the caller gave."""
    status: Annotated[int | None, Example(200)]
    """Null if the process ended before it answered."""
    problem: str | None
    """The `type` of the problem; null if the call succeeded."""
    before: Annotated[Any, Example(None)]
    after: Annotated[Any, Example(Pause.example())]


class AuditMetadata(ListMetadata):
    """Metadata of the audit."""

    since: Annotated[Time, Example("2026-11-20T09:12:33Z")]
    """Since when this process has kept records; older ones are in the log only."""


class AuditList(Schema):
    """Audit records, newest first."""

    items: list[AuditEntry]
    metadata: AuditMetadata


# Data of the event stream, apart from shoots and operations.


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
    author: Annotated[Line | None, read_from("asked.author")]
    """The author of a manual recovery; null for an automatic one."""
    phase: Phase
    began: Time
    due: Time
    until: Time
    ended: Time | None
    end: End | None
    trouble: Line | None
    queued: int
    deletions: int
    """Number of pods."""
    spared: int


class WeederChange(Schema):
    """A service of one control plane with its newest recovery."""

    namespace: Annotated[str, read_from("key.namespace")]
    service: Annotated[str, read_from("key.service")]
    ready: bool
    since: Time | None
    failing: Line | None
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
