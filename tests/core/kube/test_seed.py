"""The seed over real sockets: which watches it has, what becomes of dependents that cannot be listed, live reads."""

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import Any, ClassVar

import pytest

from app.core.clock import Clock
from app.core.errors import BadAnswer, ClusterError, LimitExceeded, Throttled, Unreachable
from app.core.kube import seed as seed_module
from app.core.kube.resources import assumed
from app.core.kube.seed import SeedCluster
from app.core.limits import Backoff
from app.core.model import workloads as ann
from app.core.model.policy import DependentPolicy, ProberPolicy
from app.core.model.workloads import ResourceRef
from app.core.ports import SeedChange, Watched
from app.core.tasks import Tasks
from tests.core.kube.server import api_of, page_of, until

pytestmark = pytest.mark.looptime(False)

NS = "shoot--dev--one"
KCM = ResourceRef("apps/v1", "Deployment", "kube-controller-manager")
SCALER = ResourceRef("example.org/v1", "Scaler", "thing")
POLICY = ProberPolicy("kubeconfig-secret", (DependentPolicy(KCM), DependentPolicy(SCALER)))


def thing(name, version, namespace=NS, **more):
    meta = {"name": name, "namespace": namespace, "resourceVersion": str(version), "uid": "u"}
    return {"metadata": meta} | more


def deployment(replicas=1, version=5):
    return thing(KCM.name, version, kind="Deployment", spec={"replicas": replicas}, status={})


class World:
    """A seed's API server in a few lines: lists, one stream for each watch, single objects, reviews."""

    def __init__(self):
        self.lists = {
            "clusters": ("Cluster", [thing(NS, 5, "", spec={"shoot": {"spec": {}}})]),
            "machines": ("Machine", [thing("m1", 1)]),
            "secrets": ("Secret", [thing("kubeconfig-secret", 1, data={"kubeconfig": "YQ=="})]),
            "deployments": ("Deployment", [deployment()]),
            "scalers": ("Scaler", [thing("thing", 1)]),
        }
        self.objects = {}

    async def handle(self, asked):
        if asked.path == "/apis/example.org/v1":
            resources = [
                {"name": "scalers", "kind": "Scaler"},
                {"name": "scalers/scale", "kind": "Scale"},
                {"name": "deployments", "kind": "Deployment"},
            ]
            await asked.answer({"kind": "APIResourceList", "resources": resources})
        elif "watch" in asked.query:
            await asked.begin_stream()
            await asked.hang()
        else:
            await self.get(asked)

    async def get(self, asked):
        if asked.path in self.objects:
            return await asked.answer(self.objects[asked.path])
        last = asked.path.rsplit("/", 1)[1]
        if last not in self.lists:
            return await asked.answer({"message": "not found"}, 404)
        return await asked.answer(page_of(*self.lists[last], asked.query, resourceVersion="9"))


@asynccontextmanager
async def seed_of(world, *, policy=POLICY, qps=1000.0, burst=1000):
    async with api_of(world.handle, qps=qps, burst=burst) as (api, server):
        tasks = Tasks(api.clock)
        seed: Any = SeedCluster(api, policy, tasks, Random(1))
        seed.server, seed.api, seed.metrics = server, api, api.metrics
        seed.changes = []
        seed.subscribe(seed.changes.append)
        try:
            yield seed
        finally:
            await tasks.stop()


async def test_one_watch_each_by_name_over_all_namespaces():
    async with seed_of(World()) as seed:
        await seed.start()

        def watched():
            asked = [each for each in seed.server.asked if "watch" in each.query]
            return {each.path: each.query.get("fieldSelector") for each in asked}

        await until(lambda: len(watched()) == 5)
        assert watched() == {
            "/apis/extensions.gardener.cloud/v1alpha1/clusters": None,
            "/apis/machine.sapcloud.io/v1alpha1/machines": None,
            "/api/v1/secrets": "metadata.name=kubeconfig-secret",
            "/apis/apps/v1/deployments": "metadata.name=kube-controller-manager",
            "/apis/example.org/v1/scalers": "metadata.name=thing",
        }
        limits = {
            asked.path.rsplit("/", 1)[1]: asked.query.get("limit")
            for asked in seed.server.asked
            if "limit" in asked.query
        }
        assert limits["clusters"] == "50"
        assert limits["machines"] == "500"


