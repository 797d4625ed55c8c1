"""How long a stop takes, whatever hangs; on virtual time."""

import asyncio

import pytest
from structlog.testing import capture_logs

from app.simulation.traffic import Host, Trouble
from tests.service.lives import FLOW_LIMIT, WHOLE, Leaving, life, stopped
from tests.support.harness import SHOOT

PATCHES = frozenset({"patch"})
CLUSTER_LIMIT = 0.6


@pytest.fixture(autouse=True)
def lines():
    with capture_logs() as found:
        yield found


async def in_a_flow(found, latency):
    """Goes on until a patch is on its way, which is answered after so many seconds."""
    await found.service.start()
    await asyncio.sleep(60)
    found.world.faults.path_cut(SHOOT)
    found.world.faults.seed_trouble(Trouble(latency=latency, verbs=PATCHES))
    while found.world.requests.total(Host.SEED, "patch") == 0:  # noqa: ASYNC110 - nothing tells us
        await asyncio.sleep(0.05)


async def test_a_request_that_hangs_holds_up_the_release_of_the_lease_no_longer_than_its_limit(
    lines,
):
    leaving = Leaving()
    found = life(end=leaving)
    await in_a_flow(found, latency=30.0)
    took, began = await stopped(found)
    assert leaving.at - began == pytest.approx(FLOW_LIMIT, abs=0.01)
    assert leaving.finished
    assert took <= WHOLE
    late = [line["part"] for line in lines if line["event"] == "not stopped in time"]
    assert late == ["prober"]


async def test_a_request_that_is_answered_soon_is_waited_for_and_no_other_is_sent(lines):
    leaving = Leaving()
    found = life(end=leaving)
    await in_a_flow(found, latency=0.1)
    sent = found.world.requests.total(Host.SEED, "patch")
    written = len(found.world.journal.of("dependency-watchdog", SHOOT))
    took, began = await stopped(found)
    assert 0 < leaving.at - began < FLOW_LIMIT
    assert found.world.requests.total(Host.SEED, "patch") == sent
    assert len(found.world.journal.of("dependency-watchdog", SHOOT)) > written
    assert took <= WHOLE
    assert not [line for line in lines if line["event"] == "not stopped in time"]


async def test_a_cluster_that_cannot_be_left_does_not_hold_up_the_rest(lines):
    leaving = Leaving(hangs=True)
    found = life(end=leaving)
    await found.service.start()
    await asyncio.sleep(10)
    took, began = await stopped(found)
    assert leaving.at - began < 0.1, "there was no flow to wait for"
    assert CLUSTER_LIMIT <= took <= WHOLE
    late = [line["part"] for line in lines if line["event"] == "not stopped in time"]
    assert late == ["cluster"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_cluster_whose_end_fails_is_logged_and_the_rest_is_stopped(lines):
    found = life(end=Leaving(fails=ValueError("a bug")))
    await found.service.start()
    await stopped(found)
    (line,) = [line for line in lines if line["event"] == "stopping failed"]
    assert line["part"] == "cluster"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_service_that_never_started_can_be_stopped():
    took, _ = await stopped(life())
    assert took < 0.1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_history_of_a_shoot_goes_with_its_cluster_and_not_before():
    found = life()
    await found.service.start()
    await asyncio.sleep(60)
    history = found.service._history
    with found.world.faults.hibernated(SHOOT):
        await asyncio.sleep(5)
        assert "ProbingStopped" in [entry.reason for entry in history.of(SHOOT)]
    with found.world.faults.cluster_gone(SHOOT):
        await asyncio.sleep(5)
        assert not history.of(SHOOT)
    await found.service.stop("the test is over")
