"""The store behaves as an API server's does."""

import pytest

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
