"""Notices: a record of each thing that happens, from which log, metrics, history, Events and the stream are made.

A class for each thing, so that subscribers match on it and read its facts as fields.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, Protocol

import structlog

from app.core.clock import Clock
from app.core.model.endpoints import CachedResult, GateReason
from app.core.model.instants import rfc3339
from app.core.model.overrides import Scope
from app.core.model.policy import Loop
from app.core.model.probing import NoticeKind, ProbeResult, RequestKind, ShootState, Verdict
from app.core.model.scaling_runs import StepResult, Trigger
from app.core.model.weeding import DeletionResult
from app.core.model.workloads import Direction, ResourceRef
from app.core.tasks import tell

log = structlog.get_logger(__name__)

P = ParamSpec("P")


class Severity(StrEnum):
    """The severity of a notice in the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened to one shoot, or to all (`ALL_SHOOTS`).

    Its class says what. The fields that a class adds are the facts behind it, by the names that the log has, unless
    `_NAMES` has another one; None: does not apply.
    """

    kind: ClassVar[NoticeKind]
    namespace: str
    at: float
    reason: str
    """In CamelCase; also the reason of the Event."""
    message: str
    severity: Severity = Severity.INFO
    _: KW_ONLY
    verdict: Verdict | None = None
    resource: ResourceRef | None = None
    resource_uid: str | None = None
    """UID of `resource` if it is not a configured dependent."""
    about_namespace: str | None = None
    """Namespace of `resource`; None if it is `namespace`."""
    event: str | None = None
    """The note of the Kubernetes Event on `resource`, for its owner; None if there is no Event."""

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that the class adds, by the name of the field."""
        added = fields(self)[len(fields(Notice)) :]
        return {each.name: getattr(self, each.name) for each in added}


# Of the prober.


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed(Notice):
    """A probe has ended, or a contact between two probes has failed."""

    kind: ClassVar = NoticeKind.LOOK
    failed: bool
    probes: Mapping[RequestKind, ProbeResult]
    durations: Mapping[RequestKind, float]
    seconds: float
    leases: Mapping[str, int] | None
    """How many are fresh, expired, unknown and excluded; None in endpoint mode, and without a reading."""
    lag: float = 0.0
    known_since: float | None = None
    """When the outage that the reading shows could be known."""
    state: ShootState | None = None
    postponed: bool | None = None
    """The shoot has used up its share of time (rules 4.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChanged(Notice):
    """The verdict of a shoot or its reason changed."""

    kind: ClassVar = NoticeKind.VERDICT
    would_be: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingNotice(Notice):
    """Something that happened in a scaling run."""

    kind: ClassVar = NoticeKind.SCALE


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRunBegan(ScalingNotice):
    """A scaling run begins."""

    flow: str = field(default="started", init=False)
    direction: Direction
    operation: str
    trigger: Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRunEnded(ScalingNotice):
    """A scaling run has ended."""

    flow: str = field(default="ended", init=False)
    direction: Direction
    seconds: float
    operation: str
    trigger: Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceScaled(ScalingNotice):
    """A scaling run has ended for one resource."""

    direction: Direction
    result: StepResult
    trigger: Trigger
    operation: str
    before: int | None
    after: int | None
    requested_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationInvalid(ScalingNotice):
    """An annotation of ours has a value that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleChanged(Notice):
    """A change in the life of a shoot's probing, or in how often it is probed."""

    kind: ClassVar = NoticeKind.LIFECYCLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionBegan(LifecycleChanged):
    """Protection of a shoot has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionAbandoned(LifecycleChanged):
    """Probing ended while protection was active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShootForgotten(LifecycleChanged):
    """The Cluster of a shoot is gone, and so is all that was kept of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerFailed(LifecycleChanged):
    """The loop of one shoot failed, and is started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointNotice(Notice):
    """Something that concerns an endpoint probe."""

    kind: ClassVar = NoticeKind.LIFECYCLE
    probe: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointResultChanged(EndpointNotice):
    """The result of an endpoint probe for one target changed."""

    target: str
    result: CachedResult


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointWorkerFailed(EndpointNotice):
    """The loop of one target failed, and is started again."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateChanged(EndpointNotice):
    """A gate has opened, closed or gone blind."""

    gate: GateReason


# Of what people decide.


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideNotice(Notice):
    """Something that concerns what people have decided."""

    kind: ClassVar = NoticeKind.OVERRIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideChanged(OverrideNotice):
    """A pause, a hold or an ignore-scaling is in force from now on, or no longer."""

    action: str
    """`SetOverride` or `EndOverride`."""
    override: str
    until: str | None = None
    scope: Scope | None = None
    operation: str | None = None
    author: str | None = None
    """Who did it, if that is known."""
    replicas: int | None = None


# Of the weeder.


@dataclass(frozen=True, slots=True, kw_only=True)
class WeedingNotice(Notice):
    """Something that the weeder did, or left alone, for a service."""

    kind: ClassVar = NoticeKind.WEED
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryBegan(WeedingNotice):
    """A recovery begins, or waits for its turn."""

    recovery: int
    wait_seconds: float | None = None
    author: str | None = None
    action: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryEnded(WeedingNotice):
    """A recovery has ended."""

    recovery: int
    deleted: int
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryFailed(WeedingNotice):
    """A recovery failed, and is started again."""

    loop: str = field(default=Loop.WEEDER, init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodJudged(WeedingNotice):
    """A pod was deleted for a service, or was not although it waits for it."""

    pod: str
    result: DeletionResult
    action: str | None = None


Subscriber = Callable[[Notice], None]


class NoticeBus:
    """Passes each notice to every subscriber; one that fails is logged and does not affect the others."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber` with each notice from now on, in the order of publication."""
        self._subscribers.append(subscriber)

    def publish(self, notice: Notice) -> None:
        """Calls all subscribers."""
        tell(self._subscribers, {"reason": notice.reason}, notice)


