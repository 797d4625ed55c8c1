"""The dashboards as files: whole, current, and about metrics that there are."""

import json
import re
from typing import Final

import pytest

from app.core.model.probing import ShootState
from hack.dashboards.__main__ import files
from hack.dashboards.grafana import COLUMNS, TAG
from hack.dashboards.states import COLOURS
from tests.chart.alerts.rules import page
from tests.chart.dashboards.reading import (
    FOLDER,
    ROOT,
    SEED,
    SHOOT,
    dashboard,
    dashboards,
    filled,
    panels,
    queries,
    variables,
)

NAMES: Final = (SEED, SHOOT)
OF_PROMETHEUS: Final = {"up": {"job", "instance"}, "ALERTS": {"alertname", "alertstate"}}
"""Series that Prometheus makes itself, with those of their labels that matter."""
OF_TARGETS: Final = {"job", "instance", "seed"}
SUFFIXES: Final = ("_bucket", "_count", "_sum")
METRIC: Final = re.compile(r"\b(up|ALERTS|(?:dwd|http|rest_client|leader_election)_\w+)\{")
SELECTED: Final = re.compile(r"(\w+)\{([^{}]*)\}")
GROUPED: Final = re.compile(r"\b(?:by|on) \(([^()]*)\)")
VALUES: Final = {
    "seed_label": "seed",
    "seed": ".*",
    "job": "dwd",
    "namespace": "shoot--a--b",
    "runbook": "https://example.org/runbook.md",
    "api": "https://example.org",
    "datasource": "p",
    "__rate_interval": "1m",
    "__range": "1h",
}


def documented() -> dict[str, frozenset[str]]:
    """The labels of each metric in docs/metrics.md."""
    return {row.name: row.labels for row in page().values()}


def labels_of(metric: str) -> set[str]:
    """All labels that the series of a metric can have; KeyError where it is not in docs/metrics.md."""
    own = OF_PROMETHEUS.get(metric) or page()[metric].labels
    return {*own, *OF_TARGETS} | ({"le"} if metric.endswith("_bucket") else set())


