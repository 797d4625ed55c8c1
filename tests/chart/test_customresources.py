"""Pause and ScaleRequest on a real API server: what it takes, what it refuses in which words, what kubectl shows."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.cluster import Cluster, Clusters
from tests.chart.customresources import (
    FILES,
    FOLDER,
    GROUP,
    NAMES,
    definition,
    pause,
    scale_request,
)
from tests.chart.rendering import Json

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

SHOOT, GARDEN = "shoot--custom--resources", "garden-of-pauses"
BLANK = "reason is blank: say why, in 1 to 500 characters"
HOLD = "hold must be a duration from 0s to 24h in the units h, m, s and ms, such as 30m or 1h30m"
LONGEST = "n" * 253
"""A name as long as one may be."""


@pytest.fixture(scope="module")
def served(clusters: Clusters) -> Iterator["Seed"]:
    """An API server that serves both kinds, as `kubectl apply` of the chart's files lets it."""
    found = clusters.bare
    found.kubectl("apply", f"--filename={FOLDER}")
    defined = [f"crd/{name}" for name in sorted(NAMES)]
    found.kubectl("wait", "--for=condition=Established", *defined)
    for name in (SHOOT, GARDEN):
        found.namespace(name)
    yield Seed(found)
    found.kubectl("delete", f"--filename={FOLDER}")


@pytest.fixture
def seed(served: "Seed") -> "Seed":
    """The same, without any object of the two kinds."""
    served.kubectl("delete", "pauses,scalerequests", "--all", "--all-namespaces")
    return served


class Seed:
    """Makes, changes and reads objects of the two kinds with kubectl."""

    def __init__(self, cluster: Cluster) -> None:
        self.kubectl = cluster.kubectl

    def create(self, body: Json, namespace: str = SHOOT) -> Json:
        """Creates it; returns it as it is stored."""
        words = ("create", "--filename=-", f"--namespace={namespace}", "--output=json")
        found: Json = json.loads(self.kubectl(*words, stdin=json.dumps(body)))
        return found

    def refused(self, body: Json) -> str:
        """What is said to one that cannot be created."""
        words = ("create", "--filename=-", f"--namespace={SHOOT}")
        return self.kubectl.refusal(*words, stdin=json.dumps(body))

    def patch(self, kind: str, patch: Json, *words: str) -> Json:
        """Merges into the object `x`; returns it."""
        found: Json = json.loads(self.kubectl(*_patch(kind, patch), *words, "--output=json"))
        return found

    def patch_refused(self, kind: str, patch: Json, *words: str) -> str:
        """What is said to a change of the object `x`."""
        return self.kubectl.refusal(*_patch(kind, patch), *words)

    def table(self, *words: str) -> list[list[str]]:
        """What `kubectl get` prints, in cells."""
        printed = self.kubectl("get", *words).splitlines()
        return [re.split(r"\s{2,}", line.strip()) for line in printed]

    def explained(self, path: str) -> str:
        """What `kubectl explain` prints, without its line breaks."""
        return " ".join(self.kubectl("explain", path).split())


def _patch(kind: str, patch: Json) -> tuple[str, ...]:
    given = ("--type=merge", f"--patch={json.dumps(patch)}", f"--namespace={SHOOT}")
    return ("patch", kind, "x", *given)


def numbered(cases: list[Any]) -> list[str]:
    """Names for the cases of a test."""
    return [str(number) for number in range(len(cases))]


# What is taken.

TAKEN: list[Json] = [
    pause(scope="scaleDown"),
    pause(LONGEST),
    pause(reason="x" * 500),
    pause(reason="ü" * 500),
    pause(reason=" why "),
    pause(author="a" * 253),
    pause(author="system:serviceaccount:garden:somebody"),
    pause(until="2001-01-01T00:00:00Z"),
    pause(until="2099-12-31T23:59:59.123456+02:00"),
    scale_request(LONGEST),
    scale_request(direction="Up", force=True),
    scale_request(reason="x" * 500, author="a" * 253),
    *(
        scale_request(hold=hold)
        for hold in (
            "0s",
            "0h0m0s",
            "24h",
            "1440m",
            "23h59m60s",
            "1.5h",
            "1500ms",
            "0.5s",
            "1h1h",
        )
    ),
]


def test_what_is_left_out_has_its_default(seed: Seed) -> None:
    assert seed.create(pause())["spec"] == {"scope": "all", "reason": "a test"}
    assert seed.create(scale_request())["spec"] == {
        "direction": "Down",
        "reason": "a test",
        "hold": "30m",
        "force": False,
    }


