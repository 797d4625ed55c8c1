"""Services that became ready while nobody looked: at a start, and in a gap of their watch."""

import pytest

from app.core.model.weeding import Cause, End
from app.simulation.faults import PodWatched
from app.simulation.leadership import SimulatedLeadership, SimulatedPauses
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from app.simulation.workloads import API_SERVER, Workload
from tests.support.weeding import API, NAMESPACE

SCHEDULER = "kube-scheduler"
GET = frozenset({"get"})


async def came_back(stage):
    """kube-apiserver came back 100 s ago, and the scheduler has still not noticed."""
    made = stage.world()
    made.add_control_plane(NAMESPACE)
    with made.faults.service_unready(*API):
        await stage.clock.sleep(3)
    await stage.clock.sleep(100)
    made.crash_looped(NAMESPACE, SCHEDULER, 7)
    return made


async def test_a_service_that_became_ready_just_before_the_start_is_weeded_for_the_remaining_time(
    stage,
):
    world = await came_back(stage)
    stand = stage.weeder(world)
    await stand.run(2)
    assert len(stand.names()) == 1
    begun = stand.recovery()
    assert begun.cause is Cause.STARTED
    assert begun.until - begun.began == pytest.approx(200, abs=2.5)
    await stand.run(200)
    assert stand.recovery().end is End.COMPLETED


async def test_a_service_that_has_been_ready_for_longer_is_left_alone(stage):
    world = await came_back(stage)
    stand = stage.weeder(world, watch_duration=90.0)
    await stand.run(20)
    assert stand.names() == []
    assert stand.recoveries() == ()


async def test_where_it_is_not_known_since_when_it_is_ready_it_is_left_alone(stage):
    world = await came_back(stage)
    for pod in world.pods(NAMESPACE, API_SERVER):
        conditions = [{"type": "Ready", "status": "True"}]
        key = ObjectKey("Pod", NAMESPACE, pod.name)
        world.store.patch(key, {"status": {"conditions": conditions}}, status=True)
    stand = stage.weeder(world)
    await stand.run(20)
    assert stand.seed.reads
    assert stand.recoveries() == ()


async def test_the_earliest_of_the_pods_behind_it_tells_since_when(stage):
    world = await came_back(stage)
    pod, _ = world.pods(NAMESPACE, API_SERVER)
    await stage.clock.sleep(150)
    world.delete_pod(NAMESPACE, pod.name)
    await stage.clock.sleep(100)
    stand = stage.weeder(world)
    await stand.run(5)
    assert stand.recoveries() == (), "one pod is ready for a minute, the other for nearly six"


async def test_pods_are_read_at_the_start_at_fifty_a_second(stage):
    world = stage.world()
    for number in range(150):
        name = f"shoot--many--{number:03}"
        world.add_workload(Workload(name, API_SERVER, service=API_SERVER))
    stand = stage.weeder(world)
    await stand.run(10)
    times = [at for at, _ in stand.seed.reads]
    assert len(times) == 150
    assert max(sum(at <= other < at + 1 - 1e-4 for other in times) for at in times) == 50


async def test_a_read_that_fails_in_passing_is_tried_again(stage):
    world = await came_back(stage)
    failing = world.faults.seed_trouble(Trouble(error_rate=1.0, verbs=GET))
    stand = stage.weeder(world)
    await stand.run(2)
    failing.lift()
    await stand.run(10)
    assert len(stand.names()) == 1


async def test_a_service_whose_pods_cannot_be_read_is_left_alone(stage):
    world = await came_back(stage)
    with world.faults.seed_trouble(Trouble(error_rate=1.0, verbs=GET)):
        stand = stage.weeder(world)
        await stand.run(60)
    assert stand.recoveries() == ()
    reads = len(stand.seed.reads)
    await stand.run(60)
    assert len(stand.seed.reads) == reads <= 10


async def test_a_read_that_is_forbidden_is_tried_twice_more(stage):
    world = await came_back(stage)
    with world.faults.pods_forbidden("get"):
        stand = stage.weeder(world)
        await stand.run(60)
    assert len(stand.seed.reads) == 6, "three for each service"


