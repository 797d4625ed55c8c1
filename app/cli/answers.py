"""The parts of the API's JSON that the client shows.

A server may be newer or older than this program. So every field has a default, unknown fields are ignored, and words
are strings instead of enums. The server's own schemas (`app.api.schemas`) would refuse what they do not know.
"""

from typing import Generic, TypeVar

import msgspec

from app.cli.problems import CommandFailed, Exit

T = TypeVar("T")


class _Shape(msgspec.Struct, rename="camel", frozen=True):
    """The base of all shapes: camelCase, unknown fields ignored."""


class Condition(_Shape, frozen=True):
    """A condition of a shoot."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Probe(_Shape, frozen=True):
    """The last probe."""

    last_time: str | None = None
    next_time: str | None = None
    duration_seconds: float | None = None
    verdict: str | None = None
    would_be: str | None = None
    count: int = 0
    consecutive_failures: int = 0


class Leases(_Shape, frozen=True):
    """The leases of the last probe that ended in a reading."""

    as_of: str | None = None
    candidates: int = 0
    expired: int = 0
    unknown: int = 0
    fraction: float = 0.0
    threshold: float = 0.0
    expiry_after: str | None = None
    excluded: dict[str, int] = {}


class Replicas(_Shape, frozen=True):
    """Replicas of a resource: wanted, ready, and the saved count."""

    spec: int | None = None
    ready: int | None = None
    saved: int | None = None


class Resource(_Shape, frozen=True):
    """A dependent."""

    kind: str = ""
    name: str = ""
    optional: bool = False
    scale_up_level: int = 0
    scale_down_level: int = 0
    replicas: Replicas = Replicas()
    ignore_scaling: bool | None = None
    protection_active: bool | None = None


class Pause(_Shape, frozen=True):
    """A pause that is in force."""

    name: str = ""
    covers: str = ""
    scope: str = ""
    reason: str = ""
    author: str = ""
    verified: bool = True
    """Whether the server knows that `author` made it; an older one does not say."""
    until: str | None = None


class Hold(_Shape, frozen=True):
    """A hold that is in force."""

    direction: str | None = None
    operation: str | None = None
    done: bool = True
    reason: str = ""
    author: str = ""
    verified: bool = True
    until: str | None = None


class EndpointTarget(_Shape, frozen=True):
    """The target of an endpoint probe."""

    host: str | None = None
    pod: str | None = None
    container: str | None = None


class EndpointProbe(_Shape, frozen=True):
    """The result of one endpoint probe on one target."""

    name: str = ""
    type: str = ""
    target: EndpointTarget = EndpointTarget()
    result: str = ""
    counted: bool = True
    since: str | None = None
    last_time: str | None = None
    last_result: str | None = None
    message: str = ""
    waiting: str | None = None
    gate: str | None = None


class Gate(_Shape, frozen=True):
    """A gate: an endpoint probe that can keep a scale-down from starting."""

    name: str = ""
    state: str = ""
    message: str = ""
    since: str | None = None


class Shoot(_Shape, frozen=True):
    """A shoot."""

    namespace: str
    state: str = ""
    reason: str = ""
    message: str = ""
    since: str | None = None
    conditions: list[Condition] = []
    probe: Probe = Probe()
    leases: Leases | None = None
    resources: list[Resource] = []
    pause: Pause | None = None
    pauses: int = 0
    """Number of the pauses in force; `pause` is the one that acts."""
    hold: Hold | None = None
    endpoint_probes: list[EndpointProbe] = []
    endpoint_probes_total: int = 0
    gates: list[Gate] = []


class Node(_Shape, frozen=True):
    """A node and its lease."""

    name: str
    pool: str | None = None
    zone: str | None = None
    candidate: bool | None = None
    reason: str | None = None
    lease: str = ""
    age_seconds: float | None = None
    clock_offset_seconds: float | None = None


class HistoryEntry(_Shape, frozen=True):
    """An entry of a shoot's history."""

    time: str | None = None
    type: str = ""
    reason: str = ""
    message: str = ""
    resource: str | None = None


class Step(_Shape, frozen=True):
    """One resource of a scaling run."""

    resource: str = ""
    level: int = 0
    phase: str = ""
    message: str = ""
    started: str | None = None
    ended: str | None = None
    before: int | None = None
    after: int | None = None


class Operation(_Shape, frozen=True):
    """A scaling run."""

    id: str
    namespace: str = ""
    direction: str = ""
    trigger: str = ""
    phase: str = ""
    created: str | None = None
    ended: str | None = None
    author: str | None = None
    verified: bool = True
    reason: str = ""
    message: str = ""
    hold_until: str | None = None
    steps: list[Step] = []


class PlannedStep(_Shape, frozen=True):
    """A step of a plan: one resource."""

    resource: str = ""
    action: str = ""
    reason: str = ""
    before: int | None = None
    after: int | None = None
    initial_delay: str = ""


class PlannedLevel(_Shape, frozen=True):
    """A level of a plan: resources that are scaled together."""

    level: int = 0
    steps: list[PlannedStep] = []


class Plan(_Shape, frozen=True):
    """The plan of a scaling run."""

    levels: list[PlannedLevel] = []
    etag: str | None = None
    replaces: str | None = None


