"""A dashboard as Grafana reads it (schemaVersion 42, Grafana 12; shown as well by 10 and 11)."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]

SCHEMA_VERSION: Final = 42
COLUMNS: Final = 24
_LINE: Final = 110
"""What fits into so many columns stands on one line of the file."""
DATA_SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
TAG: Final = "dependency-watchdog"
_LINK: Final[Json] = {
    "icon": "external link",
    "tags": [],
    "tooltip": "",
    "asDropdown": False,
    "includeVars": False,
    "keepTime": False,
    "targetBlank": False,
}


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel.

    Args:
        expression: PromQL, with Grafana's variables.
        legend: how each of its series is called.
        instant: only its value at the end of what is shown; else all of it.
    """

    expression: str
    legend: str = ""
    instant: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Args:
        kind: Grafana's name of what draws it.
        title: a few words.
        about: what it means, and what to do; shown when one points at the title.
        queries: what it draws.
        width: in columns, of which a row has 24.
        height: in units of about 30 pixels.
        defaults: of its fields: unit, thresholds, mappings.
        overrides: of single fields.
        options: of the kind.
        transformations: what is made of the answers before they are drawn.
    """

    kind: str
    title: str
    about: str
    queries: tuple[Query, ...] = ()
    width: int = 8
    height: int = 8
    defaults: Json = field(default_factory=dict)
    overrides: Sequence[Json] = ()
    options: Json = field(default_factory=dict)
    transformations: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A heading, and the panels below it, from left to right and on the next line where one does not fit."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard.

    Args:
        uid: what links name it by; never changes.
        title: shown above it, and in the list.
        about: shown in the list.
        variables: those that `variable`, `constant` and `data_source` make.
        rows: what is on it.
        since: what is shown at first: so long before now.
        links: beside those to the dashboards with the same tag.
    """

    uid: str
    title: str
    about: str
    variables: Sequence[Json]
    rows: Sequence[Row]
    since: str = "now-1h"
    links: Sequence[Json] = ()

    def text(self) -> str:
        """The file."""
        return pretty(self.content()) + "\n"

    def content(self) -> Json:
        """What is in the file."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": [TAG],
            "schemaVersion": SCHEMA_VERSION,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": self.since, "to": "now"},
            "timezone": "browser",
            "links": [_siblings(), *self.links],
            "annotations": {"list": [_alerts()]},
            "templating": {"list": list(self.variables)},
            "panels": list(_placed(self.rows)),
        }


def link(title: str, url: str, tooltip: str) -> Json:
    """A link at the top, which opens beside the dashboard."""
    own = {"title": title, "type": "link", "url": url, "tooltip": tooltip, "targetBlank": True}
    return _LINK | own


def _siblings() -> Json:
    """Links to all dashboards with our tag."""
    own = {"title": "Dependency watchdog", "type": "dashboards", "tags": [TAG], "keepTime": True}
    return _LINK | own


def _alerts() -> Json:
    """A mark on every graph for each alert that fires."""
    firing = 'ALERTS{alertname=~"DWD.+", alertstate="firing"}'
    query = f"max by (alertname, namespace) ({firing})"
    return {
        "name": "Alerts that fire",
        "datasource": DATA_SOURCE,
        "enable": True,
        "iconColor": "red",
        "target": {"refId": "A", "expr": query, "interval": "30s"},
        "titleFormat": "{{alertname}}",
        "textFormat": "{{namespace}}",
    }


def _placed(rows: Iterable[Row]) -> Iterator[Json]:
    """All panels, with their numbers and places."""
    number, top = 1, 0
    for row in rows:
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            "panels": [],
        }
        number, top = number + 1, top + 1
        left = height = 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                left, top, height = 0, top + height, 0
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            yield _panel(panel, number, place)
            number, left, height = number + 1, left + panel.width, max(height, panel.height)
        top += height


def _panel(panel: Panel, number: int, place: Json) -> Json:
    made: Json = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "gridPos": place,
        "options": panel.options,
    }
    if not panel.queries:
        return made
    return made | {
        "datasource": DATA_SOURCE,
        "targets": [
            _target(panel, *each) for each in zip("ABCDEFGHI", panel.queries, strict=False)
        ],
        "fieldConfig": {"defaults": panel.defaults, "overrides": list(panel.overrides)},
        "transformations": list(panel.transformations),
    }


def _target(panel: Panel, letter: str, query: Query) -> Json:
    return {
        "refId": letter,
        "datasource": DATA_SOURCE,
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        "format": "table" if panel.kind == "table" else "time_series",
        "instant": query.instant,
        "range": not query.instant,
    }


# The variables at its top.


def data_source() -> Json:
    """Which Prometheus is asked."""
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "regex": "",
        "refresh": 1,
        "multi": False,
        "includeAll": False,
    }


def constant(name: str, value: str, about: str) -> Json:
    """Something that the chart sets, and nobody chooses on the page."""
    return {
        "name": name,
        "type": "constant",
        "description": about,
        "query": value,
        "current": {"text": value, "value": value},
        "hide": 2,
        "skipUrlSync": True,
    }


def variable(
    name: str,
    label: str,
    query: str,
    *,
    multi: bool = False,
    everything: bool = False,
    all_is: str | None = None,
) -> Json:
    """Something to choose, of what a query finds.

    Args:
        name: what queries call it.
        label: what the page calls it.
        query: `label_values(…)`.
        multi: whether several can be chosen.
        everything: whether All can be chosen; it is at first.
        all_is: the regular expression that All stands for; None: those that were found.
    """
    made: Json = {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATA_SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": multi,
        "includeAll": everything,
    }
    if all_is is not None:
        made["allValue"] = all_is
    if everything:
        text, value = "All", "$__all"
        made["current"] = {
            "text": [text] if multi else text,
            "value": [value] if multi else value,
        }
    return made


# The file.


def pretty(value: object, indent: str = "") -> str:
    """JSON with what is short on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= _LINE or not isinstance(value, dict | list):
        return line
    deeper = indent + "  "
    if isinstance(value, Mapping):
        inner = [f"{json.dumps(key)}: {pretty(each, deeper)}" for key, each in value.items()]
        opening, closing = "{", "}"
    else:
        inner = [pretty(each, deeper) for each in value]
        opening, closing = "[", "]"
    body = ",\n".join(deeper + each for each in inner)
    return f"{opening}\n{body}\n{indent}{closing}"
