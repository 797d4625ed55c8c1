"""The schema takes every set of values that the chart ships with, and refuses what is wrong with its path."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema_rs import meta

from tests.chart import rendering
from tests.chart.rendering import Json
from tests.chart.valuesfiles import at, defaults, mistakes, nested, over_defaults, parts, schema

FREE = {"/global"}
"""Objects that may hold anything: what helm hands to every chart."""
DEPENDENTS = "prober/config/dependentResourceInfos"
PROBES = "prober/config/endpointProbes"
SELECTORS = "weeder/config/servicesAndDependantSelectors"


SAMPLES: dict[str, Any] = {
    f"{DEPENDENTS}/0": {
        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
        "scaleUp": {},
        "scaleDown": {},
    },
    f"{PROBES}/0": {"name": "x", "host": "x.org", "tcpSocket": {"port": 1}},
    f"{PROBES}/0/httpGet": {"port": 1},
    f"{PROBES}/0/httpGet/httpHeaders/0": {"name": "A", "value": "x"},
    f"{PROBES}/0/grpc": {"port": 1},
    f"{SELECTORS}/web/podSelectors/0": {},
    f"{SELECTORS}/web/podSelectors/0/matchExpressions/0": {
        "key": "a",
        "operator": "In",
        "values": ["b"],
    },
}
"""What is right, and stands where a wrong value is put into it."""


def with_wrong(path: str, wrong: Any) -> Json:
    """Values with what is wrong at this path; a map is merged into what is there, and null in it takes a key away."""
    found: Any = {}
    _put(found, path.split("/"), "", wrong)
    return dict(found)


def _put(inside: Any, path: list[str], above: str, wrong: Any) -> None:
    key: Any = int(path[0]) if path[0].isdigit() else path[0]
    here = f"{above}/{path[0]}".removeprefix("/")
    nothing: Any = [] if path[1:] and path[1].isdigit() else {}
    there = inside.get(key, nothing) if isinstance(inside, dict) else nothing
    found = copy.deepcopy(SAMPLES.get(here, there))
    if len(path) > 1:
        _put(found, path[1:], here, wrong)
    elif isinstance(wrong, dict):
        found |= wrong
        if "/0" in here:  # helm takes away what is null, but not within lists
            found = {name: each for name, each in found.items() if each is not None}
    else:
        found = wrong
    if isinstance(inside, list):
        inside.append(found)
    else:
        inside[key] = found


LABELS = f"{SELECTORS}/web/podSelectors/0"
TABLE = (Path(__file__).parent / "wrong_values.yaml").read_text(encoding="utf-8")
WRONG: dict[str, list[Any]] = yaml.safe_load(TABLE)


@pytest.mark.parametrize("path", rendering.values_sets(), ids=rendering.name_of)
def test_a_set_that_the_chart_ships_with_is_right(path: Path) -> None:
    assert not mistakes(yaml.safe_load(path.read_text()) or {})


def test_there_are_sets_of_both_kinds() -> None:
    names = {path.parent.name for path in rendering.values_sets()}
    assert names == {"ci", "dependency-watchdog"}


@pytest.mark.parametrize("path", WRONG)
def test_a_wrong_value_is_refused_with_its_path(path: str) -> None:
    for wrong in WRONG[path]:
        assert list(mistakes(with_wrong(path, wrong))) == [path], wrong


def test_a_requirement_has_values_with_some_operators_only() -> None:
    path = f"{LABELS}/matchExpressions/0"
    assert list(mistakes(with_wrong(path, {"operator": "Exists"}))) == [f"{path}/values"]


def test_an_unknown_key_is_named() -> None:
    assert (
        "probeIntervall"
        in mistakes(with_wrong("prober/config/probeIntervall", "10s"))["prober/config"]
    )
    assert "probers" in mistakes({"probers": {}})[""]


def test_an_object_refuses_keys_that_it_does_not_know_or_says_what_they_may_be() -> None:
    for path, found in ((each.path, each.schema) for each in parts()):
        if "properties" in found:
            assert found["additionalProperties"] is False, path
        elif found.get("type") == "object" and path not in FREE:
            assert found["additionalProperties"] is False or found["additionalProperties"], path


def test_every_value_has_a_description() -> None:
    whole = schema()
    for part in parts():
        for name, each in part.schema.get("properties", {}).items():
            if part.path.startswith(("/alerts", "/dashboards")):
                continue
            resolved = (
                whole["definitions"][each["$ref"].rsplit("/", 1)[1]] if "$ref" in each else each
            )
            assert resolved.get("description"), f"{part.path}/{name}"


def test_the_schema_itself_is_one() -> None:
    assert schema()["$schema"] == "http://json-schema.org/draft-07/schema#"
    meta.validate(schema())


def test_a_section_that_is_taken_away_as_a_whole_is_missed() -> None:
    for name in ("prober", "api", "metrics", "networkPolicy", "crds", "ports"):
        assert list(mistakes({name: None})) == [""]


def test_what_is_optional_in_a_file_may_be_null() -> None:
    names = [name for name, each in at("prober.config")["properties"].items() if _nullable(each)]
    assert not mistakes({"prober": {"config": dict.fromkeys(names)}})
    assert (
        "probeInterval"
        not in over_defaults(nested({"prober.config.probeInterval": None}))["prober"]["config"]
    )


def _nullable(found: dict[str, Any]) -> bool:
    return "null" in found.get("type", ()) or None in found.get("enum", ())


NEEDED = [
    f"{name}.{key}"
    for name, rule in defaults()["alerts"]["rules"].items()
    for section, values in [("", rule), *((k, v) for k, v in rule.items() if isinstance(v, dict))]
    for key in (f"{section}.{each}".strip(".") for each, v in values.items() if v is not None)
]
"""What an alert is written with, and nothing else says: without it there would be one that Prometheus does not take."""


@pytest.mark.parametrize("path", NEEDED)
def test_a_threshold_that_is_taken_away_is_missed(path: str) -> None:
    whole = f"alerts.rules.{path}"
    assert list(mistakes(nested({whole: None}))) == [whole.rpartition(".")[0].replace(".", "/")]


def test_a_port_may_be_any_that_there_is() -> None:
    ports = (1, 80, 8443, 59999, 60000, 64999, 65499, 65529, 65535)
    origins = [f"https://x.org:{port}" for port in ports]
    assert not mistakes(nested({"api.cors.allowOrigins": origins}))


@pytest.mark.parametrize("repository", ["x", "x/y_z", "h:5000/a/b", "H.example.org/a.b/c--d"])
def test_a_repository_is_taken_as_a_registry_has_it(repository: str) -> None:
    assert not mistakes({"image": {"repository": repository}})
