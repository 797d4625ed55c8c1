"""The store behaves as an API server's does."""

import pytest

from app.core.errors import Expired
from app.simulation.store import ObjectKey, Store

A = ObjectKey("Deployment", "ns", "a")


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


def test_a_watch_from_a_version_that_is_no_longer_in_the_log_is_expired(store):
    start = store.version
    for replicas in range(10, 16):
        store.patch(A, {"spec": {"replicas": replicas}})
    with pytest.raises(Expired) as caught:
        store.since(start, A.kind)
    assert caught.value.status == 410
    assert len(store.since(start + 1, A.kind)) == 5
