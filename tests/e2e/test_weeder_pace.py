"""Recoveries that come too often wait; and where nothing happens, next to nothing is asked for."""

import asyncio
import datetime as dt
import itertools
import time
from collections import Counter

from tests.e2e import weeder_objects as things
from tests.e2e.parallel import scenario
from tests.e2e.processes import eventually
from tests.e2e.program import Program
from tests.e2e.stage import Stage
from tests.e2e.weeder_actors import Place
from tests.e2e.weeder_objects import APISERVER
from tests.e2e.weeder_stage import WeederSeed, recoveries, weeding

PERIOD = 5.0
AT_ONCE = 3
FIRST_WAIT = 30.0
OWNERS, EACH, CAP = 3, 2, 8


async def all_crash(place: Place) -> None:
    """The service is lost, and what depends on it crashes."""
    await place.service(APISERVER, ready=False)
    there = await place.there()
    alive = [name for name in there if name.startswith("wait")]
    await place.all_become(alive, things.crash_looping)


async def flap(seed: WeederSeed, place: Place, times: int) -> list[float]:
    """Lost and ready again every 5 s; returns the instants at which it was ready."""
    back = []
    for _ in range(times):
        began = time.time()
        await all_crash(place)
        await asyncio.sleep(max(began + PERIOD / 2 - time.time(), 0))
        back.append(await place.service(APISERVER, ready=True))
        await asyncio.sleep(max(began + PERIOD - time.time(), 0))
    return back


@scenario()
async def test_a_service_that_flaps_every_5_s_is_weeded_for_three_times_then_after_30_s(
    stage: Stage,
) -> None:
    """Six times ready, each for some seconds, then for good: what waits then is deleted 30 s later.

    In between no pod is watched and none deleted. No owner loses more than its cap.
    """
    async with weeding(stage) as seed:
        place = await seed.place()
        await place.workloads(OWNERS, EACH)
        await place.service(APISERVER, ready=False)
        weeder = await seed.leader(things.settings(maxDeletionsPerWorkload=CAP))
        back = await flap(seed, place, 6)
        flapping = seed.deleted()
        assert len(flapping) == AT_ONCE * OWNERS * EACH
        assert all(back[0] < each.at < back[AT_ONCE] for each in flapping)
        last = await waiting_since(weeder, place)
        await seed.until_some_deleted((AT_ONCE + 1) * OWNERS * EACH, within=FIRST_WAIT + 10)
        late = seed.deleted(last)
        stage.figure(f"flapping: weeded for {late[0].at - last:.1f} s after it was ready for good")
        assert FIRST_WAIT - 0.5 <= late[0].at - last <= FIRST_WAIT + 4
        assert set(Counter(owner_of(each.name) for each in seed.deleted()).values()) == {CAP}
        watches = seed.pod_watches()
        assert len(watches) == AT_ONCE + 1
        for ended, following in itertools.pairwise(watches):
            assert ended.ended is not None
            assert ended.ended < following.began.at, "one at a time"
        lost = [ready + PERIOD / 2 for ready in back[:AT_ONCE]]
        ends = [watch.ended - at for watch, at in zip(watches, lost, strict=False) if watch.ended]
        assert len(ends) == AT_ONCE
        assert max(ends) < 2, "closed as soon as the service is lost"


def owner_of(pod: str) -> str:
    return pod.partition("-")[0]


async def waiting_since(weeder: Program, place: Place) -> float:
    """The last recovery waits; when it began."""
    (newest, *_) = await recoveries(weeder, place, APISERVER)
    assert newest["phase"] == "Waiting"
    assert await weeder.metric("dwd_weeder_watches_active") == 0
    return dt.datetime.fromisoformat(newest["began"]).timestamp()


SETTLED = 8.0
IDLE = 65.0


@scenario()
async def test_where_nothing_comes_back_only_slices_are_watched_and_the_lease_renewed(
    stage: Stage,
) -> None:
    """65 s with services that are ready for an hour, others that are not ready, and pods that wait.

    A service that was ready for longer than `watchDuration` at the start is left alone.
    """
    async with weeding(stage) as seed:
        places = [await seed.place() for _ in range(3)]
        for place in places:
            await place.workloads(2, 2)
            await place.service(APISERVER, ready=True, since=time.time() - 3600)
            await place.service(things.ETCD, ready=False)
        weeder = await seed.leader()

        async def settled() -> bool:
            return len([each for each in seed.requests() if each.resource == "pods"]) >= 5

        await eventually(settled, "services and selectors were looked at", within=15)
        await asyncio.sleep(SETTLED)
        since = time.time()
        await asyncio.sleep(IDLE)
        asked = Counter((each.verb, each.resource) for each in seed.requests(since))
        stage.figure(f"idle: in {IDLE:.0f} s {dict(asked)}")
        watches = {("watch", "endpointslices"), ("watch", "pauses")}
        assert set(asked) == {("update", "leases"), *watches}
        assert asked["watch", "endpointslices"] in {1, 2}, "each lasts 45 to 60 s"
        assert asked["update", "leases"] <= IDLE / 2 + 1
        assert await weeder.metric("dwd_weeder_watches_active") == 0
        whole = Counter((each.verb, each.resource) for each in seed.requests())
        assert whole["list", "endpointslices"] == 1
        assert whole["get", "pods"] == len(places), "since when each service is ready"
        assert whole["list", "pods"] == 2, "whether each selector matches anything"
        assert not seed.deletions()


@scenario()
async def test_a_dry_run_tells_what_it_would_delete_and_writes_nothing(stage: Stage) -> None:
    async with weeding(stage) as seed:
        place = await seed.place()
        waiting = await place.workloads(5, 2)
        await place.service(APISERVER, ready=False)
        weeder = await seed.start(dry_run="true")
        await place.service(APISERVER, ready=True)

        async def counted() -> bool:
            found = await weeder.metric("dwd_weeder_pod_deletions_total", result="dry-run")
            return found == len(waiting)

        await eventually(counted, "all would be deleted", within=10)
        await asyncio.sleep(8)
        assert await counted(), "none twice"
        (recovery,) = await recoveries(weeder, place, APISERVER)
        assert {each["pod"] for each in recovery["deletions"]} == set(waiting)
        writes = {(each.verb, each.resource) for each in seed.requests() if each.writes}
        assert writes <= {("create", "selfsubjectaccessreviews")}
        assert waiting.items() <= (await place.there()).items()
