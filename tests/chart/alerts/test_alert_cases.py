"""The alerts in Prometheus' own hands: each fires, stays silent and ends; and a rule that is wrong is found out.

`promtool test rules tests/chart/alerts/cases/*.yaml` is the same by hand. Here each case is laid out with its own rule
alone, as promtool evaluates all rules of a file at each step.
"""

import copy
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.alerts.rules import CASES, NAMES, RULES, keyed, queries
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
    ("DWDProbeErrorsHigh", "> 0.5", ">= 0.5"),
    ("DWDProbesStalled", "or on (cluster, seed, namespace)", "or"),
    ("DWDShootFailing", 'state="Failing"', 'state=~"Failing|Unreachable"'),
    ("DWDShootFailing", "max by (cluster, seed, namespace)", ""),
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
    ("DWDStuckScaledDown", "<= 3", "<= 2"),
    ("DWDStuckScaledDown", "<= 3", "<= 5"),
    ("DWDStuckScaledDown", "internal|external", "external"),
    ("DWDStuckScaledDown", "internal|external", "internal"),
    ("DWDEndpointProbeFailing", "max_over_time", "min_over_time"),
    ("DWDEndpointProbeFailing", "[5m] offset 15m", "[5m]"),
    ("DWDEndpointProbeFailing", "max by (cluster, seed, namespace, name)", ""),
    ("DWDScaleDownGated", ">= 0.6", "> 0.6"),
    ("DWDScaleDownGated", ">= 0.6", ">= 0.5"),
    ("DWDScaleDownGated", "> 1\n", "> 0\n"),
    ("DWDScaleDownGated", "> 3", "> 2"),
    ("DWDScaleDownGated", "> 3", "> 30"),
    ("DWDScaleDownGated", 'probe=~"external"', 'probe=~"internal|external"'),
    ("DWDScaleDownGated", "min by (cluster, seed, namespace)", "max by (cluster, seed, namespace)"),
    ("DWDScaleDownGated", "dwd_shoot_protection_start_timestamp_seconds", "dwd_nothing"),
    ("DWDScaleDownGated", "Unreachable|Failing", "Failing"),
    ("DWDFlapping", "> 4 / 2", "> 1"),
    ("DWDFlapping", "> (4 - 1) / 2", "> 2"),
    ("DWDFlapping", 'direction="up"', 'direction="down"'),
    ("DWDWeederDeletionSpike", 'result="deleted"', 'result!="gone"'),
    ("DWDWeederSelectorMatchesNothing", 'state!="NotProbed"', 'state!="Protected"'),
    ("DWDWeederSelectorMatchesNothing", "unless", "and"),
    ("DWDShootUnprotected", 'state="Unprotected"', 'state=~"Unprotected|Protected"'),
    ("DWDShootUnprotected", 'state="Unprotected"', 'state=~"Unprotected|Suspect"'),
    ("DWDShootUnprotected", "or on (cluster, seed)", "or"),
    ("DWDShootUnprotected", "or on (cluster, seed)", "or on ()"),
    ("DWDShootUnprotected", "max by (cluster, seed, namespace)", ""),
    ("DWDOverrideLongLived", "> 60 + 1", "> 60"),
    ("DWDOverrideLongLived", "[80m:1m]", "[60m:1m]"),
    ("DWDOverrideLongLived", "> 12 * 6 + 1", "> 12 * 6"),
    ("DWDOverrideLongLived", "[13h:10m]", "[12h:10m]"),
    ("DWDOverrideLongLived", "pause|hold", "pause"),
    ("DWDOverrideLongLived", "> 24 * 6 + 1", "> 24 * 6"),
    ("DWDOverrideLongLived", "[25h:10m]", "[24h:10m]"),
    ("DWDThrottled", "> 10", "> 0"),
    ("DWDThrottled", "> 0.05", "> 0.001"),
    ("DWDThrottled", "> 100", "> 1000"),
    ("DWDThrottled", "> 100", "> 10"),
    ("DWDWatchFlapping", 'kind!="pods", ', ""),
    ("DWDWatchFlapping", "Forbidden|NotFound", "Forbidden"),
    ("DWDWatchFlapping", "job, instance, pod, kind", "kind"),
    ("DWDCredentialsRejected", "no-token", "exec"),
    ("DWDCredentialsRejected", "[15m]", "[1d]"),
    ("DWDCredentialsRejected", "offset 15m", "offset 1d"),
    ("DWDCredentialsRejected", "offset 15m", "offset 1m"),
    ("DWDPermissionsMissing", "get|update", "get"),
    ("DWDPermissionsMissing", "events|pauses|", "events|"),
    ("DWDRunnerFailures", "increase(", "max_over_time("),
    ("DWDAuthDenials", "denied|unauthenticated", "denied|allowed"),
)
"""Of which rule, what, and what it might have become."""


