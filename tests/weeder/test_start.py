"""Services that became ready while nobody looked: at a start, and in a gap of their watch."""

from contextlib import asynccontextmanager

import pytest

from app.core.model.weeding import Cause, End
from app.core.ports import Preparation
from app.simulation.faults import PodWatched
from app.simulation.traffic import Trouble
from app.simulation.workloads import API_SERVER, Workload
from tests.support.doubles import SetLeadership, SetPauses
from tests.support.weeding import API, NAMESPACE, SCHEDULER

GET = frozenset({"get"})


async def came_back(lab):
    """kube-apiserver came back 100 s ago, and the scheduler has still not noticed."""
    made = lab.world()
    made.add_control_plane(NAMESPACE)
    with made.faults.service_unready(*API):
        await lab.clock.sleep(3)
    await lab.clock.sleep(100)
    made.crash_looped(NAMESPACE, SCHEDULER, 7)
    return made


async def test_a_service_that_became_ready_just_before_the_start_is_weeded_for_the_remaining_time(
    lab,
):
    harness = lab.weeder(await came_back(lab))
    await harness.run(2)
    assert len(harness.names()) == 1
    begun = harness.recovery()
    assert begun.cause is Cause.STARTED
    assert begun.until - begun.began == pytest.approx(200, abs=2.5)
    await harness.run(200)
    assert harness.recovery().end is End.COMPLETED


async def test_pods_are_read_at_the_start_at_fifty_a_second(lab):
    world = lab.world()
    for number in range(150):
        name = f"shoot--many--{number:03}"
        world.add_workload(Workload(name, API_SERVER, service=API_SERVER))
    harness = lab.weeder(world)
    await harness.run(10)
    times = [at for at, _ in harness.seed.reads]
    assert len(times) == 150
    assert max(sum(at <= other < at + 1 - 1e-4 for other in times) for at in times) == 50


def failing(faults):
    return faults.seed_trouble(Trouble(error_rate=1.0, verbs=GET))


def forbidden(faults):
    return faults.pods_forbidden("get")


@pytest.mark.parametrize("trouble", [failing, forbidden])
async def test_a_read_that_fails_in_passing_is_tried_again(lab, trouble):
    world = await came_back(lab)
    with trouble(world.faults):
        harness = lab.weeder(world)
        await harness.run(1.5)
    await harness.run(10)
    assert len(harness.names()) == 1


async def test_a_read_that_goes_on_being_forbidden_is_given_up(lab):
    world = await came_back(lab)
    with forbidden(world.faults):
        harness = lab.weeder(world)
        await harness.run(120)
    assert len(harness.seed.reads) == 2 * 3, "of two services"


async def test_a_seed_that_answers_after_a_minute_is_asked_in_time(lab):
    world = await came_back(lab)
    with failing(world.faults):
        harness = lab.weeder(world)
        await harness.run(60)
    await harness.run(32)
    assert len(harness.names()) == 1
    assert harness.recovery().until - harness.now == pytest.approx(200 - 92, abs=3)


async def test_a_read_that_goes_on_failing_is_tried_while_an_answer_could_matter(lab, capsys):
    world = await came_back(lab)
    with failing(world.faults):
        harness = lab.weeder(world)
        await harness.run(400)
    times = [at for at, name in harness.seed.reads if name.startswith(API_SERVER)]
    assert len(times) == 14
    assert times[-1] - times[0] == pytest.approx(270, abs=30)
    told = [line for line in capsys.readouterr().out.splitlines() if "not known since when" in line]
    assert len(told) == 2, "of two services"
    await harness.run(60)
    assert harness.recoveries() == ()


async def test_a_pod_that_is_gone_by_then_tells_nothing(lab):
    harness = lab.weeder(await came_back(lab))
    gone: list[str] = []
    original = harness.seed.read_pod

    async def first_is_gone(namespace, name):
        if not gone and name.startswith(API_SERVER):
            gone.append(name)
            return None
        return await original(namespace, name)

    harness.seed.read_pod = first_is_gone
    await harness.run(2)
    assert gone
    assert len(harness.names()) == 1


async def test_when_leadership_is_won_the_same_holds(lab):
    world = await came_back(lab)
    leadership = SetLeadership(leading=False)
    harness = lab.weeder(world, leadership=leadership)
    await harness.run(20)
    assert harness.recoveries() == ()
    assert harness.seed.reads == []
    leadership.become(leading=True)
    await harness.run(2)
    assert len(harness.names()) == 1
    assert harness.recovery().until - harness.recovery().began == pytest.approx(180, abs=3)


async def test_a_standby_that_saw_a_service_come_back_need_not_ask_since_when(lab):
    leadership = SetLeadership(leading=False)
    harness = lab.control_plane(leadership=leadership)
    back = await harness.recover(SCHEDULER, settle=60)
    assert harness.names() == []
    assert harness.seed.open_watches == 0
    leadership.become(leading=True)
    await harness.run(1)
    assert len(harness.names()) == 1
    assert harness.recovery().until - back == pytest.approx(300, abs=0.2)
    assert harness.recovery().cause is Cause.STARTED
    assert API_SERVER not in {name[: len(API_SERVER)] for _, name in harness.seed.reads}


async def test_a_service_that_is_lost_while_its_pods_are_read_is_left_alone(lab):
    harness = lab.weeder(await came_back(lab))
    original = harness.seed.read_pod

    async def answer_late(namespace, name):
        found = await original(namespace, name)
        await harness.run(3)
        return found

    harness.seed.read_pod = answer_late
    await harness.run(1)
    fault = await harness.lose()
    await harness.run(10)
    assert harness.seed.reads
    assert harness.recoveries() == ()
    fault.lift()


