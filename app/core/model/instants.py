"""Instants as text and back; pure, and safe against years that no clock shows."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = -62135596800.0
_LAST: Final = 253402300799.0


def rfc3339(instant: float, *, micro: bool = False) -> str:
    """`instant` as RFC 3339 in UTC: whole seconds, or microseconds as Leases have them."""
    moment = _EPOCH + timedelta(seconds=min(max(instant, _FIRST), _LAST))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str | None) -> float | None:
    """The instant that `text` names; None where it names none, or lacks its time zone."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, OverflowError):
        return None