def written() -> dict[str, list[Rule]]:
    """The rules of the plain file, to be changed: the steps of each name."""
    content = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    found: dict[str, list[Rule]] = {}
    for each in keyed(rule for group in content["groups"] for rule in group["rules"]).values():
        found.setdefault(each["alert"], []).append(each)
    return found


def succeed(promtool: Tool, folder: Path, rules: Mapping[str, list[Rule]]) -> set[str]:
    """The names of the rules with which promtool is content, by the cases of the alert."""
    files = [_lay_out(folder, name, steps) for name, steps in rules.items()]
    try:
        printed = promtool("test", "rules", *files)
    except Failed as failed:
        printed = failed.output
    _, *pieces = printed.split("Unit Testing:  ")
    assert len(pieces) == len(files), printed
    return {Path(piece.split("\n")[0]).stem for piece in pieces if "SUCCESS" in piece}


def _lay_out(folder: Path, name: str, steps: list[Rule]) -> Path:
    alone = {"groups": [{"name": name, "rules": steps}]}
    (folder / f"{name}.rule").write_text(yaml.safe_dump(alone))
    case = yaml.safe_load((CASES / f"{steps[0]['alert']}.yaml").read_text(encoding="utf-8"))
    case["rule_files"] = [f"{name}.rule"]
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(case))
    return path


def changed(change: Change) -> dict[str, list[Rule]]:
    """All rules, each changed like this, by its name; of several steps one after the other is the one that is wrong."""
    rules = written()
    assert set(rules) == set(NAMES)
    found = {}
    for name, steps in rules.items():
        for number, each in enumerate(steps):
            other = copy.deepcopy(each)
            change(other)
            found[f"{name}-{number}"] = [*steps[:number], other, *steps[number + 1 :]]
    return found


def _never(rule: Rule) -> None:
    rule["expr"] = f"({rule['expr']}) and vector(1) < 0"


def _always(rule: Rule) -> None:
    rule["expr"] = "vector(1)"


def _waits(rule: Rule, minutes: int) -> None:
    """Waits longer, or not so long."""
    found = re.fullmatch(r"(\d+)m", rule["for"])
    assert found, f"{rule['for']} is not in minutes"
    rule["for"] = f"{max(int(found[1]) + minutes, 0)}m"


def test_prometheus_takes_the_rules(promtool: Tool):
    printed = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert f"SUCCESS: {sum(map(len, written().values()))} rules found" in printed


def test_prometheus_takes_what_the_runbook_asks_it(promtool: Tool, tmp_path: Path):
    asked = [{"record": f"asked:{number}", "expr": each} for number, each in enumerate(queries())]
    path = tmp_path / "asked.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "runbook", "rules": asked}]}))
    assert f"{len(asked)} rules found" in promtool("check", "rules", path)


def test_each_alert_fires_when_it_should_only_then_and_ends(promtool: Tool, tmp_path: Path):
    assert succeed(promtool, tmp_path, written()) == set(NAMES)


@pytest.mark.parametrize("wrong", [_never, _always, partial(_waits, minutes=+10)])
def test_the_cases_find_each_rule_that_is_wrong(promtool: Tool, tmp_path: Path, wrong: Change):
    assert not succeed(promtool, tmp_path, changed(wrong))


def test_the_cases_find_each_rule_that_does_not_wait_long_enough(promtool: Tool, tmp_path: Path):
    hasty = {
        f"{name}-{number}"
        for name, steps in written().items()
        for number, each in enumerate(steps)
        if each["for"] == "0m"
    }
    sooner = changed(partial(_waits, minutes=-1))
    assert succeed(promtool, tmp_path, sooner) == hasty


@pytest.mark.parametrize("third", range(3))
def test_the_cases_find_a_condition_that_is_wrong(promtool: Tool, tmp_path: Path, third: int):
    """In thirds: all at once take promtool the better part of a minute on a busy machine."""
    wrong = {}
    for number, (name, what, instead) in enumerate(MISTAKES[third::3]):
        steps = written()[name]
        assert any(what in each["expr"] for each in steps), f"{name}: {what}"
        for each in steps:
            each["expr"] = each["expr"].replace(what, instead)
        wrong[f"{name}-{number}"] = steps
    assert not succeed(promtool, tmp_path, wrong)
