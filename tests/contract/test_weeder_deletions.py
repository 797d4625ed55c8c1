"""The weeder deletes the pod that was judged, or none."""

import pytest

from app.core.errors import (
    Conflict,
    Forbidden,
    NotFound,
)
from tests.contract.arena import REAL_TIME, until
from tests.contract.pods import crash_looping, pod
from tests.contract.weeding import never, watching

pytestmark = REAL_TIME

NOBODYS = "00000000-0000-0000-0000-000000000000"


async def put(arena, name="a", **more):
    await arena.admin.create("Pod", pod(name, **more) | {"status": crash_looping()})


async def judged(arena, weeding, name="a"):
    """The pod as it is judged."""
    view = await weeding.seed.read_pod(arena.namespace, name)
    assert view is not None
    return view


async def delete(weeding, view, starting=never, **changes):
    wanted = {"uid": view.uid, "resource_version": view.resource_version} | changes
    await weeding.seed.delete_pod(view.namespace, view.name, **wanted, starting=starting)


async def test_a_pod_on_a_node_is_terminating_after_it(arena, weeding):
    await put(arena)
    view = await judged(arena, weeding)
    started = []
    await delete(weeding, view, lambda: started.append(1))
    after = await judged(arena, weeding)
    assert (after.uid, after.terminating, started) == (view.uid, True, [1])
    assert after.resource_version != view.resource_version


async def test_a_pod_without_a_node_is_gone_after_it(arena, weeding):
    await put(arena, node=None)
    await delete(weeding, await judged(arena, weeding))
    assert await weeding.seed.read_pod(arena.namespace, "a") is None


async def test_a_watch_sees_what_became_of_it(arena, weeding):
    await put(arena, "a")
    await put(arena, "b", node=None)
    async with watching(arena, weeding, arena.tasks) as opened:
        await opened.show("a b")
        for name in ("a", "b"):
            await delete(weeding, opened.pod(name))
        await opened.show("a")
        await until(lambda: opened.pod("a").terminating, "it is terminating")


@pytest.mark.parametrize("node", ["node-1", None], ids=["on-a-node", "on-none"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"uid": NOBODYS},
        {"resource_version": "1"},
        {"uid": NOBODYS, "resource_version": "1"},
    ],
    ids=["uid", "version", "both"],
)
async def test_another_pod_than_the_one_that_was_judged_is_not_deleted(arena, weeding, wrong, node):
    await put(arena, node=node)
    view = await judged(arena, weeding)
    with pytest.raises(Conflict) as caught:
        await delete(weeding, view, **wrong)
    assert caught.value.status == 409
    assert await judged(arena, weeding) == view


async def test_a_pod_that_has_changed_since_is_not_deleted(arena, weeding):
    await put(arena)
    view = await judged(arena, weeding)
    await arena.admin.patch("Pod", "a", {"status": crash_looping(6)}, status=True)
    with pytest.raises(Conflict):
        await delete(weeding, view)
    after = await judged(arena, weeding)
    assert not after.terminating
    await delete(weeding, after)
    assert (await judged(arena, weeding)).terminating


async def test_one_that_was_made_anew_under_the_name_is_not_deleted(arena, weeding):
    await put(arena, node=None)
    view = await judged(arena, weeding)
    await arena.admin.delete("Pod", "a")
    await put(arena, node=None)
    new = await judged(arena, weeding)
    for version in (view.resource_version, new.resource_version):
        with pytest.raises(Conflict):
            await delete(weeding, view, resource_version=version)
    assert await judged(arena, weeding) == new


async def test_what_is_gone_is_not_found(arena, weeding):
    await put(arena, node=None)
    view = await judged(arena, weeding)
    await arena.admin.delete("Pod", "a")
    with pytest.raises(NotFound) as caught:
        await delete(weeding, view)
    assert caught.value.status == 404


@pytest.mark.parametrize(
    ("node", "outcome"), [("node-1", Conflict), (None, NotFound)], ids=["on-a-node", "on-none"]
)
async def test_a_second_deletion_on_the_same_facts_deletes_nothing(arena, weeding, node, outcome):
    await put(arena, node=node)
    view = await judged(arena, weeding)
    await delete(weeding, view)
    with pytest.raises(outcome):
        await delete(weeding, view)


async def test_a_pod_that_is_terminating_stays_as_it_is(arena, weeding):
    await put(arena)
    await delete(weeding, await judged(arena, weeding))
    terminating = await judged(arena, weeding)
    await delete(weeding, terminating)
    assert await judged(arena, weeding) == terminating


async def test_without_the_right_nothing_is_deleted(arena, weeding):
    await put(arena)
    view = await judged(arena, weeding)
    async with weeding.forbidden("delete", "pods"):
        with pytest.raises(Forbidden) as caught:
            await delete(weeding, view)
        assert caught.value.status == 403
        assert await judged(arena, weeding) == view
    await delete(weeding, view)
    assert (await judged(arena, weeding)).terminating
