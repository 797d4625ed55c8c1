"""The weeder's seed over real sockets: deletions, live reads, budgets, connections, a server that goes and comes."""

import asyncio
import json
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from app.core.errors import (
    Unreachable,
)
from app.core.kube import weeder_view
from app.core.kube.weeder_view import WeederSeed
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.tasks import Tasks
from tests.core.kube.server import api_of, until
from tests.core.kube.weeding import NS, SERVICES, listed, pod

pytestmark = pytest.mark.looptime(False)

SELECTOR = LabelSelector((Requirement("role", Operator.IN, frozenset({"apiserver"})),))


class World:
    """A seed with pods, whose watches say nothing."""

    def __init__(self):
        self.lists = {"pods": listed("Pod")}
        self.objects = {}
        self.watched = set()
        self.deletions: list[Any] = []
        self.deleting: Any = lambda asked: asked.answer({"kind": "Status", "status": "Success"})

    async def handle(self, asked):
        last = asked.path.rsplit("/", 1)[1]
        if asked.method == "DELETE":
            self.deletions.append((asked.path, json.loads(asked.body)))
            await self.deleting(asked)
        elif asked.path in self.objects:
            await asked.answer(self.objects[asked.path])
        elif "watch" in asked.query:
            await self.stream(asked, last)
        elif last in self.lists:
            await asked.answer(self.lists[last])
        else:
            await asked.answer({"message": "not found"}, 404)

    async def stream(self, asked, plural):
        self.watched.add(plural)
        await asked.begin_stream()
        await asked.hang()


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


async def cut(asked):
    asked.cut()
    raise EOFError


@pytest.mark.parametrize("deleting", [lambda asked: asked.hang(), cut], ids=["hangs", "is cut"])
async def test_a_deletion_without_an_answer_ends_in_time_and_is_sent_once(monkeypatch, deleting):
    assert weeder_view.DELETED_WITHIN == 5.0
    monkeypatch.setattr(weeder_view, "DELETED_WITHIN", 0.2)
    world = World()
    world.deleting = deleting
    async with seed_of(world) as seed:
        with pytest.raises(Unreachable):
            await asyncio.wait_for(delete(seed), 1)
        assert len(world.deletions) == 1


async def test_a_deletion_never_meets_a_kept_connection_that_has_died():
    world = World()
    async with seed_of(world) as seed:
        assert await seed.read_pod(NS, "gone") is None
        await delete(seed)
        await delete(seed)
        assert [each.connection for each in seed.server.asked] == [1, 2, 3]
        await until(lambda: seed.server.open == 1)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (listed("Pod", pod("a", 1)), True),
        (listed("Pod"), False),
        (listed("Pod", more="x"), True),
    ],
)
async def test_whether_any_pod_matches_takes_one_request_for_one_pod(answer, found):
    world = World()
    world.lists["pods"] = answer
    async with seed_of(world) as seed:
        assert await seed.any_pod(SELECTOR) is found
        (asked,) = seed.server.asked
        assert asked.path == "/api/v1/pods"
        assert asked.query == {"labelSelector": "role=apiserver", "limit": "1"}
        assert await seed.any_pod(LabelSelector()) is found
        assert seed.server.asked[1].query == {"limit": "1"}


async def admit_all() -> None:
    """Everybody may, at once."""


@asynccontextmanager
async def pods_of(seed, changed=lambda name: None):
    """A watch of pods that runs."""
    watch = seed.watch_pods(NS, SELECTOR, changed, admit_all)
    task = asyncio.ensure_future(watch.run())
    try:
        await until(lambda: watch.synced)
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_weeders_own_requests_leave_the_seeds_budget_alone():
    world = World()
    world.lists["pods"] = listed("Pod", pod("a", 1))
    async with seed_of(world, qps=0.01, burst=1) as seed:
        async with asyncio.timeout(5):
            for _ in range(10):
                await delete(seed)
                await seed.read_pod(NS, "a")
            async with pods_of(seed):
                await until(lambda: "pods" in world.watched)
            assert await seed.any_pod(SELECTOR)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(seed.any_pod(SELECTOR), 0.1)


async def test_a_watch_that_is_cancelled_while_it_lists_leaves_no_connection_behind():
    world = World()
    async with seed_of(world) as seed:
        watch = seed.watch_pods(NS, None, lambda name: None, admit_all)

        async def stuck(asked):
            await asked.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
            await asked.hang()

        seed.server.handler = stuck
        task = asyncio.ensure_future(watch.run())
        await until(lambda: len(seed.server.asked) == 1)
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: seed.server.open == 0, within=0.5)
