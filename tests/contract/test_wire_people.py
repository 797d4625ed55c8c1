"""Pauses and ScaleRequests on the wire, word by word: what the simulation says is what kube-apiserver says."""

import asyncio
from typing import Any

import pytest

from app.core.model.callers import GROUP
from tests.contract.arena import REAL_TIME
from tests.contract.test_wire_reads import TABLE, at
from tests.contract.wire import MERGE, failure

pytestmark = REAL_TIME

VERSION = f"{GROUP}/v1alpha1"
GOOD = {
    "Pause": {"reason": "maintenance"},
    "ScaleRequest": {"direction": "Down", "reason": "maintenance"},
}


def written(kind, spec=None, name="a", **metadata):
    return {
        "apiVersion": VERSION,
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": GOOD[kind] if spec is None else spec,
    }


async def made(arena, wire, kind="Pause", spec=None, name="a", **changes):
    answer = await wire.ask("POST", at(arena, kind), written(kind, spec, name) | changes)
    assert answer.status == 201, answer.text
    return answer.json


def causes(answer, kind, name="a"):
    """The fields that are wrong and why, if the answer names the object, and says all of it in its message, too."""
    assert failure(answer) == (422, "Invalid")
    details = answer.json["details"]
    assert (details["name"], details["group"], details["kind"]) == (name, GROUP, kind)
    assert answer.json["message"].startswith(f'{kind}.{GROUP} "{name}" is invalid: ')
    for each in details["causes"]:
        assert f"{each['field']}: {each['message']}" in answer.json["message"]
    # a real server adds that it has not evaluated the rules in CEL where something else is wrong
    wrong = [each for each in details["causes"] if each["field"] != "<nil>"]
    return sorted(f"{each['field']} {each['reason'].removeprefix('FieldValue')}" for each in wrong)


async def test_what_is_created_has_defaults_and_no_status(arena, wire):
    found = await made(arena, wire, "ScaleRequest", status={"phase": "Running"})
    assert found.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert found["spec"] == {**GOOD["ScaleRequest"], "hold": "30m", "force": False}
    assert found["metadata"].keys() - {"managedFields"} == {
        *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")
    }
    assert found["metadata"]["generation"] == 1
    assert (await made(arena, wire))["spec"] == {"reason": "maintenance", "scope": "all"}