def test_null_is_what_is_left_out(seed: Seed) -> None:
    body = pause()
    body["spec"] |= {"scope": None, "until": None, "author": None}
    assert seed.create(body)["spec"] == {"scope": "all", "reason": "a test"}


@pytest.mark.parametrize("body", TAKEN, ids=numbered(TAKEN))
def test_it_is_taken_as_it_is(seed: Seed, body: Json) -> None:
    assert seed.create(body)["spec"].items() >= body["spec"].items()


def test_a_pause_can_be_changed(seed: Seed) -> None:
    seed.create(pause())
    until = "2099-01-01T00:00:00Z"
    changed = seed.patch("pause", {"spec": {"scope": "scaleDown", "until": until}})
    assert changed["spec"] == {"scope": "scaleDown", "reason": "a test", "until": until}
    assert changed["metadata"]["generation"] == 2
    assert "until" not in seed.patch("pause", {"spec": {"until": None}})["spec"]


def test_several_pauses_fit_into_one_namespace(seed: Seed) -> None:
    for name in ("api", "mine", "yours"):
        seed.create(pause(name))
    assert len(seed.table("pauses", f"--namespace={SHOOT}", "--no-headers")) == 3


# What is refused, and how.


def without(body: Json, *path: str) -> Json:
    """The same object, without one of its fields."""
    *parents, last = path
    found = json.loads(json.dumps(body))
    inner = found
    for key in parents:
        inner = inner[key]
    del inner[last]
    return dict(found)


def null(body: Json, key: str) -> Json:
    """The same object, with null in its spec."""
    return body | {"spec": body["spec"] | {key: None}}


REFUSED: list[tuple[Json, str, str]] = [
    # both
    *(
        case
        for make in (pause, scale_request)
        for case in (
            (without(make(), "spec"), "spec", "Required value"),
            (make(reason=None), "spec.reason", "Required value"),
            (make(reason=""), "spec.reason", "should be at least 1 chars long"),
            (make(reason=" "), "spec.reason", BLANK),
            (make(reason="\n\t\u00a0\u2003"), "spec.reason", BLANK),
            (make(reason="x" * 501), "spec.reason", "may not be more than 500"),
            (make(reason="ü" * 501), "spec.reason", "may not be more than 500"),
            (make(reason=5), "spec.reason", 'must be of type string: "integer"'),
            (make(reason=["x"]), "spec.reason", 'must be of type string: "array"'),
            (null(make(), "reason"), "spec.reason", "Required value"),
            (make(author=""), "spec.author", "should be at least 1 chars long"),
            (make(author="a" * 254), "spec.author", "may not be more than 253"),
            (make(author=["me"]), "spec.author", 'must be of type string: "array"'),
            (make(autor="me"), "spec.autor", "unknown field"),
            (make() | {"spec": "all"}, "spec", 'must be of type object: "string"'),
            (make(LONGEST + "n"), "metadata.name", "must be no more than 253 characters"),
            (make("Not_A_Name"), "metadata.name", "RFC 1123 subdomain"),
            (make() | {"status": {"unknown": 1}}, "status.unknown", "unknown field"),
        )
    ),
    (pause(scope=""), "spec.scope", 'supported values: "all", "scaleDown"'),
    (pause(scope="All"), "spec.scope", 'supported values: "all", "scaleDown"'),
    (pause(scope="scaleUp"), "spec.scope", 'supported values: "all", "scaleDown"'),
    (pause(scope=["all"]), "spec.scope", 'must be of type string: "array"'),
    (pause(until="tomorrow"), "spec.until", "must be of type date-time"),
    (pause(until="2030-01-31"), "spec.until", "must be of type date-time"),
    (pause(until="2030-01-31T18:00:00"), "spec.until", "must be of type date-time"),
    (pause(until="2030-02-30T18:00:00Z"), "spec.until", "must be of type date-time"),
    (pause(until="2030-01-31T24:00:00Z"), "spec.until", "must be of type date-time"),
    (pause(until=""), "spec.until", "must be of type date-time"),
    (pause(until=1893456000), "spec.until", "must be of type date-time"),
    (pause(direction="Down"), "spec.direction", "unknown field"),
    (scale_request(direction=None), "spec.direction", "Required value"),
    (scale_request(direction="down"), "spec.direction", 'supported values: "Up", "Down"'),
    (scale_request(direction=0), "spec.direction", 'must be of type string: "integer"'),
    (scale_request(force="true"), "spec.force", 'must be of type boolean: "string"'),
    (scale_request(until="2030-01-31T18:00:00Z"), "spec.until", "unknown field"),
    (scale_request(hold=1800), "spec.hold", 'must be of type string: "integer"'),
    (scale_request(hold="1h" * 17), "spec.hold", "may not be more than 32"),
    *(
        (scale_request(hold=hold), "spec.hold", HOLD)
        for hold in (
            *("", "0", "30", "m", "-1s", "+1s", "-0s", "168h", "24h1ms", "24.001h", "7d", "1w"),
            *("1us", "30 m", "30m ", "1H", ".5h", "1,5h", "1e3s", "infinity", "9999999999999999h"),
        )
    ),
]