async def test_dependents_of_one_kind_and_name_in_two_groups_are_watched_both():
    other = KCM._replace(api_version=SCALER.api_version)
    policy = ProberPolicy("kubeconfig-secret", (DependentPolicy(KCM), DependentPolicy(other)))
    async with seed_of(World(), policy=policy) as seed:
        await seed.start()
        await until(lambda: seed.watch_state(Watched.DEPENDENTS).synced)
        assert seed.dependent(NS, KCM) is not None
        assert seed.dependent(NS, other) is not None


@pytest.fixture
def impatient(monkeypatch):
    """Watches that are tried again at once."""
    monkeypatch.setattr("app.core.kube.reflector._BACKOFF", Backoff(0.02, 0.05))
    monkeypatch.setattr("app.core.kube.reflector._REFUSED_PAUSE", 0.05)


def refusing(path, status):
    """A seed that answers so for all that begins with this path, until it is taken away from `refused`."""

    class Refusing(World):
        refused: ClassVar = {path: status}

        async def handle(self, asked):
            for begins, code in self.refused.items():
                if asked.path.startswith(begins):
                    return await asked.answer({"message": "no"}, code)
            return await super().handle(asked)

    return Refusing()


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/apis/example.org/v1", 404, "the seed serves no Scaler of example.org/v1"),
        ("/apis/example.org/v1/scalers", 404, "list Scaler named thing: 404"),
        ("/apis/example.org/v1/scalers", 403, "list Scaler named thing: 403"),
    ],
)
@pytest.mark.usefixtures("impatient")
async def test_a_dependent_whose_kind_is_not_served_or_may_not_be_listed_holds_up_no_other(
    path, status, says
):
    world = refusing(path, status)
    async with seed_of(world) as seed:
        await seed.start()
        await until(lambda: seed.unavailable(SCALER))
        await until(lambda: all(seed.watch_state(what).synced for what in Watched))
        assert says in seed.unavailable(SCALER)
        assert seed.unavailable(KCM) is None
        assert not seed.watch_state(Watched.DEPENDENTS).stale(Clock.system().now())
        world.refused.clear()
        await until(lambda: seed.unavailable(SCALER) is None)
        assert seed.dependent(NS, SCALER) is not None
        assert seed.changes[-1] == SeedChange(Watched.DEPENDENTS, NS)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
@pytest.mark.usefixtures("impatient")
async def test_a_dependent_that_cannot_be_listed_now_is_waited_for(status):
    async with seed_of(refusing("/apis/example.org/v1", status)) as seed:
        await seed.start()
        await until(lambda: seed.watch_state(Watched.CLUSTERS).synced)
        await until(lambda: len([a for a in seed.server.asked if "example.org" in a.path]) > 5)
        assert seed.unavailable(SCALER) is None
        assert not seed.watch_state(Watched.DEPENDENTS).synced


@pytest.mark.usefixtures("impatient")
async def test_where_no_dependent_may_be_listed_all_of_them_are_waited_for():
    world = refusing("/apis/example.org/v1", 403)
    world.refused["/apis/apps/v1"] = 403
    async with seed_of(world) as seed:
        await seed.start()
        await until(lambda: seed.unavailable(SCALER) and seed.unavailable(KCM))
        assert not seed.watch_state(Watched.DEPENDENTS).synced


