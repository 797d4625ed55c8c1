"""What Python alone can tell of the alerts: names, series and labels, and that nothing of an alert is missing."""

import re

import pytest
import yaml

from app.core import errors
from app.core.config.policy_files import parse_prober
from app.core.errors import ClusterError
from app.core.kube.kubeconfig import NO_TOKEN
from app.core.kube.reviews import permissions_needed, process_permissions, weeder_permissions
from app.core.model.probing import ShootState
from tests.chart.alerts import rules
from tests.chart.rendering import CHART
from tests.docs.pages import Page

EACH = pytest.mark.parametrize("name", rules.NAMES)
EACH_RULE = pytest.mark.parametrize("rule", rules.alerts())
OF_PROMETHEUS = {"up"}
STRANDED = {"dwd_shoot_dependents_at_zero", "dwd_shoot_protection_start_timestamp_seconds"}
"""Series of a shoot that are there without per-shoot metrics, too."""
OF_ALL = {"dwd_override_expiry_timestamp_seconds"}
"""Series of which that of all shoots is there without per-shoot metrics, too."""
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
PROBED = {
    "name": "x",
    "podSelector": {"matchLabels": {"x": "y"}},
    "exec": {"command": ["/bin/true"]},
}
PROBER = parse_prober(
    yaml.safe_dump({**VALUES["prober"]["config"], "endpointProbes": [PROBED]}),
    "prober.yaml",
    strict=True,
    allow_exec=True,
)
PERMISSIONS = (
    *process_permissions("garden", reviews=True, leader_slice="leader"),
    *permissions_needed(PROBER.policy, {}, lease=("garden", "prober"), allow_exec=True),
    *weeder_permissions(lease=("garden", "weeder")),
)
RIGHTS = {(each.verb, each.resource) for each in PERMISSIONS}
PODS = {("list", "pods"), ("watch", "pods")}
"""A feature of the prober, and what the weeder cannot be without; the alert does not tell the two apart."""
FEATURES = {(each.verb, each.resource) for each in PERMISSIONS if each.feature} - PODS
"""Rights without which a feature is off."""
WORDS = {
    "dwd_endpoint_probe_success": {".+"},
    "dwd_shoots": {*ShootState},
    "dwd_shoot_state": {*ShootState},
    "dwd_credentials_rejected_total": {NO_TOKEN},
    "dwd_missing_permissions": {word for right in FEATURES for word in right},
    "dwd_override_expiry_timestamp_seconds": rules.page()["dwd_overrides_active"].what,
    "dwd_watch_restarts_total": {"pods"}
    | {
        each.__name__
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, ClusterError)
    },
}
"""Values of labels that the page does not spell out; those of all others are in the row of the metric."""


def test_every_alert_of_the_contract_has_a_rule_and_what_is_beyond_it_is_named():
    steps = {f"{name}.{step}" for name, step in rules.STEPS.items()}
    assert set(rules.alerts()) == {*rules.CONTRACT, *rules.BEYOND} | steps
    assert not {*rules.CONTRACT} & {*rules.BEYOND}


def test_every_alert_beyond_the_contract_has_its_reason_in_a_decision():
    decision = (rules.DECISIONS / "0033-alerts-beyond-the-list.md").read_text(encoding="utf-8")
    assert {each for each in rules.NAMES if f"`{each}`" in decision} >= {*rules.BEYOND}


@pytest.mark.parametrize("name", rules.STEPS)
def test_of_two_rules_with_one_name_one_wakes_somebody_and_one_does_not(name):
    severities = {each.labels["severity"] for each in rules.alerts().values() if each.name == name}
    assert severities == {"critical", "warning"}


@pytest.mark.parametrize("right", sorted(RIGHTS), ids=" ".join)
def test_a_missing_right_wakes_nobody_exactly_where_the_program_calls_it_a_feature(right):
    verb, resource = right
    telling = {
        key
        for key, alert in rules.alerts().items()
        for series in re.findall(r"dwd_missing_permissions{([^}]*)}", alert.expr)
        if _meant(series, verb=verb, resource=resource)
    }
    severities = {rules.alerts()[key].labels["severity"] for key in telling}
    assert severities == {"warning" if right in FEATURES else "critical"}


def _meant(series: str, **labels: str) -> bool:
    """Whether this selector finds a series with these labels."""
    for label, how, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', series):
        if label not in labels:
            continue
        pattern = value if "~" in how else re.escape(value)
        if bool(re.fullmatch(pattern, labels[label])) == how.startswith("!"):
            return False
    return True


@EACH_RULE
def test_every_series_of_a_rule_is_one_that_the_page_promises(rule):
    assert rules.alerts()[rule].metrics <= {*rules.page(), *OF_PROMETHEUS}


@EACH_RULE
def test_every_series_of_a_rule_is_found_by_the_job_so_that_a_dry_run_beside_it_is_not(rule):
    alert = rules.alerts()[rule]
    with_job = {each.metric for each in alert.matchers if each.label == "job"}
    assert with_job == alert.metrics
    assert alert.expr.count("{") == alert.expr.count("job=~"), "a series has no selector"


