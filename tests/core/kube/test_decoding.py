"""From raw JSON to records: what is read, what is defaulted, what is refused."""

import json
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadAnswer, LimitExceeded
from app.core.kube.decoding import envelope, pod_objects, seed_objects, shoot_objects
from app.core.kube.decoding import overrides as codec
from app.core.model import shoots
from app.core.model import workloads as ann
from app.core.model.overrides import ObjectId, ScaleRequest, Scope
from app.core.model.scaling_runs import OperationPhase, ScaleSpec
from app.core.model.workloads import Direction, ResourceRef, ScaleView

T = TypeVar("T")
OBJECTS = yaml.safe_load((Path(__file__).parent / "objects.yaml").read_text())
SHOOT, STATUS = OBJECTS["shoot"], OBJECTS["status of a scale request"]
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
OTHER = ResourceRef("example.org/v1", "Scaler", "thing")


def done(steps: Generator[None, None, T]) -> T:
    """What they come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what it returns is what it is of


def counted(steps, found):
    """Its steps; what they come to is put into `found`."""
    found.append((yield from steps))


def leases(body) -> envelope.RawPage[shoots.LeaseView]:
    return done(shoot_objects.leases(body))


def nodes(body) -> envelope.RawPage[shoots.NodeView]:
    return done(shoot_objects.nodes(body))


def raw(thing) -> bytes:
    return json.dumps(thing, separators=(",", ":")).encode()  # as Kubernetes writes it


def listed(kind, items, **meta):
    return raw({"kind": kind, "metadata": {"resourceVersion": "7", **meta}, "items": items})


def lease(name, renew=None, seconds=40):
    return {
        "metadata": {"name": name},
        "spec": {"renewTime": renew, "leaseDurationSeconds": seconds},
    }


def test_leases_are_read_with_their_times():
    page = leases(
        listed("LeaseList", [lease("n1", "1970-01-01T00:01:40.500000Z")], **{"continue": "more"})
    )
    assert page.items == (shoots.LeaseView("n1", 100.5, 40),)
    assert (page.resource_version, page.continues) == ("7", "more")


@pytest.mark.parametrize(
    "renew", [None, "", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00"]
)
def test_a_lease_whose_time_makes_no_sense_has_none(renew):
    assert leases(listed("LeaseList", [lease("n1", renew)])).items[0].renew_time is None


def test_of_a_key_that_is_there_twice_the_last_value_counts():
    text = listed("LeaseList", [lease("n1", "1970-01-01T00:00:10Z")]).decode()
    for first, second in (
        ('"name":"n1"', '"name":"n0","name":"n1"'),
        ('"kind":"LeaseList"', '"kind":"Status","kind":"LeaseList"'),
        ('"renewTime"', '"renewTime":"1970-01-01T00:09:00Z","renewTime"'),
        ('"items"', '"items":[{"metadata":{"name":"n9"}}],"items"'),
    ):
        assert first in text
        page = leases(text.replace(first, second, 1).encode())
        assert page.items == (shoots.LeaseView("n1", 10.0, 40),)


def test_a_lease_of_the_year_9999_has_a_time_that_can_be_counted_with():
    got = leases(listed("LeaseList", [lease("n1", "9999-12-31T23:59:59Z")])).items[0]
    assert got.renew_time is not None
    assert got.renew_time > 2.5e11


@pytest.mark.parametrize("spec", [{}, None, {"renewTime": None, "leaseDurationSeconds": None}])
def test_a_lease_may_have_nothing_in_it(spec):
    page = leases(listed("LeaseList", [{"metadata": {"name": "n"}, "spec": spec}]))
    assert page.items == (shoots.LeaseView("n", None, None),)


def long_list(kind, items, **meta):
    """Items that are padded where nobody looks, so that they are no short list."""
    padded = [each | {"padding": "x" * (1_000_000 // len(items))} for each in items]
    return listed(kind, padded, **meta)


def test_a_long_list_is_read_item_by_item():
    items = [lease(f"n{number}", "1970-01-01T00:01:40Z") for number in range(1000)]
    body = bytearray(long_list("LeaseList", items, **{"continue": "more"}))
    found: list[envelope.RawPage[shoots.LeaseView]] = []
    steps = list(counted(shoot_objects.leases(body), found))
    (page,) = found
    assert len(steps) == 1000
    assert page.items == tuple(shoots.LeaseView(f"n{n}", 100.0, 40) for n in range(1000))
    assert page.continues == "more"
    assert page.resource_version == "7"
    body.clear()  # nothing looks into it any more


def test_a_list_is_read_alike_whether_it_is_long_or_short():
    named = [{"metadata": {"name": f"n{number}", "labels": {}}} for number in range(3)]
    assert nodes(long_list("NodeList", named)) == nodes(listed("NodeList", named))


NAMED = {"metadata": {"name": "n"}}
NO_LISTS = {
    "white space after it": listed("NodeList", []) + b" " * 2_000_000,
    "no end": b'{"items":[' + b"[" * 300_000,
    "written by nobody whom we know": long_list("NodeList", [NAMED]).replace(
        b'"items":[', b'"items": ['
    ),
    "a long item": listed("NodeList", [NAMED | {"padding": "x" * 2_000_000}]),
    "a long beginning": raw({"kind": "NodeList", "metadata": {"x": "x" * 2_000_000}, "items": []}),
    "another kind": long_list("LeaseList", [NAMED]),
    "a name that is none": long_list("NodeList", [{"metadata": {"name": 7}}]),
    "what looks like an item in an item": long_list(
        "NodeList", [NAMED | {"x": [{}, {"metadata": {}}]}]
    ),
    "too many items": listed("NodeList", [NAMED] * 10_001),
    "too many items in a long list": listed("NodeList", [NAMED | {"x": "x" * 50}] * 10_001),
}


@pytest.mark.parametrize("body", NO_LISTS.values(), ids=NO_LISTS)
def test_a_long_list_that_is_no_list_of_kubernetes_is_refused(body):
    with pytest.raises((BadAnswer, LimitExceeded, msgspec.MsgspecError)):
        nodes(body)


def test_a_token_that_no_server_would_send_is_refused():
    with pytest.raises(msgspec.ValidationError):
        leases(listed("LeaseList", [], **{"continue": "x" * 5000}))


def test_null_lists_are_empty():
    assert leases(raw({"kind": "LeaseList", "metadata": None, "items": None})).items == ()


@pytest.mark.parametrize("kind", ["Status", "NodeList", None])
def test_another_kind_is_a_bad_answer(kind):
    for read in (leases, envelope.raw_page("Cluster")):
        with pytest.raises(BadAnswer):
            read(raw({"kind": kind, "metadata": {}, "items": []}))


@pytest.mark.parametrize("thing", OBJECTS["no lists of leases"])
def test_wrong_types_are_refused(thing):
    with pytest.raises(msgspec.MsgspecError):
        leases(raw(thing))


def test_a_node_has_what_rules_read_and_nothing_else():
    assert nodes(listed("NodeList", [OBJECTS["node"]])).items == (
        shoots.NodeView(
            "n1", "a", "z1", True, frozenset({"Ready", "InPlaceUpdate"}), "ReadyForUpdate"
        ),
    )


@pytest.mark.parametrize("empty", [{}, {"labels": None, "annotations": None}])
def test_a_bare_node_is_a_node(empty):
    for status in ({}, None, {"conditions": None}):
        page = nodes(listed("NodeList", [{"metadata": {"name": "n", **empty}, "status": status}]))
        assert page.items == (shoots.NodeView("n"),)


def test_an_in_place_update_that_is_over_has_no_reason():
    conditions = [{"type": "InPlaceUpdate", "status": "False", "reason": "UpdateFailed"}]
    node = {"metadata": {"name": "n"}, "status": {"conditions": conditions}}
    assert nodes(listed("NodeList", [node])).items[0].in_place_update is None


def with_conditions(number, types, **meta):
    conditions = [{"type": each, "status": "True"} for each in types]
    return {"metadata": {"name": f"n{number}", **meta}, "status": {"conditions": conditions}}


def test_nodes_with_the_same_conditions_share_them():
    page = nodes(listed("NodeList", [with_conditions(n, ["Ready", "Odd"]) for n in range(3)]))
    first, *others = [each.conditions for each in page.items]
    assert first == {"Ready", "Odd"}
    assert all(each is first for each in others)


@pytest.mark.parametrize(
    "types",
    [
        lambda number: [f"{number}-{each}" for each in range(20)],
        lambda number: [str(number), "x" * 10_000],
    ],
    ids=["many", "long"],
)
def test_nodes_may_not_have_conditions_of_their_own_without_end(types):
    """Five thousand of them would be kept, four times as large as they came."""
    few = [with_conditions(number, types(number)) for number in range(50)]
    many = [with_conditions(number, types(number)) for number in range(1_000)]
    assert len(nodes(listed("NodeList", few)).items) == 50
    with pytest.raises(LimitExceeded) as caught:
        nodes(listed("NodeList", many))
    assert caught.value.limit == "count"


@pytest.mark.parametrize("label", ["worker.gardener.cloud/pool", "topology.kubernetes.io/zone"])
def test_a_label_is_no_longer_than_kubernetes_takes(label):
    fits = with_conditions(1, [], labels={label: "a" * 63})
    assert nodes(listed("NodeList", [fits])).items
    with pytest.raises(msgspec.ValidationError):
        nodes(listed("NodeList", [with_conditions(1, [], labels={label: "a" * 64})]))


@pytest.mark.parametrize(("read", "kind"), [(leases, "LeaseList"), (nodes, "NodeList")])
def test_so_is_a_name(read, kind):
    assert read(listed(kind, [{"metadata": {"name": "n" * 253}}])).items
    with pytest.raises(msgspec.ValidationError):
        read(listed(kind, [{"metadata": {"name": "n" * 254}}]))


def test_of_a_long_reason_no_more_is_kept_than_is_compared():
    update = {"type": "InPlaceUpdate", "status": "True", "reason": "Update" * 100_000}
    node = {"metadata": {"name": "n"}, "status": {"conditions": [update]}}
    kept = nodes(listed("NodeList", [node])).items[0].in_place_update
    assert kept is not None
    assert len(kept) < 100


def test_machines_have_node_and_phase():
    full = {
        "metadata": {"name": "m1", "labels": {"node": "n1"}},
        "status": {"currentStatus": {"phase": "Running"}},
    }
    new = {"metadata": {"name": "m2", "labels": None}, "status": {"currentStatus": None}}
    assert seed_objects.machine(raw(full)) == shoots.MachineView("m1", "n1", "Running")
    assert seed_objects.machine(raw(new)) == shoots.MachineView("m2", None, "")


def cluster(shoot, **meta):
    return raw(
        {
            "metadata": {"name": "shoot--a--b", "resourceVersion": "5", **meta},
            "spec": {"shoot": shoot, "seed": {}, "cloudProfile": {"x": [1, 2]}},
        }
    )


def test_a_cluster_shows_its_shoot():
    assert seed_objects.cluster(cluster(SHOOT)) == shoots.ClusterView(
        "shoot--a--b",
        "5",
        shoots.ShootView(
            hibernation_enabled=True,
            is_hibernated=True,
            last_operation=shoots.LastOperation("Reconcile", "Succeeded", 10.0),
            workers=(
                shoots.WorkerPool("a", shoots.DEFAULT_NODE_CONDITIONS),
                shoots.WorkerPool("b", frozenset({"X", "Y"})),
            ),
            node_monitor_grace=80.0,
        ),
    )


def test_deletion_shows_on_either():
    assert seed_objects.cluster(cluster(SHOOT, deletionTimestamp="2026-01-01T00:00:00Z")).deleting
    dying = SHOOT | {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    shoot = seed_objects.cluster(cluster(dying)).shoot
    assert isinstance(shoot, shoots.ShootView)
    assert shoot.deleting


@pytest.mark.parametrize(
    ("workers", "self_hosted"),
    [
        # As Gardener writes them: `controlPlane` is there for the pool of a self-hosted shoot, empty or not.
        ([{"name": "cp", "controlPlane": {}}, {"name": "w"}], True),
        ([{"name": "cp", "controlPlane": {"backup": {"provider": "local"}}}], True),
        ([{"name": "w", "controlPlane": None}], False),
        ([{"name": "w"}], False),
    ],
)
def test_a_shoot_whose_control_plane_runs_in_a_worker_pool_is_self_hosted(workers, self_hosted):
    view = seed_objects.cluster(cluster({"spec": {"provider": {"workers": workers}}})).shoot
    assert isinstance(view, shoots.ShootView)
    assert view.self_hosted is self_hosted


def test_an_empty_shoot_is_one_without_workers():
    assert seed_objects.cluster(cluster({"spec": {}})).shoot == shoots.ShootView()


@pytest.mark.parametrize(("shoot", "said"), OBJECTS["undecodable shoots"])
def test_a_shoot_that_cannot_be_decoded_says_why_and_keeps_its_cluster(shoot, said):
    view = seed_objects.cluster(cluster(shoot))
    assert isinstance(view.shoot, shoots.Undecodable)
    assert said in view.shoot.reason
    assert (view.name, view.resource_version) == ("shoot--a--b", "5")


def test_a_worker_has_at_most_32_node_conditions():
    def view(number):
        conditions = [f"C{each}" for each in range(number)]
        worker = {"name": "w", "machineControllerManager": {"nodeConditions": conditions}}
        return seed_objects.cluster(cluster({"spec": {"provider": {"workers": [worker]}}})).shoot

    assert len(view(32).workers[0].node_conditions) == 32
    assert isinstance(view(33), shoots.Undecodable)


@pytest.mark.parametrize("spec", [None, [], "x"])
def test_a_cluster_of_which_only_the_name_can_be_read_is_undecodable(spec):
    view = seed_objects.cluster(
        raw({"metadata": {"name": "c", "resourceVersion": "1"}, "spec": spec})
    )
    assert isinstance(view.shoot, shoots.Undecodable)


def test_a_secret_gives_its_kubeconfig_and_nothing_else():
    meta = {"name": "s", "namespace": "ns", "resourceVersion": "3"}
    got = seed_objects.secret(raw({"metadata": meta, "data": {"kubeconfig": "YWJj", "other": 5}}))
    assert (got.namespace, got.resource_version, got.kubeconfig) == ("ns", "3", b"abc")
    for data in ({}, None, {"kubeconfig": None}):
        assert seed_objects.secret(raw({"metadata": meta, "data": data})).kubeconfig is None


def workload(spec=None, status=None, **meta):
    meta = {
        "name": "kube-controller-manager",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "9",
    } | meta
    return {"metadata": meta, "spec": spec, "status": status}


def test_what_go_leaves_out_of_a_deployment_is_what_kubernetes_means():
    got = seed_objects.workload(KCM)(raw(workload({}, {}, generation=2)))
    assert (got.replicas, got.ready, got.current) == (1, 0, 0)
    assert (got.generation, got.observed_generation) == (2, 0)
    assert not got.observed
    assert seed_objects.workload(KCM)(raw(workload({"replicas": 0}))).replicas == 0


@pytest.mark.parametrize(
    ("of", "field", "path"),
    [
        ("spec", "replicas", r"\$\.spec\.replicas"),
        ("status", "readyReplicas", r"\$\.status\.readyReplicas"),
        ("status", "replicas", r"\$\.status\.replicas"),
        ("status", "observedGeneration", r"\$\.status\.observedGeneration"),
    ],
)
def test_a_count_of_a_deployment_that_is_none_is_an_error_that_names_it(of, field, path):
    given = raw(workload(**{of: {field: "many"}}))
    with pytest.raises(msgspec.ValidationError, match=rf"`int \| null`, got `str` - at `{path}`"):
        seed_objects.workload(KCM)(given)


def test_only_our_annotations_are_kept():
    annotations = {ann.MELTDOWN: "", ann.REPLICAS: "3", "kubectl": "x" * 1000}
    got = seed_objects.workload(KCM)(raw(workload(annotations=annotations)))
    assert got.annotations == {ann.MELTDOWN: "", ann.REPLICAS: "3"}
    assert got.protected


def test_a_scale_at_zero_leaves_its_replicas_out():
    meta = {"name": "x", "resourceVersion": "4"}
    scale = {"kind": "Scale", "metadata": meta, "spec": {}, "status": {"replicas": 2}}
    assert seed_objects.scale(raw(scale)) == ScaleView("4", 0, 2)
    assert seed_objects.scale(raw(scale | {"status": None})).current is None


def test_a_bookmark_has_no_name():
    event = raw({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12"}}})
    assert envelope.bookmark(envelope.watch_event(event).object) == "12"


def test_discovery_tells_the_plural_of_each_kind():
    resources = [
        {"name": "scalers", "kind": "Scaler"},
        {"name": "scalers/scale", "kind": "Scale"},
        {"name": "things", "kind": "Thing"},
    ]
    got = envelope.resource_list(raw({"kind": "APIResourceList", "resources": resources}))
    assert got == (("Scaler", "scalers"), ("Thing", "things"))


OF_PODS = (
    *("containers", "containerStatuses", "initContainerStatuses", "conditions", "ownerReferences"),
    *("state", "waiting", "running", "terminated", "lastState", "ports", "targetRef", "ready"),
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "metadata", "items", "spec", "status", "name", "shoot", *OF_PODS]
            ),
            inner,
        )
    ),
    max_leaves=20,
)
READERS = (
    *(leases, nodes, shoot_objects.version),
    *(seed_objects.machine, seed_objects.cluster, seed_objects.secret, seed_objects.scale),
    *(seed_objects.workload(KCM), seed_objects.workload(OTHER)),
    *(pod_objects.pod, pod_objects.endpoint_slice, pod_objects.probed_pod),
)


@given(JUNK, st.sampled_from(["spec", "status", "endpoints", "items", "metadata"]))
def test_any_json_is_a_record_or_an_error_of_the_tree(thing, place):
    """As a whole, and in the place of a part of what is one otherwise."""
    for read in READERS:
        for given_ in (thing, {"metadata": {"name": "n", "resourceVersion": "1"}, place: thing}):
            with suppress(msgspec.MsgspecError, BadAnswer):
                read(raw(given_))


def other(replicas):
    return seed_objects.workload(OTHER)(
        b'{"metadata":{"name":"e"},"spec":{"replicas":%s},"status":{"replicas":%s}}'
        % (replicas, replicas)
    )


@pytest.mark.parametrize("text", [b"true", b'"3"', b"[]", b"1.5", b"null", b"9" * 400_000])
def test_what_is_no_count_in_an_object_of_another_kind_is_none(text):
    got = other(text)
    assert (got.replicas, got.ready, got.current, got.observed_generation) == (None,) * 4
    assert got.observed
    assert (other(b"3").replicas, other(b"3").current) == (3, 3)


def test_what_another_kind_has_for_a_count_is_not_decoded_if_it_is_long():
    begun = time.thread_time()
    other(b"[" + b",".join([b"[[[[]]]]"] * 155_000) + b"]")
    assert time.thread_time() - begun < 0.05


# Pauses and ScaleRequests.


def custom(kind, spec, status=None, **meta):
    metadata = {
        "name": "o",
        "namespace": "shoot--a",
        "uid": "u",
        "resourceVersion": "5",
        "creationTimestamp": "2026-11-20T14:00:00Z",
    } | meta
    body = {"kind": kind, "metadata": metadata, "spec": spec, "status": status}
    return json.dumps(body).encode()


CREATED = 1_795_183_200.0


def test_a_pause_without_scope_author_and_end_is_of_everything_by_nobody_known_for_a_day():
    found = codec.pause(custom("Pause", {"reason": "r"}))
    assert found.scope is Scope.ALL
    assert (found.author, found.verified, found.problem) == ("unknown", False, None)
    assert (found.created_at, found.until) == (CREATED, CREATED + 86_400)
    assert found.id == ObjectId("shoot--a", "o", "u", "5")


def test_what_a_pause_says_counts_in_small_letters_too_and_the_mark_of_the_api_vouches_for_its_author():
    spec = {"reason": "r", "scope": "scaleDown", "until": "2026-11-20t15:00:00z", "author": "a"}
    by = {"dependency-watchdog.gardener.cloud/created-by": "pod"}
    raw = custom("Pause", spec, {"until": "2026-11-20T15:00:00Z"}, annotations=by)
    found = codec.pause(raw)
    assert (found.scope, found.author, found.verified) == (Scope.SCALE_DOWN, "a", True)
    assert found.problem is None
    assert found.until == found.told_until == CREATED + 3_600


@pytest.mark.parametrize("spec", OBJECTS["pauses that cannot be decoded"])
def test_a_pause_that_this_version_cannot_decode_pauses_everything_for_a_day_and_says_why(spec):
    found = codec.pause(custom("Pause", spec))
    assert (found.scope, found.until) == (Scope.ALL, CREATED + 86_400)
    assert found.problem
    assert found.problem in found.reason


@pytest.mark.parametrize(
    ("kind", "decode", "spec"),
    [
        ("Pause", codec.pause, {"reason": "r"}),
        ("Pause", codec.pause, {"reason": 1}),
        ("ScaleRequest", codec.scale_request, {"direction": "Down", "reason": "r"}),
    ],
)
def test_one_that_a_finalizer_keeps_is_as_good_as_deleted(kind, decode, spec):
    assert not decode(custom(kind, spec)).deleting
    assert decode(custom(kind, spec, deletionTimestamp="2026-11-20T15:00:00Z")).deleting


def test_a_reason_is_one_line_without_secrets():
    found = codec.pause(custom("Pause", {"reason": "a\nb\x00 token=abcdefghijklmnop"}))
    assert found.reason.startswith("a b ")
    assert "abcdefghijklmnop" not in found.reason


def test_a_request_without_status_is_pending_and_holds_for_half_an_hour():
    found = codec.scale_request(custom("ScaleRequest", {"direction": "Down", "reason": "r"}))
    assert (found.spec.direction, found.spec.hold, found.spec.force) == (
        Direction.DOWN,
        1_800,
        False,
    )
    assert (found.phase, found.open, found.steps) == (OperationPhase.PENDING, True, ())


(STEP,) = STATUS["steps"]


def test_a_status_is_written_as_it_is_read():
    raw = custom("ScaleRequest", {"direction": "Up", "reason": "r", "hold": "1h30m"}, STATUS)
    found = codec.scale_request(raw)
    assert (found.phase, found.spec.hold, found.open) == (OperationPhase.DONE, 5_400, False)
    assert codec.scale_status(found) == {**STATUS, "steps": [{**STEP, "message": ""}]}


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (None, None),
        ({"direction": "down", "reason": "r"}, None),
        ({"direction": "Down", "reason": "r", "hold": "soon"}, None),
        ({"direction": "Down", "reason": "r"}, {"phase": "Dreaming"}),
        ({"direction": "Down", "reason": "r"}, {"steps": [STEP] * 1_001}),
    ],
)
def test_of_a_request_that_this_version_cannot_decode_nothing_is_done(spec, status):
    found = codec.scale_request(custom("ScaleRequest", spec, status))
    assert found.problem
    assert not found.open


def test_a_step_in_words_of_another_version_is_left_out_and_the_rest_counts():
    strange = {**STEP, "phase": "Dreaming"}
    raw = custom("ScaleRequest", {"direction": "Up", "reason": "r"}, {"steps": [strange, STEP, {}]})
    found = codec.scale_request(raw)
    assert (found.problem, len(found.steps)) == (None, 1)


@pytest.mark.parametrize("decode", [codec.pause, codec.scale_request, seed_objects.workload(KCM)])
def test_an_object_of_another_kind_is_a_bad_answer(decode):
    with pytest.raises(BadAnswer):
        decode(custom("ConfigMap", {"reason": "r", "direction": "Up"}))


@pytest.mark.parametrize(("hold", "text"), [(0.0, "0s"), (0.0000001, "1ms"), (5_400, "1h30m0s")])
def test_a_hold_is_written_in_what_the_api_server_accepts(hold, text):
    asked = ScaleSpec(Direction.UP, "r", "a", hold)
    assert codec.scale_spec(ScaleRequest(ObjectId(), asked, 0.0))["hold"] == text