def test_the_files_are_what_python_m_hack_dashboards_writes():
    for path, content in files().items():
        assert path.read_text() == content, f"{path}: run python -m hack.dashboards"
    assert {path.name for path in files()} == {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_has_what_grafana_needs_to_find_it_again(name):
    content = dashboard(name)
    assert content["uid"] == f"dependency-watchdog-{name.removesuffix('-overview')}"
    assert "id" not in content, "that is of one Grafana only"
    assert content["tags"] == [TAG]
    assert content["schemaVersion"] >= 42
    assert (content["refresh"], content["timezone"]) == ("30s", "browser")


@pytest.mark.parametrize("name", NAMES)
def test_panels_have_numbers_of_their_own_titles_and_a_description_that_says_something(name):
    content = dashboard(name)
    numbers = [each["id"] for each in content["panels"]]
    assert len(set(numbers)) == len(numbers)
    titles = [each["title"] for each in panels(content)]
    assert len(set(titles)) == len(titles)
    for each in panels(content):
        assert len(each["description"]) > 40, each["title"]


@pytest.mark.parametrize("name", NAMES)
def test_panels_fill_the_page_and_none_lies_on_another(name):
    taken: set[tuple[int, int]] = set()
    for each in dashboard(name)["panels"]:
        place = each["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, each["title"]
        assert place["x"] + place["w"] <= COLUMNS
        taken |= cells
    height = max(y for _, y in taken) + 1
    assert len(taken) == COLUMNS * height, "there are holes"


@pytest.mark.parametrize("name", NAMES)
def test_what_asks_has_a_unit_and_words_for_the_case_that_there_is_nothing(name):
    for each in panels(dashboard(name)):
        if each["type"] == "text":
            continue
        defaults = each["fieldConfig"]["defaults"]
        assert defaults["unit"], each["title"]
        assert defaults["noValue"], each["title"]
        assert each["datasource"]["uid"] == "${datasource}"
        assert all(each["datasource"] == target["datasource"] for target in each["targets"])


@pytest.mark.parametrize("name", NAMES)
def test_a_number_or_a_table_is_of_now_and_a_graph_of_all_of_the_time(name):
    for each in panels(dashboard(name)):
        of_now = each["type"] in {"stat", "table"}
        for target in each.get("targets", ()):
            assert (target["instant"], target["range"]) == (of_now, not of_now), each["title"]


@pytest.mark.parametrize("asked", list(queries()), ids=str)
def test_a_query_asks_for_metrics_and_labels_that_there_are(asked):
    expression = filled(asked.expression, VALUES)
    metrics = METRIC.findall(expression)
    assert metrics
    every = set().union(*(labels_of(metric) for metric in metrics))
    for metric, matchers in SELECTED.findall(expression):
        chosen = {each.strip() for each in re.findall(r"([\w ]+)(?:=~|!=|=)\"", matchers)}
        assert chosen <= labels_of(metric), f"{metric} has no {chosen - labels_of(metric)}"
    every |= set(re.findall(r'}, "(\w+)", "\$1", ', expression))  # those that label_replace makes
    grouped = {each.strip() for group in GROUPED.findall(expression) for each in group.split(",")}
    assert grouped <= every, grouped - every


@pytest.mark.parametrize("asked", list(queries()), ids=str)
def test_a_query_is_of_the_chosen_seed_and_jobs_and_of_no_others(asked):
    for metric, matchers in SELECTED.findall(asked.expression):
        assert matchers.startswith('$seed_label=~"$seed", job=~"$job"'), metric
        if asked.dashboard == SHOOT:
            assert "namespace=" in matchers, metric


@pytest.mark.parametrize("asked", list(queries()), ids=str)
def test_counters_are_asked_for_their_rate_only(asked):
    expression = filled(asked.expression, VALUES)
    for metric in METRIC.findall(expression):
        if metric.endswith(("_total", *SUFFIXES)):
            assert re.search(rf"(rate|increase)\({metric}\{{[^{{}}]*\}}\[", expression), metric


def test_the_seed_asks_for_the_two_series_of_shoots_that_stay_and_for_states_where_there_are():
    of_shoots = {name for name, labels in documented().items() if "namespace" in labels}
    asked = {
        metric
        for each in queries()
        if each.dashboard == SEED
        for metric in METRIC.findall(each.expression.replace("$", ""))
    }
    stay = {"dwd_shoot_protection_start_timestamp_seconds", "dwd_shoot_dependents_at_zero"}
    assert asked & of_shoots == stay | {"dwd_shoot_state"}


def test_every_metric_of_the_page_is_on_a_dashboard():
    shown = {
        metric for each in queries() for metric in METRIC.findall(each.expression.replace("$", ""))
    }
    shown |= {metric.removesuffix(suffix) for metric in shown for suffix in SUFFIXES}
    beside = {name for name in documented() if name.startswith("http_")} - {"http_requests_total"}
    assert set(documented()) - shown == beside


def test_every_state_has_its_colour_and_its_number():
    assert set(COLOURS) == set(ShootState)
    (panel,) = (each for each in panels(dashboard(SHOOT)) if each["title"] == "State")
    (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
    assert [each["text"] for each in mapping["options"].values()] == [str(s) for s in ShootState]
    for number, state in enumerate(ShootState, start=1):
        assert f"{number} * dwd_shoot_state{{" in panel["targets"][0]["expr"]
        assert f'state="{state}"' in panel["targets"][0]["expr"]


def test_a_probe_that_is_a_probe_interval_and_a_slow_scrape_old_is_green():
    (panel,) = (each for each in panels(dashboard(SHOOT)) if each["title"] == "Last probe")
    first, yellow, _ = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert first["color"] == "green"
    assert yellow["value"] > 30 + 60


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_that_is_used_is_one_that_there_is(name):
    content = dashboard(name)
    own = set(variables(content)) | {"__rate_interval", "__range", "__url_time_range"}
    used = set(re.findall(r"\$\{?([a-z_]\w*)", json.dumps(content))) - {"__all", "__value"}
    assert used <= own


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_what_there_is(name):
    text = json.dumps(dashboard(name))
    sections = (ROOT / "docs/runbook.md").read_text().lower()
    for anchor in re.findall(r"\$\{runbook\}#(\w+)", text):
        assert re.search(rf"^#+ {anchor}$", sections, re.MULTILINE), anchor
    for uid in re.findall(r'"/d/([\w-]+)\?', text):
        assert uid in {each["uid"] for each in dashboards().values()}


def test_links_to_the_api_lead_to_paths_that_it_has():
    document = json.loads((ROOT / "docs/openapi.json").read_text())
    linked = re.findall(r"\$\{api\}(/api/v1/[^)?\"\\]*)", json.dumps(dashboard(SHOOT)))
    assert linked
    for path in linked:
        assert path.replace("${namespace}", "{namespace}") in document["paths"]
