"""One record for each thing that happens; log, metrics, history and Events are its subscribers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import structlog

from app.core.model.probing import Verdict
from app.core.model.workloads import ResourceRef

log = structlog.get_logger(__name__)


class Kind(StrEnum):
    """What the history calls it."""

    LOOK = "Look"
    VERDICT = "Verdict"
    SCALE = "Scale"
    OVERRIDE = "Override"
    LIFECYCLE = "Lifecycle"
    WEED = "Weed"
    """What the weeder did (docs/decisions/0016)."""


class Severity(StrEnum):
    """How much it matters to someone who reads the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened to one shoot."""

    kind: Kind
    namespace: str
    at: float
    reason: str
    """CamelCase; of an Event, its reason."""
    message: str
    severity: Severity = Severity.INFO
    verdict: Verdict | None = None
    resource: ResourceRef | None = None
    resource_uid: str | None = None
    """Of a resource that is no configured dependent."""
    about_namespace: str | None = None
    """Where `resource` is; None: in the namespace that this happened to."""
    event: bool = False
    """Whether it is worth a Kubernetes Event on `resource`."""
    note: str | None = None
    """What the Event says, to whoever `resource` belongs to; None: the message."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What it was decided on: counts, replicas, levels, seconds."""


Subscriber = Callable[[Notice], None]


class NoticeBoard:
    """Hands each notice to every subscriber; one that fails is logged and stops nobody."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """`subscriber` is called with each notice from now on, in the order of publication."""
        self._subscribers.append(subscriber)

    def publish(self, notice: Notice) -> None:
        """Tells everybody."""
        for subscriber in self._subscribers:
            try:
                subscriber(notice)
            except Exception as error:
                log.exception("a subscriber failed", reason=notice.reason, exc_info=error)