async def test_a_refusal_in_passing_does_not_lose_the_recovery(stage):
    world = await came_back(stage)
    with world.faults.pods_forbidden("get"):
        stand = stage.weeder(world)
        await stand.run(1.5)
    await stand.run(5)
    assert stand.recoveries(API)


async def test_a_pod_that_is_gone_by_then_tells_nothing(stage):
    world = await came_back(stage)
    stand = stage.weeder(world)
    gone: list[str] = []
    original = stand.seed.read_pod

    async def first_is_gone(namespace, name):
        if not gone and name.startswith(API_SERVER):
            gone.append(name)
            return None
        return await original(namespace, name)

    stand.seed.read_pod = first_is_gone
    await stand.run(2)
    assert gone
    assert len(stand.names()) == 1


async def test_when_leadership_is_won_the_same_holds(stage):
    world = await came_back(stage)
    leadership = SimulatedLeadership(leading=False)
    stand = stage.weeder(world, leadership=leadership)
    await stand.run(20)
    assert stand.recoveries() == ()
    assert stand.seed.reads == []
    leadership.become(leading=True)
    await stand.run(2)
    assert len(stand.names()) == 1
    assert stand.recovery().until - stand.recovery().began == pytest.approx(180, abs=3)


async def test_a_standby_that_saw_a_service_come_back_need_not_ask_since_when(stage):
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    leadership = SimulatedLeadership(leading=False)
    stand = stage.weeder(world, leadership=leadership)
    back = await stand.recover(SCHEDULER, settle=60)
    assert stand.names() == []
    assert stand.seed.open_watches == 0
    leadership.become(leading=True)
    await stand.run(1)
    assert len(stand.names()) == 1
    assert stand.recovery().until - back == pytest.approx(300, abs=0.2)
    assert API_SERVER not in {name[: len(API_SERVER)] for _, name in stand.seed.reads}


async def test_a_service_that_is_lost_while_its_pods_are_read_is_left_alone(stage):
    world = await came_back(stage)
    stand = stage.weeder(world)
    original = stand.seed.read_pod

    async def answer_late(namespace, name):
        found = await original(namespace, name)
        await stand.run(3)
        return found

    stand.seed.read_pod = answer_late
    await stand.run(1)
    fault = await stand.lose()
    await stand.run(10)
    assert stand.seed.reads
    assert stand.recoveries() == ()
    fault.lift()


async def test_a_recovery_that_began_while_its_pods_were_read_is_not_replaced(stage):
    world = await came_back(stage)
    slow = world.faults.seed_trouble(Trouble(latency=6.0, verbs=GET))
    stand = stage.weeder(world)
    await stand.run(1)
    await stand.recover()
    await stand.run(20)
    assert [each.cause for each in stand.recoveries()] == [Cause.BECAME_READY]
    slow.lift()


async def test_nothing_is_deleted_before_overrides_are_listed(stage):
    world = await came_back(stage)
    pauses = SimulatedPauses()
    pauses.synced = False
    stand = stage.weeder(world, pauses=pauses)
    await stand.run(30)
    assert stand.recovery().phase == "Watching"
    assert stand.seed.sent == []
    pauses.synced = True
    await stand.run(0.2)
    assert len(stand.names()) == 1


# Gaps.


async def gap(stand, seconds, during, *, expired=True):
    with stand.world.faults.pod_watch_cut(PodWatched.SLICES, expired=expired):
        await during()
        await stand.run(seconds)
    await stand.run(seconds + 30)


@pytest.mark.parametrize("expired", [True, False], ids=["expired", "cut"])
async def test_a_service_that_came_back_within_a_gap_is_a_recovery(stand, expired):
    async def away_for_a_moment():
        await stand.run(2)
        with stand.world.faults.service_unready(*API):
            await stand.run(2)
            stand.crash(SCHEDULER)

    await stand.run(5)
    await gap(stand, 5, away_for_a_moment, expired=expired)
    assert len(stand.names()) == 1
    assert stand.recovery().cause is (Cause.GAP if expired else Cause.BECAME_READY)


async def test_a_service_whose_slices_changed_but_that_was_ready_all_the_time_is_none(stand):
    async def one_pod_more():
        pod, _ = stand.world.pods(NAMESPACE, API_SERVER)
        stand.world.delete_pod(NAMESPACE, pod.name)

    await stand.run(5)
    stand.crash(SCHEDULER)
    await gap(stand, 20, one_pod_more)
    assert stand.seed.reads[-1][1].startswith(API_SERVER)
    assert stand.recoveries() == ()


