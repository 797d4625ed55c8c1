"""The alerts in Prometheus' own hands: each fires, stays silent and ends; and a rule that is wrong is found out.

`promtool test rules tests/chart/alerts/cases/*.yaml` is the same by hand.  Here each case is laid out with its own rule
alone, as promtool evaluates all rules of a file at each step.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.alerts.rules import CASES, CONTRACT, RULES, queries
from tests.chart.tools import Failed, Tool

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(120),  # hours and days of minutes: 5 s on a quiet machine
]

Rule = dict[str, Any]
Change = Callable[[Rule], None]


MISTAKES = (
    ("DWDMultipleLeaders", "cluster, seed, name", "cluster, name"),
    ("DWDProbesStalled", "offset 120s", "offset 60s"),
    ("DWDProbesStalled", 'state="Pending"', 'state="NotProbed"'),
    ("DWDProbeErrorsHigh", "> 0.1", ">= 0.1"),
    ("DWDProbeErrorsHigh", 'state!="NotProbed"', 'state!="Protected"'),
    ("DWDProbeErrorsHigh", "max by (cluster, seed, state)", "min by (cluster, seed, state)"),
    ("DWDLeasesLate", "> 0.2", ">= 0.2"),
    ("DWDLeasesLate", "fresh|expired|unknown", "fresh|expired|unknown|excluded"),
    ("DWDLeasesLate", "dwd_shoot_protection_start_timestamp_seconds", "dwd_nothing"),
    ("DWDLeasesLate", "Unreachable|Failing", "Failing"),
    ("DWDMeltdownProtectionActive", "min by (cluster, seed, namespace)", ""),
    ("DWDSeedWideMeltdown", ">= 5", ">= 4"),
    ("DWDSeedWideMeltdown", "> 0.2", "> 0.02"),
    ("DWDSeedWideMeltdown", "max by (cluster, seed, state)", "sum by (cluster, seed, state)"),
    ("DWDScaleErrors", "> 3", "> 2"),
    ("DWDScaleErrors", "increase(", "max_over_time("),
    ("DWDStuckScaledDown", "< 0.6", "<= 0.6"),
    ("DWDStuckScaledDown", 'state="Unreachable"', 'state="Pending"'),
    ("DWDFlapping", "> 4 / 2", "> 1"),
    ("DWDFlapping", "> (4 - 1) / 2", "> 2"),
    ("DWDFlapping", 'direction="up"', 'direction="down"'),
    ("DWDWeederDeletionSpike", 'result="deleted"', 'result!="gone"'),
    ("DWDWeederSelectorMatchesNothing", 'state!="NotProbed"', 'state!="Protected"'),
    ("DWDWeederSelectorMatchesNothing", "unless", "and"),
    ("DWDOverrideLongLived", "> 24 * 6 + 1", "> 24 * 6"),
    ("DWDThrottled", "> 10", "> 0"),
    ("DWDThrottled", "> 0.05", "> 0.001"),
    ("DWDWatchFlapping", "Forbidden|NotFound", "Forbidden"),
    ("DWDWatchFlapping", "job, instance, pod, kind", "kind"),
    ("DWDCredentialsRejected", "no-token", "exec"),
    ("DWDCredentialsRejected", "[1d]", "[2d]"),
    ("DWDCredentialsRejected", "offset 1d", "offset 1m"),
    ("DWDRunnerFailures", "increase(", "max_over_time("),
    ("DWDAuthDenials", "denied|unauthenticated", "denied|allowed"),
)
"""Of which rule, what, and what it might have become."""


def written() -> list[Rule]:
    """The rules of the plain file, to be changed."""
    content = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [each for group in content["groups"] for each in group["rules"]]


def succeed(promtool: Tool, folder: Path, rules: Mapping[str, Rule]) -> set[str]:
    """The names of the rules with which promtool is content, by the cases of the alert."""
    files = [_lay_out(folder, name, rule) for name, rule in rules.items()]
    try:
        printed = promtool("test", "rules", *files)
    except Failed as failed:
        printed = failed.output
    _, *pieces = printed.split("Unit Testing:  ")
    assert len(pieces) == len(files), printed
    return {Path(piece.split("\n")[0]).stem for piece in pieces if "SUCCESS" in piece}


def _lay_out(folder: Path, name: str, rule: Rule) -> Path:
    alone = {"groups": [{"name": name, "rules": [rule]}]}
    (folder / f"{name}.rule").write_text(yaml.safe_dump(alone))
    case = yaml.safe_load((CASES / f"{rule['alert']}.yaml").read_text(encoding="utf-8"))
    case["rule_files"] = [f"{name}.rule"]
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(case))
    return path


def changed(change: Change) -> dict[str, Rule]:
    """All rules, each changed like this, by its name."""
    rules = written()
    assert {each["alert"] for each in rules} == set(CONTRACT)
    for each in rules:
        change(each)
    return {each["alert"]: each for each in rules}


def _as_it_is(rule: Rule) -> None:
    del rule


def _never(rule: Rule) -> None:
    rule["expr"] = f"({rule['expr']}) and vector(1) < 0"


def _always(rule: Rule) -> None:
    rule["expr"] = "vector(1)"


def _waits(rule: Rule, minutes: int) -> None:
    """Waits longer, or not so long."""
    found = re.fullmatch(r"(\d+)m", rule["for"])
    assert found, f"{rule['for']} is not in minutes"
    rule["for"] = f"{max(int(found[1]) + minutes, 0)}m"


def _of_another_job(rule: Rule) -> None:
    rule["expr"] = re.sub(r'job=~"[^"]*"', 'job="another"', rule["expr"])


def _as_bad_as_nothing(rule: Rule) -> None:
    rule["labels"]["severity"] = "none"


def _without_its_text(rule: Rule) -> None:
    rule["annotations"]["description"] = "Something is wrong."


def test_prometheus_takes_the_rules(promtool: Tool):
    printed = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert f"SUCCESS: {len(CONTRACT)} rules found" in printed


def test_prometheus_takes_what_the_runbook_asks_it(promtool: Tool, tmp_path: Path):
    asked = [{"record": f"asked:{number}", "expr": each} for number, each in enumerate(queries())]
    path = tmp_path / "asked.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "runbook", "rules": asked}]}))
    assert f"{len(asked)} rules found" in promtool("check", "rules", path)


def test_each_alert_fires_when_it_should_only_then_and_ends(promtool: Tool, tmp_path: Path):
    assert succeed(promtool, tmp_path, changed(_as_it_is)) == set(CONTRACT)


@pytest.mark.parametrize(
    "wrong",
    [
        _never,
        _always,
        _of_another_job,
        _as_bad_as_nothing,
        _without_its_text,
        partial(_waits, minutes=+10),
    ],
)
def test_the_cases_find_each_rule_that_is_wrong(promtool: Tool, tmp_path: Path, wrong: Change):
    assert not succeed(promtool, tmp_path, changed(wrong))


def test_the_cases_find_each_rule_that_does_not_wait_long_enough(promtool: Tool, tmp_path: Path):
    hasty = {each["alert"] for each in written() if each["for"] == "0m"}
    sooner = changed(partial(_waits, minutes=-1))
    assert succeed(promtool, tmp_path, sooner) == hasty


def test_the_cases_find_a_condition_that_is_wrong(promtool: Tool, tmp_path: Path):
    right = {each["alert"]: each for each in written()}
    wrong = {}
    for number, (name, what, instead) in enumerate(MISTAKES):
        assert what in right[name]["expr"], f"{name}: {what}"
        expr = right[name]["expr"].replace(what, instead)
        wrong[f"{name}-{number}"] = right[name] | {"expr": expr}
    assert not succeed(promtool, tmp_path, wrong)
