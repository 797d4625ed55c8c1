"""Watches are cut and expire, the API server restarts, pods change: nothing is missed, nothing deleted twice."""

import asyncio
import time

from tests.e2e.parallel import scenario
from tests.e2e.program import PATIENT, Program
from tests.e2e.stage import Stage
from tests.e2e.weeder_actors import Place, Uids
from tests.e2e.weeder_objects import APISERVER
from tests.e2e.weeder_stage import SLOWLY, WeederSeed, recoveries, weeding

OWNERS, EACH = 10, 5


async def under_way(seed: WeederSeed, deleted: int, **flags: str) -> tuple[Place, Uids, Program]:
    """A recovery with 50 pods, of which so many are deleted."""
    place = await seed.place()
    waiting = await place.workloads(OWNERS, EACH)
    await place.service(APISERVER, ready=False)
    weeder = await seed.leader(**SLOWLY, **flags)
    await place.service(APISERVER, ready=True)
    await seed.until_some_deleted(deleted)
    assert len(seed.deleted()) < OWNERS * EACH / 2, "there is more to come"
    return place, waiting, weeder


async def only_recovery(weeder: Program, place: Place) -> None:
    """A list anew is none, nor is a watch that was opened again."""
    (recovery,) = await recoveries(weeder, place, APISERVER)
    assert (recovery["cause"], recovery["phase"]) == ("BecameReady", "Watching")
    assert await weeder.metric("dwd_weeder_recoveries_total") == 1


@scenario()
async def test_restarts_of_the_api_server_in_a_recovery_miss_no_pod_and_delete_none_twice(
    stage: Stage,
) -> None:
    """It is stopped, and killed. Positions are gone then (410), and what they are of is listed anew.

    Not that of a watch to which nothing had to be told since: its position is the one that the server begins with.
    """
    async with weeding(stage) as seed:
        place, waiting, weeder = await under_way(seed, 8, **PATIENT)
        await seed.plane.child.stop()
        await seed.plane.start()
        waiting |= await place.workloads(2, 2, named="late")
        await seed.until_some_deleted(20, within=40)
        await seed.plane.child.kill()
        await seed.plane.start()
        back = time.time()
        waiting |= await place.workloads(2, 2, named="later")
        done = await seed.until_deleted(waiting, within=60)
        after = [each.at for each in done if each.at > back]
        stage.figure(f"API server restarted: goes on {after[0] - back:.1f} s after it was back")
        await asyncio.sleep(3)
        assert len(seed.deleted()) == len(waiting)
        expired = await weeder.metric("dwd_watch_restarts_total", kind="pods", reason="Expired")
        assert expired in {1, 2}
        await only_recovery(weeder, place)


@scenario()
async def test_after_a_gap_only_services_that_came_back_in_it_are_weeded(stage: Stage) -> None:
    """The watch of the slices expires unseen: of four services two came back, and for those it deletes.

    One was not ready before. One was ready, and is so again: the pod behind it tells since when. The third has
    changed, but was ready all the time; the fourth is as it was.
    """
    async with weeding(stage) as seed:
        lost, again, touched, same = [await seed.place() for _ in range(4)]
        waiting = {}
        an_hour_ago = time.time() - 3600
        for place in (lost, again, touched, same):
            waiting[place] = await place.workloads(2, 2)
            ready = place is not lost
            await place.service(APISERVER, ready=ready, since=an_hour_ago if ready else None)
        weeder = await seed.leader(**PATIENT)
        await asyncio.sleep(1)
        await seed.way.cut()
        await lost.service(APISERVER, ready=True)
        await again.service(APISERVER, ready=False)
        await asyncio.sleep(1)
        await again.service(APISERVER, ready=True)
        await again.touch_service(APISERVER)
        await touched.touch_service(APISERVER)
        await seed.plane.child.stop()
        await seed.plane.start()
        await seed.way.heal()
        back = time.time()
        done = await seed.until_deleted(waiting[lost], waiting[again], within=40)
        stage.figure(f"gap: all deleted {done[-1].done - back:.1f} s after the way was open")
        causes = {}
        for place in (lost, again, touched, same):
            causes[place] = [each["cause"] for each in await recoveries(weeder, place, APISERVER)]
        assert causes == {lost: ["Gap"], again: ["Gap"], touched: [], same: []}
        restarts = await weeder.metric("dwd_watch_restarts_total", kind="endpointslices")
        assert restarts
