"""Weeders that die in the middle of a recovery, and others that go on where they stopped."""

import asyncio
import datetime as dt
import time

from tests.e2e import objects
from tests.e2e import weeder_objects as things
from tests.e2e.api import Json
from tests.e2e.audit import Request
from tests.e2e.parallel import scenario
from tests.e2e.program import SHORT_LEASE, Program
from tests.e2e.stage import Stage
from tests.e2e.weeder_actors import Place
from tests.e2e.weeder_objects import APISERVER
from tests.e2e.weeder_stage import GARDEN, SLOWLY, WeederSeed, recoveries, weeding

OWNERS, EACH, KILLED_AT = 10, 5, 12
DURATION = 300.0
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{GARDEN}/leases"


async def goes_on(weeder: Program, place: Place, since: float) -> None:
    """Its only recovery is for the time that is left, counted from when the service became ready."""
    (recovery,) = await recoveries(weeder, place, APISERVER)
    assert recovery["cause"] == "Started"
    until = dt.datetime.fromisoformat(recovery["until"]).timestamp()
    assert abs(until - since - DURATION) <= 2, "instants of pods are cut to whole seconds"


@scenario()
async def test_the_standby_goes_on_after_sigkill_in_the_middle_of_a_recovery(stage: Stage) -> None:
    """What the leader had asked for last may be answered by nobody; the standby asks for none of it again."""
    async with weeding(stage) as seed:
        place = await seed.place()
        waiting = await place.workloads(OWNERS, EACH)
        await place.service(APISERVER, ready=False)
        leader = await seed.leader(**SLOWLY, **SHORT_LEASE)
        standby = await seed.start(**SLOWLY, **SHORT_LEASE)
        assert not await standby.leads()
        since = await place.service(APISERVER, ready=True)
        await seed.until_some_deleted(KILLED_AT)
        await leader.kill()
        killed, before = time.time(), len(seed.deleted())
        assert before < len(waiting)
        done = await seed.until_deleted(waiting, within=40)
        took = done[before].at - killed
        stage.figure(f"SIGKILL: the standby deletes {took:.1f} s after, with a Lease of 4 s")
        assert took <= 4 + 2 * 1.2 + 2, "the Lease, two retries"
        await asyncio.sleep(3)
        assert len(seed.deleted()) == len(waiting), "none twice"
        await goes_on(standby, place, since)


# Both loops in one process.


def of_lease(asked: list[Request], name: str) -> list[Request]:
    """Writes of a Lease that went through."""
    return [each for each in asked if each.writes and each.code < 300 and each.name == name]


async def renew_as_another(seed: WeederSeed) -> None:
    """Somebody else holds the prober's Lease, and renews it."""
    while True:
        path = f"{LEASES}/{objects.LEASE}"
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        await seed.api.patch(path, {"spec": {"renewTime": now}})
        await asyncio.sleep(1)


def held_by(holder: str) -> Json:
    return {
        "metadata": {"name": objects.LEASE},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }


@scenario()
async def test_both_loops_in_one_process_take_the_weeders_lease_only_with_the_probers(
    stage: Stage,
) -> None:
    """While another one holds the prober's Lease, the weeder's is free, observed and not taken, and nothing is weeded.

    Then both are taken, in this order, and what came back just before is weeded for; on SIGTERM both are given back,
    the weeder's first.
    """
    async with weeding(stage) as seed:
        await seed.grant_both_loops()
        place = await seed.place()
        waiting = await place.workloads(3, 2)
        await place.service(APISERVER, ready=False)
        await seed.api.create(LEASES, held_by("another"))
        other = asyncio.create_task(renew_as_another(seed))
        both = seed.prepare(things.both(things.settings()))
        await both.start()
        await place.service(APISERVER, ready=True)
        await asyncio.sleep(10)
        assert not of_lease(seed.requests(), objects.LEASE)
        observed = [each for each in seed.requests() if each.name == things.LEASE]
        assert {each.verb for each in observed} == {"get"}
        assert not seed.deletions()
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        await seed.api.patch(f"{LEASES}/{objects.LEASE}", {"spec": {"holderIdentity": ""}})
        await seed.until_deleted(waiting, within=20)
        took = [of_lease(seed.requests(), name)[0] for name in (objects.LEASE, things.LEASE)]
        assert took[0].done <= took[1].at
        stopped = time.time()
        assert await both.terminate(within=3) == 0
        given = [
            of_lease(seed.requests(stopped), each)[-1] for each in (things.LEASE, objects.LEASE)
        ]
        assert given[0].done <= given[1].at
        for name in (objects.LEASE, things.LEASE):
            assert not (await seed.api.get(f"{LEASES}/{name}"))["spec"].get("holderIdentity")
