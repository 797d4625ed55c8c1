"""One record for each thing that happens; log, metrics, history and Events are its subscribers."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import structlog

from app.core.model.instants import rfc3339
from app.core.model.probing import Verdict
from app.core.model.workloads import ResourceRef

log = structlog.get_logger(__name__)


class NoticeKind(StrEnum):
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

    kind: NoticeKind
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


class NoticeBus:
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


# Notices as lines of the log: one each, with the numbers that it was decided on, named as the API names them.


_METHODS: Final = {
    Severity.DEBUG: "debug",
    Severity.INFO: "info",
    Severity.WARNING: "warning",
    Severity.ERROR: "error",
}
_NUMBERS: Final = {
    "requested_at": "written",
    "seconds": "duration_seconds",
    "durations": "probe_seconds",
    "lag": "lag_seconds",
}
"""Numbers that the API has under another name, or that do not say their unit."""
_INSTANTS: Final = frozenset({"requested_at", "known_since"})


def journal(notice: Notice) -> None:
    """Logs `notice`: subscribe it to the board.  Looks are for the level debug, however they ended."""
    method = "debug" if notice.kind is NoticeKind.LOOK else _METHODS[notice.severity]
    if notice.kind is NoticeKind.LOOK and not _debugging():
        return  # there are hundreds a second, and nobody would see them
    getattr(log, method)(notice.message, **_fields(notice))


def _debugging() -> bool:
    """Whether lines for debug are shown; asked of the class, as making a logger costs more than the probe's line."""
    wrapper = structlog.get_config()["wrapper_class"]
    return bool(wrapper.is_enabled_for(None, logging.DEBUG))


def _fields(notice: Notice) -> dict[str, Any]:
    found: dict[str, Any] = {
        "namespace": notice.namespace,
        "type": notice.kind,
        "reason": notice.reason,
        "verdict": notice.verdict,
        "resource": None if notice.resource is None else str(notice.resource),
    }
    numbers = dict(_number(name, value) for name, value in notice.numbers.items())
    fields = {**numbers, **found}  # what names the thing that happened is not a number's to say
    return {name: fields[name] for name in (*found, *numbers) if fields[name] is not None}


def _number(name: str, value: object) -> tuple[str, object]:
    """One of them as a field: instants as text, seconds to the millisecond."""
    if isinstance(value, float):
        value = rfc3339(value) if name in _INSTANTS else round(value, 3)
    return _NUMBERS.get(name, name), value
