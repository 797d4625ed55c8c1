"""A right that the weeder lacks is named; everything else goes on, and it works once the right is given."""

import asyncio

from tests.e2e import objects
from tests.e2e import weeder_objects as things
from tests.e2e.api import Json
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program
from tests.e2e.stage import Stage
from tests.e2e.weeder_actors import Place
from tests.e2e.weeder_objects import APISERVER
from tests.e2e.weeder_stage import WeederSeed, recoveries, weeding

LEASE_MOVES = 6.0


async def is_reported(weeder: Program, verb: str) -> None:
    """By the metric, the verbose answer of /readyz, which stays 200, and as an error in the log."""

    async def known() -> bool:
        return bool(await weeder.metric("dwd_missing_permissions", verb=verb, resource="pods"))

    await eventually(known, f"the missing right to {verb} pods is a metric", within=15)
    readiness = await weeder.readiness()
    assert f"{verb} pods" in readiness
    assert await weeder.is_ready()
    errors = [line for line in weeder.logs() if line.get("level") == "error"]
    assert any(line.get("right") == f"{verb} pods" for line in errors), errors


async def ended(weeder: Program, place: Place) -> Json:
    """Waits until the newest recovery has ended; returns it."""

    async def has() -> Json | None:
        found = await recoveries(weeder, place, APISERVER)
        return found[0] if found and found[0]["ended"] else None

    return await eventually(has, "the recovery has ended", within=20) or {}


async def rest_goes_on(seed: WeederSeed, weeder: Program) -> None:
    """It leads, renews its Lease, follows the slices, and has nothing to complain about but the right."""
    writes = len([each for each in seed.requests() if each.resource == "leases"])
    await asyncio.sleep(LEASE_MOVES)
    asked = seed.requests()
    assert len([each for each in asked if each.resource == "leases"]) >= writes + 2
    assert await weeder.leads()
    slices = [each for each in asked if each.resource == "endpointslices"]
    assert {each.code for each in slices} == {200}


async def comes_back(place: Place) -> float:
    """The service is lost, and ready again."""
    await place.service(APISERVER, ready=False)
    await asyncio.sleep(1)
    return await place.service(APISERVER, ready=True)


@scenario()
async def test_without_the_right_to_delete_one_recovery_gives_up_and_the_rest_goes_on(
    stage: Stage,
) -> None:
    """After the first refusal one deletion at a time is tried, two more in all, as an API server that has just started
    refuses for a moment what it is about to allow. With the right the next recovery deletes.
    """
    async with weeding(stage) as seed:
        await seed.grant(things.weeder_rules(pods="get list watch"))
        place = await seed.place()
        waiting = await place.workloads(10, 3)
        await place.service(APISERVER, ready=False)
        weeder = await seed.leader()
        await is_reported(weeder, "delete")
        await place.service(APISERVER, ready=True)
        found = await ended(weeder, place)
        assert found["end"] == "Forbidden"
        assert "delete" in found["trouble"]
        assert found["deletions"] == []
        refused = seed.deletions()
        assert {each.code for each in refused} == {403}
        assert len(refused) <= 20 + 2, "a second's worth was on its way"
        await rest_goes_on(seed, weeder)
        assert len(seed.deletions()) == len(refused)
        assert waiting.items() <= (await place.there()).items()
        await seed.grant(things.weeder_rules())
        await comes_back(place)
        await seed.until_deleted(waiting, within=15)
        assert (await recoveries(weeder, place, APISERVER))[0]["trouble"] is None


@scenario()
async def test_without_the_right_to_watch_slices_it_is_not_ready_until_it_is_given(
    stage: Stage,
) -> None:
    """Nothing can be known of services then; what came back meanwhile is weeded for, once they are known.

    For one lease duration it leaves leading to others, who may know more.
    """
    async with weeding(stage) as seed:
        await seed.grant([objects.rule("", ["pods"], "get list watch delete")])
        place = await seed.place()
        waiting = await place.workloads(2, 2)
        await place.service(APISERVER, ready=False)
        weeder = seed.prepare(things.weeder(things.settings()))
        await weeder.child.start()
        await eventually(weeder.leads, "it leads", within=15 + 20)
        assert not await weeder.is_ready()
        assert "endpointslices" in await weeder.readiness()
        await place.service(APISERVER, ready=True)
        await seed.grant(things.weeder_rules())
        await eventually(weeder.is_ready, "it is ready", within=40)
        await seed.until_deleted(waiting, within=15)
