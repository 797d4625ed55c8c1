"""What a server says to writes, word by word: what is made, replaced, merged, removed, and what is refused."""

import pytest

from tests.contract.arena import KINDS, REAL_TIME
from tests.contract.pods import slice_of
from tests.contract.test_wire_reads import at, lease
from tests.contract.wire import MERGE, failure
from tests.e2e import objects

pytestmark = REAL_TIME

STRATEGIC = "application/strategic-merge-patch+json"
NOBODYS = "00000000-0000-0000-0000-000000000000"


PAUSE = {
    "apiVersion": KINDS["Pause"].api_version,
    "kind": "Pause",
    "metadata": {"name": "a"},
    "spec": {"reason": "x"},
}


async def created(arena, wire, kind, body):
    answer = await wire.ask("POST", at(arena, kind), body)
    assert answer.status == 201, answer.text
    return answer.json


@pytest.mark.parametrize(("kind", "spec"), [("Lease", {}), ("Pause", {"reason": "x"})])
async def test_a_name_may_be_left_to_the_server(arena, wire, kind, spec):
    named = {"apiVersion": KINDS[kind].api_version, "kind": kind}
    body = named | {"metadata": {"generateName": "gen-"}, "spec": spec}
    names = [(await created(arena, wire, kind, body))["metadata"]["name"] for _ in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("gen-") and len(name) == len("gen-") + 5 for name in names)


async def test_what_exists_is_not_created_again(arena, wire):
    await created(arena, wire, "Lease", lease("a"))
    answer = await wire.ask("POST", at(arena, "Lease"), lease("a"))
    assert failure(answer) == (409, "AlreadyExists")
    assert answer.json["message"] == 'leases.coordination.k8s.io "a" already exists'
    details = {"name": "a", "group": "coordination.k8s.io", "kind": "leases"}
    assert answer.json["details"] == details


WRONG_LEASES = [
    ({"metadata": {}, "spec": {}}, (422, "Invalid")),
    ({"metadata": {"name": "Bad_Name"}, "spec": {}}, (422, "Invalid")),
    ({"metadata": {"name": "x", "namespace": "elsewhere"}}, (400, "BadRequest")),
    ({"kind": "Deployment", "apiVersion": "apps/v1", **lease("x")}, (400, "BadRequest")),
    (lease("x", leaseDurationSeconds=0), (422, "Invalid")),
    (lease("x", leaseTransitions=-1), (422, "Invalid")),
    ({**lease("x"), "spec": 3}, (400, "BadRequest")),
    ({"metadata": {"name": "x", "labels": []}}, (400, "BadRequest")),
    (b"{nonsense", (400, "BadRequest")),
    (b"", (400, "BadRequest")),
    ([1], (400, "BadRequest")),
]


async def test_a_lease_that_is_wrong_is_not_created(arena, wire):
    for body, refusal in WRONG_LEASES:
        assert failure(await wire.ask("POST", at(arena, "Lease"), body)) == refusal, body
    assert (await wire.get(at(arena, "Lease"))).json["items"] == []


async def test_an_object_to_be_created_may_have_no_version(arena, wire):
    body = {"metadata": {"name": "x", "resourceVersion": "5"}, "spec": {}}
    answer = await wire.ask("POST", at(arena, "Lease"), body)
    assert answer.status == 500
    assert answer.json["message"] == "resourceVersion should not be set on objects to be created"


async def test_a_count_that_is_left_out_is_one(arena, wire):
    body = objects.deployment("a", 1)
    del body["spec"]["replicas"]
    assert (await created(arena, wire, "Deployment", body))["spec"]["replicas"] == 1
    patch = {"spec": {"replicas": None}}
    answer = await wire.ask("PATCH", at(arena, "Deployment", "a"), patch, kind=MERGE)
    assert answer.json["spec"]["replicas"] == 1


async def test_an_invalid_object_is_named(arena, wire):
    await created(arena, wire, "Deployment", objects.deployment("a", 1))
    patch = {"spec": {"replicas": -1}}
    answer = await wire.ask("PATCH", at(arena, "Deployment", "a"), patch, kind=MERGE)
    assert failure(answer) == (422, "Invalid")
    details = answer.json["details"]
    named = {key: details[key] for key in ("name", "group", "kind")}
    assert named == {"name": "a", "group": "apps", "kind": "Deployment"}
    assert details["causes"][0]["field"] == "spec.replicas"
    assert "spec.replicas: Invalid value: -1" in answer.json["message"]


