"""The alerts where they are written down: the rules, their cases, the runbook; and the page of metrics beside them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.docs.pages import Page

ROOT: Final = Path(__file__).parents[3]
RULES: Final = ROOT / "monitoring/alerts.yaml"
CASES: Final = Path(__file__).parent / "cases"
RUNBOOK: Final = ROOT / "docs/runbook.md"
DECISIONS: Final = ROOT / "docs/decisions"
PAGE: Final = ROOT / "docs/metrics.md"

CONTRACT: Final = (
    "DWDDown",
    "DWDNoLeader",
    "DWDMultipleLeaders",
    "DWDProbesStalled",
    "DWDProbeErrorsHigh",
    "DWDMeltdownProtectionActive",
    "DWDMeltdownProtectionTooLong",
    "DWDSeedWideMeltdown",
    "DWDScaleErrors",
    "DWDStuckScaledDown",
    "DWDLeasesLate",
    "DWDFlapping",
    "DWDWeederDeletionSpike",
    "DWDWeederSelectorMatchesNothing",
    "DWDOverrideLongLived",
    "DWDThrottled",
    "DWDLoopLag",
    "DWDWatchFlapping",
    "DWDCredentialsRejected",
    "DWDResponseLimitHit",
    "DWDAuthDenials",
    "DWDPermissionsMissing",
    "DWDOverridesInvalid",
    "DWDRunnerFailures",
    "DWDClockSkew",
)
"""The names that people route and silence by."""

BEYOND: Final = (
    "DWDShootFailing",
    "DWDEndpointProbeFailing",
    "DWDScaleDownGated",
    "DWDShootUnprotected",
    "DWDDependentUnavailable",
    "DWDClustersUnread",
)
"""Alerts that the contract does not name; each has its reason in docs/decisions/0033-alerts-beyond-the-list.md."""

NAMES: Final = (*CONTRACT, *BEYOND)
"""Every name that there is."""

STEPS: Final = {"DWDProbeErrorsHigh": "most", "DWDPermissionsMissing": "features"}
"""Alerts with a second rule of the same name and another severity, and what the values call it."""

PER_SHOOT: Final = frozenset(
    {
        "DWDProbesStalled",
        "DWDShootFailing",
        "DWDLeasesLate",
        "DWDEndpointProbeFailing",
        "DWDScaleDownGated",
        "DWDStuckScaledDown",
        "DWDFlapping",
    }
)
"""Those that cannot be without the series of each shoot."""

TARGET_LABELS: Final = frozenset({"job", "instance", "pod", "cluster", "seed"})
"""What Prometheus adds to each series."""

_SELECTOR: Final = re.compile(r"\b([a-z_][a-z0-9_]*)\{([^}]*)\}")
_MATCHER: Final = re.compile(r'([a-z_]+)(=~|!~|!=|=)"([^"]*)"')
_GROUPING: Final = re.compile(r"\b(?:by|on|ignoring|without) \(([^)]*)\)")
_ROW: Final = re.compile(
    r"^\| `(?P<name>[a-z0-9_]+)` \| (?P<type>\w+) \|(?P<labels>[^|]*)\| (?P<what>.*) \|$"
)
_CODE: Final = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label."""

    metric: str
    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule."""

    name: str
    expr: str
    wait: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def matchers(self) -> Sequence[Matcher]:
        """Every matcher of every series."""
        return tuple(
            Matcher(metric, label, tuple(value.split("|")) if "~" in how else (value,))
            for metric, inside in _SELECTOR.findall(self.expr)
            for label, how, value in _MATCHER.findall(inside)
        )

    @property
    def metrics(self) -> frozenset[str]:
        """The series that it is about."""
        return frozenset(each.metric for each in self.matchers)

    @property
    def grouping(self) -> frozenset[str]:
        """The labels by which it adds up or compares."""
        found = ",".join(_GROUPING.findall(self.expr)).split(",")
        return frozenset(each.strip() for each in found if each.strip())


@cache
def alerts() -> Mapping[str, Alert]:
    """The rules of the plain file, by name; a second step as `NAME.step`."""
    content = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    rules = [rule for group in content["groups"] for rule in group["rules"]]
    return {key: _alert(rule) for key, rule in keyed(rules).items()}


def keyed(rules: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rules by name; a second step as `NAME.step`."""
    found: dict[str, dict[str, Any]] = {}
    for each in rules:
        name = each["alert"]
        key = f"{name}.{STEPS[name]}" if name in found else name
        assert key not in found, f"{key} is there twice"
        found[key] = dict(each)
    return found


def _alert(rule: Mapping[str, Any]) -> Alert:
    return Alert(
        rule["alert"], rule["expr"], rule["for"], rule.get("labels", {}), rule["annotations"]
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of the page."""

    name: str
    type: str
    labels: frozenset[str]
    what: str


@cache
def page() -> Mapping[str, Row]:
    """What docs/metrics.md promises, by the name of the series; a histogram has three."""
    rows = [_row(found) for line in PAGE.read_text().splitlines() if (found := _ROW.match(line))]
    return {series: row for row in rows for series in _series(row)}


def _row(found: re.Match[str]) -> Row:
    labels = frozenset(_CODE.findall(found["labels"]))
    return Row(found["name"], found["type"], labels, found["what"])


def _series(row: Row) -> Iterator[str]:
    yield row.name
    if row.type == "histogram":
        yield from (f"{row.name}_{each}" for each in ("bucket", "sum", "count"))


@cache
def queries() -> Sequence[str]:
    """The PromQL of the runbook, line by line."""
    blocks = [block.text for language, block in Page(RUNBOOK).blocks if language == "promql"]
    return tuple(line for block in blocks for line in block.splitlines() if line)


@cache
def cases(name: str) -> Sequence[Mapping[str, Any]]:
    """The unit tests of an alert."""
    content = yaml.safe_load((CASES / f"{name}.yaml").read_text(encoding="utf-8"))
    found: Sequence[Mapping[str, Any]] = content["tests"]
    return found


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one line of a case expects of its alert."""

    minutes: float
    fires: bool


def expectations(case: Mapping[str, Any], name: str) -> Sequence[Expectation]:
    """What it expects at which minute, in this order."""
    told = [
        Expectation(_minutes(each["eval_time"]), bool(each.get("exp_alerts")))
        for each in case.get("alert_rule_test", ())
        if each["alertname"] == name
    ]
    asked = [
        Expectation(_minutes(each["eval_time"]), bool(each.get("exp_samples")))
        for each in case.get("promql_expr_test", ())
        if f'ALERTS{{alertname="{name}"' in each["expr"]
    ]
    return sorted([*told, *asked], key=lambda each: each.minutes)


def _minutes(text: str) -> float:
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?", text)
    assert found, text
    return 60 * int(found[1] or 0) + int(found[2] or 0)
