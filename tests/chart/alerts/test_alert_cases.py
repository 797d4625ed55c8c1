"""The alerts in Prometheus' own hands: each fires, stays silent and ends.

`promtool test rules tests/chart/alerts/cases/*.yaml` is the same by hand. Here each case is laid out with its own rule
alone, as promtool evaluates all rules of a file at each step.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.alerts.rules import CASES, NAMES, RULES, keyed, queries
from tests.chart.tools import Tool

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(120),  # hours and days of minutes: 5 s on a quiet machine
]

Rule = dict[str, Any]


def written() -> dict[str, list[Rule]]:
    """The rules of the plain file: the steps of each name."""
    content = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    found: dict[str, list[Rule]] = {}
    for each in keyed(rule for group in content["groups"] for rule in group["rules"]).values():
        found.setdefault(each["alert"], []).append(each)
    return found


def laid_out(folder: Path, name: str, steps: list[Rule]) -> Path:
    """The cases of an alert, about these rules of it."""
    alone = {"groups": [{"name": name, "rules": steps}]}
    (folder / f"{name}.rule").write_text(yaml.safe_dump(alone))
    case = yaml.safe_load((CASES / f"{name}.yaml").read_text(encoding="utf-8"))
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(case | {"rule_files": [f"{name}.rule"]}))
    return path


def test_prometheus_takes_the_rules(promtool: Tool):
    printed = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert f"SUCCESS: {sum(map(len, written().values()))} rules found" in printed


def test_prometheus_takes_what_the_runbook_asks_it(promtool: Tool, tmp_path: Path):
    asked = [{"record": f"asked:{number}", "expr": each} for number, each in enumerate(queries())]
    path = tmp_path / "asked.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "runbook", "rules": asked}]}))
    assert f"{len(asked)} rules found" in promtool("check", "rules", path)


def test_each_alert_fires_when_it_should_only_then_and_ends(promtool: Tool, tmp_path: Path):
    files = [laid_out(tmp_path, name, steps) for name, steps in written().items()]
    assert promtool("test", "rules", *files).count("SUCCESS") == len(NAMES) == len(files)
