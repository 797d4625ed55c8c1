"""Notices as lines of the log: one each, with the numbers that it was decided on, named as the API names them."""

import logging
from typing import Any, Final

import structlog

from app.core.model.instants import rfc3339
from app.core.reporting.notices import Kind, Notice, Severity

log = structlog.get_logger(__name__)

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
    method = "debug" if notice.kind is Kind.LOOK else _METHODS[notice.severity]
    if notice.kind is Kind.LOOK and not _debugging():
        return  # there are hundreds a second, and nobody would see them
    getattr(log, method)(notice.message, **_fields(notice))


def _debugging() -> bool:
    """Whether lines for debug are shown; asked of the class, as making a logger costs more than the look's line."""
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
