"""Instants as RFC 3339 text, and durations as Go's strings, both ways; pure.

Instants are total: years out of range neither raise nor wrap. Durations are exactly what `time.ParseDuration` reads and
`Duration.String` writes.
"""

import math
import re
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


EXAMPLE: Final = "a duration such as 30s or 1m40s"

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # the micro sign
    "\u03bcs": 1_000,  # the Greek letter mu; Go reads both
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = re.compile(
    r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)(?=[0-9.]|\Z)"
)
_SMALL: Final = ("ns", "\u00b5s", "ms")
_LIMIT: Final = 2**63
# Go sets no limit. No duration needs this many characters, and parsing unlimited digits would take long.
_MAX_TEXT: Final = 200


def parse_duration(text: str) -> float:
    """Parses a Go duration; returns seconds.

    Raises:
        ValueError: Go would reject `text`; the message says what is allowed.
    """
    unsigned = text[1:] if text[:1] in {"-", "+"} else text
    if unsigned == "0":
        return 0.0
    if not unsigned or len(text) > _MAX_TEXT:
        raise ValueError(f"must be {EXAMPLE}")
    nanoseconds = _sum_of_parts(unsigned)
    negative = text[0] == "-"
    if nanoseconds > _LIMIT - (not negative):
        raise ValueError("must be a duration that Go can hold (292 years)")
    return (-nanoseconds if negative else nanoseconds) / 1e9


def _sum_of_parts(text: str) -> int:
    at, total = 0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(_complaint(text))
        total += _nanoseconds(*part.groups())
        at = part.end()
    return total


def _nanoseconds(whole: str, fraction: str | None, unit: str) -> int:
    scale = _NANOSECONDS[unit]
    digits = fraction or "0"
    while int(digits or 0) > _LIMIT:  # Go ignores the digits that do not fit into 64 bits
        digits = digits[:-1]
    return int(whole or 0) * scale + int(int(digits or 0) * (scale / 10 ** len(digits)))


def _complaint(text: str) -> str:
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?", text):
        return "must be a duration with a unit, such as 30s or 1m40s"
    return f"must be {EXAMPLE} (units: h, m, s, ms, us, ns)"


def format_duration(seconds: float) -> str:
    """Formats seconds as Go does: `0s`, `1.5ms`, `1m40s`, `1h0m0s`; exact to the nanosecond up to 26 days."""
    nanoseconds = round(seconds * 1e9)
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < _NANOSECONDS["s"]:
        return sign + _below_a_second(rest)
    minutes, rest = divmod(rest, _NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    text = _decimal(rest, _NANOSECONDS["s"]) + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _below_a_second(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    unit = max((u for u in _SMALL if _NANOSECONDS[u] <= nanoseconds), key=_NANOSECONDS.__getitem__)
    return _decimal(nanoseconds, _NANOSECONDS[unit]) + unit


def _decimal(value: int, scale: int) -> str:
    whole, rest = divmod(value, scale)
    digits = f"{rest:0{len(str(scale)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)
