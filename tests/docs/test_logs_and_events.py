"""docs/logs.md has each field that a line of the log may have, and docs/metrics.md each reason of an Event."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final

from app.core.log import camel_case
from app.core.reporting import notices
from app.core.reporting.notices import Notice
from tests.docs.pages import DOCS, ROOT

LEVELS: Final = {"debug", "info", "warning", "error", "exception", "critical"}
TO_PEOPLE: Final = (
    "prober/messages.py",
    "prober/scaling/operations.py",
    "weeder/messages.py",
    "core/overrides/reconciler.py",
)
"""The modules that make notices with Events."""
WITHOUT_EVENT: Final = {
    *("FlowStarted", "FlowEnded", "ScalingRehearsed", "HoldEnded"),
    *("ProtectionNotReleased", "ProbedLessOften", "ProbedAsUsual", "ShootForgotten"),
    *("RunnerFailed", "WeedingEnded", "PodNotWeeded"),
    *("SetOverride", "EndOverride", "ScaleRequest"),  # no reasons
}


def in_tables(text: str) -> set[str]:
    rows = (line for line in text.splitlines() if line.startswith("| `"))
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}


def trees(*names: str) -> Iterator[ast.AST]:
    found = [ROOT / "app" / name for name in names] or sorted((ROOT / "app").rglob("*.py"))
    for path in found:
        if "simulation" not in path.parts:
            yield from ast.walk(ast.parse(Path(path).read_text()))


def logged() -> Iterator[tuple[str, list[str]]]:
    """The level of each call of a logger, and the fields that it names."""
    for node in trees():
        match node:
            case ast.Call(ast.Attribute(ast.Name("log"), attr=level), keywords=given) if (
                level in LEVELS
            ):
                yield level, [each.arg for each in given if each.arg and each.arg != "exc_info"]


def kinds(of: type[Notice] = Notice) -> Iterator[type[Notice]]:
    for each in of.__subclasses__():
        yield each
        yield from kinds(each)


def test_each_field_of_the_log_is_documented():
    facts = {each.name for kind in kinds() for each in fields(kind)[len(fields(Notice)) :]}
    named = {notices._NAMES.get(name, name) for name in facts}
    named.update(*(those for _, those in logged()))
    page = (DOCS / "logs.md").read_text().split("## Fields")[1].split("## Levels")[0]
    assert {camel_case(name) for name in named} - in_tables(page) == set()


def test_each_level_of_the_log_is_documented():
    page = (DOCS / "logs.md").read_text().split("## Levels")[1].split("## An outage")[0]
    assert {level for level, _ in logged()} - {"exception"} == in_tables(page)


def test_each_reason_of_an_event_is_documented():
    words = {node.value for node in trees(*TO_PEOPLE) if isinstance(node, ast.Constant)}
    reasons = {word for word in words if re.fullmatch(r"([A-Z][a-z]+){2,}", str(word))}
    page = (DOCS / "metrics.md").read_text().split("\n# Events")[1]
    assert reasons - in_tables(page) == WITHOUT_EVENT
