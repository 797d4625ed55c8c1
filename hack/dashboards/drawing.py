"""A dashboard with what its queries answered, drawn on a plain page: for pictures where no Grafana can be had."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hack.dashboards.figures import PALETTE, ceiling, colour, shown
from tests.chart.dashboards.reading import Json, filled
from tests.chart.dashboards.recording import RECOVERS
from tests.chart.dashboards.server import Series

_COLUMN, _LINE, _GAP = 58, 36, 6
"""Pixels: a column, a line of the grid, the space between panels."""
_TWO_LEGENDS: Final = 560
"""Pixels; a wider panel has its legend in two columns."""
_LEGEND: Final = re.compile(r"\{\{(\w+)\}\}")
_STYLE: Final = """
body { margin: 0; background: #f4f5f5; font: 12px/1.35 "DejaVu Sans", sans-serif; color: #24292e; }
h1 { font-size: 17px; margin: 10px 12px 4px; } h1 small { font-weight: normal; color: #6b7480; }
.page { position: relative; margin: 0 6px; } .page > * { position: absolute; box-sizing: border-box; }
.row { font-size: 14px; font-weight: bold; padding-top: 12px; }
.panel { background: #fff; border: 1px solid #d8dadc; border-radius: 3px; overflow: hidden; }
.panel h2 { font-size: 12.5px; margin: 5px 8px 2px; }
.tiles { display: flex; gap: 2px; position: absolute; inset: 25px 4px 4px; }
.tile { flex: 1; display: flex; flex-direction: column; justify-content: center; text-align: center; color: #fff;
  font-size: 24px; border-radius: 2px; min-width: 0; overflow-wrap: anywhere; }
.tile small { font-size: 11px; } table { border-collapse: collapse; margin: 2px 8px; width: calc(100% - 16px); }
td, th { text-align: left; padding: 2px 6px; border-bottom: 1px solid #e8e9ea; font-weight: normal; }
th { color: #3274d9; }
.legend { margin: 0 8px; font-size: 11px; line-height: 15px; display: flex; gap: 24px; }
.legend section { flex: 1; min-width: 0; } .legend div { display: flex; gap: 8px; white-space: nowrap; }
.legend .head { color: #6b7480; }
.legend span { flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; }
.legend b { min-width: 58px; text-align: right; } .legend .head b { font-weight: normal; }
.legend i { display: inline-block; width: 12px; height: 3px; margin: 0 5px 3px 0; }
.link { color: #3274d9; } .note { margin: 4px 10px; white-space: pre-wrap; }
svg text { font: 10px "DejaVu Sans", sans-serif; fill: #6b7480; }
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """Of when the answers are."""

    begin: float
    end: float


Answers = Mapping[tuple[str, str], Sequence[Series]]
"""By title of the panel and letter of the query."""


def page(content: Json, rows: Sequence[str], answers: Answers, when: Shown, note: str) -> str:
    """HTML of these rows of a dashboard, by their titles; `note` is what the picture is."""
    panels = list(_of(content["panels"], rows))
    first = min(each["gridPos"]["y"] for each in panels)
    last = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in panels)
    body = "".join(_placed(each, first, answers, when) for each in panels)
    size = f"width:{24 * _COLUMN}px;height:{(last - first) * _LINE + 8}px"
    title = f"<h1>{html.escape(content['title'])} <small>{html.escape(note)}</small></h1>"
    head = f'<!doctype html><meta charset="utf-8"><style>{_STYLE}</style>'
    return f'{head}{title}<div class="page" style="{size}">{body}</div>'


def height(content: Json, rows: Sequence[str]) -> int:
    """Of that page, in pixels."""
    places = [each["gridPos"] for each in _of(content["panels"], rows)]
    lines: int = max(each["y"] + each["h"] for each in places) - min(each["y"] for each in places)
    return lines * _LINE + 52


def _of(panels: Sequence[Json], rows: Sequence[str]) -> Iterator[Json]:
    row = ""
    for each in panels:
        row = each["title"] if each["type"] == "row" else row
        if row in rows:
            yield each


def _placed(panel: Json, first: int, answers: Answers, when: Shown) -> str:
    at = panel["gridPos"]
    left, top = at["x"] * _COLUMN, (at["y"] - first) * _LINE
    wide, high = at["w"] * _COLUMN - _GAP, at["h"] * _LINE - _GAP
    place = f"left:{left}px;top:{top}px;width:{wide}px;height:{high}px"
    title = html.escape(panel["title"])
    if panel["type"] == "row":
        return f'<div class="row" style="{place}">{title}</div>'
    drawn = _Panel(panel, answers, when, wide, high - 26).drawn()
    return f'<div class="panel" style="{place}"><h2>{title}</h2>{drawn}</div>'


class _Panel:
    """One panel, drawn."""

    def __init__(self, panel: Json, answers: Answers, when: Shown, wide: int, high: int) -> None:
        self._panel, self._when, self._wide, self._high = panel, when, wide, high
        self._defaults: Json = panel.get("fieldConfig", {}).get("defaults", {})
        self._left = 58
        self._unit = self._defaults.get("unit", "short")
        self._answers = [
            (target, answers.get((panel["title"], target["refId"]), ()))
            for target in panel.get("targets", ())
        ]

    def drawn(self) -> str:
        if self._panel["type"] == "text":
            return f'<div class="note">{_markdown(self._panel["options"]["content"])}</div>'
        if not any(found for _, found in self._answers):
            return self._nothing()
        match self._panel["type"]:
            case "stat":
                return self._tiles()
            case "table":
                return self._table()
            case "state-timeline":
                return self._lanes()
            case _:
                return self._graph()

    def _named(self) -> Iterator[tuple[str, Series]]:
        for target, found in self._answers:
            for series in found:
                yield _name(target["legendFormat"], series), series

    def _nothing(self) -> str:
        words = html.escape(self._defaults["noValue"])
        if self._panel["type"] != "stat":
            return f'<div class="note">{words}</div>'
        fill = colour(self._defaults["thresholds"]["steps"][0]["color"])
        return f'<div class="tiles"><div class="tile" style="background:{fill}"><small>{words}</small></div></div>'

    # One number.

    def _tiles(self) -> str:
        tiles = []
        for name, series in self._named():
            small = "" if name == "__auto" else f"<small>{html.escape(name)}</small>"
            word, fill = self._meant(series.last)
            tiles.append(f'<div class="tile" style="background:{fill}">{word}{small}</div>')
        return f'<div class="tiles">{"".join(tiles)}</div>'

    def _meant(self, value: float, mappings: Sequence[Json] | None = None) -> tuple[str, str]:
        """What a number is called, and its colour."""
        for mapping in self._defaults["mappings"] if mappings is None else mappings:
            if (found := mapping["options"].get(f"{value:.0f}")) is not None:
                return found["text"], colour(found["color"])
        steps = self._defaults["thresholds"]["steps"]
        fitting = [each for each in steps if each["value"] is None or value >= each["value"]]
        return shown(value, self._unit, self._when.end), colour(fitting[-1]["color"])

    # A table.

    def _table(self) -> str:
        columns: Json = self._panel["transformations"][-1]["options"]["renameByName"]
        lines: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        for target, found in self._answers:
            value = f"Value #{target['refId']}" if len(self._answers) > 1 else "Value"
            for series in found:
                line = lines.setdefault(tuple(sorted(series.labels.items())), dict(series.labels))
                line[value] = self._cell(columns[value], series.last)
        head = "".join(f"<th>{html.escape(each)}</th>" for each in columns.values())
        cells = [[f"<td>{line.get(each, '')}</td>" for each in columns] for line in lines.values()]
        body = "".join(f"<tr>{''.join(each)}</tr>" for each in cells)
        return f"<table><tr>{head}</tr>{body}</table>"

    def _cell(self, column: str, value: float) -> str:
        properties = {
            each["id"]: each["value"]
            for override in self._panel["fieldConfig"]["overrides"]
            if override["matcher"]["options"] == column
            for each in override["properties"]
        }
        if "mappings" in properties:
            word, fill = self._meant(value, properties["mappings"])
            return f'<span style="background:{fill};color:#fff;padding:1px 8px">{word}</span>'
        return shown(value, properties.get("unit", self._unit), self._when.end)

    # Lanes.

    def _lanes(self) -> str:
        named = list(self._named())
        self._left = 8 + 7 * max(len(_short(name)) for name, _ in named)
        lane = (self._high - 34) / len(named)
        parts = [self._times(self._high - 20)]
        for number, (name, series) in enumerate(named):
            middle = number * lane + lane / 2 + 4
            parts.append(f'<text x="6" y="{middle:.1f}">{html.escape(_short(name))}</text>')
            for begin, end, value in _spells(series):
                parts.append(self._spell(begin, end, value, number * lane + 3, lane - 6))
        return f'<svg width="{self._wide}" height="{self._high}">{"".join(parts)}</svg>'

    def _spell(self, begin: float, end: float, value: float, top: float, high: float) -> str:
        word, fill = self._meant(value)
        left, wide = self._x(begin), self._x(min(end, self._when.end)) - self._x(begin)
        box = f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{fill}"/>'
        if wide < 7 * len(word):
            return box
        middle = top + high / 2 + 4
        return f'{box}<text x="{left + 4:.1f}" y="{middle:.1f}" style="fill:#fff">{word}</text>'

    # A graph.

    def _graph(self) -> str:
        custom = self._defaults["custom"]
        named = list(self._named())
        stacked = custom["stacking"]["mode"] == "normal"
        legend, lines = self._legend(named)
        self._bottom = self._high - 26 - 15 * lines
        heights = (
            _stacked([each for _, each in named]) if stacked else _plain([s for _, s in named])
        )
        values = [top for each in heights for _, top in each.values()] or [0.0]
        low = min(0.0, *values, *(b for each in heights for b, _ in each.values()))
        self._low, self._top = (-ceiling(-low) if low < 0 else 0.0), ceiling(max(values))
        parts = [self._axis(), self._times(self._bottom + 12)]
        for number, ((name, _), spans) in reversed(
            list(enumerate(zip(named, heights, strict=True)))
        ):
            parts.append(
                self._line(spans, self._colour(name, number), custom["drawStyle"], stacked=stacked)
            )
        return (
            f'<svg width="{self._wide}" height="{self._bottom + 18}">{"".join(parts)}</svg>{legend}'
        )

    def _line(
        self, spans: Mapping[float, tuple[float, float]], fill: str, style: str, *, stacked: bool
    ) -> str:
        points = [
            (self._x(at), self._y(base), self._y(top)) for at, (base, top) in sorted(spans.items())
        ]
        if style == "bars":
            wide = max((self._wide - 70) / (self._when.end - self._when.begin) - 1, 1)
            return "".join(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{max(base - top, 0):.1f}" fill="{fill}"/>'
                for x, base, top in points
            )
        if style == "points":
            return "".join(
                f'<circle cx="{x:.1f}" cy="{top:.1f}" r="3" fill="{fill}"/>' for x, _, top in points
            )
        over = " ".join(f"{x:.1f},{top:.1f}" for x, _, top in points)
        line = f'<polyline points="{over}" fill="none" stroke="{fill}" stroke-width="1.5"/>'
        if not stacked:
            return line
        under = " ".join(f"{x:.1f},{base:.1f}" for x, base, _ in reversed(points))
        return f'<polygon points="{over} {under}" fill="{fill}" fill-opacity="0.6"/>{line}'

    def _axis(self) -> str:
        parts = []
        for share in (0, 0.5, 1):
            value = self._low + share * (self._top - self._low)
            y = self._y(value)
            parts.append(
                f'<line x1="56" x2="{self._wide - 12}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e5e6"/>'
                f'<text x="52" y="{y + 3:.1f}" text-anchor="end">{shown(value, self._unit, 0)}</text>'
            )
        return "".join(parts)

    def _times(self, y: float) -> str:
        length = self._when.end - self._when.begin
        return "".join(
            f'<text x="{self._x(self._when.begin + length * share):.1f}" y="{y}" text-anchor="middle">'
            f"{length * share:.0f} s</text>"
            for share in (0, 0.25, 0.5, 0.75, 1)
        )

    def _legend(self, named: Sequence[tuple[str, Series]]) -> tuple[str, int]:
        """The legend, a table of the last and the greatest value as Grafana's, and its lines.

        A wide panel has it in two columns. Where there is no room for all, those with the greatest values are in it.
        """
        columns = 2 if self._wide > _TWO_LEGENDS else 1
        most = columns * 6
        ranked = sorted(enumerate(named), key=lambda each: -max(each[1][1].values))
        listed = sorted(
            ranked[: most if len(ranked) <= most else most - 1], key=lambda each: each[0]
        )
        items = [
            f'<div><span><i style="background:{self._colour(name, number)}"></i>{html.escape(_short(name))}</span>'
            f"<b>{shown(each.last, self._unit, 0)}</b><b>{shown(max(each.values), self._unit, 0)}</b></div>"
            for number, (name, each) in listed
        ]
        if len(listed) < len(ranked):
            items.append(f"<div><span>and {len(ranked) - len(listed)} more</span></div>")
        head = '<div class="head"><span>&nbsp;</span><b>last</b><b>most</b></div>'
        lines = -(-len(items) // columns)
        parts = [items[at : at + lines] for at in range(0, len(items), lines)]
        body = "".join(f"<section>{head}{''.join(each)}</section>" for each in parts)
        return f'<div class="legend">{body}</div>', lines + 1

    def _colour(self, name: str, number: int) -> str:
        for override in self._panel["fieldConfig"]["overrides"]:
            if override["matcher"]["options"] == name:
                value: Any = override["properties"][0]["value"]
                return colour(value["fixedColor"])
        return PALETTE[number % len(PALETTE)]

    def _x(self, at: float) -> float:
        share = (at - self._when.begin) / (self._when.end - self._when.begin)
        return self._left + share * (self._wide - self._left - 24)

    def _y(self, value: float) -> float:
        return self._bottom - (value - self._low) / (self._top - self._low) * (self._bottom - 8)


def _name(legend: str, series: Series) -> str:
    return _LEGEND.sub(lambda found: series.labels.get(found[1], ""), legend)


def _markdown(content: str) -> str:
    """As much of it as the panels need: links."""
    filled_in = filled(content, {"namespace": RECOVERS, "api": "", "runbook": ""})
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r'<span class="link">\1</span>', html.escape(filled_in))


def _short(name: str) -> str:
    """Without what all have in common on this page."""
    return name.replace("dependency-watchdog-", "").replace("-metrics", "").replace("127.0.0.1", "")


def _plain(series: Sequence[Series]) -> list[dict[float, tuple[float, float]]]:
    return [{at: (0.0, value) for at, value in each.points} for each in series]


def _stacked(series: Sequence[Series]) -> list[dict[float, tuple[float, float]]]:
    below: dict[float, float] = {}
    found = []
    for each in series:
        spans = {at: (below.get(at, 0.0), below.get(at, 0.0) + value) for at, value in each.points}
        below |= {at: top for at, (_, top) in spans.items()}
        found.append(spans)
    return found


def _spells(series: Series) -> Iterator[tuple[float, float, float]]:
    """From when to when it had each value."""
    points = series.points
    begin, value = points[0]
    for at, now in points[1:]:
        if now != value:
            yield begin, at, value
            begin, value = at, now
    yield begin, points[-1][0] + 1, value