class ProbeRequest(_Shape, frozen=True):
    """A requested probe, with the instant at which it is due."""

    at: str | None = None


class Deletion(_Shape, frozen=True):
    """A pod that a recovery deleted, or tried to."""

    pod: str = ""
    time: str | None = None
    result: str = ""
    container: str = ""
    spared_backoff: str | None = None


class SparedPod(_Shape, frozen=True):
    """A pod that a selector matches and that a recovery left alone, with the reason."""

    pod: str = ""
    reason: str = ""
    message: str = ""


class Asked(_Shape, frozen=True):
    """Author and reason of a manual recovery."""

    author: str = ""
    reason: str = ""


class Recovery(_Shape, frozen=True):
    """A recovery."""

    id: int | None = None
    cause: str = ""
    phase: str = ""
    began: str | None = None
    due: str | None = None
    until: str | None = None
    ended: str | None = None
    end: str | None = None
    asked: Asked | None = None
    trouble: str | None = None
    queued: int = 0
    deletions: list[Deletion] = []
    spared: list[SparedPod] = []


class Weeder(_Shape, frozen=True):
    """A service of one control plane with its recoveries, newest first."""

    namespace: str = ""
    service: str = ""
    ready: bool | None = None
    since: str | None = None
    failing: str | None = None
    recoveries: list[Recovery] = []


class Leader(_Shape, frozen=True):
    """The leader of a loop."""

    identity: str | None = None
    address: str | None = None


class FeatureOff(_Shape, frozen=True):
    """A feature that is off."""

    feature: str = ""
    reason: str = ""


class MissingPermission(_Shape, frozen=True):
    """A permission that the process lacks."""

    verb: str = ""
    group: str = ""
    resource: str = ""
    name: str | None = None
    namespace: str | None = None
    feature: str | None = None


class ConfigFinding(_Shape, frozen=True):
    """A warning about flags or files."""

    path: str = ""
    line: int | None = None
    message: str = ""


class Status(_Shape, frozen=True):
    """The status of a process."""

    version: str = ""
    started_at: str | None = None
    role: str = ""
    dry_run: bool = False
    leaders: dict[str, Leader] = {}
    counts: dict[str, int] | None = None
    pause: Pause | None = None
    features_off: list[FeatureOff] = []
    missing_permissions: list[MissingPermission] = []
    config_warnings: list[ConfigFinding] = []
    found_unconfigured: list[str] = []
    selectors_without_pods: list[str] = []


class AuditEntry(_Shape, frozen=True):
    """An audit record: an attempt to change something, or several equal ones that were refused."""

    time: str | None = None
    times: int = 1
    method: str = ""
    path: str = ""
    peer: str = ""
    caller: str | None = None
    claimed: str | None = None
    action: str | None = None
    namespace: str | None = None
    target: str | None = None
    reason: str | None = None
    status: int | None = None


class AuditMetadata(_Shape, frozen=True):
    """Metadata of the audit: since when the process has kept records."""

    since: str | None = None


class Audit(_Shape, frozen=True):
    """The audit records, newest first."""

    items: list[AuditEntry] = []
    metadata: AuditMetadata = AuditMetadata()


class LogLevelAnswer(_Shape, frozen=True):
    """The log level of a process."""

    level: str = ""


class Metadata(_Shape, frozen=True):
    """Metadata of a page: number of items on all pages, and the token of the next one."""

    total: int = 0
    next: str | None = msgspec.field(default=None, name="continue")


class Page(_Shape, Generic[T], frozen=True):
    """A page of a list."""

    items: list[T]
    metadata: Metadata = Metadata()


class WeederChange(_Shape, frozen=True):
    """Data of an event about a service: its newest recovery."""

    namespace: str = ""
    service: str = ""
    ready: bool | None = None
    failing: str | None = None
    recovery: "RunningRecovery | None" = None


class RunningRecovery(_Shape, frozen=True):
    """A recovery with numbers of pods instead of the pods."""

    phase: str = ""
    end: str | None = None
    trouble: str | None = None
    queued: int = 0
    deletions: int = 0
    spared: int = 0


class PauseOrHold(_Shape, frozen=True):
    """A pause or a hold in an event."""

    name: str = ""
    scope: str | None = None
    direction: str | None = None
    reason: str = ""
    author: str = ""
    verified: bool = True
    until: str | None = None


class OverrideChange(_Shape, frozen=True):
    """Data of an event about an override."""

    namespace: str | None = None
    kind: str = ""
    resource: str | None = None
    author: str | None = None
    after: PauseOrHold | bool | None = None


class StreamMessage(_Shape, frozen=True):
    """Data of an event about the stream itself (`gap`, `end`), and of `shoot-gone`."""

    namespace: str | None = None
    reason: str = ""


def read(body: bytes) -> object:
    """Decode a body.

    Raises:
        CommandFailed: The body is not JSON.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CommandFailed(Exit.FAILED, f"the answer is not JSON: {error}") from error


def of(kind: type[T], data: object) -> T:
    """Convert decoded JSON to a shape.

    Raises:
        CommandFailed: A value has a wrong type, so that the answer is not one of this API.
    """
    try:
        return msgspec.convert(data, type=kind)
    except msgspec.ValidationError as error:
        message = f"the answer is not one of this API: {error}"
        raise CommandFailed(Exit.FAILED, message) from error
