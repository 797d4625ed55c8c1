"""The weeder's seed over real sockets: deletions, live reads, budgets, connections, a server that goes and comes."""

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from app.core.errors import Forbidden, Invalid, Unreachable
from app.core.kube import weeder_view
from app.core.kube.weeder_view import WeederSeed
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.tasks import Tasks
from tests.core.kube.server import Asked, api_of, until
from tests.core.kube.weeding import NS, SERVICES, listed, pod

pytestmark = pytest.mark.looptime(False)

SELECTOR = LabelSelector((Requirement("role", Operator.IN, frozenset({"apiserver"})),))


class World:
    """A seed with pods."""

    def __init__(self, pods=()):
        self.pods = pods or listed("Pod")
        self.objects: dict[str, Any] = {}
        self.deletions = 0
        self.deleting: Any = lambda asked: asked.answer({"kind": "Status", "status": "Success"})

    async def handle(self, asked):
        if asked.method == "DELETE":
            self.deletions += 1
            await self.deleting(asked)
        elif asked.path.endswith("/pods"):
            await asked.answer(self.pods)
        elif asked.path in self.objects:
            await asked.answer(self.objects[asked.path])
        else:
            await asked.answer({"message": "not found"}, 404)


@asynccontextmanager
async def seed_of(world, *, qps=1000.0, burst=1000):
    async with api_of(world.handle, qps=qps, burst=burst) as (api, server):
        tasks = Tasks(api.clock)
        seed: Any = WeederSeed(api, SERVICES, tasks, Random(1))
        seed.server = server
        yield seed
        await tasks.stop()


def delete(seed, name="a", starting=lambda: None):
    return seed.delete_pod(NS, name, uid="uid-a", resource_version="7", starting=starting)


@pytest.mark.parametrize("deleting", [Asked.hang, Asked.cut], ids=["hangs", "is cut"])
async def test_a_deletion_without_an_answer_ends_in_time_and_is_sent_once(monkeypatch, deleting):
    assert weeder_view.DELETED_WITHIN == 5.0
    monkeypatch.setattr(weeder_view, "DELETED_WITHIN", 0.2)
    world = World()
    world.deleting = deleting
    async with seed_of(world) as seed:
        with pytest.raises(Unreachable):
            await asyncio.wait_for(delete(seed), 1)
        assert world.deletions == 1


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        ('admission webhook "keep.example.com" denied the request: kept', Invalid),
        (
            "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: kept",
            Invalid,
        ),
        ('pods "a" is forbidden: User "dwd" cannot delete resource "pods"', Forbidden),
    ],
)
async def test_admission_denies_one_pod_where_rbac_denies_all(said, refusal):
    world = World()
    world.deleting = lambda asked: asked.answer({"kind": "Status", "message": said}, 403)
    async with seed_of(world) as seed:
        with pytest.raises(refusal, match="403"):
            await delete(seed)


async def test_a_deletion_never_meets_a_kept_connection_that_has_died():
    async with seed_of(World()) as seed:
        assert await seed.read_pod(NS, "gone") is None
        await delete(seed)
        await delete(seed)
        assert [each.connection for each in seed.server.asked] == [1, 2, 3]
        await until(lambda: seed.server.open == 1)


@pytest.mark.parametrize(
    ("answer", "found"),
    [(listed("Pod", pod("a", 1)), True), (listed("Pod"), False), (listed("Pod", more="x"), True)],
)
async def test_whether_any_pod_matches_takes_one_request_for_one_pod(answer, found):
    async with seed_of(World(answer)) as seed:
        assert await seed.any_pod(SELECTOR) is found
        (asked,) = seed.server.asked
        assert asked.path == "/api/v1/pods"
        assert asked.query == {"labelSelector": "role=apiserver", "limit": "1"}
        assert await seed.any_pod(LabelSelector()) is found
        assert seed.server.asked[1].query == {"limit": "1"}


async def test_the_weeders_own_requests_leave_the_seeds_budget_alone():
    async with seed_of(World(listed("Pod", pod("a", 1))), qps=0.01, burst=1) as seed:
        async with asyncio.timeout(5):
            for _ in range(10):
                await delete(seed)
                await seed.read_pod(NS, "a")
            assert await seed.any_pod(SELECTOR)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(seed.any_pod(SELECTOR), 0.1)
