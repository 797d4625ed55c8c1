"""The weeder sees the pods of one namespace, for as long as it looks, whatever happens to its watch."""

from app.core.model.instants import parse_rfc3339
from app.core.model.weeding import CRASH_LOOP, ContainerView, OwnerView
from app.core.tasks import cancelled
from tests.contract.arena import REAL_TIME, until
from tests.contract.pods import crash_looping, pod

pytestmark = REAL_TIME

ROLE = "gardener.cloud/role"
FINISHED = "2030-01-01T00:00:00Z"


class Opened:
    """A watch of all pods of the namespace that runs within, and what it told."""

    def __init__(self, arena, seed):
        self.told, self.asked = list[str](), 0
        self.watch = seed.watch_pods(arena.namespace, None, self.told.append, self._admitted)
        self._tasks = arena.tasks

    async def _admitted(self):
        self.asked += 1

    async def __aenter__(self):
        self._task = self._tasks.once(self.watch.run, "contract: watch of pods")
        return self

    async def __aexit__(self, *_):
        await cancelled(self._task)

    def names(self):
        """The names of the pods, one after the other."""
        return " ".join(sorted(self.watch.pods()))

    def pod(self, name):
        return self.watch.pods()[name]

    async def show(self, names):
        await until(lambda: self.names() == names, f"{names!r} instead of {self.names()!r}")


async def test_a_pod_is_shown_with_what_it_waits_for_and_whose_it_is(arena, seed):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u1"}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u2"}
    body = pod("a", labels={ROLE: "controlplane"}) | {"status": crash_looping(7, FINISHED)}
    body["metadata"]["ownerReferences"] = [other, {**owner, "controller": True}]
    await arena.admin.create("Pod", body)
    found = await arena.admin.find("Pod", "a")
    async with Opened(arena, seed) as opened:
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
    async with Opened(arena, seed) as opened:
        await until(lambda: opened.watch.synced, "it is listed")
        assert (opened.names(), opened.told, opened.asked) == ("", [], 2)
        await arena.admin.create("Pod", pod("a"))
        await arena.admin.create("Pod", pod("b", node=None))
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
