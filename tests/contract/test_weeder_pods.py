"""The weeder sees the pods of one namespace, for as long as it looks, whatever happens to its watch."""

import pytest

from app.core.errors import Forbidden
from app.core.model.instants import parse_rfc3339
from app.core.model.weeding import CRASH_LOOP, ContainerView, OwnerView
from app.core.ports import Permission
from tests.contract.arena import REAL_TIME, until
from tests.contract.pods import crash_looping, pod
from tests.contract.weeding import none_of, one_of, selecting, watching
from tests.e2e.processes import eventually

pytestmark = REAL_TIME

ROLE = "gardener.cloud/role"
FINISHED = "2030-01-01T00:00:00Z"


async def put(arena, name, *, namespace=None, status=None, **more):
    body = pod(name, **more) | ({} if status is None else {"status": status})
    await arena.admin.create("Pod", body, namespace=namespace)


async def label(arena, name, **labels):
    await arena.admin.patch("Pod", name, {"metadata": {"labels": labels}})


@pytest.fixture
def watch(arena, seed):
    """Opens a watch of pods."""
    return lambda selector=None, **more: watching(arena, seed, selector, **more)


async def test_a_pod_is_shown_with_what_it_waits_for_and_whose_it_is(arena, seed, watch):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u1"}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u2"}
    body = pod("a", labels={ROLE: "controlplane"}) | {"status": crash_looping(7, FINISHED)}
    body["metadata"]["ownerReferences"] = [other, {**owner, "controller": True}]
    await arena.admin.create("Pod", body)
    found = await arena.admin.find("Pod", "a")
    async with watch() as opened:
        await opened.show("a")
        view = opened.pod("a")
        assert await seed.read_pod(arena.namespace, "a") == view, "a live read shows the same"
    assert (view.namespace, view.name) == (arena.namespace, "a")
    assert view.uid == found["metadata"]["uid"]
    assert view.resource_version == found["metadata"]["resourceVersion"]
    assert view.labels == {ROLE: "controlplane"}
    assert view.owner == OwnerView("apps/v1", "ReplicaSet", "r", "u1")
    finished = parse_rfc3339(FINISHED)
    assert view.containers == (ContainerView("main", CRASH_LOOP, 7, finished, init=False),)
    assert (view.terminating, view.ready_since) == (False, None)


async def test_what_happens_to_pods_shows_and_is_told(arena, watch):
    async with watch() as opened:
        await until(lambda: opened.watch.synced, "it is listed")
        assert (opened.names(), opened.told, opened.asked) == ("", [], 2)
        await put(arena, "a")
        await put(arena, "b", node=None)
        await opened.show("a b")
        opened.told.clear()
        await arena.admin.patch("Pod", "a", {"status": crash_looping()}, status=True)
        await until(lambda: opened.pod("a").containers, "its status is seen")
        assert opened.pod("a").containers[0].crash_loops
        await arena.admin.delete("Pod", "b")
        await opened.show("a")
        await arena.admin.delete("Pod", "a")
        await until(lambda: opened.pod("a").terminating, "it is terminating")
        assert (opened.told[0], opened.told[-1]) == ("a", "a")
        assert set(opened.told) == {"a", "b"}


async def test_a_selector_shows_the_pods_that_match_it_only(arena, watch):
    await put(arena, "a", labels={ROLE: "controlplane", "role": "apiserver"})
    await put(arena, "b", labels={ROLE: "controlplane", "role": "main"})
    await put(arena, "c", labels={ROLE: "controlplane"})
    await put(arena, "d", labels={"role": "apiserver"})
    await put(arena, "e")
    plane = one_of(ROLE, "controlplane")
    async with (
        watch(selecting(plane, one_of("role", "apiserver", "x"))) as etcd,
        watch(selecting(plane, none_of("role", "main", "apiserver"))) as server,
        watch(selecting()) as all_of_them,
    ):
        await etcd.show("a")
        await server.show("c")
        await all_of_them.show("a b c d e")
        assert (etcd.told, server.told) == (["a"], ["c"])


async def test_a_pod_that_leaves_a_selection_is_gone_and_one_that_joins_it_is_there(arena, watch):
    await put(arena, "a", labels={"role": "x"})
    await put(arena, "b", labels={"role": "y"})
    async with watch(selecting(one_of("role", "x"))) as opened:
        await opened.show("a")
        await label(arena, "b", role="x")
        await opened.show("a b")
        await label(arena, "a", role=None)
        await opened.show("b")
        assert opened.told == ["a", "b", "a"]


async def test_a_watch_that_is_cancelled_is_closed_at_once(arena, watch):
    await put(arena, "a")
    async with watch() as first, watch(selecting(none_of("x", "1"))) as second:
        await first.show("a")
        await second.show("a")
        await open_watches(arena, 2)
    await open_watches(arena, 0)
    async with watch() as opened, arena.watches_cut():
        await until(lambda: opened.watch.trouble, "it is in trouble")
    await open_watches(arena, 0)


async def open_watches(arena, many):
    async def are_open():
        return await arena.pod_watches("namespace") == many

    await eventually(are_open, f"{many} watches are open", within=3, every=0.05)


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_right_that_is_missing_ends_it(arena, watch, verb):
    async with arena.without(Permission(verb, "", "pods")), watch() as opened:
        await until(lambda: opened.ended, "it gives up")
        assert isinstance(opened.ended[0], Forbidden)
        assert opened.ended[0].status == 403
        assert opened.watch.synced is (verb == "watch")
        assert opened.asked == 3 + (verb == "watch")


async def test_whether_any_pod_matches_is_asked_of_all_namespaces(arena, seed):
    mine = arena.namespace
    selector = selecting(one_of("contract", mine), none_of("role", "main"))
    assert not await seed.any_pod(selector)
    await put(arena, "a", labels={"contract": mine, "role": "main"})
    assert not await seed.any_pod(selector)
    name = f"{mine}-elsewhere"
    await put(arena, name, namespace="default", node=None, labels={"contract": mine})
    assert await seed.any_pod(selector)
    await arena.admin.delete("Pod", name, namespace="default")
    assert not await seed.any_pod(selector)
