"""The ConfigMaps of the dashboards, as helm renders them."""

import json
import re

import pytest

from tests.chart.dashboards.reading import SEED, SHOOT, Json, dashboard, variables

pytestmark = pytest.mark.real

NAMES = {SEED, SHOOT}
CHOSEN = {
    "enabled": True,
    "seedLabel": "cluster",
    "apiUrl": "https://watchdog.example.org/seed-1",
    "runbookUrl": "https://wiki.example.org/watchdog",
}


def contents(rendering) -> dict[str, Json]:
    """The dashboards in the ConfigMaps, by the names of their files."""
    found = {}
    for each in rendering.of("ConfigMap"):
        for key, text in each["data"].items():
            if key.endswith(".json"):
                name = key.removeprefix("dependency-watchdog-").removesuffix(".json")
                found[name] = json.loads(text)
    return found


def without_constants(content: Json) -> Json:
    """A dashboard with every constant at the same value."""
    for each in variables(content).values():
        if each["type"] == "constant":
            each["query"] = each["current"] = ""
    return content


def test_nobody_gets_dashboards_who_did_not_ask_for_them(renders):
    assert contents(renders()) == {}


def test_each_dashboard_is_a_config_map_with_the_content_of_its_file(renders):
    found = contents(renders(values={"dashboards": {"enabled": True}}))
    assert set(found) == NAMES
    for name in NAMES:
        assert without_constants(found[name]) == without_constants(dashboard(name))


def test_the_constants_of_a_dashboard_are_those_of_the_values(renders):
    found = contents(renders(values={"dashboards": CHOSEN}))
    for name in NAMES:
        known = variables(found[name])
        assert known["seed_label"]["query"] == known["seed_label"]["current"]["value"] == "cluster"
        assert known["runbook"]["query"] == CHOSEN["runbookUrl"]
    assert variables(found[SHOOT])["api"]["query"] == CHOSEN["apiUrl"]


def test_without_a_runbook_of_their_own_they_lead_to_that_of_the_alerts(renders):
    alerts = {"runbookUrl": "https://wiki.example.org/{version}/of-the-alerts"}
    values = {"dashboards": {"enabled": True}, "alerts": alerts}
    for content in contents(renders(values=values)).values():
        (version,) = re.findall(
            r"^https://wiki\.example\.org/(.*)/of-the-alerts$",
            variables(content)["runbook"]["query"],
        )
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)


def test_what_grafana_fills_in_is_not_filled_in_by_helm(renders):
    found = contents(renders(values={"dashboards": {"enabled": True}}))
    assert "{{state}}" in json.dumps(found[SEED])
