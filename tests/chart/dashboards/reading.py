"""The dashboards as files: their panels, and what each of them asks Prometheus."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / "helm/dependency-watchdog/dashboards"
SEED, SHOOT = "seed-overview", "shoot"
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::\w+)?\}|\$([a-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of one panel."""

    dashboard: str
    panel: str
    letter: str
    expression: str
    instant: bool
    unit: str
    """Of what it draws, as Grafana calls it."""
    signed: bool
    """Whether it can be below 0."""

    def __str__(self) -> str:
        return f"{self.dashboard} / {self.panel} / {self.letter}"


def dashboard(name: str) -> Json:
    """One of them."""
    found: Json = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def dashboards() -> dict[str, Json]:
    """All that the chart has."""
    return {path.stem: dashboard(path.stem) for path in sorted(FOLDER.glob("*.json"))}


def panels(content: Json) -> list[Json]:
    """All panels of a dashboard that are no headings."""
    return [each for each in content["panels"] if each["type"] != "row"]


def queries() -> Iterator[Asked]:
    """Every query of every panel."""
    for name, content in dashboards().items():
        for panel in panels(content):
            for target in panel.get("targets", ()):
                yield _asked(name, panel, target)


def _asked(name: str, panel: Json, target: Json) -> Asked:
    defaults = panel["fieldConfig"]["defaults"]
    letter, expression, instant = target["refId"], target["expr"], target["instant"]
    signed = panel["type"] == "timeseries" and "min" not in defaults
    return Asked(name, panel["title"], letter, expression, instant, defaults["unit"], signed)


def query_of(name: str, panel: str, letter: str = "A") -> Asked:
    """One query, by its dashboard, its panel and its letter."""
    (found,) = (each for each in queries() if str(each) == f"{name} / {panel} / {letter}")
    return found


def variables(content: Json) -> dict[str, Json]:
    """The variables of a dashboard, by name."""
    return {each["name"]: each for each in content["templating"]["list"]}


def filled(expression: str, values: Mapping[str, str]) -> str:
    """An expression with the values of Grafana's variables and macros, as Grafana puts them in.

    Raises:
        KeyError: one has no value.
    """
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], expression)
