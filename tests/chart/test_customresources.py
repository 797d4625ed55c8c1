"""Pause and ScaleRequest on a real API server: what the definitions explain, and the most that they hold.

What they take and refuse is compared with the simulated servers in tests/contract/test_wire_people.py, what kubectl
shows of the objects in tests/contract/test_kubectl.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.cluster import Cluster, Clusters
from tests.chart.customresources import FILES, FOLDER, NAMES, definition
from tests.chart.rendering import Json
from tests.e2e import objects

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

SHOOT = "shoot--custom--resources"


@pytest.fixture(scope="module")
def served(clusters: Clusters) -> Iterator[Cluster]:
    """An API server that serves both kinds, as `kubectl apply` of the chart's files lets it."""
    found = clusters.bare
    found.kubectl("apply", f"--filename={FOLDER}")
    defined = [f"crd/{name}" for name in sorted(NAMES)]
    found.kubectl("wait", "--for=condition=Established", *defined)
    found.namespace(SHOOT)
    yield found
    found.kubectl("delete", f"--filename={FOLDER}")


def test_a_status_holds_the_most_that_a_run_can_tell(served: Cluster) -> None:
    where, at, text = f"--namespace={SHOOT}", "2030-01-31T18:00:00.123456Z", "ü" * 1024
    times: Json = {"startedAt": at, "endedAt": at}
    step = {"resource": "x" * 320, "level": 0, "phase": "Done", "message": text, **times}
    most = {
        "phase": "Running",
        "message": text,
        **times,
        "holdUntil": at,
        "observedBy": "x" * 253,
        "steps": [{**step, "writtenAt": at, "before": 1, "after": 0}] * 64,
    }
    body: Any = objects.scale_request("x", "Down")
    served.kubectl("create", "--filename=-", where, stdin=json.dumps(body))
    body = json.dumps(body | {"status": most}, ensure_ascii=False)
    served.kubectl("replace", "--subresource=status", "--filename=-", where, stdin=body)
    found = served.kubectl("get", "dwdsr", "x", where, "--output=json")
    assert json.loads(found)["status"] == most


EXPLAINED: list[tuple[str, list[str]]] = [
    ("pause", ["pauses that shoot", "pauses all shoots", "Probes go on", "delete the object"]),
    ("pause.spec", ["reason <string> -required-", "can be changed", "enum: all, scaleDown"]),
    ("pause.spec.scope", ["does not scale down", "Default: all."]),
    ("pause.spec.reason", ["1 to 500 characters", "white space"]),
    ("pause.spec.until", ["2030-01-31T18:00:00Z", "Default: 24 hours after the creation"]),
    ("pause.spec.author", ["nobody verifies", "unknown", "253"]),
    ("pause.status", ["The end that applies", "Absent until"]),
    ("scalerequest", ["control plane", "One runs at a time", "cancels what still runs"]),
    ("scalerequest.spec", ["direction <string> -required-", "None of it can be changed later"]),
    ("scalerequest.spec.reason", ["1 to 500 characters", "white space"]),
    ("scalerequest.spec.author", ["nobody verifies", "unknown", "253"]),
    ("scalerequest.spec.direction", ["scale the dependents to 0", "ENUM: Up Down"]),
    ("scalerequest.spec.hold", ["from 0s to 24h", "h, m, s and ms", "Default: 30m."]),
    ("scalerequest.spec.force", ["not probed", "Default: false."]),
    ("scalerequest.status", ["startedAt", "endedAt", "holdUntil", "observedBy", "steps"]),
    ("scalerequest.status.phase", ["Pending:", "Refused:", "within an hour"]),
    ("scalerequest.status.steps", ["before", "after", "writtenAt", "Skipped:"]),
]


@pytest.mark.parametrize(("path", "told"), EXPLAINED, ids=[path for path, _ in EXPLAINED])
def test_what_an_operator_has_to_know_is_explained(
    served: Cluster, path: str, told: list[str]
) -> None:
    explained = " ".join(served.kubectl("explain", path).split())
    assert not [each for each in told if each not in explained], explained


# The files.


def fields(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    """Every field of a schema, with its path."""
    for name, each in schema.get("properties", {}).items():
        yield f"{path}.{name}", each
        yield from fields(each, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_field_is_described_and_bounded(path: Path) -> None:
    (version,) = definition(path)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    for name, each in [(path.stem, schema), *fields(schema, path.stem)]:
        assert each["description"].endswith("."), name
        if each["type"] == "string":
            assert {"enum", "format", "maxLength"} & set(each), name
        if "default" in each:
            default = each["default"] if each["default"] is not False else "false"
            assert f"Default: {default}." in each["description"], name
