"""What is asked of the pods behind a service, and what their answers are worth."""

import pytest

from app.core.model.weeding import Cause
from app.simulation.store import ObjectKey
from app.simulation.traffic import Trouble
from app.simulation.workloads import API_SERVER
from app.weeder.controller import Question, ReadySince
from tests.support.weeding import API, NAMESPACE
from tests.weeder.test_start import GET, came_back, gap


async def test_a_wait_that_the_server_asks_for_is_waited_before_a_pod_is_read_again(lab):
    world = await came_back(lab)
    throttled = Trouble(throttled=True, retry_after=25.0, verbs=GET)
    with world.faults.seed_trouble(throttled):
        harness = lab.weeder(world)
        await harness.run(10)
    await harness.run(20)
    times = [at for at, name in harness.seed.reads if name.startswith(API_SERVER)]
    assert times[1] - times[0] == pytest.approx(25, abs=0.5)
    assert len(harness.names()) == 1


async def test_when_a_pod_behind_it_is_ready_for_long_no_other_is_read(lab):
    """None of them can make it later."""
    world = await came_back(lab)
    harness = lab.weeder(world, watch_duration=90.0)
    await harness.run(5)
    assert len(world.pods(NAMESPACE, API_SERVER)) == 2
    assert len([name for _, name in harness.seed.reads if name.startswith(API_SERVER)]) == 1


async def test_a_gap_does_not_take_the_place_of_a_question_that_waits(lab):
    """It was asked about a longer time."""
    harness = lab.weeder(await came_back(lab))
    await harness.run(5)
    found: list[Question] = []
    check = ReadySince(harness.environment, lambda question, _: found.append(question))
    check.ask(Question(API, Cause.STARTED))
    check.ask(Question(API, Cause.GAP, heard=harness.now))
    _ = harness.environment.tasks.once(check.run, "questions")
    await harness.run(1)
    assert [each.cause for each in found] == [Cause.STARTED]


async def test_one_that_came_back_before_a_gap_and_not_within_it_is_none(lab):
    """It is ready for less than `watchDuration`, but was heard of after it had come back."""
    world = await came_back(lab)
    with world.faults.pods_forbidden("get"):
        harness = lab.weeder(world)
        await harness.run(60)
    assert harness.recoveries() == (), "at the start nobody could tell"
    reads = len(harness.seed.reads)
    async with gap(harness, 20):
        pod, _ = world.pods(NAMESPACE, API_SERVER)
        world.delete_pod(NAMESPACE, pod.name)
    assert len(harness.seed.reads) > reads
    assert harness.now - harness.status().since < 300
    assert harness.recoveries() == ()


# Clocks, and what is not told.


async def test_at_the_start_a_service_without_pods_behind_it_is_left_alone(lab):
    """Nobody can be asked since when it is ready."""
    world = await came_back(lab)
    for each in world.slices(*API):
        key = ObjectKey("EndpointSlice", NAMESPACE, each.name)
        endpoints = [
            {name: value for name, value in endpoint.items() if name != "targetRef"}
            for endpoint in world.store.get(key)["endpoints"]
        ]
        world.store.patch(key, {"endpoints": endpoints})
    harness = lab.weeder(world)
    await harness.run(10)
    assert harness.status().ready
    assert harness.status().since is None
    assert not [name for _, name in harness.seed.reads if name.startswith(API_SERVER)]
    assert harness.recoveries() == ()
