"""Pauses through the API of two replicas and kubectl, on one ConfigMap: what one takes, the other has at once."""

import json

import httpx2
import pytest
from app.core.overrides.writer import OverrideWriter
from tests.support.overrides import MemoryStore

from app.api.views import Context, ProberView
from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.overrides import ALL_SHOOTS
from app.core.overrides.cache import OverrideCache
from app.core.overrides.service import OverrideService
from app.core.reporting.audit import AuditLog
from tests.api.facts import NAMESPACE, POLICY, healthy, protected
from tests.api.fakes import (
    FakeAuthority,
    FakeFlows,
    FakeProcess,
    FakeResources,
    FakeShoots,
    application,
)

SHOOT = f"/api/v1/shoots/{NAMESPACE}"
PAUSE = SHOOT + "/pause"
BODY = {"reason": "the load balancer is replaced", "duration": "10m"}


class Replica:
    """One process on the ConfigMap of `store`."""

    def __init__(self, store, *, leading):
        clock = store.clock
        self.store = store
        self.book = OverrideCache(store, clock, Metrics())
        override_service = OverrideService(OverrideWriter(store, self.book), self.book, clock)
        self.shoots = FakeShoots()
        self.shoots.add(healthy())
        process = FakeProcess(leading=leading, time=clock.now())
        prober = ProberView(self.shoots, POLICY, self.book, FakeFlows(), FakeResources())
        audit = AuditLog(clock.now)
        given = Context(process, self.book, override_service, FakeAuthority(), audit, prober)
        transport = httpx2.ASGITransport(application(given, audit=audit))
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")

    async def shown(self):
        """The pause of the shoot, as this replica shows it."""
        return (await self.client.get(SHOOT)).json()["pause"]


@pytest.fixture
async def replicas():
    clock = Clock.of_loop()
    store = MemoryStore(clock)
    found = Replica(store, leading=True), Replica(store.replica(), leading=False)
    yield found
    for each in found:
        await each.client.aclose()


async def test_what_a_standby_takes_the_leader_has_and_the_other_way_round(replicas):
    leader, standby = replicas
    made = (await standby.client.put(PAUSE, json=BODY)).json()
    await leader.store.clock.sleep(1)
    assert await leader.shown() == made
    assert made["until"] >= "2027-01-15T08:10:00Z", "whole seconds, and never earlier than asked"
    assert (await leader.client.delete(PAUSE)).status_code == 204
    assert await leader.shown() is None
    await leader.store.clock.sleep(1)
    assert standby.book.effective(NAMESPACE).pause is None


async def test_what_is_answered_is_what_was_written(replicas):
    leader, _ = replicas
    made = (await leader.client.put(PAUSE, json=BODY)).json()
    written = json.loads(leader.store.server.document.data[NAMESPACE])["pause"]
    assert {name: made[name] for name in written} == written


async def test_a_pause_of_kubectl_is_shown_and_ended_like_any_other(replicas):
    leader, _ = replicas
    leader.store.kubectl_set(NAMESPACE, '{"pause": {"reason": "by hand"}}')
    await leader.store.clock.sleep(1)
    found = await leader.shown()
    assert (found["reason"], found["author"], found["scope"]) == ("by hand", "unknown", "all")
    assert (await leader.client.delete(PAUSE)).status_code == 204
    assert await leader.shown() is None


async def test_a_key_that_cannot_be_read_is_replaced(replicas):
    leader, _ = replicas
    leader.store.kubectl_set(NAMESPACE, "{")
    await leader.store.clock.sleep(1)
    assert (await leader.client.put(PAUSE, json=BODY)).status_code == 200
    assert (await leader.shown())["reason"] == BODY["reason"]
    assert leader.book.effective(NAMESPACE).unreadable is None


async def test_who_is_overtaken_is_told_what_is_there_now(replicas):
    leader, standby = replicas
    overtaken = False

    async def kubectl_first(request):
        nonlocal overtaken
        if request in {"create", "replace"} and not overtaken:
            overtaken = True
            leader.store.kubectl({NAMESPACE: '{"pause": {"reason": "by hand"}}'})

    standby.store.before = kubectl_first
    answer = await standby.client.put(PAUSE, json=BODY)
    assert answer.status_code == 409
    assert "by hand" in answer.text
    assert (await leader.shown())["reason"] == "by hand"


async def test_an_end_of_the_clock_is_seen_without_any_write(replicas):
    leader, _ = replicas
    await leader.client.put(PAUSE, json=BODY)
    await leader.store.clock.sleep(601)
    assert await leader.shown() is None
    assert NAMESPACE in leader.store.server.document.data


async def test_a_refused_pause_writes_nothing_and_makes_no_config_map(replicas):
    leader, _ = replicas
    for each in replicas:
        each.shoots.add(protected())
        for url in (PAUSE, "/api/v1/pause"):
            assert (await each.client.put(url, json=BODY)).status_code == 409
        assert (await each.client.put(PAUSE, json={})).status_code == 422
        assert (await each.client.delete(PAUSE)).status_code == 204
    assert leader.store.server.document is None


async def test_a_pause_of_all_has_its_own_key(replicas):
    leader, standby = replicas
    await standby.client.put("/api/v1/pause", json=BODY)
    await leader.client.put(PAUSE, json={**BODY, "scope": "scaleDown"})
    assert set(leader.store.server.document.data) == {ALL_SHOOTS, NAMESPACE}
    await leader.store.clock.sleep(1)
    assert (await leader.shown())["covers"] == "all", "it holds back more"
