"""The store behaves as an API server's does."""

import pytest

from app.core.errors import Conflict, Expired, Invalid, NotFound
from app.simulation.store import Happened, ObjectKey, Store, StoreEvent, merge, version_of
from app.simulation.validation import Rejected

A = ObjectKey("Deployment", "ns", "a")
B = ObjectKey("Deployment", "ns", "b")


@pytest.fixture
def store() -> Store:
    store = Store(history=5)
    store.create(A, {"apiVersion": "apps/v1", "spec": {"replicas": 1}})
    return store


def test_null_removes_objects_merge_and_everything_else_replaces():
    target = {"a": {"x": 1, "y": 2}, "b": [1, 2], "c": "text", "d": 1}
    patch = {"a": {"x": None, "z": 3}, "b": [9], "c": {"deep": {"gone": None}}, "e": None}
    assert merge(target, patch) == {
        "a": {"y": 2, "z": 3},
        "b": [9],
        "c": {"deep": {}},
        "d": 1,
    }


def test_a_merge_leaves_what_others_hold_unchanged(store):
    before = store.get(A)
    store.patch(A, {"spec": {"replicas": 0}, "metadata": {"annotations": {"k": "v"}}})
    assert before["spec"] == {"replicas": 1}
    assert "annotations" not in before["metadata"]


def test_every_write_gets_the_next_version_of_the_whole_store(store):
    first = int(version_of(store.get(A)))
    other = store.create(B, {"apiVersion": "apps/v1", "spec": {"replicas": 1}})
    changed = store.patch(A, {"spec": {"replicas": 2}})
    assert [int(version_of(other)), int(version_of(changed))] == [first + 1, first + 2]
    assert store.version == first + 2


def test_a_write_that_changes_nothing_gets_no_version(store):
    before = store.version
    assert store.patch(A, {"spec": {"replicas": 1}, "metadata": {"labels": None}})
    assert store.version == before


@pytest.mark.parametrize(("kind", "generation"), [("Deployment", 2), ("StatefulSet", 1)])
def test_new_annotations_begin_a_generation_of_a_deployment_only(store, kind, generation):
    key = ObjectKey(kind, "ns", "x")
    store.create(key, {"spec": {"replicas": 1}})
    store.patch(key, {"metadata": {"annotations": {"k": "v"}}})
    assert store.get(key)["metadata"]["generation"] == generation


def test_a_new_spec_begins_a_generation_and_labels_and_status_do_not(store):
    store.patch(A, {"metadata": {"labels": {"k": "v"}}})
    store.patch(A, {"status": {"replicas": 1}}, status=True)
    assert store.get(A)["metadata"]["generation"] == 1
    store.patch(A, {"spec": {"replicas": 0}})
    assert store.get(A)["metadata"]["generation"] == 2


def test_a_count_that_is_left_out_or_removed_is_one(store):
    store.create(B, {"spec": {}})
    assert store.get(B)["spec"]["replicas"] == 1
    store.patch(A, {"spec": {"replicas": 5}})
    assert store.patch(A, {"spec": {"replicas": None}})["spec"]["replicas"] == 1


@pytest.mark.parametrize("spec", [{"replicas": -1}, {"replicas": "1"}, {"replicas": 1 << 31}])
def test_a_count_that_is_none_is_refused_and_changes_nothing(store, spec):
    before = store.get(A)
    with pytest.raises(Invalid):
        store.patch(A, {"spec": spec})
    assert store.get(A) is before
    with pytest.raises(Rejected):
        store.create(ObjectKey("Scaler", "ns", "a"), {"spec": spec})


def test_a_patch_that_was_decided_on_an_older_version_conflicts_and_changes_nothing(store):
    old = version_of(store.get(A))
    store.patch(A, {"metadata": {"annotations": {"k": "v"}}})
    before = store.get(A)
    with pytest.raises(Conflict) as caught:
        store.patch(A, {"metadata": {"resourceVersion": old}, "spec": {"replicas": 0}})
    assert caught.value.status == 409
    assert store.get(A) is before


