"""Pauses through the API of two replicas and kubectl, on one seed: what one takes, the other has at once."""

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from app.core.clock import Clock
from app.core.model.overrides import API_PAUSE
from app.core.reporting.audit import AuditLog
from app.core.tasks import Tasks
from app.service.loops import OverrideFeature
from app.simulation.identities import WATCHDOG
from tests.api.facts import NAMESPACE, healthy
from tests.api.fakes import FakeProcess, FakeShoots, application, context
from tests.support.harness import GARDENER
from tests.support.seed_lab import SeedLab

SHOOT = f"/api/v1/shoots/{NAMESPACE}"
PAUSE = SHOOT + "/pause"
BODY = {"reason": "the load balancer is replaced", "duration": "10m"}


class Ticking(FakeProcess):
    """A process by a clock that goes on."""

    def __init__(self, clock, *, leading):
        super().__init__(leading=leading)
        self._clock = clock

    def now(self):
        return self._clock.now()


class Replica:
    """One process on the seed of `world`."""

    def __init__(self, lab, world, *, leading):
        core = lab.core()
        self.process = lab.process(world, core, WATCHDOG, prober=GARDENER)
        feature = OverrideFeature(core, self.process.adapters, dry_run=False)
        feature.start()
        self.process.start()
        self.view = feature.view
        self.shoots = FakeShoots()
        self.shoots.add(healthy())
        process: Any = Ticking(core.clock, leading=leading)
        given = context(self.shoots, overrides=self.view)
        audit = AuditLog(core.clock.now)
        given = replace(
            given, process=process, override_service=feature.override_service, audit=audit
        )
        transport = httpx2.ASGITransport(application(given, audit=audit))
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")

    async def shown(self):
        """The pause of the shoot that acts, as this replica shows it; None if there is none."""
        found = (await self.client.get(f"{SHOOT}/pauses")).json()["items"]
        return next(iter(found), None)


class Seed:
    """The seed, a leader and a standby."""

    def __init__(self, lab, world):
        self.clock, self.world = lab.clock, world
        self.leader = Replica(lab, world, leading=True)
        self.standby = Replica(lab, world, leading=False)

    @property
    def replicas(self):
        return self.leader, self.standby

    def pauses(self):
        """What is there, by namespace and name."""
        found = [each["metadata"] for each in self.world.parts.store.list("Pause")]
        return [(each["namespace"], each["name"]) for each in found]


@pytest.fixture
async def seed():
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    lab = SeedLab(tasks, clock)
    world = lab.world()
    world.add_shoot(NAMESPACE)
    found = Seed(lab, world)
    await clock.sleep(1)
    yield found
    for each in found.replicas:
        await each.client.aclose()
        await each.process.kill()
    await tasks.stop()


async def test_what_a_standby_takes_the_leader_has_and_the_other_way_round(seed):
    made = (await seed.standby.client.put(PAUSE, json=BODY)).json()
    await seed.clock.sleep(1)
    assert await seed.leader.shown() == made
    assert (made["name"], made["author"], made["verified"]) == (API_PAUSE, "tester", True)
    assert (await seed.leader.client.delete(PAUSE)).status_code == 204
    assert await seed.leader.shown() is None
    await seed.clock.sleep(1)
    assert await seed.standby.shown() is None


async def test_a_plan_says_what_will_be_written(seed):
    for _ in range(2):
        # Times are written in whole seconds: the two calls are within one.
        await seed.clock.sleep(1.05 - seed.clock.now() % 1)
        dry = (await seed.leader.client.put(PAUSE, json={**BODY, "dryRun": True})).json()
        made = (await seed.leader.client.put(PAUSE, json=BODY)).json()
        (change,) = dry["changes"]
        assert change["object"] == f"Pause {NAMESPACE}/{API_PAUSE}"
        assert change["after"] == made
        await seed.clock.sleep(5)


async def test_a_pause_of_kubectl_is_shown_and_ended_by_its_name(seed):
    seed.world.people.create("Pause", NAMESPACE, "night-shift", reason="by hand", author="bob")
    await seed.clock.sleep(1)
    found = await seed.leader.shown()
    assert (found["reason"], found["author"], found["scope"]) == ("by hand", "bob", "all")
    assert (found["name"], found["verified"]) == ("night-shift", False)
    assert (await seed.leader.client.delete(PAUSE)).status_code == 204
    assert await seed.leader.shown() == found, "the API's pause is another one"
    path = f"{SHOOT}/pauses/night-shift"
    assert (await seed.standby.client.delete(path)).status_code == 204
    assert (await seed.standby.client.delete(path)).status_code == 404
    await seed.clock.sleep(1)
    assert await seed.leader.shown() is None
    assert seed.pauses() == []


async def test_the_name_of_the_api_may_be_kubectls_and_is_replaced(seed):
    seed.world.people.create("Pause", NAMESPACE, API_PAUSE, reason="by hand")
    await seed.clock.sleep(1)
    assert (await seed.leader.shown())["author"] == "unknown"
    made = (await seed.leader.client.put(PAUSE, json=BODY)).json()
    assert (made["reason"], made["author"], made["verified"]) == (BODY["reason"], "tester", True)
    assert seed.pauses() == [(NAMESPACE, API_PAUSE)]


async def test_who_is_overtaken_is_told_what_is_there_now(seed):
    with seed.world.faults.overrides_watch_stalled():
        await seed.clock.sleep(1)
        seed.world.people.create("Pause", NAMESPACE, API_PAUSE, reason="by hand", author="bob")
        answer = await seed.standby.client.put(PAUSE, json=BODY)
        assert answer.status_code == 409
        assert answer.json()["now"] == {"author": "bob", "reason": "by hand"}
        found = await seed.standby.shown()
        assert found["reason"] == "by hand", "it has read what is there now"
        assert (await seed.standby.client.put(PAUSE, json=BODY)).status_code == 200
        same = await seed.leader.client.put(PAUSE, json=BODY)
        assert same.status_code == 200, "it is so already"
        assert len(seed.pauses()) == 1


async def test_what_two_replicas_want_at_once_is_what_the_first_one_wanted(seed):
    with seed.world.faults.overrides_watch_stalled():
        await seed.clock.sleep(1)
        assert (await seed.standby.client.put(PAUSE, json=BODY)).status_code == 200
        answer = await seed.leader.client.put(PAUSE, json={**BODY, "reason": "another"})
        assert answer.status_code == 409
        assert answer.json()["now"]["reason"] == BODY["reason"]
