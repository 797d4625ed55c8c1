"""Notices as lines of the log: one each, with the numbers that it was decided on."""

import logging
from typing import Any, Final

import structlog

from app.core.records.notices import Kind, Notice, Severity

log = structlog.get_logger(__name__)

_METHODS: Final = {
    Severity.DEBUG: "debug",
    Severity.INFO: "info",
    Severity.WARNING: "warning",
    Severity.ERROR: "error",
}


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
        "kind": notice.kind,
        "reason": notice.reason,
        "verdict": notice.verdict,
        "resource": None if notice.resource is None else str(notice.resource),
    }
    numbers = {name: value for name, value in notice.numbers.items() if name not in found}
    return {name: value for name, value in {**found, **numbers}.items() if value is not None}
