"""What a server says of pods and of slices of endpoints, word by word; above all, how pods are deleted."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.arena import REAL_TIME
from tests.contract.pods import BACK_OFF, CRASH_LOOP, crash_looping, endpoints, pod, slice_of
from tests.contract.test_wire_reads import METADATA_LIST, TABLE, at
from tests.contract.test_wire_watches import told, version
from tests.contract.test_wire_writes import NOBODYS, created
from tests.contract.wire import MERGE, failure

pytestmark = REAL_TIME


async def deleted(arena, wire, name="a", body=None, query=""):
    return await wire.ask("DELETE", at(arena, "Pod", name) + query, body)


async def test_a_new_pod_is_pending_whatever_its_status_was(arena, wire):
    found = await created(arena, wire, "Pod", pod("a", status=crash_looping()))
    assert found["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")
    assert found["metadata"]["generation"] == 1


async def test_the_status_of_a_pod_is_written_apart_and_begins_no_generation(arena, wire):
    await created(arena, wire, "Pod", pod("a"))
    patch = {"status": crash_looping(), "metadata": {"labels": {"x": "1"}}}
    answer = await wire.ask("PATCH", at(arena, "Pod", "a/status"), patch, kind=MERGE)
    status = answer.json["status"]
    (container,) = status["containerStatuses"]
    assert (status["phase"], status["qosClass"]) == ("Running", "BestEffort")
    assert container["state"] == {"waiting": {"reason": CRASH_LOOP, "message": BACK_OFF}}
    ended = container["lastState"]["terminated"]
    assert (container["restartCount"], ended["finishedAt"]) == (5, "2030-01-01T00:00:00Z")
    assert answer.json["metadata"]["generation"] == 1


async def test_a_pod_without_a_node_is_gone_at_once(arena, wire):
    before = await created(arena, wire, "Pod", pod("a", node=None))
    answer = await deleted(arena, wire)
    found = answer.json
    assert (answer.status, found["kind"], found["metadata"]["name"]) == (200, "Pod", "a")
    metadata = found["metadata"]
    assert metadata["uid"] == before["metadata"]["uid"]
    assert (metadata["deletionGracePeriodSeconds"], "deletionTimestamp" in metadata) == (0, True)
    assert int(metadata["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    assert failure(await wire.get(at(arena, "Pod", "a"))) == (404, "NotFound")


async def test_a_pod_on_a_node_stays_until_somebody_deletes_it_without_grace(arena, wire):
    before = (await created(arena, wire, "Pod", pod("a")))["metadata"]
    answer = await deleted(arena, wire)
    assert (answer.status, answer.json["kind"]) == (200, "Pod")
    found = (await wire.get(at(arena, "Pod", "a"))).json["metadata"]
    assert found == answer.json["metadata"]
    assert (found["uid"], found["deletionGracePeriodSeconds"]) == (before["uid"], 30)
    assert found["deletionTimestamp"] > found["creationTimestamp"]
    assert found["resourceVersion"] != before["resourceVersion"]
    answer = await deleted(arena, wire, body={"gracePeriodSeconds": 0})
    assert (answer.status, answer.json["kind"]) == (200, "Pod")
    assert (await wire.get(at(arena, "Pod", "a"))).status == 404


async def test_a_second_deletion_of_a_pod_changes_nothing_unless_it_is_to_stop_sooner(arena, wire):
    await created(arena, wire, "Pod", pod("a"))
    first = (await deleted(arena, wire)).json["metadata"]
    for body in (None, {"gracePeriodSeconds": 60}, {"gracePeriodSeconds": 30}):
        answer = await deleted(arena, wire, body=body)
        assert (answer.status, answer.json["metadata"]) == (200, first)
    for wanted, grace in ((5, 5), (9, 5), (-1, 1)):
        answer = await deleted(arena, wire, body={"gracePeriodSeconds": wanted})
        metadata = answer.json["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == grace
        assert metadata["deletionTimestamp"] < first["deletionTimestamp"]


GRACES: list[tuple[dict[str, Any], int]] = [
    ({"terminationGracePeriodSeconds": 7}, 7),
    ({"terminationGracePeriodSeconds": 0}, 0),
    ({"phase": "Succeeded"}, 0),
    ({"phase": "Failed"}, 0),
    ({"phase": "Running"}, 30),
    ({"phase": "Unknown"}, 30),
]
"""What is said of a pod, and how many seconds it has then."""


async def test_how_long_a_pod_may_take_to_stop_is_its_own_matter(arena, wire):
    for number, (changes, grace) in enumerate(GRACES):
        body, name = pod(f"a{number}"), f"a{number}"
        body["spec"] |= {key: value for key, value in changes.items() if key != "phase"}
        await created(arena, wire, "Pod", body)
        if "phase" in changes:
            patch = {"status": {"phase": changes["phase"]}}
            await wire.ask("PATCH", at(arena, "Pod", f"{name}/status"), patch, kind=MERGE)
        answer = await deleted(arena, wire, name)
        assert answer.json["metadata"]["deletionGracePeriodSeconds"] == grace, changes
        assert (await wire.get(at(arena, "Pod", name))).status == (200 if grace else 404), changes


OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1"}


WRONG_PRECONDITIONS = [
    ({"uid": NOBODYS}, "UID", "deleted and then recreated"),
    ({"resourceVersion": "1"}, "ResourceVersion", "modified"),
    ({"uid": NOBODYS, "resourceVersion": "1"}, "UID", "deleted and then recreated"),
    ({"uid": ""}, "UID", "deleted and then recreated"),
    ({"resourceVersion": ""}, "ResourceVersion", "modified"),
]


@pytest.mark.parametrize("node", ["node-1", None], ids=["on-a-node", "on-none"])
async def test_a_precondition_that_does_not_hold_is_a_conflict_that_says_which(arena, wire, node):
    before = (await created(arena, wire, "Pod", pod("a", node=node)))["metadata"]
    keys = {"UID": "uid", "ResourceVersion": "resourceVersion"}
    for wrong, what, why in WRONG_PRECONDITIONS:
        answer = await deleted(arena, wire, body=OPTIONS | {"preconditions": wrong})
        assert failure(answer) == (409, "Conflict"), wrong
        assert answer.json["details"] == {"name": "a", "kind": "Pod"}
        assert answer.json["message"] == (
            f'Operation cannot be fulfilled on Pod "a": the {what} in the precondition '
            f"({wrong[keys[what]]}) does not match the {what} in record ({before[keys[what]]}). "
            f"The object might have been {why}"
        )
    assert (await wire.get(at(arena, "Pod", "a"))).json["metadata"] == before


@pytest.mark.parametrize("node", ["node-1", None], ids=["on-a-node", "on-none"])
async def test_preconditions_that_hold_let_a_pod_be_deleted(arena, wire, node):
    before = (await created(arena, wire, "Pod", pod("a", node=node)))["metadata"]
    right = {"uid": before["uid"], "resourceVersion": before["resourceVersion"]}
    answer = await deleted(arena, wire, body=OPTIONS | {"preconditions": right})
    assert (answer.status, answer.json["kind"]) == (200, "Pod")
    answer = await deleted(arena, wire, body=OPTIONS | {"preconditions": right})
    expected = (404, "NotFound") if node is None else (409, "Conflict")
    assert failure(answer) == expected


async def test_a_conflict_over_a_kind_of_a_group_names_the_group(arena, wire):
    await created(arena, wire, "EndpointSlice", slice_of("x", "a", True))
    body = OPTIONS | {"preconditions": {"uid": NOBODYS}}
    answer = await wire.ask("DELETE", at(arena, "EndpointSlice", "a"), body)
    assert failure(answer) == (409, "Conflict")
    details = {"name": "a", "group": "discovery.k8s.io", "kind": "EndpointSlice"}
    assert answer.json["details"] == details
    title = 'EndpointSlice.discovery.k8s.io "a"'
    assert answer.json["message"].startswith(f"Operation cannot be fulfilled on {title}: the UID")


async def test_what_is_not_there_is_not_found_whatever_the_preconditions(arena, wire):
    answer = await deleted(arena, wire, body=OPTIONS | {"preconditions": {"uid": NOBODYS}})
    assert failure(answer) == (404, "NotFound")
    assert answer.json["details"] == {"name": "a", "kind": "pods"}


WRONG_OPTIONS: list[Any] = [
    *(b"{", b"[]", {"kind": "Pod", "apiVersion": "v1"}, {"preconditions": 3}),
    *({"preconditions": []}, {"preconditions": {"uid": 3}}),
    {"preconditions": {"resourceVersion": 5}},
    *({"gracePeriodSeconds": "x"}, {"gracePeriodSeconds": 1.5}),
]


async def test_options_that_are_wrong_delete_nothing(arena, wire):
    before = await created(arena, wire, "Pod", pod("a", node=None))
    for body in WRONG_OPTIONS:
        assert failure(await deleted(arena, wire, body=body)) == (400, "BadRequest"), body
    assert (await wire.get(at(arena, "Pod", "a"))).json["metadata"] == before["metadata"]


async def test_options_of_another_media_type_are_not_taken(arena, wire):
    await created(arena, wire, "Pod", pod("a", node=None))
    answer = await wire.ask("DELETE", at(arena, "Pod", "a"), b"{}", kind="text/plain")
    assert failure(answer) == (415, "UnsupportedMediaType")


async def test_options_that_say_little_are_taken(arena, wire):
    for body in (
        *(b"null", {}, {"kind": "DeleteOptions"}, {"apiVersion": "v1"}, {"nonsense": 1}),
        OPTIONS | {"apiVersion": "meta.k8s.io/v1"},
        *({"preconditions": None}, {"preconditions": {"uid": None}}),
        {"propagationPolicy": "Background"},
    ):
        await created(arena, wire, "Pod", pod("a", node=None))
        answer = await deleted(arena, wire, body=body)
        assert (answer.status, answer.json["kind"]) == (200, "Pod"), body
        assert (await wire.get(at(arena, "Pod", "a"))).status == 404, body


async def test_without_a_body_the_query_has_the_options(arena, wire):
    await created(arena, wire, "Pod", pod("a"))
    refused = await deleted(arena, wire, query="?gracePeriodSeconds=x")
    assert failure(refused) == (400, "BadRequest")
    assert (await deleted(arena, wire, query="?gracePeriodSeconds=0")).status == 200
    assert (await wire.get(at(arena, "Pod", "a"))).status == 404


async def test_a_watch_sees_a_pod_become_terminating_before_it_is_gone(arena, wire):
    before = await version(arena, wire, "Pod")
    for name, node in (("a", None), ("b", "node-1")):
        await created(arena, wire, "Pod", pod(name, node=node))
        await deleted(arena, wire, name)
    await deleted(arena, wire, "b", {"gracePeriodSeconds": 0})
    events = await wire.events(f"{at(arena, 'Pod')}?watch=1&resourceVersion={before}", 7)
    graces = [each["object"]["metadata"].get("deletionGracePeriodSeconds") for each in events]
    assert list(zip(told(events), graces, strict=True)) == [
        (("ADDED", "a"), None),
        (("MODIFIED", "a"), 0),
        (("DELETED", "a"), 0),
        (("ADDED", "b"), None),
        (("MODIFIED", "b"), 30),
        (("MODIFIED", "b"), 0),
        (("DELETED", "b"), 0),
    ]
    versions = [int(each["object"]["metadata"]["resourceVersion"]) for each in events]
    assert versions == sorted(set(versions))


async def test_a_pod_that_leaves_or_joins_a_selection_is_deleted_or_added_there(arena, wire):
    before = await version(arena, wire, "Pod")
    await created(arena, wire, "Pod", pod("a", labels={"role": "apiserver"}))
    await created(arena, wire, "Pod", pod("b", labels={"role": "main"}))
    for name, value in (("a", "main"), ("b", "x"), ("a", "x"), ("b", None)):
        patch = {"metadata": {"labels": {"role": value}}}
        await wire.ask("PATCH", at(arena, "Pod", name), patch, kind=MERGE)
    selector = quote("role notin (main)")
    path = f"{at(arena, 'Pod')}?watch=1&resourceVersion={before}&labelSelector={selector}"
    events = await wire.events(path, 5)
    assert told(events) == [
        ("ADDED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
        ("ADDED", "a"),
        ("MODIFIED", "b"),
    ]
    roles = [each["object"]["metadata"].get("labels", {}).get("role") for each in events]
    assert roles == ["apiserver", "apiserver", "x", "x", None]


SELECTORS = {
    "x=1": "a",
    "x==1": "a",
    "x!=1": "bcd",
    "x": "ab",
    "!x": "cd",
    "! x": "cd",
    "x in (1,2)": "ab",
    "x in(1)": "a",
    "x in (2, 3)": "b",
    "x in ()": "",
    "x in (2,)": "b",
    "x notin (1)": "bcd",
    "x notin (1,2),y": "d",
    "y in (1),!x": "d",
    "x=": "",
    "y!=1, x": "ab",
    "a.example.org/z in (1)": "c",
}


async def test_labels_choose_pods_in_all_their_forms(arena, wire):
    labels = [{"x": "1"}, {"x": "2"}, {"a.example.org/z": "1"}, {"y": "1"}]
    for name, each in zip("abcd", labels, strict=True):
        await created(arena, wire, "Pod", pod(name, labels=each))
    for selector, chosen in SELECTORS.items():
        found = (await wire.get(f"{at(arena, 'Pod')}?labelSelector={quote(selector)}")).json
        assert "".join(each["metadata"]["name"] for each in found["items"]) == chosen, selector


async def test_a_selector_that_cannot_be_understood_is_a_bad_request(arena, wire):
    for selector in (
        *("x,", ",x", "x=b c", "x=b=c", "x in x", "x in (x", "x in (x y)", "x ! = y", "=b", "-x"),
        *("x=-b", "x in (a b)"),
    ):
        for query in ("", "&watch=1"):
            answer = await wire.get(f"{at(arena, 'Pod')}?labelSelector={quote(selector)}{query}")
            assert failure(answer) == (400, "BadRequest"), selector


async def test_a_slice_without_endpoints_has_null_for_them(arena, wire):
    for name, given in (("a", []), ("b", None)):
        body = slice_of("x", name) | {"endpoints": given}
        found = await created(arena, wire, "EndpointSlice", body)
        assert (found["endpoints"], found["ports"]) == (None, None)
    await created(arena, wire, "EndpointSlice", slice_of("x", "c", True, False, None, pods=("p",)))
    path = at(arena, "EndpointSlice", "c")
    first, second, third = (await wire.get(path)).json["endpoints"]
    assert first == {**endpoints(True)[0], "targetRef": {"kind": "Pod", "name": "p"}}
    assert (second["conditions"], third["conditions"]) == ({"ready": False}, {})
    answer = await wire.ask("PATCH", path, {"endpoints": []}, kind=MERGE)
    assert answer.json["endpoints"] is None
    assert answer.json["metadata"]["generation"] == 2


async def test_pods_are_a_table(arena, wire):
    await created(arena, wire, "Pod", pod("a", node=None))
    await created(arena, wire, "Pod", pod("b"))
    await wire.ask("PATCH", at(arena, "Pod", "b/status"), {"status": crash_looping()}, kind=MERGE)
    table = (await wire.get(at(arena, "Pod"), accept=TABLE)).json
    names = [each["name"] for each in table["columnDefinitions"] if each["priority"] == 0]
    assert names == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:4] == ["a", "0/1", "Pending", "0"]
    assert table["rows"][1]["cells"][:3] == ["b", "0/1", "CrashLoopBackOff"]
    assert table["rows"][1]["cells"][3].partition(" ")[0] == "5"
    listed = (await wire.get(at(arena, "Pod"), accept=METADATA_LIST)).json
    assert [each["metadata"]["name"] for each in listed["items"]] == ["a", "b"]
