"""The notice: one record of something that happened, from which log, metrics, history and Events are made."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import structlog

from app.core.model.instants import rfc3339
from app.core.model.probing import NoticeKind, Verdict
from app.core.model.workloads import ResourceRef

log = structlog.get_logger(__name__)


class Severity(StrEnum):
    """The severity of a notice in the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened to one shoot, or to all (`ALL_SHOOTS`)."""

    kind: NoticeKind
    namespace: str
    at: float
    reason: str
    """In CamelCase; also the reason of the Event."""
    message: str
    severity: Severity = Severity.INFO
    verdict: Verdict | None = None
    resource: ResourceRef | None = None
    resource_uid: str | None = None
    """UID of `resource` if it is not a configured dependent."""
    about_namespace: str | None = None
    """Namespace of `resource`; None if it is `namespace`."""
    event: str | None = None
    """The note of the Kubernetes Event on `resource`, for its owner; None if there is no Event."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """The facts behind it: counts, replicas, levels, seconds."""


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
        for subscriber in self._subscribers:
            try:
                subscriber(notice)
            except Exception as error:
                log.exception("a subscriber failed", reason=notice.reason, exc_info=error)


# Notices as log lines, with their numbers named as in the API.


# Numbers that have another name in the API, or whose name lacks the unit.
_NUMBERS: Final = {
    "requested_at": "written",
    "seconds": "duration_seconds",
    "durations": "probe_seconds",
    "lag": "lag_seconds",
}
_INSTANTS: Final = frozenset({"requested_at", "known_since"})


def journal(notice: Notice) -> None:
    """Logs `notice`; a subscriber of the bus. Probes are logged at debug level, whatever their result."""
    severity = notice.severity
    if notice.kind is NoticeKind.LOOK:
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
    numbers = dict(_number(name, value) for name, value in notice.numbers.items())
    fields = {**numbers, **found}  # numbers must not overwrite the fields that identify the notice
    shown = {name: fields[name] for name in (*found, *numbers) if fields[name] is not None}
    getattr(log, severity)(notice.message, **shown)


def _number(name: str, value: object) -> tuple[str, object]:
    """Formats a number as a field: instants as text, seconds to the millisecond."""
    if isinstance(value, float):
        value = rfc3339(value) if name in _INSTANTS else round(value, 3)
    return _NUMBERS.get(name, name), value