class Reporting(Protocol):
    """What a loop reports with: the environment of the prober or of the weeder."""

    notice_bus: NoticeBus
    clock: Clock


def report(
    environment: Reporting,
    of: Callable[Concatenate[str, float, P], Notice],
    namespace: str,
    *words: P.args,
    **facts: P.kwargs,
) -> None:
    """Publishes a notice of the class `of` of what happens now; its `words` are reason, message and severity."""
    environment.notice_bus.publish(of(namespace, environment.clock.now(), *words, **facts))


# Notices as log lines, with their facts named as in the API.


# Facts that have another name in the API, or whose name lacks the unit.
_NAMES: Final = {
    "requested_at": "written",
    "seconds": "duration_seconds",
    "durations": "probe_seconds",
    "lag": "lag_seconds",
}
_INSTANTS: Final = frozenset({"requested_at", "known_since"})


def journal(notice: Notice) -> None:
    """Logs `notice`; a subscriber of the bus. Probes are logged at debug level, whatever their result."""
    severity = notice.severity
    if isinstance(notice, Probed):
        severity = Severity.DEBUG
        # There are hundreds a second, and the level hides them. The class says so: creating a logger costs more.
        if not structlog.get_config()["wrapper_class"].is_enabled_for(None, logging.DEBUG):
            return
    found: dict[str, Any] = {
        "namespace": notice.namespace,
        "type": notice.kind,
        "reason": notice.reason,
        "verdict": notice.verdict,
        "resource": None if notice.resource is None else str(notice.resource),
    }
    facts = dict(_logged(name, value) for name, value in notice.facts.items())
    # The fields that identify the notice come first, and no fact overwrites them.
    known = {**found, **facts} | found
    shown = {name: value for name, value in known.items() if value is not None}
    getattr(log, severity)(notice.message, **shown)


def _logged(name: str, value: object) -> tuple[str, object]:
    """Returns a fact as a field of the log: instants as text, seconds to the millisecond."""
    if isinstance(value, float):
        value = rfc3339(value) if name in _INSTANTS else round(value, 3)
    return _NAMES.get(name, name), value