@pytest.mark.parametrize("part", ["", "/scale"])
async def test_a_merge_patch_is_one_by_its_media_type(arena, wire, part):
    await created(arena, wire, "Deployment", objects.deployment("a", 1))
    path, patch = at(arena, "Deployment", f"a{part}"), {"spec": {"replicas": 2}}
    for kind in ("application/json", "text/plain"):
        answer = await wire.ask("PATCH", path, patch, kind=kind)
        assert failure(answer) == (415, "UnsupportedMediaType")
    answer = await wire.ask("PATCH", path, patch, kind=MERGE)
    assert (answer.status, answer.json["spec"]["replicas"]) == (200, 2)


WRONG_PATCHES = [
    ({"metadata": {"resourceVersion": "1"}}, (409, "Conflict")),
    ({"metadata": {"uid": NOBODYS}}, (422, "Invalid")),
    ({"metadata": {"name": "b"}}, (400, "BadRequest")),
    ({"metadata": {"annotations": {"a b": "1"}}}, (422, "Invalid")),
    ({"metadata": {"annotations": {"a": 1}}}, (422, "Invalid")),
    ({"spec": {"replicas": -1}}, (422, "Invalid")),
    ({"spec": {"replicas": "x"}}, (422, "Invalid")),
    ({"spec": {"replicas": 1.5}}, (422, "Invalid")),
    ({"spec": {"replicas": 1 << 40}}, (422, "Invalid")),
    ({"metadata": {"labels": ["a"]}}, (422, "Invalid")),
    ({"metadata": {"annotations": "a"}}, (422, "Invalid")),
    ({"spec": []}, (422, "Invalid")),
    ({"spec": 3}, (422, "Invalid")),
    ({"spec": None}, (422, "Invalid")),
    ({"status": []}, (422, "Invalid")),
]


async def test_a_patch_that_cannot_be_made_changes_nothing(arena, wire):
    before = await created(arena, wire, "Deployment", objects.deployment("a", 1))
    path = at(arena, "Deployment", "a")
    for patch, refusal in WRONG_PATCHES:
        assert failure(await wire.ask("PATCH", path, patch, kind=MERGE)) == refusal, patch
    after = (await wire.get(path)).json
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_conflict_names_the_object_and_asks_to_try_again(arena, wire):
    await created(arena, wire, "Deployment", objects.deployment("a", 1))
    stale = {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 0}}
    for part in ("", "/scale"):
        answer = await wire.ask("PATCH", at(arena, "Deployment", f"a{part}"), stale, kind=MERGE)
        assert failure(answer) == (409, "Conflict")
        details = {"name": "a", "group": "apps", "kind": "deployments"}
        assert answer.json["details"] == details
        assert answer.json["message"] == (
            'Operation cannot be fulfilled on deployments.apps "a": the object has been modified; '
            "please apply your changes to the latest version and try again"
        )


@pytest.mark.parametrize("kind", ["Deployment", "Scaler"])
async def test_status_and_spec_are_written_apart(arena, wire, kind):
    body = objects.deployment("a", 1) if kind == "Deployment" else objects.scaler("a", 1)
    await created(arena, wire, kind, body | {"status": {"replicas": 7}})
    path = at(arena, kind, "a")
    assert not (await wire.get(path)).json.get("status")
    both = {"spec": {"replicas": 2}, "status": {"replicas": 3}}
    whole = (await wire.ask("PATCH", path, both, kind=MERGE)).json
    assert (whole["spec"]["replicas"], whole.get("status") or {}) == (2, {})
    both = {"spec": {"replicas": 4}, "status": {"replicas": 5}}
    whole = (await wire.ask("PATCH", f"{path}/status", both, kind=MERGE)).json
    assert (whole["spec"]["replicas"], whole["status"]) == (2, {"replicas": 5})
    assert (await wire.get(f"{path}/scale")).json["status"]["replicas"] == 5


@pytest.mark.parametrize(("kind", "shown"), [("Deployment", {}), ("Scaler", {"replicas": 0})])
async def test_a_status_of_zero_is_left_out_of_built_in_kinds_only(arena, wire, kind, shown):
    body = objects.deployment("a", 1) if kind == "Deployment" else objects.scaler("a", 1)
    await created(arena, wire, kind, body)
    status = {"status": {"replicas": 0}}
    path = at(arena, kind, "a/status")
    assert (await wire.ask("PATCH", path, status, kind=MERGE)).json["status"] == shown


