"""The weeder hears of services, whatever happens to its watch of their slices."""

from app.core.model.weeding import SliceEndpoint
from tests.contract.arena import REAL_TIME, until
from tests.contract.pods import endpoints, slice_of
from tests.contract.weeding import ETCD, key, mine

pytestmark = REAL_TIME


async def put(arena, *ready, name="etcd-a", service=ETCD, pods=()):
    await arena.admin.create("EndpointSlice", slice_of(service, name, *ready, pods=pods))


async def turn(arena, *ready, name="etcd-a"):
    await arena.admin.patch("EndpointSlice", name, {"endpoints": endpoints(*ready)})


async def heard_of(heard, *calls):
    await until(lambda: heard.calls == list(calls), f"{calls}, but it is {heard.calls}")


async def test_a_slice_that_is_made_shows_what_is_behind_the_service(arena, seed, heard):
    assert [relisted.since for relisted in heard.lists] == [None], "the first list has no past"
    await put(arena, True, False, None, pods=("etcd-0",))
    await heard_of(heard, (ETCD, (True, False, True)))
    (view,) = seed.slices(key(arena))
    assert (view.namespace, view.name, view.service) == (arena.namespace, "etcd-a", ETCD)
    assert view.endpoints == (
        SliceEndpoint(ready=True, pod="etcd-0"),
        SliceEndpoint(ready=False),
        SliceEndpoint(ready=True),
    )
    found = await arena.admin.find("EndpointSlice", "etcd-a")
    assert view.resource_version == found["metadata"]["resourceVersion"]
    assert mine(arena, seed.services()) == [ETCD]
    assert len(heard.lists) == 1


async def test_after_a_cut_each_change_that_was_missed_is_told_by_itself(arena, seed, heard):
    await put(arena, True)
    await heard_of(heard, (ETCD, (True,)))
    async with arena.watches_cut():
        await turn(arena, False)
        await turn(arena, True)
        await arena.admin.delete("EndpointSlice", "etcd-a")
        await put(arena, False, name="etcd-b")
        assert heard.calls == [(ETCD, (True,))]
    missed = ((False,), (True,), (), (False,))
    await heard_of(heard, (ETCD, (True,)), *((ETCD, ready) for ready in missed))
    assert len(heard.lists) == 1