async def test_unknown_fields_and_nulls_are_dropped(arena, wire):
    spec = {"reason": "maintenance", "until": None, "scope": None, "more": {"a": 1}}
    found = await made(arena, wire, "Pause", spec, extra=1)
    assert found["spec"] == {"reason": "maintenance", "scope": "all"}
    assert "extra" not in found
    path = at(arena, "Pause", "a")
    answer = await wire.ask("PATCH", path, {"spec": {"more": 1}, "extra": 2}, kind=MERGE)
    assert answer.status == 200
    assert answer.json["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]


async def test_unknown_fields_are_refused_where_that_is_asked_for(arena, wire):
    strict = "?fieldValidation=Strict"
    body = written("Pause", {"reason": "x", "foo": 1}) | {"extra": 1}
    answer = await wire.ask("POST", at(arena, "Pause") + strict, body)
    assert failure(answer) == (400, "BadRequest")
    assert answer.json["message"] == (
        'Pause in version "v1alpha1" cannot be handled as a Pause: strict decoding error: '
        'unknown field "extra", unknown field "spec.foo"'
    )
    await made(arena, wire)
    patch = {"spec": {"foo": 1}}
    answer = await wire.ask("PATCH", at(arena, "Pause", "a") + strict, patch, kind=MERGE)
    assert failure(answer) == (422, "Invalid")
    assert answer.json["message"].startswith(' "" is invalid: patch: Invalid value: ')
    assert answer.json["message"].endswith('strict decoding error: unknown field "spec.foo"')


HOLD = "hold must be a duration from 0s to 24h in the units h, m, s and ms, such as 30m or 1h30m"
BLANK = "reason is blank: say why, in 1 to 500 characters"


WRONG_PAUSES = [
    (3, ["spec TypeInvalid"]),
    ([], ["spec TypeInvalid"]),
    ({}, ["spec.reason Required"]),
    ({"reason": None}, ["spec.reason Required"]),
    ({"reason": ""}, ["spec.reason Invalid", "spec.reason Invalid"]),
    ({"reason": " \t"}, ["spec.reason Invalid"]),
    ({"reason": "\n\t\u00a0\u2003"}, ["spec.reason Invalid"]),
    ({"reason": 1}, ["spec.reason TypeInvalid"]),
    ({"reason": True}, ["spec.reason TypeInvalid"]),
    ({"reason": {}}, ["spec.reason TypeInvalid"]),
    *(({"reason": each * 501}, ["spec.reason TooLong"]) for each in "xü"),
    ({"reason": "x", "scope": "No"}, ["spec.scope NotSupported"]),
    ({"reason": "x", "scope": 1}, ["spec.scope NotSupported", "spec.scope TypeInvalid"]),
    ({"reason": "x", "author": ""}, ["spec.author Invalid"]),
    ({"reason": "x", "author": "x" * 254}, ["spec.author TooLong"]),
    *(
        ({"reason": "x", "until": until}, ["spec.until TypeInvalid"])
        for until in (
            *("", "tomorrow", "2030-01-01", "2030-01-01 00:00:00Z", "2030-02-30T00:00:00Z"),
            *("2030-01-01T24:00:00Z", "2030-01-01T00:00:00", 1),
        )
    ),
]
"""What is wrong, and which causes are named."""


async def test_a_pause_that_is_wrong_is_not_created(arena, wire):
    for spec, wrong in WRONG_PAUSES:
        answer = await wire.ask("POST", at(arena, "Pause"), written("Pause", spec))
        assert causes(answer, "Pause") == wrong, spec
        if wrong == ["spec.reason Invalid"]:
            assert BLANK in answer.json["message"]
    assert failure(await wire.get(at(arena, "Pause", "a"))) == (404, "NotFound")


async def test_a_pause_that_is_right_is_created(arena, wire):
    right = [
        {"reason": "ü" * 500, "author": "x" * 253},
        {"reason": "x", "scope": "scaleDown", "until": "2001-01-01T00:00:00Z"},
        {"reason": "\tx ", "until": "2030-01-01T00:00:00.123456+02:00"},
        {"reason": "x", "until": "2030-01-01t23:59:59z"},
    ]
    for number, spec in enumerate(right):
        found = await made(arena, wire, "Pause", spec, name=f"a{number}")
        assert found["spec"] == {"scope": "all", **spec}


WRONG_REQUESTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"direction": None, "reason": None}, ["spec.direction Required", "spec.reason Required"]),
    ({"direction": "up"}, ["spec.direction NotSupported"]),
    *(({"force": each}, ["spec.force TypeInvalid"]) for each in ("yes", 1)),
    ({"hold": 5}, ["spec.hold TypeInvalid"]),
    ({"hold": "1h" * 17}, ["spec.hold TooLong"]),
    *(
        ({"hold": hold}, ["spec.hold Invalid"])
        for hold in (
            *("24h1s", "-1s", "30", "1d", "", "86400.001s", "0", "1us", "1h ", " 1h", "+1h"),
            *("1h\n", "99999999999999h", "m", "-0s", "168h", "1w", "30 m", "1H", ".5h", "1,5h"),
            "1e3s",
        )
    ),
    ({"hold": "25h", "reason": " "}, ["spec.hold Invalid", "spec.reason Invalid"]),
]
"""What is wrong with one that is right otherwise, and which causes are named."""


async def test_a_scale_request_that_is_wrong_is_not_created(arena, wire):
    for changes, wrong in WRONG_REQUESTS:
        body = written("ScaleRequest", GOOD["ScaleRequest"] | changes)
        answer = await wire.ask("POST", at(arena, "ScaleRequest"), body)
        assert causes(answer, "ScaleRequest") == wrong, changes
        assert (HOLD in answer.json["message"]) is ("spec.hold Invalid" in wrong), changes


async def test_a_hold_may_be_from_nothing_to_a_day(arena, wire):
    holds = [
        "0s",
        "24h",
        "1.5h",
        "1h30m",
        "86400s",
        "100ms",
        "1440m0s",
        "23h59m60s",
        "0.5s",
        "1h1h",
    ]
    for number, hold in enumerate(holds):
        spec = {**GOOD["ScaleRequest"], "hold": hold, "force": True}
        assert (await made(arena, wire, "ScaleRequest", spec, name=f"a{number}"))["spec"] == spec


