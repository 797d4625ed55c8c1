"""The alerts as values of the chart: what can be chosen, what is refused, and what a clash of values leaves out."""

import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.alerts.rules import NAMES, PER_SHOOT, RULES, STEPS, alerts, keyed
from tests.chart.rendering import CHART, Json, Renderer
from tests.chart.tools import Tool
from tests.chart.valuesfiles import defaults, nested

pytestmark = pytest.mark.real

Values = dict[str, Any]
_NO_LIMITS = {"enabled", "severity", "for"}
ENDPOINT_MODE: Values = {
    "kubeConfigSecretName": None,
    "internalKubeConfigSecretName": "internal",
    "externalKubeConfigSecretName": "external",
}


ON: Values = {"enabled": True, "runbookUrl": "https://docs/runbook.md"}


def rendered(render: Renderer, values: Values | None = None, **alerts: Any) -> Json:
    """The PrometheusRule for these values of `alerts`, and others."""
    return render(values={"alerts": {**ON, **alerts}, **(values or {})}).one("PrometheusRule")


def rules(rule: Json) -> dict[str, Json]:
    """The alerts of a PrometheusRule, by name; a second step as `NAME.step`."""
    return keyed(each for group in rule["spec"]["groups"] for each in group["rules"])


def limits() -> list[tuple[str, str, Any]]:
    """Each limit of each rule, with its default; a second step is `NAME.step`."""
    chart: Values = defaults()["alerts"]["rules"]
    return [
        (key, limit, value)
        for key in alerts()
        for limit, value in reduce(dict.__getitem__, key.split("."), chart).items()
        if limit not in _NO_LIMITS and not isinstance(value, dict)
    ]


def another(value: Any) -> Any:
    """A limit that is not the default."""
    if value is None:
        return 1
    if isinstance(value, str):
        return "events"
    return value / 2 if 0 < value < 1 else value + 3


def test_the_plain_rules_are_what_the_chart_renders_by_default(renders: Renderer):
    links = RULES.read_text(encoding="utf-8").replace(
        "runbook_url: docs/", "runbook_url: https://docs/"
    )
    assert rendered(renders)["spec"] == yaml.safe_load(links), "hack/alerts writes them anew"


def test_without_a_runbook_that_can_be_reached_there_are_no_alerts(renders: Renderer):
    for address in ({}, {"runbookUrl": ""}):
        said = renders.refusal(values={"alerts": {"enabled": True, **address}})
        assert "alerts.runbookUrl: is required with alerts.enabled" in said
    said = renders.refusal(values={"alerts": {**ON, "runbookUrl": "docs/runbook.md"}})
    assert "alerts" in said
    assert "runbookUrl" in said


def test_each_alert_has_the_labels_that_an_alertmanager_routes_by(render: Renderer):
    found = rules(rendered(render, alertLabels={"service": "dwd", "visibility": "operator"}))
    for each in found.values():
        assert each["labels"].items() >= {"service": "dwd", "visibility": "operator"}.items()
    assert found["DWDDown"]["labels"]["severity"] == "critical"


def test_each_alert_is_switched_off_by_its_name(render: Renderer):
    for off in (NAMES[::2], NAMES[1::2]):
        found = rules(rendered(render, rules={name: {"enabled": False} for name in off}))
        assert {each["alert"] for each in found.values()} == set(NAMES) - set(off)


def test_severity_and_patience_can_be_chosen(render: Renderer):
    chosen = {f"{key}.severity": "blocker" for key in alerts()}
    chosen |= {f"{key}.for": "42m" for key in alerts()}
    for each in rules(rendered(render, rules=nested(chosen))).values():
        assert each["labels"]["severity"] == "blocker"
        assert each["for"] == "42m"


def test_every_limit_is_one_that_its_rule_reads(render: Renderer):
    before = rules(rendered(render))
    by_alert: dict[str, list[tuple[str, Any]]] = {}
    for name, key, value in limits():
        by_alert.setdefault(name, []).append((key, another(value)))
    for number in range(max(len(each) for each in by_alert.values())):
        chosen = {name: each[number] for name, each in by_alert.items() if each[number:]}
        others = {f"{name}.{key}": value for name, (key, value) in chosen.items()}
        after = rules(rendered(render, rules=nested(others)))
        same = {key for key in before if after[key]["expr"] == before[key]["expr"]}
        shared = {f"{name}.{step}" for name, step in STEPS.items() if name in chosen}
        assert same - shared == set(before) - set(chosen) - shared, chosen


