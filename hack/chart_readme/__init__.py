"""The tables of values in the chart's README, made from the comments in its values.yaml.

`# -- text` above a key documents it, and what is below it; a mapping without such a comment is gone into.  `## Title`
begins a section.  Processes and monitors have the same keys: those stand side by side, and need a comment where they
differ from the first one only.  An alert is one row, and its `severity` and `for` need no comment.
`python -m hack.chart_readme` writes the README; a test compares.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

CHART: Final = Path(__file__).parents[2] / "helm/dependency-watchdog"
BEGIN: Final = "<!-- values: made by python -m hack.chart_readme from values.yaml -->\n"
END: Final = "<!-- values: end -->\n"

_MARK: Final = "# -- "
_SECTION: Final = "## "
_LONGEST: Final = 60
"""Characters of a default that a table shows; a longer one is looked up in the file."""
SIDE_BY_SIDE: Final = (
    ("prober", "weeder", "serve"),
    ("metrics.serviceMonitor", "metrics.podMonitor"),
)
ALERTS: Final = "alerts.rules."
_OF_EACH_ALERT: Final = ("severity", "for")


class Undocumented(Exception):
    """A value that nobody has written a comment for."""


@dataclass(frozen=True, slots=True)
class Row:
    """A value, as the table shows it."""

    section: str
    path: str
    default: str
    text: str


def rows(source: str) -> list[Row]:
    """The values of a values.yaml, in its order.

    Raises:
        Undocumented: one of them has no comment.
    """
    lines = source.splitlines()
    root = yaml.compose(source)
    assert isinstance(root, yaml.MappingNode), "values.yaml is a mapping"  # noqa: S101 - ours
    found: list[Row] = []
    _collect(root, "", lines, found)
    return found


def _collect(node: yaml.MappingNode, path: str, lines: list[str], found: list[Row]) -> None:
    for key, value in node.value:
        full = f"{path}.{key.value}" if path else key.value
        text = _comment(lines, key.start_mark.line) or _text_beside(full, found)
        if text or _explains_itself(full):
            section = _section(lines, key.start_mark.line)
            found.append(Row(section, full, _default(value), text))
        elif isinstance(value, yaml.MappingNode) and value.value:
            _collect(value, full, lines, found)
        else:
            raise Undocumented(full)


def _text_beside(path: str, found: list[Row]) -> str:
    """What the first one with this key says that stands beside its owner; empty where there is none."""
    group, key = _beside(path)
    paths = {f"{owner}.{key}" for owner in group}
    return next((row.text for row in found if row.path in paths), "")


def _beside(path: str) -> tuple[tuple[str, ...], str]:
    """What this value's owner stands side by side with, and its key there."""
    for group in SIDE_BY_SIDE:
        for owner in group:
            if path.startswith(f"{owner}."):
                return group, path.removeprefix(f"{owner}.")
    return (), path


def _explains_itself(path: str) -> bool:
    return path.startswith(ALERTS) and path.rpartition(".")[2] in _OF_EACH_ALERT


def _comment(lines: list[str], line: int) -> str:
    """The text that begins with the mark and ends just above `line`; empty where there is none."""
    found: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].strip())
        if found[0].startswith(_MARK):
            words = [found[0].removeprefix(_MARK), *(each.removeprefix("#") for each in found[1:])]
            return " ".join(each.strip() for each in words)
    return ""


def _section(lines: list[str], line: int) -> str:
    titles = [each for each in lines[:line] if each.startswith(_SECTION)]
    return titles[-1].removeprefix(_SECTION) if titles else ""


def _default(node: yaml.Node) -> str:
    value = yaml.safe_load(yaml.serialize(node))
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text}`" if len(text) <= _LONGEST else "[values.yaml](values.yaml)"


def tables(found: list[Row]) -> str:
    """The values as Markdown: a heading and tables for each section."""
    parts: list[str] = []
    for section in dict.fromkeys(row.section for row in found):
        parts += [f"### {section}\n", "\n"]
        chosen = [row for row in found if row.section == section]
        alone = [row for row in chosen if not _beside(row.path)[0]]
        parts += _plain([row for row in alone if not row.path.startswith(ALERTS)])
        for group in SIDE_BY_SIDE:
            parts += _side_by_side(group, [row for row in chosen if _beside(row.path)[0] == group])
        parts += _alert_table([row for row in alone if row.path.startswith(ALERTS)])
    return "".join(parts)


def _plain(found: list[Row]) -> list[str]:
    return _table(
        ("value", "default", "what"),
        [(f"`{row.path}`", row.default, row.text) for row in found],
    )


def _side_by_side(group: tuple[str, ...], found: list[Row]) -> list[str]:
    """A row for each key, and a column for the default of each one that has it."""
    keys: dict[str, dict[str, Row]] = {}
    for row in found:
        key = _beside(row.path)[1]
        keys.setdefault(key, {})[row.path.removesuffix(f".{key}")] = row
    lines = []
    for key, owners in keys.items():
        defaults = [owners[each].default if each in owners else "–" for each in group]
        lines.append((f"`….{key}`", *defaults, _texts(owners)))
    return _table(("value", *(f"`{each}`" for each in group), "what"), lines)


def _texts(owners: dict[str, Row]) -> str:
    """What the first one says, and what another says that differs from it."""
    first, *others = owners.items()
    differing = [f"`{name}`: {row.text}" for name, row in others if row.text != first[1].text]
    return " ".join((first[1].text, *differing))


def _alert_table(found: list[Row]) -> list[str]:
    """A row for each alert."""
    alerts: dict[str, dict[str, Row]] = {}
    for row in found:
        name, _, key = row.path.removeprefix(ALERTS).partition(".")
        alerts.setdefault(name, {})[key] = row
    lines = []
    for name, keys in alerts.items():
        columns = (
            keys.pop("enabled").text,
            keys.pop("severity").default,
            _default_with_text(keys.pop("for")),
        )
        others = ", ".join(f"`{key}` {_default_with_text(row)}" for key, row in keys.items())
        lines.append((f"`{name}`", *columns, others))
    return _table((f"`{ALERTS}…`", "when", "`severity`", "`for`", "other values"), lines)


def _default_with_text(row: Row) -> str:
    return f"{row.default} ({row.text.removesuffix('.')})" if row.text else row.default


def _table(head: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> list[str]:
    if not lines:
        return []
    return [_row(*head), "|" + "---|" * len(head) + "\n", *(_row(*each) for each in lines), "\n"]


def _row(*cells: str) -> str:
    return "|" + "".join(f" {_cell(each)} |" if each else " |" for each in cells) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def renewed(readme: str, source: str) -> str:
    """The README with the tables for this values.yaml."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables(rows(source))}{END}{after}"
