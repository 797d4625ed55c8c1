"""How an API server deletes, pods above all."""

import pytest

from app.core.model.instants import rfc3339
from app.simulation.deletion import DeleteOptions, delete
from app.simulation.store import ObjectKey, Store

NOW = 1_800_000_000.0
POD = ObjectKey("Pod", "ns", "a")


def pod(store, *, node="node-1", **more):
    spec = {"nodeName": node} if node else {}
    body = {"apiVersion": "v1", "spec": {**spec, **more}, "status": {"phase": "Running"}}
    return store.create(POD, body)


@pytest.fixture
def store():
    return Store()


def ends(store):
    metadata = store.get(POD)["metadata"]
    return metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]


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