async def test_services_whose_slices_are_as_before_are_not_asked_for(stand):
    async def nothing():
        await stand.run(1)

    await stand.run(5)
    before = len(stand.seed.reads)
    await gap(stand, 20, nothing)
    assert len(stand.seed.reads) == before
    assert stand.recoveries() == ()


async def test_a_service_that_was_lost_before_and_is_ready_after_a_gap_is_a_recovery(stand):
    fault = await stand.lose()

    async def comes_back():
        stand.crash(SCHEDULER)
        fault.lift()

    await gap(stand, 5, comes_back)
    assert stand.recovery().cause is Cause.GAP
    assert len(stand.names()) == 1


async def test_a_service_that_was_lost_within_a_gap_ends_its_recovery(stand):
    await stand.recover()

    async def goes():
        stand.world.faults.service_unready(*API)

    await gap(stand, 5, goes)
    assert stand.recovery().end is End.LOST
    assert not stand.status().ready


async def test_one_that_comes_back_within_a_gap_replaces_the_recovery_from_before(stand):
    """Its dependants have crashed anew, and have the whole time again."""
    await stand.recover()
    await stand.run(100)

    async def away_for_a_moment():
        await stand.run(3)
        with stand.world.faults.service_unready(*API):
            await stand.run(2)

    await gap(stand, 3, away_for_a_moment)
    assert [each.cause for each in stand.recoveries()] == [Cause.GAP, Cause.BECAME_READY]
    newer, older = stand.recoveries()
    assert older.end is End.REPLACED
    assert newer.until - older.until > 90


async def test_a_gap_in_the_middle_of_a_recovery_leaves_it_as_it_is(stand):
    await stand.recover()

    async def one_pod_more():
        await stand.run(5)
        pod, _ = stand.world.pods(NAMESPACE, API_SERVER)
        stand.world.delete_pod(NAMESPACE, pod.name)

    await gap(stand, 10, one_pod_more)
    assert [each.id for each in stand.recoveries()] == [1]
    assert stand.recovery().end is None


async def test_a_standby_that_had_a_gap_asks_when_it_takes_over(stage):
    """What it saw long ago does not hold any more."""
    world = stage.world()
    world.add_control_plane(NAMESPACE)
    leadership = SimulatedLeadership(leading=False)
    stand = stage.weeder(world, leadership=leadership)
    await stand.recover()
    await stand.run(1000)

    async def away_for_a_moment():
        await stand.run(2)
        with stand.world.faults.service_unready(*API):
            await stand.run(2)

    await gap(stand, 5, away_for_a_moment)
    assert stand.status().since is None
    stand.crash(SCHEDULER)
    leadership.become(leading=True)
    await stand.run(1)
    assert len(stand.names()) == 1
    assert stand.recovery().cause is Cause.STARTED


async def test_a_stall_of_the_watch_loses_nothing(stand):
    await stand.run(5)
    with stand.world.faults.pod_watch_stalled(PodWatched.SLICES):
        with stand.world.faults.service_unready(*API):
            await stand.run(5)
            stand.crash(SCHEDULER)
        await stand.run(5)
        assert stand.recoveries() == ()
    await stand.run(1)
    assert len(stand.names()) == 1


async def test_a_stop_of_the_process_in_mid_recovery_is_taken_up_by_the_next(stand):
    await stand.recover()
    await stand.kill()
    stand.crash(SCHEDULER)
    await stand.run(30)
    again = stand.again()
    await again.run(2)
    assert len(again.names()) == 1
    assert again.recovery().cause is Cause.STARTED
    assert again.seed.open_watches == 1, "that of the one that was killed is closed"


async def test_questions_that_nobody_asks_any_more_begin_nothing(stage):
    world = await came_back(stage)
    leadership = SimulatedLeadership()
    slow = world.faults.seed_trouble(Trouble(latency=3.0, verbs=GET))
    stand = stage.weeder(world, leadership=leadership)
    await stand.run(1)
    leadership.become(leading=False)
    await stand.run(10)
    assert stand.recoveries() == ()
    slow.lift()
