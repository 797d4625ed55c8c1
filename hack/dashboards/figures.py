"""Numbers as a panel shows them, and the colours that Grafana has for its names."""

from datetime import UTC, datetime
from typing import Final

COLOURS: Final = {
    "green": "#56a64b",
    "yellow": "#f2cc0c",
    "orange": "#ff9830",
    "red": "#e02f44",
    "blue": "#3274d9",
    "purple": "#a352cc",
    "dark-red": "#ad0317",
    "dark-orange": "#e55400",
    "text": "#24292e",
    "transparent": "transparent",
}
PALETTE: Final = (
    "#56a64b",
    "#f2cc0c",
    "#3274d9",
    "#ff9830",
    "#e02f44",
    "#a352cc",
    "#37872d",
    "#6ed0e0",
)
_MINUTE: Final = 60
_SHOWN_WHOLE: Final = 0.05
"""A number this close to a whole one is shown as that."""


def colour(name: str) -> str:
    """The colour of a name; what is none of Grafana's is a colour already."""
    return COLOURS.get(name, name)


def shown(value: float, unit: str, now: float) -> str:
    """A value in its unit; `now` is the end of what is shown."""
    match unit:
        case "percentunit":
            return f"{value * 100:.3g} %"
        case "s" | "dtdurations":
            return _seconds(value)
        case "cps":
            return f"{value:.3g} /s"
        case "dateTimeFromNow":
            return _from_now(value / 1000 - now)
        case "dateTimeAsIso":
            return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S}"
        case _:
            return f"{value:.0f}" if abs(value - round(value)) < _SHOWN_WHOLE else f"{value:.2g}"


def _seconds(value: float) -> str:
    if abs(value) >= _MINUTE:
        return f"{value / _MINUTE:.3g} min"
    if abs(value) >= 1 or value == 0:
        return f"{value:.3g} s"
    return f"{value * 1000:.3g} ms"


def _from_now(seconds: float) -> str:
    size = abs(seconds)
    number, word = (size / 60, "minutes") if size >= _MINUTE else (size, "seconds")
    return f"in {number:.0f} {word}" if seconds > 0 else f"{number:.0f} {word} ago"


def ceiling(value: float) -> float:
    """A round number that is not below it: where an axis ends."""
    if value <= 0:
        return 1.0
    size = 10.0 ** (len(f"{int(value)}") - 1) if value >= 1 else 10.0 ** -len(f"{int(1 / value)}")
    return next(size * each for each in (1, 2, 3, 4, 5, 6, 8, 10, 20, 50) if size * each >= value)