def test_a_patch_on_the_current_version_is_accepted(store):
    version = version_of(store.get(A))
    store.patch(A, {"metadata": {"resourceVersion": version}, "spec": {"replicas": 0}})
    assert store.get(A)["spec"] == {"replicas": 0}


def test_a_patch_of_the_object_leaves_its_status_alone_and_the_other_way_round(store):
    store.patch(A, {"status": {"replicas": 7}, "spec": {"replicas": 3}})
    assert "status" not in store.get(A)
    store.patch(A, {"status": {"replicas": 3}, "spec": {"replicas": 9}}, status=True)
    assert store.get(A)["spec"] == {"replicas": 3}
    assert store.get(A)["status"] == {"replicas": 3}


def test_nobody_can_patch_what_the_server_owns(store):
    before = store.get(A)["metadata"]
    store.patch(A, {"metadata": {"uid": "mine", "generation": 99, "name": "z"}})
    assert store.get(A)["metadata"] == before


def test_an_object_that_is_created_again_is_another_one(store):
    uid = store.get(A)["metadata"]["uid"]
    store.delete(A)
    again = store.create(A, {"apiVersion": "apps/v1", "spec": {"replicas": 1}})
    assert again["metadata"]["uid"] != uid


def test_replace_keeps_uid_and_drops_what_is_no_longer_said(store):
    uid = store.get(A)["metadata"]["uid"]
    store.patch(A, {"metadata": {"annotations": {"k": "v"}}})
    replaced = store.replace(A, {"apiVersion": "apps/v1", "spec": {"paused": True}})
    assert replaced["spec"] == {"paused": True, "replicas": 1}
    assert "annotations" not in replaced["metadata"]
    assert (replaced["metadata"]["uid"], replaced["metadata"]["generation"]) == (uid, 3)
    with pytest.raises(Conflict):
        store.replace(A, {"metadata": {"resourceVersion": "1"}, "spec": {}})


def test_what_is_not_there_is_not_found(store):
    for action in (store.get, store.delete, lambda key: store.patch(key, {})):
        with pytest.raises(NotFound):
            action(B)
    assert store.find(B) is None


def test_a_name_can_be_taken_once(store):
    with pytest.raises(Conflict):
        store.create(A, {})


def test_a_delete_that_was_decided_on_an_older_version_conflicts(store):
    with pytest.raises(Conflict):
        store.delete(A, resource_version="0")
    assert store.find(A)


def test_a_list_is_ordered_by_name_and_can_be_limited_to_a_namespace(store):
    store.create(ObjectKey("Deployment", "other", "c"), {})
    store.create(ObjectKey("Deployment", "ns", "Z"), {})
    assert [o["metadata"]["name"] for o in store.list("Deployment")] == ["Z", "a", "c"]
    assert [o["metadata"]["name"] for o in store.list("Deployment", "other")] == ["c"]
    assert store.list("Nothing") == ()


def test_a_watch_sees_each_change_after_its_version_in_order(store):
    start = store.version
    store.create(B, {"spec": {}})
    store.patch(B, {"spec": {"replicas": 2}})
    store.delete(B)
    events = store.since(start)
    assert [event.happened for event in events] == [
        Happened.ADDED,
        Happened.MODIFIED,
        Happened.DELETED,
    ]
    assert [event.version for event in events] == [start + 1, start + 2, start + 3]
    assert store.since(store.version) == ()


def test_a_watch_from_a_version_that_is_no_longer_in_the_log_is_expired(store):
    start = store.version
    for replicas in range(10, 16):
        store.patch(A, {"spec": {"replicas": replicas}})
    with pytest.raises(Expired) as caught:
        store.since(start)
    assert caught.value.status == 410
    assert len(store.since(start + 1)) == 5


def test_compaction_expires_every_older_version(store):
    start = store.version
    store.patch(A, {"spec": {"replicas": 5}})
    store.compact()
    with pytest.raises(Expired):
        store.since(start)
    assert store.since(store.version) == ()


def test_subscribers_hear_of_a_change_before_the_write_returns(store):
    heard: list[StoreEvent] = []
    store.subscribe(heard.append)
    changed = store.patch(A, {"spec": {"replicas": 5}})
    assert [event.object for event in heard] == [changed]
