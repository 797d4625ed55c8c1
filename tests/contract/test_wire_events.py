"""Events as both groups serve them, core and events.k8s.io: the same objects, and the fields by which one chooses."""

from tests.contract.arena import REAL_TIME
from tests.contract.test_wire_reads import at
from tests.contract.test_wire_writes import created, event
from tests.contract.wire import failure

pytestmark = REAL_TIME

UID = "6f8a1b52-0000-4000-8000-000000000001"


def core(arena):
    return f"/api/v1/namespaces/{arena.namespace}/events"


async def told(arena, wire, name="e", **changes):
    regarding = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "a",
        "namespace": arena.namespace,
        "uid": UID,
    } | changes.pop("regarding", {})
    body = event(arena, metadata={"name": name}, regarding=regarding, **changes)
    return await created(arena, wire, "Event", body)


async def chosen(wire, path, *terms):
    answer = await wire.get(f"{path}?fieldSelector={','.join(terms)}")
    assert answer.status == 200, answer.text
    return [each["metadata"]["name"] for each in answer.json["items"]]


async def test_the_core_group_has_the_same_event_in_its_own_words(arena, wire):
    made = await told(arena, wire)
    found = (await wire.get(f"{core(arena)}/e")).json
    assert (found["kind"], found["apiVersion"]) == ("Event", "v1")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["involvedObject"] == made["regarding"]
    assert found["message"] == "why"
    assert found["reportingComponent"] == "dependency-watchdog"
    for name in ("reportingInstance", "action", "reason", "type", "eventTime"):
        assert found[name] == made[name]
    assert (found["source"], found["firstTimestamp"], found["lastTimestamp"]) == ({}, None, None)
    assert not {"regarding", "note", "reportingController"} & found.keys()


async def test_a_list_and_a_watch_of_the_core_group_have_them_too(arena, wire):
    await told(arena, wire)
    listed = (await wire.get(core(arena))).json
    assert (listed["kind"], listed["apiVersion"]) == ("EventList", "v1")
    assert [each["involvedObject"]["name"] for each in listed["items"]] == ["a"]
    version = listed["metadata"]["resourceVersion"]
    await told(arena, wire, "f", note="later")
    watch = f"{core(arena)}?watch=1&resourceVersion={version}&timeoutSeconds=5"
    (added,) = await wire.events(watch, 1)
    assert (added["type"], added["object"]["message"]) == ("ADDED", "later")
    assert added["object"]["apiVersion"] == "v1"


OTHER = {"kind": "StatefulSet", "name": "b", "uid": "other", "apiVersion": "apps/v2"}
WEEDER = "dependency-watchdog-weeder"
CHOSEN = {
    "reason": "ScaledUp",
    "type": "Warning",
    "metadata.name": "f",
    "reportingComponent": WEEDER,
    **{f"involvedObject.{name}": OTHER[name] for name in ("kind", "name", "uid")},
}


async def two(arena, wire):
    """One of `a`, and one that differs in everything that can be chosen by."""
    await told(arena, wire)
    more = {"reason": "ScaledUp", "reportingController": WEEDER, "type": "Warning"}
    await told(arena, wire, "f", regarding=OTHER, **more)


async def test_the_fields_of_the_core_group_choose(arena, wire):
    await two(arena, wire)
    for field, value in CHOSEN.items():
        assert await chosen(wire, core(arena), f"{field}={value}") == ["f"], field
        assert await chosen(wire, core(arena), f"{field}!={value}") == ["e"], field


async def test_what_kubectl_describe_asks_for_is_one_objects_events(arena, wire):
    await two(arena, wire)
    terms = (
        "involvedObject.name=a",
        f"involvedObject.namespace={arena.namespace}",
        "involvedObject.kind=Deployment",
        f"involvedObject.uid={UID}",
    )
    assert await chosen(wire, core(arena), *terms) == ["e"]
    assert await chosen(wire, "/api/v1/events", *terms) == ["e"]


async def test_a_watch_of_the_core_group_chooses_by_field(arena, wire):
    await told(arena, wire)
    field = "fieldSelector=involvedObject.name=b"
    watch = f"{core(arena)}?watch=1&resourceVersion=0&timeoutSeconds=5&{field}"
    await told(arena, wire, "f", regarding={"name": "b"})
    (added,) = await wire.events(watch, 1)
    assert added["object"]["metadata"]["name"] == "f"


async def test_a_field_that_is_not_one_of_the_group_is_refused(arena, wire):
    for path, fields in (
        (core(arena), ("regarding.name", "message")),
        (at(arena, "Event"), ("involvedObject.name", "note", "reportingComponent")),
    ):
        for field in fields:
            answer = await wire.get(f"{path}?fieldSelector={field}=x")
            assert failure(answer) == (400, "BadRequest")
            assert f"field label not supported: {field}" in answer.json["message"]
