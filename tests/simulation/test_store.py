"""The store behaves as an API server's does."""

import pytest

from app.core.errors import Expired
from app.simulation.store import Happened, ObjectKey, Store, StoreEvent, version_of

A = ObjectKey("Deployment", "ns", "a")
B = ObjectKey("Deployment", "ns", "b")


@pytest.fixture
def store() -> Store:
    store = Store(history=5)
    store.create(A, {"apiVersion": "apps/v1", "spec": {"replicas": 1}})
    return store


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