def test_a_rule_with_other_limits_is_one_that_prometheus_takes(
    render: Renderer, promtool: Tool, tmp_path: Path
):
    chosen = {f"{name}.{key}": another(value) for name, key, value in limits()}
    check(promtool, tmp_path, rendered(render, rules=nested(chosen)))


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        ({}, 120),
        ({"probeInterval": None, "probeTimeout": None}, 120),
        ({"probeInterval": "30s"}, 120),
        ({"probeInterval": "1m0.5s"}, 183),
        ({"probeInterval": "20s", "probeTimeout": "1m30s"}, 170),
        ({"probeInterval": "2h"}, 21600),
        (ENDPOINT_MODE, 120),
        (ENDPOINT_MODE | {"internalProbeFailureBackoffDuration": "5m"}, 900),
        (ENDPOINT_MODE | {"internalProbeFailureBackoffDuration": "0"}, 120),
        (ENDPOINT_MODE | {"internalProbeFailureBackoffDuration": 0, "probeTimeout": "1m"}, 130),
    ],
)
def test_probes_are_missed_when_the_configuration_says_that_they_are_late(
    render: Renderer, config, seconds
):
    found = rules(rendered(render, {"prober": {"config": config}}))["DWDProbesStalled"]
    assert found["expr"].count(f"offset {seconds}s") == 2


def test_a_limit_that_is_chosen_is_not_derived(render: Renderer):
    chosen = {"DWDProbesStalled": {"seconds": 40}, "DWDStuckScaledDown": {"fraction": 0.3}}
    config = {"prober": {"config": {"probeInterval": "2h", "nodeLeaseFailureFraction": 0.5}}}
    found = rules(rendered(render, config, rules=chosen))
    assert "offset 40s" in found["DWDProbesStalled"]["expr"]
    assert "< 0.3" in found["DWDStuckScaledDown"]["expr"]


@pytest.mark.parametrize(("fraction", "limit"), [(None, 0.6), (0.5, 0.5), (1, 1)])
def test_leases_are_fresh_where_they_are_for_the_prober(render: Renderer, fraction, limit):
    config = {"prober": {"config": {"nodeLeaseFailureFraction": fraction}}}
    found = rules(rendered(render, config))
    assert f"< {limit}\n" in found["DWDStuckScaledDown"]["expr"]
    assert f">= {limit}\n" in found["DWDScaleDownGated"]["expr"]


@pytest.mark.parametrize(
    ("effects", "chosen", "names"),
    [
        ((), "", ".+"),
        (("Observe", None), "", ".+"),
        (("GateScaleDown", "Observe", "GateScaleDown"), "", "a|c"),
        (("GateScaleDown",), "b", "b"),
    ],
)
def test_a_gate_is_an_endpoint_probe_that_is_configured_as_one(
    render: Renderer, promtool: Tool, tmp_path: Path, effects, chosen, names
):
    probes = [
        {"name": "abc"[number], "host": "x.org", "tcpSocket": {"port": 1}, "effect": effect}
        for number, effect in enumerate(effects)
    ]
    config = {"prober": {"config": {"endpointProbes": probes}}}
    made = rendered(render, config, rules={"DWDScaleDownGated": {"probes": chosen}})
    found = rules(made)["DWDScaleDownGated"]
    assert f'dwd_endpoint_probe_success{{name=~"{names}", ' in found["expr"]
    check(promtool, tmp_path, made)


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
    assert len(links) == len(NAMES)


def test_several_seeds_in_one_prometheus_are_told_apart(
    render: Renderer, promtool: Tool, tmp_path: Path
):
    made = rendered(render, selector='seed="eu-1", tier=~"a|b"', seedLabels=["region", "seed"])
    for each in rules(made).values():
        assert each["expr"].count("{") == each["expr"].count('seed="eu-1", tier=~"a|b"}')
        assert not re.search(r"\bcluster\b", each["expr"]), "the label of the default"
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
    assert {each["alert"] for each in rules(made).values()} == set(NAMES) - PER_SHOOT
    said = made["metadata"]["annotations"]["dependency-watchdog.gardener.cloud/left-out"]
    assert said == f"{', '.join(sorted(PER_SHOOT))}: metrics.perShoot is false"


@pytest.mark.parametrize("name", sorted(PER_SHOOT))
def test_an_alert_that_is_wanted_and_cannot_be_is_refused(render: Renderer, name):
    wanted = {f"alerts.rules.{name}.enabled": True, "metrics.perShoot": False}
    said = render.refusal(values=nested({**wanted, **{f"alerts.{k}": v for k, v in ON.items()}}))
    assert f"alerts.rules.{name}.enabled: {name} needs the metrics of each shoot" in said