async def test_a_kind_cannot_be_patched_away(arena, wire):
    await made(arena, wire)
    answer = await wire.ask("PATCH", at(arena, "Pause", "a"), {"apiVersion": "v2"}, kind=MERGE)
    assert failure(answer) == (422, "Invalid")
    assert f'apiVersion: Invalid value: "v2": must be {VERSION}' in answer.json["message"]


async def test_a_generation_begins_with_a_new_spec_alone(arena, wire):
    await made(arena, wire)
    path, seen = at(arena, "Pause", "a"), []
    for patch in (
        {"metadata": {"labels": {"a": "b"}}},
        {"spec": {"reason": "other"}},
        {"spec": {"reason": "other"}},
        {"spec": {"scope": "scaleDown"}},
        {"spec": {"scope": None}},
    ):
        answer = await wire.ask("PATCH", path, patch, kind=MERGE)
        seen.append((answer.json["metadata"]["generation"], answer.json["spec"]["scope"]))
    assert seen == [(1, "all"), (2, "all"), (2, "all"), (3, "scaleDown"), (4, "all")]


async def test_a_write_of_the_status_leaves_the_object_alone(arena, wire):
    first = await made(arena, wire)
    path, until = at(arena, "Pause", "a"), {"until": "2030-01-01T00:00:00Z"}
    change = {"spec": {"reason": ""}, "metadata": {"labels": {"a": "b"}}, "status": until}
    answer = await wire.ask("PATCH", f"{path}/status", change, kind=MERGE)
    assert (answer.status, answer.json["status"]) == (200, until)
    assert answer.json["spec"] == first["spec"]
    assert answer.json["metadata"]["generation"] == 1
    assert "labels" not in answer.json["metadata"]
    assert (await wire.get(f"{path}/status")).json == (await wire.get(path)).json


async def test_a_status_is_merged_and_cleared_by_a_patch(arena, wire):
    await made(arena, wire, "ScaleRequest")
    path = at(arena, "ScaleRequest", "a/status")
    step = {"resource": "Deployment/a", "level": 0, "phase": "Running", "before": 1}
    status = {"phase": "Running", "startedAt": "2030-01-01T00:00:00.123456Z", "steps": [step]}
    first = (await wire.ask("PATCH", path, {"status": status}, kind=MERGE)).json
    assert first["status"] == status
    again = (await wire.ask("PATCH", path, {"status": status}, kind=MERGE)).json
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    patch = {"status": {"steps": None, "strange": 1, "message": "m"}}
    found = (await wire.ask("PATCH", path, patch, kind=MERGE)).json
    assert found["status"] == {k: status[k] for k in ("phase", "startedAt")} | {"message": "m"}
    found = (await wire.ask("PATCH", path, {"status": None}, kind=MERGE)).json
    assert "status" not in found


STEP = {"resource": "a", "level": 0, "phase": "Done"}


WRONG_STATUSES = [
    ({"phase": "No"}, ["status.phase NotSupported"]),
    ({"message": "m" * 1025}, ["status.message TooLong"]),
    ({"observedBy": "x" * 254}, ["status.observedBy TooLong"]),
    ({"startedAt": "now"}, ["status.startedAt TypeInvalid"]),
    ({"endedAt": 5}, ["status.endedAt TypeInvalid"]),
    ({"holdUntil": ""}, ["status.holdUntil TypeInvalid"]),
    ({"steps": {}}, ["status.steps TypeInvalid"]),
    ({"steps": [STEP] * 65}, ["status.steps TooMany"]),
    (
        {"steps": [{}, 3]},
        [
            *(f"status.steps[0].{each} Required" for each in ("level", "phase", "resource")),
            "status.steps[1] TypeInvalid",
        ],
    ),
    *(
        ({"steps": [STEP | {name: value}]}, [f"status.steps[0].{name} {why}"])
        for name, value, why in (
            ("level", 1.5, "TypeInvalid"),
            ("level", -1, "Invalid"),
            ("after", -1, "Invalid"),
            ("before", 1.5, "TypeInvalid"),
            ("resource", "x" * 321, "TooLong"),
            ("message", "x" * 1025, "TooLong"),
            ("phase", "Succeeded", "NotSupported"),
            ("writtenAt", "now", "TypeInvalid"),
        )
    ),
]
"""What is wrong, and which causes are named."""


