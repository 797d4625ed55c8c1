"""How long a stop takes, whatever hangs; on virtual time."""

import asyncio
from random import Random

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from app.realcluster import LEASES
from app.simulation.builders import World
from app.simulation.identities import WATCHDOG
from app.simulation.memory import MemoryPlace
from app.simulation.process import SimulatedProcess, core_of
from app.simulation.server import MemoryServers
from app.simulation.store import ObjectKey
from app.simulation.traffic import Host, Trouble
from tests.service import lives
from tests.support.harness import GARDENER, SHOOT

pytestmark = pytest.mark.usefixtures("lines")

DELETES, PATCHES = frozenset({"delete"}), frozenset({"patch"})
CLUSTER_LIMIT = 0.6


async def until_sent(found, verb):
    """Waits for a request of this verb to the seed; how many there have been is returned."""
    while not (sent := found.world.requests.total(Host.SEED, verb)):  # noqa: ASYNC110 - nothing tells us
        await asyncio.sleep(0.02)
    return sent


async def patches(found, latency):
    """Goes on until a patch is on its way, which is answered after so many seconds."""
    await found.service.start()
    await asyncio.sleep(60)
    found.world.faults.path_cut(SHOOT)
    found.world.faults.seed_trouble(Trouble(latency=latency, verbs=PATCHES))
    return await until_sent(found, "patch")


async def deletes(found, latency):
    """The same of a deletion."""
    await found.service.start()
    await asyncio.sleep(60)
    with found.world.faults.service_unready(SHOOT, lives.SERVICE):
        await asyncio.sleep(90)
        found.world.faults.seed_trouble(Trouble(latency=latency, verbs=DELETES))
    return await until_sent(found, "delete")


WRITES = pytest.mark.parametrize(
    ("loops", "writes", "verb"),
    [(lives.PROBER, patches, "patch"), (lives.WEEDER, deletes, "delete")],
)


def late(lines):
    return sorted(line["part"] for line in lines if line["event"] == "not stopped in time")


@WRITES
async def test_a_request_that_hangs_holds_up_the_release_of_the_lease_no_longer_than_its_limit(
    lines, loops, writes, verb
):
    leaving = lives.Leaving()
    found = lives.life(loops=loops, end=leaving)
    await writes(found, latency=30.0)
    took, began = await lives.stopped(found)
    assert leaving.at - began == pytest.approx(lives.FLOW_LIMIT, abs=0.01)
    assert leaving.finished
    assert took <= lives.WHOLE
    assert late(lines) == [*loops]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@WRITES
async def test_a_request_that_is_answered_soon_is_waited_for_and_no_other_is_sent(
    lines, loops, writes, verb
):
    leaving = lives.Leaving()
    found = lives.life(loops=loops, end=leaving)
    sent = await writes(found, latency=0.1)
    written = len(found.world.journal.of(WATCHDOG, SHOOT))
    took, began = await lives.stopped(found)
    assert 0 < leaving.at - began < lives.FLOW_LIMIT
    assert found.world.requests.total(Host.SEED, verb) == sent
    assert verb == "delete" or len(found.world.journal.of(WATCHDOG, SHOOT)) > written
    assert took <= lives.WHOLE
    assert not late(lines)


async def test_both_loops_that_hang_hang_together_and_not_one_after_the_other(lines):
    leaving = lives.Leaving(hangs=True)
    found = lives.life(loops=lives.BOTH, end=leaving)
    await found.service.start()
    await asyncio.sleep(60)
    with found.world.faults.service_unready(SHOOT, lives.SERVICE):
        await asyncio.sleep(60)
        found.world.faults.path_cut(SHOOT)
        found.world.faults.seed_trouble(Trouble(latency=30.0, verbs=DELETES | PATCHES))
        await until_sent(found, "patch")
    await until_sent(found, "delete")
    took, began = await lives.stopped(found)
    assert late(lines) == ["cluster", "prober", "weeder"]
    assert leaving.at - began == pytest.approx(lives.FLOW_LIMIT, abs=0.01)
    assert took <= lives.WHOLE


async def test_a_cluster_that_cannot_be_left_does_not_hold_up_the_rest(lines):
    leaving = lives.Leaving(hangs=True)
    found = lives.life(end=leaving)
    await found.service.start()
    await asyncio.sleep(10)
    took, began = await lives.stopped(found)
    assert leaving.at - began < 0.1, "there was no flow to wait for"
    assert CLUSTER_LIMIT <= took <= lives.WHOLE
    assert late(lines) == ["cluster"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_cluster_whose_end_fails_is_logged_and_the_rest_is_stopped(lines):
    found = lives.life(end=lives.Leaving(fails=ValueError("a bug")))
    await found.service.start()
    await lives.stopped(found)
    (line,) = [line for line in lines if line["event"] == "stopping failed"]
    assert line["part"] == "cluster"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_service_that_never_started_can_be_stopped():
    took, _ = await lives.stopped(lives.life())
    assert took < 0.1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_history_of_a_shoot_goes_with_its_cluster_and_not_before():
    found = lives.life()
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


async def test_on_a_slow_seed_the_leases_of_both_loops_are_released_in_the_time_that_there_is():
    clock = Clock.of_loop()
    tasks, place = Tasks(clock), MemoryPlace()
    world = World(clock, tasks, seed=1, place=place)
    world.add_shoot(SHOOT, nodes=1)
    process = SimulatedProcess(
        MemoryServers(world, place),
        core_of(clock, tasks, Random(1)),
        name="both loops",
        user=WATCHDOG,
        prober=GARDENER,
        weeder=lives.WEEDING,
        enable_leader_election=True,
    )

    def holders():
        where = process.settings.leader_election_namespace
        found = (world.store.find(ObjectKey("Lease", where, name)) for name in LEASES.values())
        return {each["spec"]["holderIdentity"] for each in found if each is not None}

    process.start()
    await asyncio.sleep(60)
    assert holders() == {process.adapters.identity}
    world.faults.seed_trouble(Trouble(latency=0.4, verbs=frozenset({"update"})))
    async with asyncio.timeout(CLUSTER_LIMIT):
        await process.adapters.end()
    assert holders() == {""}
    await process.kill()
