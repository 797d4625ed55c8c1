"""The pods of endpoint probes are seen, of the namespaces that are followed only, whatever happens to their watches."""

from random import Random
from typing import Final

import pytest
import pytest_asyncio

from app.core.kube import pods, reflector
from app.core.kube.pods import ProbedPods
from app.core.model.endpoints import ProbedContainer, ProbedPod
from app.core.model.instants import parse_rfc3339
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.ports import Permission
from tests.contract.arena import REAL_TIME, until
from tests.contract.pods import pod
from tests.e2e.weeder_objects import weeder_rules

pytestmark = REAL_TIME

ROLE: Final = "role"
ETCD: Final = LabelSelector((Requirement(ROLE, Operator.IN, frozenset({"main"})),))
OTHERS: Final = LabelSelector(
    (Requirement(ROLE, Operator.EXISTS), Requirement(ROLE, Operator.NOT_IN, frozenset({"main"})))
)
SELECTORS: Final = (ETCD, OTHERS)


class Seen:
    """What is seen of the pods, and what was told."""

    def __init__(self, pods: ProbedPods, namespace: str) -> None:
        self.port, self._namespace = pods, namespace
        self.told: list[str] = []
        """Each namespace that was told."""
        pods.subscribe(self.told.append)

    def names(self, selector: LabelSelector = ETCD) -> str:
        """The names of the pods, one after the other."""
        found = self.port.pods(self._namespace, selector)
        return " ".join(sorted(each.name for each in found))

    def pod(self, name: str) -> ProbedPod:
        """One of them."""
        found = self.port.pods(self._namespace, ETCD)
        return next(each for each in found if each.name == name)

    def synced(self) -> bool:
        """Whether all pods are known."""
        return self.port.watch_state(self._namespace, ETCD).synced

    async def show(self, names: str, selector: LabelSelector = ETCD) -> None:
        """Waits until these are seen."""
        await until(
            lambda: self.names(selector) == names and self.synced(),
            f"{names!r} instead of {self.names(selector)!r}",
        )


SINCE = "2030-01-01T00:00:00Z"
FIRST = "containerd://1"
PORTS = [
    {"name": "client", "containerPort": 2379, "protocol": "TCP"},
    {"containerPort": 2380, "protocol": "TCP"},
]


@pytest_asyncio.fixture(loop_scope="session")
async def probing(arena, monkeypatch):
    monkeypatch.setattr(pods, "IDLE_TIMEOUT", 0.3)
    monkeypatch.setattr(reflector, "_REFUSED_PAUSE", 0.2)
    await arena.grant("weeder", weeder_rules())
    made = ProbedPods(arena.adapter.api, SELECTORS, arena.tasks, Random(1))
    await made.start()
    yield made
    await made.close()


@pytest.fixture
def seen(arena, probing):
    """Looks at the pods; nobody is followed yet."""
    return Seen(probing, arena.namespace)


@pytest_asyncio.fixture(loop_scope="session")
async def following(arena, seen):
    """The namespace of the test is followed, and listed."""
    seen.port.follow(arena.namespace)
    await until(seen.synced, "it is listed")
    return seen


def running(**more):
    container = {
        "name": "main",
        "image": "registry.invalid/none:1",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "containerID": FIRST,
        "state": {"running": {"startedAt": SINCE}},
    }
    status = {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]}
    return status | {"containerStatuses": [container | more]}


async def put(arena, name, role="main", *, status=None):
    body = pod(name, labels={ROLE: role} if role else {})
    body["spec"]["containers"][0]["ports"] = PORTS
    await arena.admin.create("Pod", body | ({"status": status} if status else {}))


async def test_a_pod_is_seen_with_what_its_probes_depend_on(arena, following):
    await put(arena, "a", status=running())
    found = await arena.admin.find("Pod", "a")
    await until(lambda: following.names() and following.pod("a").ip, "its status is seen")
    view = following.pod("a")
    assert (view.namespace, view.name) == (arena.namespace, "a")
    assert view.uid == found["metadata"]["uid"]
    assert view.resource_version == found["metadata"]["resourceVersion"]
    assert (view.ip, view.phase, view.deleting, view.finished) == (
        "10.0.0.7",
        "Running",
        False,
        False,
    )
    (container,) = view.containers
    assert container == ProbedContainer(
        "main", FIRST, running=True, started_at=parse_rfc3339(SINCE), ports={"client": 2379}
    )
    following.told.clear()
    waits = running(state={"waiting": {"reason": "CrashLoopBackOff"}})
    await arena.admin.patch("Pod", "a", {"status": waits}, status=True)
    await until(lambda: not following.pod("a").containers[0].running, "it waits")
    await arena.admin.delete("Pod", "a")
    await until(lambda: following.pod("a").deleting, "it is being deleted")
    assert set(following.told) == {arena.namespace}


async def test_each_selector_sees_the_pods_that_match_it(arena, following):
    await put(arena, "a")
    await put(arena, "b", role="apiserver")
    await put(arena, "c", role=None)
    await following.show("a", ETCD)
    await following.show("b", OTHERS)
    for name, role in (("a", "apiserver"), ("b", "main")):
        await arena.admin.patch("Pod", name, {"metadata": {"labels": {ROLE: role}}})
    await following.show("b", ETCD)
    await following.show("a", OTHERS)


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_right_that_is_missing_hides_pods_until_it_is_there(arena, seen, verb):
    await put(arena, "a")
    async with arena.without(Permission(verb, "", "pods")):
        seen.port.follow(arena.namespace)
        await until(seen.port.troubles, "they are in trouble")
        assert seen.synced() is False or verb == "watch"
    await seen.show("a")
    await put(arena, "b")
    await seen.show("a b")
    await until(lambda: seen.port.troubles() == {}, "all is well")
