"""The alerts as values of the chart: what can be chosen, what is refused, and what a clash of values leaves out."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.alerts.rules import CONTRACT, PER_SHOOT, RULES
from tests.chart.rendering import CHART, Json, Renderer
from tests.chart.tools import Tool

pytestmark = pytest.mark.real

Values = dict[str, Any]
_NO_LIMITS = {"enabled", "severity", "for"}


def rendered(render: Renderer, values: Values | None = None, **alerts: Any) -> Json:
    """The PrometheusRule for these values of `alerts`, and others."""
    return render(values={"alerts": {"enabled": True, **alerts}, **(values or {})}).one(
        "PrometheusRule"
    )


def rules(rule: Json) -> dict[str, Json]:
    """The alerts of a PrometheusRule, by name."""
    return {each["alert"]: each for group in rule["spec"]["groups"] for each in group["rules"]}


def limits() -> list[tuple[str, str, Any]]:
    """Each limit of each alert, with its default."""
    chart = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return [
        (name, key, value)
        for name, rule in chart["alerts"]["rules"].items()
        for key, value in rule.items()
        if key not in _NO_LIMITS
    ]


def another(value: Any) -> Any:
    """A limit that is not the default."""
    if isinstance(value, str):
        return "events"
    return value / 2 if 0 < value < 1 else value + 3


def test_without_a_wish_there_are_no_alerts(render: Renderer):
    assert not render().of("PrometheusRule")


def test_where_the_prometheus_operator_is_not_installed_there_are_none(render: Renderer):
    assert not render(values={"alerts": {"enabled": True}}, apis=()).of("PrometheusRule")


def test_the_plain_rules_are_what_the_chart_renders_by_default(renders: Renderer):
    plain = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    assert rendered(renders)["spec"] == plain, "hack/alerts writes them anew"


def test_labels_and_annotations_are_those_of_the_values(render: Renderer):
    made = rendered(render, labels={"prometheus": "seed"}, annotations={"owner": "me"})
    assert made["metadata"]["labels"]["prometheus"] == "seed"
    assert made["metadata"]["labels"]["app.kubernetes.io/name"] == "dependency-watchdog"
    assert made["metadata"]["annotations"] == {"owner": "me"}


def test_each_alert_has_the_labels_that_an_alertmanager_routes_by(render: Renderer):
    found = rules(rendered(render, alertLabels={"service": "dwd", "visibility": "operator"}))
    for each in found.values():
        assert each["labels"].items() >= {"service": "dwd", "visibility": "operator"}.items()
    assert found["DWDDown"]["labels"]["severity"] == "critical"


def test_each_alert_is_switched_off_by_its_name(render: Renderer):
    for off in (CONTRACT[::2], CONTRACT[1::2]):
        found = rules(rendered(render, rules={name: {"enabled": False} for name in off}))
        assert set(found) == set(CONTRACT) - set(off)


def test_severity_and_patience_can_be_chosen(render: Renderer):
    chosen = {name: {"severity": "blocker", "for": "42m"} for name in CONTRACT}
    for each in rules(rendered(render, rules=chosen)).values():
        assert each["labels"]["severity"] == "blocker"
        assert each["for"] == "42m"


def test_every_limit_is_one_that_its_rule_reads(render: Renderer):
    before = rules(rendered(render))
    by_alert: dict[str, list[tuple[str, Any]]] = {}
    for name, key, value in limits():
        by_alert.setdefault(name, []).append((key, another(value)))
    for number in range(max(len(each) for each in by_alert.values())):
        chosen = {name: dict([each[number]]) for name, each in by_alert.items() if each[number:]}
        after = rules(rendered(render, rules=chosen))
        same = {name for name in CONTRACT if after[name]["expr"] == before[name]["expr"]}
        assert same == set(CONTRACT) - set(chosen), chosen


def test_a_rule_with_other_limits_is_one_that_prometheus_takes(
    render: Renderer, promtool: Tool, tmp_path: Path
):
    chosen: dict[str, Values] = {}
    for name, key, value in limits():
        chosen.setdefault(name, {})[key] = another(value)
    check(promtool, tmp_path, rendered(render, rules=chosen))


def check(promtool: Tool, folder: Path, rule: Json) -> None:
    """Fails where Prometheus does not take it."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    printed = promtool("check", "rules", "--lint=all", "--lint-fatal", folder / "rules.yaml")
    assert f"{len(rules(rule))} rules found" in printed


def test_the_runbook_can_lie_elsewhere_at_the_version_that_runs(render: Renderer):
    made = rendered(render, runbookUrl="https://runbooks.example.org/{version}/dwd.md")
    version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
    links = {each["annotations"]["runbook_url"] for each in rules(made).values()}
    assert f"https://runbooks.example.org/{version}/dwd.md#dwdnoleader" in links
    assert len(links) == len(CONTRACT)


