"""The weeder deletes the pod that was judged, or none: which preconditions a server keeps is in `test_wire_pods`."""

import pytest

from app.core.errors import Conflict, NotFound
from tests.contract.arena import REAL_TIME
from tests.contract.pods import crash_looping, pod

pytestmark = REAL_TIME


async def put(arena, node="node-1"):
    await arena.admin.create("Pod", pod("a", node=node) | {"status": crash_looping()})


async def judged(arena, seed):
    """The pod as it is judged; None where there is none."""
    return await seed.read_pod(arena.namespace, "a")


async def delete(seed, view, starting=lambda: None, **changes):
    wanted = {"uid": view.uid, "resource_version": view.resource_version} | changes
    await seed.delete_pod(view.namespace, view.name, **wanted, starting=starting)


@pytest.mark.parametrize("node", ["node-1", None], ids=["on-a-node", "on-none"])
async def test_the_pod_that_was_judged_is_deleted_once(arena, seed, node):
    await put(arena, node)
    view, started = await judged(arena, seed), []
    await delete(seed, view, lambda: started.append(1))
    after = await judged(arena, seed)
    assert (started, after is not None) == ([1], node is not None)
    if after is not None:
        assert (after.uid, after.terminating) == (view.uid, True)
        assert after.resource_version != view.resource_version
    with pytest.raises(NotFound if node is None else Conflict):
        await delete(seed, view)
    if after is not None:
        await delete(seed, after)
        assert await judged(arena, seed) == after, "what is terminating stays as it is"


async def test_one_that_was_made_anew_under_the_name_is_not_deleted(arena, seed):
    await put(arena, None)
    view = await judged(arena, seed)
    await arena.admin.delete("Pod", "a")
    with pytest.raises(NotFound):
        await delete(seed, view)
    await put(arena, None)
    new = await judged(arena, seed)
    for version in (view.resource_version, new.resource_version):
        with pytest.raises(Conflict):
            await delete(seed, view, resource_version=version)
    assert await judged(arena, seed) == new