@pytest.mark.parametrize(
    ("body", "path", "why"),
    REFUSED,
    ids=[f"{number}-{path}" for number, (_, path, _) in enumerate(REFUSED)],
)
def test_it_is_refused_with_the_path_and_what_is_allowed(
    served: Seed, body: Json, path: str, why: str
) -> None:
    said = served.refused(body)
    assert path in said
    assert why in said


def test_a_scale_request_cannot_be_changed(seed: Seed) -> None:
    said = "spec: Invalid value: the spec cannot be changed: delete this ScaleRequest and create another one"
    seed.create(scale_request(author="me"))
    changes: list[Json] = [
        {"direction": "Up"},
        {"reason": "another"},
        {"hold": "0s"},
        {"force": True},
        {"author": None},
        {"author": "you"},
    ]
    for change in changes:
        assert said in plain(seed.patch_refused("scalerequest", {"spec": change})), change
    same = seed.patch("scalerequest", {"spec": {"hold": None}, "metadata": {"labels": {"a": "b"}}})
    assert same["spec"]["hold"] == "30m", "without it the default is back, which it was before"


def test_a_pause_is_checked_when_it_is_changed(seed: Seed) -> None:
    seed.create(pause())
    assert BLANK in seed.patch_refused("pause", {"spec": {"reason": " "}})
    assert "Required value" in seed.patch_refused("pause", {"spec": {"reason": None}})
    assert '"all", "scaleDown"' in seed.patch_refused("pause", {"spec": {"scope": "none"}})


def plain(said: str) -> str:
    """A message without what an older or newer API server shows of the value."""
    return re.sub(r"Invalid value: (\"object\"|\{.*\}): ", "Invalid value: ", said)


# The status.

STATUS: Json = {
    "phase": "Running",
    "message": "level 1 of 2",
    "startedAt": "2030-01-31T18:00:00.123456Z",
    "endedAt": "2030-01-31T18:00:01Z",
    "holdUntil": "2030-01-31T18:30:01Z",
    "observedBy": "dependency-watchdog-prober-0_a",
    "steps": [
        {
            "resource": "Deployment/kube-controller-manager",
            "level": 0,
            "phase": "Done",
            "message": "1 to 0",
            "before": 1,
            "after": 0,
            "startedAt": "2030-01-31T18:00:00.2Z",
            "writtenAt": "2030-01-31T18:00:00.3Z",
            "endedAt": "2030-01-31T18:00:00.4Z",
        },
        {"resource": "Deployment/machine-controller-manager", "level": 1, "phase": "Waiting"},
    ],
}
WITH_STATUS = "--subresource=status"


def test_the_status_is_apart_from_the_spec(seed: Seed) -> None:
    created = seed.create(scale_request() | {"status": {"phase": "Succeeded"}})
    assert "status" not in created, "nobody creates one that is done"
    both = {"spec": {"direction": "Up"}, "status": STATUS}
    written = seed.patch("scalerequest", both, WITH_STATUS)
    assert (written["spec"]["direction"], written["status"]) == ("Down", STATUS)
    assert written["metadata"]["generation"] == 1
    kept = seed.patch("scalerequest", {"status": {"phase": "Failed"}})
    assert kept["status"] == STATUS


def test_a_pause_has_a_status_too(seed: Seed) -> None:
    assert "status" not in seed.create(pause() | {"status": {"until": "2030-01-31T18:00:00Z"}})
    status = {"until": "2030-01-31T18:00:00Z"}
    assert seed.patch("pause", {"status": status}, WITH_STATUS)["status"] == status
    said = seed.patch_refused("pause", {"status": {"until": "soon"}}, WITH_STATUS)
    assert "status.until" in said


def with_step(**step: Any) -> Json:
    """A status with one step, which is right but for `step`."""
    right = {"resource": "Deployment/x", "level": 0, "phase": "Done", **step}
    return {"steps": [{key: value for key, value in right.items() if value is not None}]}


