"""The API's JSON, as far as it is shown: each field may be absent, new ones and new words are no mistake.

A server may be newer or older than this program; what it does not say is shown as nothing.
"""

from typing import Generic, TypeVar

import msgspec

from app.cli.exits import CommandFailed, Exit

T = TypeVar("T")


class _Shape(msgspec.Struct, rename="camel", frozen=True):
    """The base of all of them."""


class Condition(_Shape, frozen=True):
    """One aspect of a shoot."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Probe(_Shape, frozen=True):
    """The last look."""

    last_time: str | None = None
    next_time: str | None = None
    duration_seconds: float | None = None
    verdict: str | None = None
    would_be: str | None = None
    count: int = 0
    consecutive_failures: int = 0


class Leases(_Shape, frozen=True):
    """The leases of the last look that ended in a reading."""

    as_of: str | None = None
    candidates: int = 0
    expired: int = 0
    unknown: int = 0
    fraction: float = 0.0
    threshold: float = 0.0
    expiry_after: str | None = None
    excluded: dict[str, int] = {}


class Replicas(_Shape, frozen=True):
    """Replicas of a resource."""

    spec: int | None = None
    ready: int | None = None
    saved: int | None = None


class Resource(_Shape, frozen=True):
    """A resource that is scaled."""

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

    covers: str = ""
    scope: str = ""
    reason: str = ""
    author: str = ""
    until: str | None = None


class Hold(_Shape, frozen=True):
    """A hold that is in force."""

    direction: str | None = None
    operation: str | None = None
    done: bool = True
    reason: str = ""
    author: str = ""
    until: str | None = None


class EndpointTarget(_Shape, frozen=True):
    """Who an endpoint probe asks."""

    host: str | None = None
    pod: str | None = None
    container: str | None = None


class EndpointProbe(_Shape, frozen=True):
    """One endpoint probe on one target."""

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
    """An endpoint probe that can keep a scale-down from starting."""

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
    """Something that happened."""

    time: str | None = None
    type: str = ""
    reason: str = ""
    message: str = ""
    resource: str | None = None


class Step(_Shape, frozen=True):
    """One resource of a flow."""

    resource: str = ""
    level: int = 0
    phase: str = ""
    message: str = ""
    started: str | None = None
    ended: str | None = None
    before: int | None = None
    after: int | None = None


class Operation(_Shape, frozen=True):
    """A flow."""

    id: str
    namespace: str = ""
    direction: str = ""
    trigger: str = ""
    phase: str = ""
    created: str | None = None
    ended: str | None = None
    author: str | None = None
    reason: str = ""
    message: str = ""
    hold_until: str | None = None
    steps: list[Step] = []


class PlannedStep(_Shape, frozen=True):
    """What a flow would do with one resource."""

    resource: str = ""
    action: str = ""
    reason: str = ""
    before: int | None = None
    after: int | None = None
    initial_delay: str = ""


class PlannedLevel(_Shape, frozen=True):
    """Resources that a flow takes together."""

    level: int = 0
    steps: list[PlannedStep] = []


class Plan(_Shape, frozen=True):
    """What a flow would do now."""

    levels: list[PlannedLevel] = []
    etag: str | None = None
    replaces: str | None = None


class Look(_Shape, frozen=True):
    """A look that was asked for."""

    at: str | None = None


class Deletion(_Shape, frozen=True):
    """A pod that was deleted, or was to be."""

    pod: str = ""
    result: str = ""


class Recovery(_Shape, frozen=True):
    """What is done after a service came back."""

    id: int | None = None
    cause: str = ""
    phase: str = ""
    began: str | None = None
    due: str | None = None
    until: str | None = None
    ended: str | None = None
    end: str | None = None
    queued: int = 0
    deletions: list[Deletion] = []


class Metadata(_Shape, frozen=True):
    """About a list."""

    total: int = 0
    next: str | None = msgspec.field(default=None, name="continue")


class Page(_Shape, Generic[T], frozen=True):
    """A page of a list."""

    items: list[T]
    metadata: Metadata = Metadata()


class WeederChange(_Shape, frozen=True):
    """An event of a service: its newest recovery."""

    namespace: str = ""
    service: str = ""
    ready: bool | None = None
    failing: str | None = None
    recovery: "RunningRecovery | None" = None


class RunningRecovery(_Shape, frozen=True):
    """A recovery without its pods."""

    phase: str = ""
    end: str | None = None
    trouble: str | None = None
    queued: int = 0
    deletions: int = 0
    spared: int = 0


class Decision(_Shape, frozen=True):
    """A pause or a hold of an event."""

    scope: str | None = None
    direction: str | None = None
    reason: str = ""
    author: str = ""
    until: str | None = None


class OverrideChange(_Shape, frozen=True):
    """An event of what a person decided."""

    namespace: str | None = None
    kind: str = ""
    resource: str | None = None
    author: str | None = None
    after: Decision | bool | None = None


class Told(_Shape, frozen=True):
    """An event about the stream itself, or of which only the shoot is of interest."""

    namespace: str | None = None
    reason: str = ""


def read(body: bytes) -> object:
    """`body` as JSON has it.

    Raises:
        CommandFailed: it is no JSON.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CommandFailed(Exit.FAILED, f"the answer is no JSON: {error}") from error


def of(kind: type[T], data: object) -> T:
    """What JSON says, as `kind`.

    Raises:
        CommandFailed: it is none.
    """
    try:
        return msgspec.convert(data, type=kind)
    except msgspec.ValidationError as error:
        message = f"the answer is not one of this API: {error}"
        raise CommandFailed(Exit.FAILED, message) from error
