"""Converts instants to RFC 3339 text and back; pure, and total: years out of range neither raise nor wrap."""

import math
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = -62135596800.0
_LAST: Final = 253402300799.0


def rfc3339(instant: float, *, micro: bool = False) -> str:
    """Formats `instant` as RFC 3339 in UTC: whole seconds, or microseconds as in Leases.

    Instants outside the years 1 to 9999 are clamped to them.
    """
    within = min(max(instant, _FIRST), _LAST)
    if micro:
        return (_EPOCH + timedelta(seconds=within)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return _second(math.floor(round(within, 6)))


@lru_cache(maxsize=4_096)
def _second(instant: int) -> str:
    # Cached: a page of shoots contains a thousand instants, and most of them occur many times.
    return (_EPOCH + timedelta(seconds=instant)).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str | None) -> float | None:
    """Parses an RFC 3339 timestamp; returns None if it is malformed or lacks a time zone."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, OverflowError):
        return None
