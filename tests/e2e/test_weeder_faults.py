"""Watches are cut and expire, the API server restarts, pods change: nothing is missed, nothing deleted twice."""

import asyncio
import time

from tests.e2e import weeder_objects as things
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program
from tests.e2e.stage import Stage
from tests.e2e.weeder_actors import Place, Uids
from tests.e2e.weeder_objects import APISERVER, ETCD
from tests.e2e.weeder_stage import PATIENT, SLOWLY, WeederSeed, recoveries, uid_of, weeding

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
async def test_a_cut_in_the_middle_of_a_recovery_misses_no_pod_and_deletes_none_twice(
    stage: Stage,
) -> None:
    """For 3 s nothing gets through; meanwhile pods begin to wait, others run again, one is gone."""
    async with weeding(stage) as seed:
        place, waiting, weeder = await under_way(seed, 8)
        await seed.way.cut()
        waiting |= await place.workloads(2, 2, named="late")
        await seed.find_cut_off()
        gone = {uid_of(each) for each in seed.deleted()}
        left = [name for name, uid in waiting.items() if uid not in gone and "wait" in name]
        healed, ended = left[0], left[1]
        await place.becomes(healed, things.running())
        await place.begin_to_end(ended)
        await asyncio.sleep(3)
        await seed.way.heal()
        back = time.time()
        wanted = {name: uid for name, uid in waiting.items() if name not in {healed, ended}}
        done = await seed.until_deleted(wanted, within=40)
        after = [each.at for each in done if each.at > back]
        stage.figure(f"cut for 3 s: goes on {after[0] - back:.1f} s after")
        await asyncio.sleep(3)
        assert len(seed.deleted()) == len(wanted)
        assert healed in await place.there()
        await only_recovery(weeder, place)


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


ON_ITS_WAY = 0.7


@scenario()
async def test_a_pod_that_changes_after_its_judgement_is_not_deleted_but_judged_again(
    stage: Stage,
) -> None:
    """Requests take 1.4 s to arrive; meanwhile one pod runs again, another one is changed and waits on.

    Both deletions are refused for what has changed. The first pod stays; the second is deleted as it is now.
    """
    async with weeding(stage) as seed:
        place = await seed.place()
        await place.service(ETCD, ready=False)
        pods = await place.pod("heals-0", things.running(), labels=things.OF_APISERVER)
        pods |= await place.pod("waits-0", things.running(), labels=things.OF_APISERVER)
        weeder = await seed.leader(**PATIENT)
        await place.service(ETCD, ready=True)

        async def watched() -> bool:
            return len(seed.pod_watches()) == 1

        await eventually(watched, "the pods are watched", within=10)
        seed.way.slow_requests(ON_ITS_WAY)
        await place.all_become(pods, things.crash_looping)
        await asyncio.sleep(ON_ITS_WAY)
        assert not seed.deletions()
        await place.becomes("heals-0", things.running())
        await place.annotate("waits-0", "example.org/changed", "yes")
        await until_refused(seed, 2)
        seed.way.slow_requests(0)
        (done,) = await seed.until_deleted({"waits-0": pods["waits-0"]}, within=10)
        refused = [each for each in seed.deletions() if each.code == 409]
        assert {each.name for each in refused} == set(pods)
        assert {uid_of(each) for each in refused} == set(pods.values())
        (before,) = [each for each in refused if each.name == "waits-0"]
        versions = [each.body["preconditions"]["resourceVersion"] for each in (before, done)]
        assert versions[0] != versions[1], "judged on its next version"
        assert done.at - before.done >= 0.9, "once a second at most"
        await asyncio.sleep(3)
        assert len(seed.deletions()) == 3
        assert pods["heals-0"] in (await place.there()).values()
        conflicts = await weeder.metric("dwd_weeder_pod_deletions_total", result="conflict")
        assert conflicts == 2


async def until_refused(seed: WeederSeed, number: int) -> None:
    async def are() -> bool:
        return len([each for each in seed.deletions() if each.code == 409]) >= number

    await eventually(are, f"{number} deletions are refused", within=10)