@pytest.mark.parametrize("kind", ["Deployment", "Scaler"])
async def test_scale_is_written_by_patch(arena, wire, kind):
    body = objects.deployment("a", 1) if kind == "Deployment" else objects.scaler("a", 1)
    await created(arena, wire, kind, body)
    path = at(arena, kind, "a/scale")
    patched = await wire.ask("PATCH", path, {"spec": {"replicas": 0}}, kind=MERGE)
    assert (patched.status, patched.json["kind"], patched.json["spec"]) == (200, "Scale", {})
    answer = await wire.ask("PATCH", path, {"spec": {"replicas": -1}}, kind=MERGE)
    assert failure(answer) == (422, "Invalid")
    assert (await wire.get(at(arena, kind, "a"))).json["spec"]["replicas"] == 0


async def test_a_lease_is_replaced_on_the_version_that_was_read(arena, wire):
    before = await created(arena, wire, "Lease", lease("a"))
    path = at(arena, "Lease", "a")
    after = (await wire.ask("PUT", path, before | {"spec": {"holderIdentity": "y"}})).json
    assert after["spec"] == {"holderIdentity": "y"}
    for key in ("uid", "creationTimestamp", "name", "namespace"):
        assert after["metadata"][key] == before["metadata"][key]
    answer = await wire.ask("PUT", path, before | {"spec": {"holderIdentity": "z"}})
    assert failure(answer) == (409, "Conflict")
    assert (await wire.get(path)).json["spec"] == {"holderIdentity": "y"}


