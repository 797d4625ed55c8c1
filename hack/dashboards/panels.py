"""The kinds of panels that the dashboards have, each with the looks that all of its kind share."""

from collections.abc import Mapping, Sequence
from typing import Final

from hack.dashboards.grafana import Json, Panel, Query

GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = (
    "green",
    "yellow",
    "orange",
    "red",
    "blue",
    "purple",
    "#808080",
)
SECONDS: Final = "s"
LONG: Final = "dtdurations"
"""Seconds, told as days, hours and minutes."""
SHARE: Final = "percentunit"
COUNT: Final = "short"
PER_SECOND: Final = "cps"
TIME: Final = "dateTimeAsIso"
FROM_NOW: Final = "dateTimeFromNow"
"""Milliseconds since 1970, told as `in 2 hours` or `3 minutes ago`."""

WINDOWS: Final = (
    "Each point counts a window (the time between two points, at least four scrapes), "
    "so one event can be in several of them."
)
"""Part of the description of each graph of events."""

Steps = tuple[tuple[float, str], ...]
Words = Mapping[int, tuple[str, str]]
"""What a number means, and its colour."""


def stat(  # noqa: PLR0913  a builder: every choice has its name and default
    title: str,
    about: str,
    *queries: Query,
    unit: str = COUNT,
    base: str = GREEN,
    steps: Steps = (),
    words: Words | None = None,
    none: str = "no data",
    width: int = 3,
    height: int = 4,
) -> Panel:
    """One number now, on the colour of its step; `none` where there is no series."""
    defaults: Json = {
        "unit": unit,
        "noValue": none,
        "color": {"mode": "thresholds"},
        "thresholds": _thresholds(base, steps),
        "mappings": _mappings(words or {}),
    }
    options: Json = {
        "colorMode": "background_solid",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "auto",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    return Panel("stat", title, about, _now(queries), width, height, defaults, (), options)


def graph(  # noqa: PLR0913  a builder: every choice has its name and default
    title: str,
    about: str,
    *queries: Query,
    unit: str = COUNT,
    stacked: bool = False,
    bars: bool = False,
    points: bool = False,
    signed: bool = False,
    limits: Steps = (),
    colours: Mapping[str, str] | None = None,
    none: str = "no data",
    width: int = 8,
    height: int = 8,
) -> Panel:
    """Lines over time, bars for what happens now and then, or points for what is seldom known.

    `limits` are lines across it; `colours` are those of single series, by their legend.
    """
    custom: Json = {
        "drawStyle": "bars" if bars else "points" if points else "line",
        "lineWidth": 1,
        "fillOpacity": 70 if bars or stacked else 10,
        "showPoints": "always" if points else "never",
        "pointSize": 6,
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked or bars else "none", "group": "A"},
        "thresholdsStyle": {"mode": "dashed" if limits else "off"},
    }
    defaults: Json = {
        "unit": unit,
        "noValue": none,
        "color": {"mode": "palette-classic"},
        "thresholds": _thresholds("transparent", limits),
        "custom": custom,
    }
    if not signed:
        defaults["min"] = 0
    if unit == COUNT and not bars:
        defaults["decimals"] = 0
    options: Json = {
        "legend": {
            "displayMode": "table",
            "placement": "bottom",
            "showLegend": True,
            "calcs": ["lastNotNull", "max"],
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    overrides = [_colour(name, each) for name, each in (colours or {}).items()]
    return Panel("timeseries", title, about, queries, width, height, defaults, overrides, options)


def timeline(
    title: str,
    about: str,
    *queries: Query,
    words: Words,
    none: str = "no data",
    width: int = 12,
    height: int = 6,
) -> Panel:
    """One lane for each series, in the colours of what its numbers mean."""
    defaults: Json = {
        "unit": COUNT,
        "noValue": none,
        "color": {"mode": "thresholds"},
        "thresholds": _thresholds(GREY, ()),
        "mappings": _mappings(words),
        "custom": {"fillOpacity": 80, "lineWidth": 0},
    }
    options: Json = {
        "mergeValues": True,
        "showValue": "auto",
        "alignValue": "left",
        "rowHeight": 0.9,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    return Panel("state-timeline", title, about, queries, width, height, defaults, (), options)


def table(  # noqa: PLR0913  a builder: every choice has its name and default
    title: str,
    about: str,
    *queries: Query,
    columns: Mapping[str, str],
    units: Mapping[str, str] | None = None,
    links: Mapping[str, Json] | None = None,
    words: Mapping[str, Words] | None = None,
    unit: str = COUNT,
    none: str = "none",
    width: int = 8,
    height: int = 8,
) -> Panel:
    """What is so now, a line for each.

    Args:
        title: a few words.
        about: what it means, and what to do.
        queries: one for each column of values; they are joined by their labels.
        columns: what each label and value (`Value`; of several `Value #A` and so on) is called, in order.
        units: of columns, by what they are called.
        links: from the cells of columns.
        words: what the numbers of a column mean.
        unit: of all other values.
        none: what stands there without series.
        width: in columns of the page.
        height: in its units.
    """
    overrides = [_property(name, "unit", each) for name, each in (units or {}).items()]
    overrides += [_property(name, "links", [each]) for name, each in (links or {}).items()]
    for name, each in (words or {}).items():
        shown = {"type": "color-background", "mode": "basic"}
        overrides += [
            _property(name, "mappings", _mappings(each)),
            _property(name, "custom.cellOptions", shown),
        ]
    organize: Json = {
        "excludeByName": {"Time": True},
        "indexByName": {name: place for place, name in enumerate(columns)},
        "renameByName": dict(columns),
    }
    defaults: Json = {
        "unit": unit,
        "noValue": none,
        "color": {"mode": "thresholds"},
        "thresholds": _thresholds("text", ()),
        "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False},
    }
    options: Json = {"showHeader": True, "cellHeight": "sm", "frameIndex": 0}
    steps = [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]
    asked = _now(queries)
    return Panel("table", title, about, asked, width, height, defaults, overrides, options, steps)


def text(title: str, about: str, content: str, *, width: int = 8, height: int = 8) -> Panel:
    """Markdown."""
    options: Json = {"mode": "markdown", "content": content}
    return Panel("text", title, about, (), width, height, options=options)


def _now(queries: Sequence[Query]) -> tuple[Query, ...]:
    """A range query would show what was there last, though it has ended."""
    return tuple(Query(each.expression, each.legend, instant=True) for each in queries)


def _thresholds(base: str, steps: Steps) -> Json:
    first: Json = {"color": base, "value": None}
    return {"mode": "absolute", "steps": [first, *({"color": c, "value": v} for v, c in steps)]}


def _mappings(words: Words) -> list[Json]:
    if not words:
        return []
    options = {
        str(number): {"text": word, "color": colour, "index": place}
        for place, (number, (word, colour)) in enumerate(words.items())
    }
    return [{"type": "value", "options": options}]


def _colour(name: str, colour: str) -> Json:
    return _property(name, "color", {"mode": "fixed", "fixedColor": colour})


def _property(name: str, key: str, value: object) -> Json:
    matcher = {"id": "byName", "options": name}
    return {"matcher": matcher, "properties": [{"id": key, "value": value}]}
