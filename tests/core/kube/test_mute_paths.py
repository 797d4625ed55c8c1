"""A path that lists pass, that opens watches, and that then passes nothing of them: for every kind that is watched."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from app.core.clock import Clock
from app.core.errors import Unreachable
from app.core.kube.client import WatchSilent
from app.core.kube.custom_objects import PAUSE, SCALE_REQUEST, CustomObjects
from app.core.kube.pods import ProbedPods
from app.core.kube.seed import SeedCluster
from app.core.kube.weeder_view import WeederSeed
from app.core.metrics import Metrics
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.policy import DependentPolicy, ProberPolicy
from app.core.model.shoots import Route
from app.core.model.workloads import ResourceRef
from app.core.ports import STALE, Watched
from app.core.tasks import Tasks

NS = "shoot--dev--one"
SERVICE = "etcd-main-client"
LABELS = {"role": "main", "kubernetes.io/service-name": SERVICE}
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
ETCD = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")
SELECTOR = LabelSelector((Requirement("role", Operator.IN, frozenset({"main"})),))


def thing(name, **more):
    meta = {"name": name, "namespace": NS, "uid": "u", "resourceVersion": "1", "labels": LABELS}
    return {"metadata": meta} | more


def decided(kind, spec):
    """A custom resource: an item of a list names its kind."""
    made = thing("o", kind=kind, spec={"reason": "r", **spec})
    made["metadata"]["creationTimestamp"] = "2026-11-20T14:00:00Z"
    return made


CLUSTER = {"metadata": {"name": NS, "resourceVersion": "1"}, "spec": {"shoot": {"spec": {}}}}
ETCDS = {"kind": "APIResourceList", "resources": [{"name": "etcds", "kind": "Etcd"}]}


class MuteSeed:
    """A seed behind such a path; lists show what is in `items` then."""

    def __init__(self) -> None:
        self.items = {
            "clusters": ("Cluster", [CLUSTER]),
            "machines": ("Machine", [thing("m")]),
            "secrets": ("Secret", [thing("kubeconfig")]),
            "deployments": ("Deployment", [thing(KCM.name)]),
            "etcds": ("Etcd", [thing(ETCD.name)]),
            "pods": ("Pod", [thing("p")]),
            "endpointslices": ("EndpointSlice", [thing("s")]),
            "pauses": ("Pause", [decided("Pause", {})]),
            "scalerequests": ("ScaleRequest", [decided("ScaleRequest", {"direction": "Up"})]),
        }
        self.clock, self.metrics = Clock.of_loop(), Metrics()
        self.lists = True
        """Whether lists get through."""
        self.lists_until_watched = False
        """Whether those of a kind fail as soon as its watch has opened."""
        self.ends = False
        """Whether the ends of watches get through."""
        self.cuts = False
        """Whether watches are cut after 20 s, and open again at once."""
        self.watched = set[str]()

    def clear(self) -> None:
        """Everything is deleted."""
        self.items = {plural: (kind, []) for plural, (kind, _) in self.items.items()}

    async def call(self, request, decode, *_, **__):
        plural = request.path.rpartition("/")[2]
        if plural not in self.items:
            return decode(json.dumps(ETCDS).encode())
        mute = self.lists_until_watched and self._kind(request) in self.watched
        if not self.lists or mute:
            raise Unreachable("no answer")
        kind, items = self.items[plural]
        meta = {"resourceVersion": "5"}
        listed = {"kind": f"{kind}List", "metadata": meta, "items": items}
        return decode(json.dumps(listed).encode())

    @asynccontextmanager
    async def watch(self, request, *, silence, **_):
        self.watched.add(self._kind(request))
        end = int(request.params["timeoutSeconds"]) if self.ends else None
        yield self._nothing(silence, end)

    def _kind(self, request):
        """What is watched: Secrets have a watch for each name."""
        return f"{request.path} {request.params.get('fieldSelector')}"

    async def _nothing(self, silence, end):
        lines: tuple[bytes, ...] = ()
        for line in lines:
            yield line
        if self.cuts:
            await asyncio.sleep(20)
            raise Unreachable("cut")
        await asyncio.sleep(silence if end is None else end)
        if end is None:
            raise WatchSilent("nothing was heard")


class Watcher:
    """All that is watched of a seed, over such a path."""

    def __init__(self, server: MuteSeed, policy: ProberPolicy) -> None:
        self.clock = server.clock
        self.tasks = Tasks(self.clock)
        rest: Any = (self.tasks, Random(1))
        api = cast("Any", server)
        self.seed = SeedCluster(api, policy, *rest)
        self.weeder = WeederSeed(api, [SERVICE], *rest)
        self.probed = ProbedPods(api, [SELECTOR], *rest)
        self.pauses = CustomObjects(PAUSE, api, "", *rest)
        self.requests = CustomObjects(SCALE_REQUEST, api, "", *rest)
        self._parts = (self.seed, self.weeder, self.probed, self.pauses, self.requests)

    async def admitted(self) -> None:
        """At once."""

    async def __aenter__(self):
        for part in self._parts:
            await part.start()
        self.probed.follow(NS)
        self.pods: Any = self.weeder.watch_pods(NS, None, lambda _: None, self.admitted)
        self.watching = asyncio.ensure_future(self.pods.run())
        await asyncio.sleep(2)
        return self

    async def __aexit__(self, *_):
        self.watching.cancel()
        await asyncio.gather(self.watching, return_exceptions=True)
        for part in self._parts:
            await part.close()
        await self.tasks.stop()

    def seen(self) -> dict[str, bool]:
        """Of each kind that is watched, whether anything is there."""
        found = {
            "clusters": bool(self.seed.clusters()),
            "machines": bool(self.seed.machines(NS)),
            "Deployment": self.seed.dependent(NS, KCM) is not None,
            "Etcd": self.seed.dependent(NS, ETCD) is not None,
            "slices": bool(self.weeder.services()),
            "pods": bool(self.pods.pods()),
            "probed pods": bool(self.probed.pods(NS, SELECTOR)),
            "pauses": bool(self.pauses.of(NS)),
            "requests": bool(self.requests.of(NS)),
        }
        return found | {f"{r} secret": self.seed.secret(NS, r) is not None for r in Route}

    def stale(self) -> dict[str, bool]:
        """Of each, whether it counts as stale; of the pods of a recovery it is what the slices are."""
        states = {str(what): self.seed.watch_state(what) for what in Watched}
        states["slices"] = self.weeder.watch_state()
        states["probed pods"] = self.probed.watch_state(NS, SELECTOR)
        states["pauses"] = self.pauses.watch_state()
        states["requests"] = self.requests.watch_state()
        return {name: state.stale(self.clock.now()) for name, state in states.items()}


LEASES = ProberPolicy("kubeconfig", (DependentPolicy(KCM), DependentPolicy(ETCD)))
PATHS = replace(LEASES, external_secret="kubeconfig")
OTHER_NAME = replace(LEASES, external_secret="other")
"""Two watches of Secrets that can be told apart."""


@pytest.mark.parametrize(
    ("policy", "unwatched"),
    [(LEASES, {"external secret"}), (PATHS, {"machines"})],
    ids=["lease mode", "endpoint mode"],
)
async def test_what_is_gone_behind_a_mute_path_is_known_before_its_watch_is_stale(
    policy, unwatched
):
    server = MuteSeed()
    async with Watcher(server, policy) as watcher:
        assert {name for name, there in watcher.seen().items() if not there} == unwatched
        server.clear()
        await asyncio.sleep(80)
        assert not any(watcher.seen().values())
        for _ in range(600):
            await asyncio.sleep(1)
            assert not any(watcher.stale().values())


async def test_where_lists_do_not_pass_either_every_watch_is_stale_in_time():
    server = MuteSeed()
    async with Watcher(server, LEASES) as watcher:
        server.lists = False
        await asyncio.sleep(STALE - 3)
        assert not any(watcher.stale().values())
        await asyncio.sleep(4)
        assert all(watcher.stale().values())
        await asyncio.sleep(3600)
        assert all(watcher.stale().values())
        server.lists = True
        await asyncio.sleep(65)
        assert not any(watcher.stale().values())


@pytest.mark.parametrize(
    ("policy", "unwatched"),
    [(LEASES, set()), (OTHER_NAME, {str(Watched.MACHINES)})],
    ids=["lease mode", "endpoint mode"],
)
@pytest.mark.parametrize("cuts", [False, True], ids=["once", "again and again"])
async def test_that_watches_open_is_no_contact_for_any_kind(policy, unwatched, cuts):
    server = MuteSeed()
    server.lists_until_watched, server.cuts = True, cuts
    async with Watcher(server, policy) as watcher:
        await asyncio.sleep(STALE - 3)
        assert not any(watcher.stale().values())
        for pause in (4, *[7] * 60, 3600):
            await asyncio.sleep(pause)
            assert {name for name, stale in watcher.stale().items() if not stale} == unwatched


async def test_what_is_gone_is_known_after_ten_minutes_where_watches_end_in_time_and_bring_nothing():
    server = MuteSeed()
    server.ends = True
    async with Watcher(server, LEASES) as watcher:
        server.clear()
        await asyncio.sleep(11 * 60)
        assert not any(watcher.seen().values())
        assert not any(watcher.stale().values())


async def test_where_lists_fail_a_watch_that_brings_nothing_is_followed_all_the_same():
    server = MuteSeed()
    server.ends = True
    async with Watcher(server, LEASES) as watcher:
        server.lists = False
        server.clear()
        await asyncio.sleep(15 * 60)
        assert not any(watcher.stale().values())
        server.lists = True
        await asyncio.sleep(3 * 60)
        assert not any(watcher.seen().values())