async def test_a_recovery_that_began_while_its_pods_were_read_is_not_replaced(lab):
    world = await came_back(lab)
    slow = world.faults.seed_trouble(Trouble(latency=6.0, verbs=GET))
    harness = lab.weeder(world)
    await harness.run(1)
    await harness.recover()
    await harness.run(20)
    assert [each.cause for each in harness.recoveries()] == [Cause.BECAME_READY]
    slow.lift()


async def test_nothing_is_deleted_before_overrides_are_listed(lab):
    world = await came_back(lab)
    pauses = SetPauses()
    pauses.synced = False
    harness = lab.weeder(world, pauses=pauses)
    await harness.run(30)
    assert harness.recovery().phase == "Watching"
    assert harness.seed.sent == []
    assert harness.weeder.prepared() is Preparation.NONE
    pauses.synced = True
    assert harness.weeder.prepared() is Preparation.COMPLETE
    await harness.run(0.2)
    assert len(harness.names()) == 1


# Gaps.


@asynccontextmanager
async def gap(harness, seconds, *, expired=True):
    """What is done in it goes unseen, and so do some seconds more; then it is over for half a minute."""
    with harness.world.faults.pod_watch_cut(PodWatched.SLICES, expired=expired):
        yield
        await harness.run(seconds)
    await harness.run(seconds + 30)


async def test_a_service_that_was_lost_within_a_gap_ends_its_recovery(harness):
    await harness.recover()
    async with gap(harness, 5):
        harness.world.faults.service_unready(*API)
    assert harness.recovery().end is End.LOST
    assert not harness.status().ready


@pytest.mark.parametrize("expired", [True, False], ids=["expired", "cut"])
async def test_a_service_that_came_back_within_a_gap_is_a_recovery(harness, expired):
    await harness.run(5)
    async with gap(harness, 5, expired=expired):
        await harness.run(2)
        with harness.world.faults.service_unready(*API):
            await harness.run(2)
            harness.crash(SCHEDULER)
    assert len(harness.names()) == 1
    assert harness.recovery().cause is (Cause.GAP if expired else Cause.BECAME_READY)


async def test_a_service_whose_slices_changed_but_that_was_ready_all_the_time_is_none(harness):
    await harness.run(5)
    harness.crash(SCHEDULER)
    async with gap(harness, 20):
        pod, _ = harness.world.pods(NAMESPACE, API_SERVER)
        harness.world.delete_pod(NAMESPACE, pod.name)
    assert harness.seed.reads[-1][1].startswith(API_SERVER)
    assert harness.recoveries() == ()


async def test_services_whose_slices_are_as_before_are_not_asked_for(harness):
    await harness.run(5)
    before = len(harness.seed.reads)
    async with gap(harness, 20):
        await harness.run(1)
    assert len(harness.seed.reads) == before
    assert harness.recoveries() == ()


async def test_a_service_that_was_lost_before_and_is_ready_after_a_gap_is_a_recovery(harness):
    fault = await harness.lose()
    async with gap(harness, 5):
        harness.crash(SCHEDULER)
        fault.lift()
    assert harness.recovery().cause is Cause.GAP
    assert len(harness.names()) == 1


async def test_one_that_comes_back_within_a_gap_replaces_the_recovery_from_before(harness):
    """Its dependants have crashed anew, and have the whole time again."""
    await harness.recover()
    await harness.run(100)
    async with gap(harness, 3):
        await harness.run(3)
        with harness.world.faults.service_unready(*API):
            await harness.run(2)
    assert [each.cause for each in harness.recoveries()] == [Cause.GAP, Cause.BECAME_READY]
    newer, older = harness.recoveries()
    assert older.end is End.REPLACED
    assert newer.until - older.until > 90


async def test_a_gap_in_the_middle_of_a_recovery_leaves_it_as_it_is(harness):
    await harness.recover()
    async with gap(harness, 10):
        await harness.run(5)
        pod, _ = harness.world.pods(NAMESPACE, API_SERVER)
        harness.world.delete_pod(NAMESPACE, pod.name)
    assert [each.id for each in harness.recoveries()] == [1]
    assert harness.recovery().end is None


async def test_a_standby_that_had_a_gap_asks_when_it_takes_over(lab):
    """What it saw long ago does not hold any more."""
    leadership = SetLeadership(leading=False)
    harness = lab.control_plane(leadership=leadership)
    await harness.recover()
    await harness.run(1000)
    async with gap(harness, 5):
        await harness.run(2)
        with harness.world.faults.service_unready(*API):
            await harness.run(2)
    assert harness.status().since is None
    harness.crash(SCHEDULER)
    leadership.become(leading=True)
    await harness.run(1)
    assert len(harness.names()) == 1
    assert harness.recovery().cause is Cause.STARTED


async def test_a_stop_of_the_process_in_mid_recovery_is_taken_up_by_the_next(harness):
    await harness.recover()
    await harness.kill()
    harness.crash(SCHEDULER)
    await harness.run(30)
    again = harness.again()
    await again.run(2)
    assert len(again.names()) == 1
    assert again.recovery().cause is Cause.STARTED
    assert again.seed.open_watches == 1, "that of the one that was killed is closed"


async def test_questions_that_nobody_asks_any_more_begin_nothing(lab):
    world = await came_back(lab)
    leadership = SetLeadership()
    slow = world.faults.seed_trouble(Trouble(latency=3.0, verbs=GET))
    harness = lab.weeder(world, leadership=leadership)
    await harness.run(1)
    leadership.become(leading=False)
    await harness.run(10)
    assert harness.recoveries() == ()
    slow.lift()