async def test_a_status_that_is_wrong_is_not_written(arena, wire):
    await made(arena, wire, "ScaleRequest")
    path = at(arena, "ScaleRequest", "a/status")
    for status, wrong in WRONG_STATUSES:
        answer = await wire.ask("PATCH", path, {"status": status}, kind=MERGE)
        assert causes(answer, "ScaleRequest") == wrong, status
    assert "status" not in (await wire.get(at(arena, "ScaleRequest", "a"))).json


async def test_the_spec_of_a_scale_request_cannot_be_changed(arena, wire):
    first = await made(arena, wire, "ScaleRequest")
    path = at(arena, "ScaleRequest", "a")
    immutable = "the spec cannot be changed: delete this ScaleRequest and create another one"
    for change in ({"reason": "other"}, {"force": True}, {"hold": "1h"}, {"author": "me"}):
        answer = await wire.ask("PATCH", path, {"spec": change}, kind=MERGE)
        assert causes(answer, "ScaleRequest") == ["spec Invalid"]
        assert immutable in answer.json["message"]
    answer = await wire.ask("PATCH", path, {"spec": {"hold": "50h"}}, kind=MERGE)
    assert causes(answer, "ScaleRequest") == ["spec Invalid", "spec.hold Invalid"]
    same = await wire.ask("PATCH", path, {"spec": GOOD["ScaleRequest"]}, kind=MERGE)
    assert same.json["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


COLUMNS = {
    "Pause": ["Name", "Scope", "Until", "Author", "Reason", "Age"],
    "ScaleRequest": [
        *("Name", "Direction", "Phase", "Author", "Hold Until", "Message", "Age", "Reason"),
    ],
}


@pytest.mark.parametrize("kind", GOOD)
async def test_tables_have_the_columns_of_the_definition(arena, wire, kind):
    await made(arena, wire, kind)
    found = (await wire.get(at(arena, kind), accept=TABLE)).json
    columns = found["columnDefinitions"]
    assert [each["name"] for each in columns] == COLUMNS[kind]
    assert [each["priority"] for each in columns if each["name"] == "Reason"] == [
        int(kind == "ScaleRequest")
    ]
    assert {each["type"] for each in columns if each["name"] == "Age"} == {"date"}
    cells = dict(zip(COLUMNS[kind], found["rows"][0]["cells"], strict=True))
    assert cells.pop("Age").endswith("s")
    same = {"Name": "a", "Author": None, "Reason": "maintenance"}
    if kind == "Pause":
        assert cells == same | {"Scope": "all", "Until": None}
    else:
        more = {"Direction": "Down", "Phase": None, "Hold Until": None, "Message": None}
        assert cells == same | more


async def test_without_definitions_nothing_is_served_and_watches_end(arena, wire):
    await made(arena, wire)
    path = at(arena, "Pause")
    before = (await wire.get(path)).json["metadata"]["resourceVersion"]

    async def followed():
        query = f"?watch=1&resourceVersion={before}&allowWatchBookmarks=true"
        return [event["type"] async for event in wire.watch(path + query)]

    watch = asyncio.ensure_future(followed())
    await asyncio.sleep(0.2)
    async with arena.definitions_removed():
        assert set(await asyncio.wait_for(watch, 8)) == {"DELETED"}
        for method, where in (
            *(("GET", each) for each in (path, f"{path}/a", f"{path}?watch=1")),
            *(("GET", f"/apis/{each}") for each in (GROUP, VERSION)),
            ("POST", path),
        ):
            body = written("Pause") if method == "POST" else None
            answer = await wire.ask(method, where, body)
            assert (answer.status, answer.text) == (404, "404 page not found\n")
        groups = (await wire.get("/apis")).json["groups"]
        assert GROUP not in {each["name"] for each in groups}
    assert (await wire.get(path)).json["items"] == []
    assert (await made(arena, wire))["metadata"]["generation"] == 1