WRONG_STATUS: list[tuple[Json, str]] = [
    ({"phase": "Done"}, "status.phase"),
    ({"message": "x" * 1025}, "status.message"),
    ({"observedBy": "x" * 254}, "status.observedBy"),
    ({"startedAt": "now"}, "status.startedAt"),
    ({"endedAt": 5}, "status.endedAt"),
    ({"holdUntil": ""}, "status.holdUntil"),
    ({"steps": {}}, "status.steps"),
    ({"steps": with_step()["steps"] * 65}, "status.steps"),
    (with_step(resource=None), "status.steps[0].resource"),
    (with_step(resource="x" * 321), "status.steps[0].resource"),
    (with_step(level=None), "status.steps[0].level"),
    (with_step(level=-1), "status.steps[0].level"),
    (with_step(phase=None), "status.steps[0].phase"),
    (with_step(phase="Succeeded"), "status.steps[0].phase"),
    (with_step(message="x" * 1025), "status.steps[0].message"),
    (with_step(before=1.5), "status.steps[0].before"),
    (with_step(after=-1), "status.steps[0].after"),
    (with_step(writtenAt="now"), "status.steps[0].writtenAt"),
]


@pytest.mark.parametrize(("status", "path"), WRONG_STATUS, ids=numbered(WRONG_STATUS))
def test_a_status_is_checked(seed: Seed, status: Json, path: str) -> None:
    seed.create(scale_request())
    assert path in seed.patch_refused("scalerequest", {"status": status}, WITH_STATUS)


def test_a_status_holds_the_most_that_a_run_can_tell(seed: Seed) -> None:
    seed.create(scale_request())
    step = with_step(resource="x" * 320, message="ü" * 1024)["steps"]
    most = STATUS | {"steps": step * 64, "message": "ü" * 1024, "observedBy": "x" * 253}
    body = json.dumps(scale_request() | {"status": most}, ensure_ascii=False)
    seed.kubectl("replace", WITH_STATUS, "--filename=-", f"--namespace={SHOOT}", stdin=body)
    found = seed.kubectl("get", "dwdsr", "x", f"--namespace={SHOOT}", "--output=json")
    assert json.loads(found)["status"] == most


# What kubectl shows.


def test_pauses_are_a_table(seed: Seed) -> None:
    seed.create(pause("everything", author="me", reason="a bigger change"), GARDEN)
    seed.create(pause(scope="scaleDown"))
    seed.patch("pause", {"status": {"until": "2030-01-31T18:00:00Z"}}, WITH_STATUS)
    head, *rows = seed.table("pauses", "--all-namespaces")
    assert head == ["NAMESPACE", "NAME", "SCOPE", "UNTIL", "AUTHOR", "REASON", "AGE"]
    assert [row[:-1] for row in rows] == [
        [GARDEN, "everything", "all", "me", "a bigger change"],
        [SHOOT, "x", "scaleDown", "2030-01-31T18:00:00Z", "a test"],
    ]


def test_scale_requests_are_a_table(seed: Seed) -> None:
    seed.create(scale_request(author="me"))
    seed.patch("scalerequest", {"status": STATUS}, WITH_STATUS)
    columns = ["NAMESPACE", "NAME", "DIRECTION", "PHASE", "AUTHOR", "HOLD UNTIL", "MESSAGE", "AGE"]
    row = [SHOOT, "x", "Down", "Running", "me", "2030-01-31T18:30:01Z", "level 1 of 2"]
    head, found = seed.table("scalerequests", "--all-namespaces")
    assert (head, found[:-1]) == (columns, row)
    head, found = seed.table("scalerequests", "--all-namespaces", "--output=wide")
    assert (head[-1], found[-1]) == ("REASON", "a test")


def test_both_have_short_names_and_a_common_one(seed: Seed) -> None:
    seed.create(pause())
    seed.create(scale_request())
    for word, there in {
        "dwdp": {f"pause.{GROUP}/x"},
        "dwdsr": {f"scalerequest.{GROUP}/x"},
        "dwd": {f"pause.{GROUP}/x", f"scalerequest.{GROUP}/x"},
    }.items():
        printed = seed.kubectl("get", word, f"--namespace={SHOOT}", "--output=name")
        assert set(printed.split()) == there


def test_a_phase_is_waited_for(seed: Seed) -> None:
    seed.create(scale_request())
    seed.patch("scalerequest", {"status": {"phase": "Succeeded"}}, WITH_STATUS)
    given = ("scalerequest/x", f"--namespace={SHOOT}", "--timeout=5s")
    printed = seed.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", *given)
    assert "condition met" in printed


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
    served: Seed, path: str, told: list[str]
) -> None:
    explained = served.explained(path)
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
