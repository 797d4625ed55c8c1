"""The weeder sees the pods of one namespace, for as long as it looks, whatever happens to its watch."""

from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from app.core.errors import ClusterError
from app.core.kube.weeder_view import PodWatch
from app.core.model.instants import parse_rfc3339
from app.core.model.weeding import CRASH_LOOP, ContainerView, OwnerView
from app.core.tasks import cancelled
from tests.contract.arena import REAL_TIME, until
from tests.contract.pods import crash_looping, pod

pytestmark = REAL_TIME

ROLE = "gardener.cloud/role"
FINISHED = "2030-01-01T00:00:00Z"


async def put(arena, name, *, namespace=None, status=None, **more):
    body = pod(name, **more) | ({} if status is None else {"status": status})
    await arena.admin.create("Pod", body, namespace=namespace)


@dataclass
class Opened:
    """A watch of pods that runs, and what it told."""

    watch: PodWatch
    told: list[str] = field(default_factory=list)
    asked: int = 0
    """How many requests were admitted."""
    ended: list[ClusterError] = field(default_factory=list)
    """What it ended with, if it did."""

    def names(self):
        """The names of the pods, one after the other."""
        return " ".join(sorted(self.watch.pods()))

    def pod(self, name):
        return self.watch.pods()[name]

    async def show(self, names):
        await until(lambda: self.names() == names, f"{names!r} instead of {self.names()!r}")


@asynccontextmanager
async def watching(arena, seed):
    """A watch of all pods of the namespace runs within."""
    told: list[str] = []

    async def admit():
        opened.asked += 1

    opened = Opened(seed.watch_pods(arena.namespace, None, told.append, admit), told)

    async def run():
        try:
            await opened.watch.run()
        except ClusterError as error:
            opened.ended.append(error)

    task = arena.tasks.once(run, "contract: watch of pods")
    try:
        yield opened
    finally:
        await cancelled(task)


async def test_a_pod_is_shown_with_what_it_waits_for_and_whose_it_is(arena, seed):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u1"}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u2"}
    body = pod("a", labels={ROLE: "controlplane"}) | {"status": crash_looping(7, FINISHED)}
    body["metadata"]["ownerReferences"] = [other, {**owner, "controller": True}]
    await arena.admin.create("Pod", body)
    found = await arena.admin.find("Pod", "a")
    async with watching(arena, seed) as opened:
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


async def test_what_happens_to_pods_shows_and_is_told(arena, seed):
    async with watching(arena, seed) as opened:
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