async def test_the_scan_for_forgotten_objects_passes_over_what_is_not_served_or_cannot_be_decoded():
    world = refusing("/apis/example.org/v1", 404)
    forgotten = thing("forgotten", 1)
    forgotten["metadata"]["annotations"] = {ann.MELTDOWN: ""}
    bad = {"metadata": {"name": "bad", "annotations": {"a": 1}}}
    world.lists["deployments"] = ("PartialObjectMetadata", [bad, forgotten])
    async with seed_of(world) as seed:
        assert await seed.unconfigured() == (f"{NS}/Deployment/forgotten",)


async def test_what_is_nested_too_deeply_and_no_object_at_all_is_a_bad_answer():
    class Deep(World):
        async def get(self, asked):
            await asked.answer(b'{"metadata": 7, "deep": %s%s}' % (b"[" * 1_500, b"]" * 1_500))

    async with seed_of(Deep()) as seed:
        with pytest.raises(BadAnswer, match="cannot be decoded"):
            await seed.read_cluster(NS)


async def test_a_spare_read_is_not_made_where_others_may_need_the_budget():
    path = f"/apis/apps/v1/namespaces/{NS}/deployments/{KCM.name}"
    scale = f"/apis/example.org/v1/namespaces/{NS}/scalers/thing/scale"
    world = World()
    world.objects = {
        path: deployment(3, 79),
        scale: {"kind": "Scale", **thing("thing", 80, spec={"replicas": 2}, status={})},
    }
    async with seed_of(world, qps=0.001, burst=12) as seed:
        await seed.read_scale(NS, SCALER)  # finds out the plural, once
        used = len(seed.server.asked)
        for _ in range(7 - used):
            assert (await seed.read_dependent(NS, KCM, spare=True)).replicas == 3
        for read in (
            seed.read_dependent(NS, KCM, spare=True),
            seed.read_scale(NS, SCALER, spare=True),
        ):
            with pytest.raises(Throttled, match="not sent"):
                await read
        assert len(seed.server.asked) == 7
        for _ in range(5):
            assert (await seed.read_dependent(NS, KCM)).replicas == 3


async def test_machines_are_read_live_in_consistent_pages_up_to_a_number(monkeypatch):
    world = World()
    world.lists["machines"] = ("Machine", [thing(f"m{i}", 1) for i in range(1100)])
    async with seed_of(world) as seed:
        assert len(await seed.read_machines(NS, urgent=True)) == 1100
        assert [asked.query.get("continue") for asked in seed.server.asked] == [None, "500", "1000"]
        assert f"/namespaces/{NS}/machines" in seed.server.asked[0].path
        monkeypatch.setattr(seed_module, "MAX_MACHINES", 1000)
        with pytest.raises(LimitExceeded, match=f"^list machines in {NS}: more than 1000$") as over:
            await seed.read_machines(NS)
        assert over.value.limit == "count"
        hits = seed.metrics.registry.get_sample_value
        assert hits("dwd_response_limit_hits_total", {"limit": "count"}) == 1
        for there in ("machines", "others"):
            world.lists = {there: ("Machine", [{}])}
            with pytest.raises(ClusterError, match=f"^list machines in {NS}: "):
                await seed.read_machines(NS)


async def test_an_urgent_read_of_a_seed_that_hangs_is_given_up_soon(monkeypatch):
    monkeypatch.setattr("app.core.kube.seed_api.URGENT_WITHIN", 0.2)

    class Hanging(World):
        async def get(self, asked):
            await asked.hang()

    async with seed_of(Hanging()) as seed, asyncio.timeout(2):
        with pytest.raises(Unreachable):
            await seed.read_cluster(NS, urgent=True)


@pytest.mark.parametrize(
    ("kind", "plural"), [("Scaler", "scalers"), ("Policy", "policies"), ("Bus", "buses")]
)
def test_names_that_nobody_can_be_asked_for_are_guessed(kind, plural):
    assert assumed(ResourceRef("example.org/v1", kind, "x")).plural == plural