@EACH_RULE
def test_every_label_of_a_rule_is_one_that_its_series_have(rule):
    alert = rules.alerts()[rule]
    for each in alert.matchers:
        if each.metric not in OF_PROMETHEUS:
            assert each.label in {*rules.page()[each.metric].labels, *rules.TARGET_LABELS}, each
    known = {"le"}.union(
        *(rules.page()[each].labels for each in alert.metrics - OF_PROMETHEUS), rules.TARGET_LABELS
    )
    assert alert.grouping <= known


@EACH_RULE
def test_every_value_that_a_rule_looks_for_is_one_that_is_written(rule):
    for each in rules.alerts()[rule].matchers:
        if each.label in rules.TARGET_LABELS:
            continue
        words = WORDS.get(each.metric) or rules.page()[each.metric].what
        assert all(value in words for value in each.values), each


@EACH_RULE
def test_an_alert_says_how_bad_it_is_what_it_is_and_where_to_read_on(rule):
    alert = rules.alerts()[rule]
    assert alert.labels["severity"] in {"critical", "warning"}
    assert set(alert.annotations) == {"summary", "description", "runbook_url"}
    assert alert.annotations["runbook_url"] == f"docs/runbook.md#{alert.name.lower()}"


@EACH_RULE
def test_an_alert_about_one_shoot_names_it(rule):
    """One that counts shoots has none of them to name."""
    alert = rules.alerts()[rule]
    if "namespace" in alert.grouping and not alert.expr.startswith("count by"):
        for text in ("summary", "description"):
            assert "$labels.namespace" in alert.annotations[text]


@EACH_RULE
def test_a_text_uses_only_labels_that_the_alert_has(rule):
    alert = rules.alerts()[rule]
    added = {"loop"} if "label_replace" in alert.expr else set()
    texts = alert.annotations["summary"] + alert.annotations["description"]
    used = {each.strip("}|) ").split()[0] for each in texts.split("$labels.")[1:]}
    assert used <= {*alert.grouping, *added}


def test_the_alerts_that_need_the_series_of_each_shoot_are_those_that_the_chart_leaves_out():
    found = {each.name for each in rules.alerts().values() if _per_shoot(each)}
    assert found == rules.PER_SHOOT


def _per_shoot(alert: rules.Alert) -> bool:
    """Whether it fires on nothing but series of single shoots: they may be missing, as what keeps it from firing."""
    mine = alert.metrics - STRANDED - OF_ALL - OF_PROMETHEUS
    of_shoots = {each for each in mine if "namespace" in rules.page()[each].labels}
    fires_on = alert.expr.split("unless", maxsplit=1)[0]
    alternatives = re.split(r"\bor\b", fires_on)
    return all(any(each in one for each in of_shoots) for one in alternatives)


def test_every_alert_has_a_section_in_the_runbook_and_there_is_no_other():
    anchors = {each for each in Page(rules.RUNBOOK).anchors if each.startswith("dwd")}
    assert anchors == {each.lower() for each in rules.NAMES}


def test_the_runbook_asks_for_series_that_are_there():
    foreign = {"up", "container_cpu_cfs_throttled_periods_total"}
    words = {
        each for query in rules.queries() for each in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", query)
    }
    functions = {"histogram_quantile"}
    assert words - functions - foreign <= set(rules.page()), "no such series"
    assert len(rules.queries()) >= 10


def test_every_alert_has_its_cases_and_there_are_no_others():
    assert {each.stem for each in rules.CASES.iterdir()} == set(rules.NAMES)


@EACH
def test_the_cases_show_it_firing_silent_and_ending(name):
    kinds = {case["name"].split(":")[0] for case in rules.cases(name)}
    assert kinds == {"fires", "silent", "ends"}


@EACH
def test_each_case_expects_what_its_name_says(name):
    for case in rules.cases(name):
        found = [each.fires for each in rules.expectations(case, name)]
        match case["name"].split(":")[0]:
            case "fires":
                assert any(found), case["name"]
            case "silent":
                assert found == [False] * len(found) != [], case["name"]
            case _:
                assert found == [True, False], case["name"]


@EACH
def test_a_case_shows_each_step_with_the_texts_as_a_person_reads_them(name):
    """Promtool compares all labels and annotations of what fires, so that a wrong severity or text fails a case."""
    told = [
        alert
        for case in rules.cases(name)
        for each in case.get("alert_rule_test", ())
        for alert in each.get("exp_alerts", ())
    ]
    steps = {each.labels["severity"] for each in rules.alerts().values() if each.name == name}
    assert {each["exp_labels"]["severity"] for each in told} == steps
    for each in told:
        summary = each["exp_annotations"]["summary"]
        assert len(summary) < 120, "a summary is the line on the telephone"
