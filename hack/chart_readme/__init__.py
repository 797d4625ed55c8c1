"""The table of values in the chart's README, made from the comments in its values.yaml.

`# -- text` above a key documents it, and what is below it; a mapping without such a comment is gone into.  `## Title`
begins a section.  `python -m hack.chart_readme` writes the README; a test compares.
"""

import json
from collections.abc import Iterator
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
    return list(_below(root, "", lines))


def _below(node: yaml.MappingNode, path: str, lines: list[str]) -> Iterator[Row]:
    for key, value in node.value:
        full = f"{path}.{key.value}" if path else key.value
        if text := _comment(lines, key.start_mark.line):
            section = _section(lines, key.start_mark.line)
            yield Row(section, full, _default(value), text)
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from _below(value, full, lines)
        else:
            raise Undocumented(full)


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
    """The values as Markdown: a heading and a table for each section."""
    parts: list[str] = []
    for section in dict.fromkeys(row.section for row in found):
        parts += [f"### {section}\n", "\n", "| value | default | what |\n", "|---|---|---|\n"]
        chosen = [row for row in found if row.section == section]
        parts += [f"| `{row.path}` | {row.default} | {_cell(row.text)} |\n" for row in chosen]
        parts.append("\n")
    return "".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def renewed(readme: str, source: str) -> str:
    """The README with the tables for this values.yaml."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables(rows(source))}{END}{after}"
