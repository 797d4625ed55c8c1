"""Live reads of the resources: of each caller one at a time, so that none keeps the others from the seed."""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial

import httpx2
import pytest

from app.api.application import create_api
from app.api.health import Health
from app.api.limits import PATIENCE, ReadLocks
from app.api.middleware import ApiMiddleware
from app.api.problems import Problem
from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.callers import Caller
from app.core.reporting.audit import AuditLog
from app.prober.scaling.operations import READS_IN_FLIGHT
from tests.api.facts import KCM, NAMESPACE, NOW, healthy, workload
from tests.api.fakes import FakeResources, FakeShoots, Identified, context

LIST = f"/api/v1/shoots/{NAMESPACE}/resources"
READS = 3
"""Requests to the seed for one answer."""
READ = 0.2
"""Seconds that each of them takes."""


class ByHeader:
    """Around an application: the caller is who the header `User` says."""

    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send):
        name = dict(scope["headers"])[b"user"].decode()
        await Identified(self._app, Caller(name))(scope, receive, send)


@dataclass
class SharedSeed(FakeResources):
    """As the prober reads it: few requests at once for all who only look, in the order in which they asked."""

    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READS_IN_FLIGHT))
    in_flight: int = 0
    most: int = 0

    async def live(self, namespace):
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        await asyncio.gather(*(self._read() for _ in range(READS)))
        self.in_flight -= 1
        return await super().live(namespace)

    async def _read(self):
        async with self.room:
            await sleep(READ)


def instant():
    return asyncio.get_running_loop().time()


async def sleep(seconds):
    await Clock.of_loop().sleep(seconds)


@pytest.fixture
def seed():
    return SharedSeed({NAMESPACE: {KCM: workload(KCM)}})


@pytest.fixture
async def ask(seed):
    """Asks for the resources as the caller of this name; returns the answer, and how long it took."""
    shoots = FakeShoots()
    shoots.add(healthy())
    audit = AuditLog(lambda: NOW)
    middleware = ApiMiddleware(
        now=Clock.of_loop().now, audit=audit, authentication=ByHeader, local_only=False
    )
    given = context(shoots, resources=seed)
    app = create_api(given, health=Health(), metrics=Metrics(), middleware=middleware)
    transport = httpx2.ASGITransport(app)

    async def asking(client, name):
        began = instant()
        answer = await client.get(LIST, headers={"User": name})
        return answer, instant() - began

    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield partial(asking, client)


async def test_the_flood_of_one_viewer_keeps_no_other_from_his_reads(ask, seed):
    flood = [asyncio.ensure_future(ask("mallory")) for _ in range(20)]
    for _ in range(5):
        answer, seconds = await ask("alice")
        assert answer.status_code == 200
        assert seconds < 2 * READS * READ, "it is served beside one read of the other, no more"
    assert seed.most == 2
    found = Counter(answer.status_code for answer, _ in await asyncio.gather(*flood))
    assert found.keys() == {200, 429}


async def test_whoever_is_in_his_own_way_is_told_that_after_2_s(ask):
    answers = [answer for answer, _ in await asyncio.gather(*(ask("mallory") for _ in range(20)))]
    problems = [answer for answer in answers if answer.status_code == 429]
    assert 0 < len(problems) < 20
    for each in problems:
        assert "by this caller is in progress already" in each.json()["detail"]
        assert each.json()["type"] == "urn:dependency-watchdog:problem:too-many-requests"
        assert each.headers["Retry-After"] == "1"


async def test_of_one_caller_one_is_read_at_a_time_and_the_others_wait_for_it(ask, seed):
    answers = await asyncio.gather(*(ask("alice") for _ in range(3)))
    assert [answer.status_code for answer, _ in answers] == [200] * 3
    assert seed.most == 1


# The turns themselves.


def a_log() -> defaultdict[str, list[float]]:
    """When each caller's turns began."""
    return defaultdict(list)


async def held(probes, who, log, seconds=1.0):
    async with probes.turn(who):
        log[who].append(instant())
        await sleep(seconds)


async def test_a_turn_that_fails_or_is_cut_short_is_over():
    probes, log = ReadLocks(), a_log()
    with pytest.raises(ZeroDivisionError):
        async with probes.turn("a"):
            _ = 1 / 0
    cut = asyncio.ensure_future(held(probes, "a", log, 60))
    waiting = asyncio.ensure_future(held(probes, "a", log))
    await sleep(0.1)
    cut.cancel()
    await asyncio.wait([cut])
    await waiting
    assert len(log["a"]) == 2


async def test_who_stops_waiting_leaves_the_turn_to_the_next():
    probes, log = ReadLocks(), a_log()
    reads = [asyncio.ensure_future(held(probes, "a", log)) for _ in range(3)]
    await sleep(0.1)
    reads[1].cancel()
    await asyncio.wait(reads)
    first, last = log["a"]
    assert last - first == pytest.approx(1)


async def test_the_wait_for_oneself_has_an_end():
    probes, log = ReadLocks(), a_log()
    long = asyncio.ensure_future(held(probes, "a", log, 10))
    await sleep(0)
    began = instant()
    with pytest.raises(Problem):
        await held(probes, "a", log)
    assert instant() - began == pytest.approx(PATIENCE)
    await held(probes, "b", log)
    await long
    await held(probes, "a", log)
    assert len(log["a"]) == 2


async def test_nobody_is_remembered_who_waits_for_nothing():
    probes, log = ReadLocks(), a_log()
    await asyncio.gather(*(held(probes, f"caller {n}", log) for n in range(50)))
    assert len(probes) == 0
