"""How an API server deletes, pods above all."""

import pytest

from app.core.errors import Conflict, NotFound
from app.core.model.instants import rfc3339
from app.simulation.deletion import DeleteOptions, delete
from app.simulation.store import Happened, ObjectKey, Store, version_of

NOW = 1_800_000_000.0
POD = ObjectKey("Pod", "ns", "a")


def pod(store, *, node="node-1", **more):
    spec = {"nodeName": node} if node else {}
    body = {"apiVersion": "v1", "spec": {**spec, **more}, "status": {"phase": "Running"}}
    return store.create(POD, body)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def events(store):
    """What watches hear: the event and the grace in it."""
    heard = []
    store.subscribe(
        lambda event: heard.append(
            (event.happened, event.object["metadata"].get("deletionGracePeriodSeconds"))
        )
    )
    return heard


def ends(store):
    metadata = store.get(POD)["metadata"]
    return metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]


def test_what_is_no_pod_is_gone_at_once(store, events):
    key = ObjectKey("Lease", "ns", "a")
    store.create(key, {"apiVersion": "coordination.k8s.io/v1", "spec": {}})
    assert delete(store, key, NOW).gone
    assert store.find(key) is None
    assert events[1:] == [(Happened.DELETED, None)]


def test_a_pod_on_a_node_has_the_time_that_it_asks_for(store, events):
    pod(store, terminationGracePeriodSeconds=7)
    made = delete(store, POD, NOW)
    assert (made.gone, made.object) == (False, store.get(POD))
    assert ends(store) == (rfc3339(NOW + 7), 7)
    assert events[1:] == [(Happened.MODIFIED, 7)]


def test_a_pod_that_asks_for_no_time_has_half_a_minute(store):
    pod(store)
    delete(store, POD, NOW)
    assert ends(store) == (rfc3339(NOW + 30), 30)


def test_a_pod_without_a_node_is_marked_and_gone(store, events):
    pod(store, node=None)
    made = delete(store, POD, NOW, DeleteOptions(grace=20))
    assert made.gone
    assert version_of(made.object) == str(store.version)
    assert made.object["metadata"]["deletionTimestamp"] == rfc3339(NOW)
    assert store.find(POD) is None
    assert events[1:] == [(Happened.MODIFIED, 0), (Happened.DELETED, 0)]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_done_has_nothing_to_end(store, phase):
    pod(store)
    store.patch(POD, {"status": {"phase": phase}}, status=True)
    assert delete(store, POD, NOW).gone


def test_a_second_deletion_changes_nothing(store):
    pod(store)
    delete(store, POD, NOW)
    version = store.version
    for grace in (None, 30, 60):
        assert not delete(store, POD, NOW + 5, DeleteOptions(grace=grace)).gone
    assert store.version == version


def test_a_shorter_grace_counts_from_the_first_deletion(store):
    pod(store)
    delete(store, POD, NOW)
    delete(store, POD, NOW + 5, DeleteOptions(grace=10))
    assert ends(store) == (rfc3339(NOW + 10), 10)
    delete(store, POD, NOW + 5, DeleteOptions(grace=-1))
    assert ends(store) == (rfc3339(NOW + 1), 1)


def test_the_kubelet_ends_it_with_no_grace(store, events):
    pod(store)
    delete(store, POD, NOW)
    assert delete(store, POD, NOW + 1, DeleteOptions(grace=0)).gone
    assert store.find(POD) is None
    assert events[2:] == [(Happened.MODIFIED, 0), (Happened.DELETED, 0)]


@pytest.mark.parametrize("kind", ["Pod", "Secret"])
@pytest.mark.parametrize(
    ("wrong", "what"),
    [({"uid": "x"}, "the UID"), ({"resource_version": "0"}, "the ResourceVersion")],
    ids=["uid", "version"],
)
def test_what_is_not_what_was_meant_stays(store, kind, wrong, what):
    key = POD._replace(kind=kind)
    before = store.create(key, {"apiVersion": "v1", "spec": {}})
    with pytest.raises(Conflict, match=what):
        delete(store, key, NOW, DeleteOptions(**wrong))
    assert store.get(key) == before


def test_what_is_what_was_meant_goes(store):
    metadata = pod(store, node=None)["metadata"]
    options = DeleteOptions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    assert delete(store, POD, NOW, options).gone
    with pytest.raises(NotFound):
        delete(store, POD, NOW, options)


@pytest.mark.parametrize("kind", ["Pod", "Secret"])
def test_a_dry_run_shows_and_does_nothing(store, kind):
    key = POD._replace(kind=kind)
    before = store.create(key, {"apiVersion": "v1", "spec": {"nodeName": "node-1"}})
    made = delete(store, key, NOW, DeleteOptions(dry_run=True))
    assert not made.gone
    assert ("deletionTimestamp" in made.object["metadata"]) is (kind == "Pod")
    assert store.get(key) == before
    with pytest.raises(Conflict):
        delete(store, key, NOW, DeleteOptions(uid="x", dry_run=True))
