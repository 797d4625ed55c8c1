"""The weeder hears of services, whatever happens to its watch of their slices."""

import pytest

from app.core.model.weeding import ServiceKey, SliceEndpoint
from tests.contract.arena import REAL_TIME, until
from tests.contract.pods import endpoints, slice_of
from tests.core.kube.weeding import ETCD

pytestmark = REAL_TIME


@pytest.fixture
def etcd(arena):
    """The service of the test."""
    return ServiceKey(arena.namespace, ETCD.service)


async def put(arena, *ready, name="etcd-a", pods=()):
    body = slice_of(ETCD.service, name, *ready, pods=pods)
    await arena.admin.create("EndpointSlice", body)


async def turn(arena, ready):
    await arena.admin.patch("EndpointSlice", "etcd-a", {"endpoints": endpoints(ready)})


async def heard_of(heard, etcd, *ready):
    """Waits until exactly this was heard: each time, whether an endpoint was ready then."""

    def calls():
        return [is_ready for key, is_ready in heard.changes if key == etcd]

    await until(lambda: calls() == list(ready), f"{ready}, but it is {calls()}")


async def test_a_slice_that_is_made_shows_what_is_behind_the_service(arena, seed, heard, etcd):
    assert [relisted.since for relisted in heard.relisted] == [None], "the first list has no past"
    await put(arena, True, False, None, pods=("etcd-0",))
    await heard_of(heard, etcd, True)
    (view,) = seed.slices(etcd)
    assert (view.namespace, view.name, view.service) == (etcd.namespace, "etcd-a", etcd.service)
    assert view.endpoints == (
        SliceEndpoint(ready=True, pod="etcd-0"),
        SliceEndpoint(ready=False),
        SliceEndpoint(ready=True),
    )
    found = await arena.admin.find("EndpointSlice", "etcd-a")
    assert view.resource_version == found["metadata"]["resourceVersion"]
    assert etcd in seed.services()
    assert len(heard.relisted) == 1


async def test_after_a_cut_each_change_that_was_missed_is_told_by_itself(arena, heard, etcd):
    await put(arena, True)
    await heard_of(heard, etcd, True)
    async with arena.watches_cut():
        await turn(arena, False)
        await turn(arena, True)
        await arena.admin.delete("EndpointSlice", "etcd-a")
        await put(arena, True, name="etcd-b")
        await heard_of(heard, etcd, True)
    await heard_of(heard, etcd, True, False, True, False, True)
    assert len(heard.relisted) == 1