def test_several_seeds_in_one_prometheus_are_told_apart(
    render: Renderer, promtool: Tool, tmp_path: Path
):
    made = rendered(render, selector='seed="eu-1", tier=~"a|b"', seedLabels=["region", "seed"])
    for each in rules(made).values():
        assert each["expr"].count("{") == each["expr"].count('seed="eu-1", tier=~"a|b"}')
        assert "cluster" not in each["expr"]
    check(promtool, tmp_path, made)


def test_one_seed_needs_no_label(render: Renderer, promtool: Tool, tmp_path: Path):
    check(promtool, tmp_path, rendered(render, seedLabels=[]))


def test_the_jobs_are_those_of_the_chart_under_its_own_name(render: Renderer):
    found = rules(rendered(render, {"fullnameOverride": "dwd-eu"}))
    assert 'up{job=~"dwd-eu-prober"}' in found["DWDDown"]["expr"]
    assert 'job=~"dwd-eu-(prober|weeder|serve)"' in (found["DWDNoLeader"]["expr"])


def test_the_jobs_can_be_chosen(render: Renderer):
    jobs = {"all": "dwd-.*", "prober": "dwd-p", "weeder": "dwd-w"}
    found = rules(rendered(render, jobs=jobs))
    assert 'up{job=~"dwd-p"}' in found["DWDDown"]["expr"]
    assert 'up{job=~"dwd-w"}' in found["DWDDown"]["expr"]
    assert '{job=~"dwd-.*"}' in found["DWDNoLeader"]["expr"]


@pytest.mark.parametrize(
    ("values", "loops"),
    [
        ({}, {"prober", "weeder"}),
        ({"prober": {"enabled": False}}, {"weeder"}),
        ({"weeder": {"enabled": False}}, {"prober"}),
        ({"mode": "serve"}, {"serve"}),
    ],
)
def test_nobody_is_woken_for_a_loop_that_was_not_installed(render: Renderer, values, loops):
    expr = rules(rendered(render, values))["DWDDown"]["expr"]
    assert {each for each in ("prober", "weeder", "serve") if f'"{each}"' in expr} == loops


def test_without_metrics_of_each_shoot_the_alerts_that_need_them_are_left_out_and_named(
    render: Renderer,
):
    made = rendered(render, {"metrics": {"perShoot": False}})
    assert set(rules(made)) == set(CONTRACT) - PER_SHOOT
    said = made["metadata"]["annotations"]["dependency-watchdog.gardener.cloud/left-out"]
    assert said == f"{', '.join(sorted(PER_SHOOT))}: metrics.perShoot is false"


@pytest.mark.parametrize("name", sorted(PER_SHOOT))
def test_an_alert_that_is_wanted_and_cannot_be_is_refused(render: Renderer, name):
    values = {
        "metrics": {"perShoot": False},
        "alerts": {"enabled": True, "rules": {name: {"enabled": True}}},
    }
    said = render.refusal(values=values)
    assert f"alerts.rules.{name}.enabled: {name} needs the metrics of each shoot" in said


@pytest.mark.parametrize(
    ("alerts", "path"),
    [
        ({"rules": {"DWDDone": {}}}, "DWDDone"),
        ({"rules": {"DWDDown": {"threshold": 1}}}, "threshold"),
        ({"rules": {"DWDDown": {"for": "soon"}}}, "for"),
        ({"rules": {"DWDDown": {"for": 5}}}, "for"),
        ({"rules": {"DWDDown": {"enabled": "yes"}}}, "enabled"),
        ({"rules": {"DWDDown": {"severity": "very bad"}}}, "severity"),
        ({"rules": {"DWDProbeErrorsHigh": {"fraction": 10}}}, "fraction"),
        ({"rules": {"DWDLoopLag": {"seconds": 0}}}, "seconds"),
        ({"rules": {"DWDFlapping": {"changes": 2.5}}}, "changes"),
        ({"rules": {"DWDPermissionsMissing": {"exceptResources": 'a"b'}}}, "exceptResources"),
        ({"selector": "seed=eu-1"}, "selector"),
        ({"selector": '{seed="eu-1"}'}, "selector"),
        ({"seedLabels": ["the seed"]}, "seedLabels"),
        ({"alertLabels": {"severity": "none"}}, "alertLabels"),
        ({"runbookUrl": "a page"}, "runbookUrl"),
        ({"jobs": {"operator": "x"}}, "operator"),
        ({"enable": True}, "enable"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(renders: Renderer, alerts, path):
    said = renders.refusal(values={"alerts": alerts})
    assert "alerts" in said
    assert path in said
