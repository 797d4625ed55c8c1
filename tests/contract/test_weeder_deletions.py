"""The weeder deletes the pod that was judged, or none."""

import pytest

from app.core.errors import Conflict, Forbidden, NotFound
from tests.contract.arena import REAL_TIME
from tests.contract.pods import crash_looping, pod

pytestmark = REAL_TIME

NOBODYS = "00000000-0000-0000-0000-000000000000"
BOTH = pytest.mark.parametrize("node", ["node-1", None], ids=["on-a-node", "on-none"])


async def put(arena, node="node-1"):
    await arena.admin.create("Pod", pod("a", node=node) | {"status": crash_looping()})


async def judged(arena, weeding):
    """The pod as it is judged; None where there is none."""
    return await weeding.seed.read_pod(arena.namespace, "a")


async def delete(weeding, view, starting=lambda: None, **changes):
    wanted = {"uid": view.uid, "resource_version": view.resource_version} | changes
    await weeding.seed.delete_pod(view.namespace, view.name, **wanted, starting=starting)


@BOTH
async def test_the_pod_that_was_judged_is_deleted_once(arena, weeding, node):
    await put(arena, node)
    view, started = await judged(arena, weeding), []
    await delete(weeding, view, lambda: started.append(1))
    after = await judged(arena, weeding)
    assert (started, after is not None) == ([1], node is not None)
    if after is not None:
        assert (after.uid, after.terminating) == (view.uid, True)
        assert after.resource_version != view.resource_version
    with pytest.raises(NotFound if node is None else Conflict):
        await delete(weeding, view)
    if after is not None:
        await delete(weeding, after)
        assert await judged(arena, weeding) == after, "what is terminating stays as it is"


@BOTH
@pytest.mark.parametrize(
    "wrong",
    [{"uid": NOBODYS}, {"resource_version": "1"}, {"uid": NOBODYS, "resource_version": "1"}],
    ids=["uid", "version", "both"],
)
async def test_another_pod_than_the_one_that_was_judged_is_not_deleted(arena, weeding, wrong, node):
    await put(arena, node)
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
    changed = await judged(arena, weeding)
    assert not changed.terminating
    await delete(weeding, changed)
    assert (await judged(arena, weeding)).terminating


async def test_one_that_was_made_anew_under_the_name_is_not_deleted(arena, weeding):
    await put(arena, None)
    view = await judged(arena, weeding)
    await arena.admin.delete("Pod", "a")
    with pytest.raises(NotFound):
        await delete(weeding, view)
    await put(arena, None)
    new = await judged(arena, weeding)
    for version in (view.resource_version, new.resource_version):
        with pytest.raises(Conflict):
            await delete(weeding, view, resource_version=version)
    assert await judged(arena, weeding) == new


async def test_without_the_right_nothing_is_deleted(arena, weeding):
    await put(arena)
    view = await judged(arena, weeding)
    async with weeding.forbidden("delete", "pods"):
        with pytest.raises(Forbidden):
            await delete(weeding, view)
        assert await judged(arena, weeding) == view