async def test_what_is_replaced_with_itself_stays_at_its_version(arena, wire):
    before = await created(arena, wire, "Lease", lease("a"))
    answer = await wire.ask("PUT", at(arena, "Lease", "a"), before)
    assert answer.status == 200
    assert answer.json["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_lease_is_not_replaced_without_a_version(arena, wire):
    await created(arena, wire, "Lease", lease("a"))
    answer = await wire.ask("PUT", at(arena, "Lease", "a"), lease("a"))
    assert failure(answer) == (422, "Invalid")
    assert "must be specified for an update" in answer.json["message"]


async def test_a_replacement_of_what_is_not_there_makes_a_lease_only(arena, wire):
    assert (await wire.ask("PUT", at(arena, "Lease", "a"), lease("a"))).status == 201
    answer = await wire.ask("PUT", at(arena, "EndpointSlice", "a"), slice_of("x", "a", True))
    assert failure(answer) == (404, "NotFound")


async def test_a_lease_that_is_gone_is_not_replaced_by_who_had_read_it(arena, wire):
    before = await created(arena, wire, "Lease", lease("a"))
    path = at(arena, "Lease", "a")
    await wire.ask("DELETE", path)
    assert failure(await wire.ask("PUT", path, before)) == (409, "Conflict")
    version = {"name": "a", "resourceVersion": before["metadata"]["resourceVersion"]}
    answer = await wire.ask("PUT", path, before | {"metadata": version})
    assert answer.status == 201
    assert answer.json["metadata"]["uid"] != before["metadata"]["uid"]


async def test_a_replacement_must_be_of_the_object_that_is_there(arena, wire):
    before = await created(arena, wire, "Lease", lease("a"))
    for metadata, refusal in (
        ({"name": "b"}, (400, "BadRequest")),
        ({"name": ""}, (400, "BadRequest")),
        ({"uid": NOBODYS}, (409, "Conflict")),
        ({"namespace": "elsewhere"}, (400, "BadRequest")),
    ):
        body = before | {"metadata": before["metadata"] | metadata}
        answer = await wire.ask("PUT", at(arena, "Lease", "a"), body)
        assert failure(answer) == refusal, metadata


@pytest.mark.parametrize("kind", ["Lease", "Scaler", "Pause"])
async def test_a_deletion_is_answered_with_success(arena, wire, kind):
    body = {"Lease": lease("a"), "Scaler": objects.scaler("a", 1), "Pause": PAUSE}[kind]
    before = await created(arena, wire, kind, body)
    answer = await wire.ask("DELETE", at(arena, kind, "a"))
    assert (answer.status, answer.json["kind"], answer.json["status"]) == (200, "Status", "Success")
    details = answer.json["details"]
    assert details["uid"] == before["metadata"]["uid"]
    assert (details["name"], details["kind"]) == ("a", KINDS[kind].plural)


@pytest.mark.parametrize(
    ("method", "name"), [("PUT", ""), ("PATCH", ""), ("POST", "a")], ids=lambda each: each or "all"
)
async def test_a_method_that_a_path_does_not_have_is_not_allowed(arena, wire, method, name):
    kind = MERGE if method == "PATCH" else "application/json"
    answer = await wire.ask(method, at(arena, "Lease", name), lease("a"), kind=kind)
    assert failure(answer) == (405, "MethodNotAllowed")
    assert answer.json["details"] == {}


def event(arena, **changes):
    regarding = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
    return {
        "metadata": {"name": "e"},
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "reportingController": "dependency-watchdog",
        "reportingInstance": "one",
        "action": "ScaleDown",
        "reason": "ScaledDown",
        "regarding": {**regarding, "namespace": arena.namespace},
        "note": "why",
        "type": "Normal",
    } | changes


async def test_an_event_is_created_as_it_is(arena, wire):
    found = await created(arena, wire, "Event", event(arena))
    assert (found["kind"], found["apiVersion"]) == ("Event", "events.k8s.io/v1")
    for key in ("reason", "note", "type", "action", "eventTime", "regarding"):
        assert found[key] == event(arena)[key]


async def test_an_event_that_is_wrong_is_invalid(arena, wire):
    for changes in (
        {"eventTime": None},
        {"reportingController": ""},
        {"reportingController": "no spaces, please"},
        {"reportingInstance": ""},
        {"reportingInstance": "x" * 129},
        {"action": ""},
        {"action": "x" * 129},
        {"reason": ""},
        {"reason": "x" * 129},
        {"note": "x" * 1025},
        {"type": "Weird"},
    ):
        answer = await wire.ask("POST", at(arena, "Event"), event(arena, **changes))
        assert failure(answer) == (422, "Invalid"), changes


async def test_an_event_of_what_is_in_no_namespace_is_in_default(arena, wire):
    cluster = {"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Cluster", "name": "x"}
    answer = await wire.ask("POST", at(arena, "Event"), event(arena, regarding=cluster))
    assert failure(answer) == (422, "Invalid")
    path = KINDS["Event"].path("default")
    body = event(arena, regarding=cluster, metadata={"name": f"{arena.namespace}.1"})
    answer = await wire.ask("POST", path, body)
    assert answer.status == 201, answer.text


NEGATIVE = objects.deployment("b", -1)
LABELS = {"metadata": {"labels": {"z": "1"}}}
JSON, TEXT = "application/json", "text/plain"
REFUSED = {
    "a Deployment of -1": ("POST", "Deployment", "", NEGATIVE, JSON, (422, "Invalid")),
    **{
        f"a Scaler of {count}": (
            *("PATCH", "Scaler", "a", {"spec": {"replicas": count}}, MERGE, (422, "Invalid")),
        )
        for count in (-1, "x", 1.5)
    },
    **{
        f"the patch {body!r}": ("PATCH", "Deployment", "a", body, MERGE, (400, "BadRequest"))
        for body in (b"{", b"[]", b"", b'"text"')
    },
    "a strategic patch of a custom kind": (
        *("PATCH", "Scaler", "a", LABELS, STRATEGIC, (415, "UnsupportedMediaType")),
    ),
    "text": ("POST", "Lease", "", lease("a"), TEXT, (415, "UnsupportedMediaType")),
    "a patch of nothing": ("PATCH", "Deployment", "nope", {}, MERGE, (404, "NotFound")),
    "a deletion of nothing": ("DELETE", "Deployment", "nope", None, JSON, (404, "NotFound")),
}


async def test_a_write_that_is_wrong_is_refused(arena, wire):
    await created(arena, wire, "Deployment", objects.deployment("a", 1))
    await created(arena, wire, "Scaler", objects.scaler("a", 1))
    for what, (method, kind, name, body, media, refusal) in REFUSED.items():
        answer = await wire.ask(method, at(arena, kind, name), body, kind=media)
        assert failure(answer) == refusal, what


async def test_built_in_kinds_take_strategic_patches(arena, wire):
    await created(arena, wire, "Deployment", objects.deployment("a", 1))
    answer = await wire.ask("PATCH", at(arena, "Deployment", "a"), LABELS, kind=STRATEGIC)
    assert answer.json["metadata"]["labels"] == {"z": "1"}
