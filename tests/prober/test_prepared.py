"""How far a process is that may come to lead: what it has listed, and what it has looked at."""

import pytest

from app.core.ports import Preparation, Watched
from app.simulation.leadership import SimulatedLeadership
from tests.support.overrides import MemoryStore
from tests.support.stands import SHOOT


def looking():
    """A standby whose leader has gone quiet."""
    return SimulatedLeadership(leading=False, may_probe=True)


@pytest.mark.parametrize("what", [Watched.CLUSTERS, Watched.SECRETS, Watched.DEPENDENTS])
async def test_who_has_not_listed_all_that_a_verdict_needs_is_not_prepared(stage, what):
    world = stage.world()
    world.add_shoot(SHOOT)
    missing = world.faults.watch_not_synced(what)
    stand = stage.prober(world, leadership=looking())
    await stand.run(60)
    assert stand.prober.prepared() is Preparation.NONE
    missing.lift()
    await stand.run(60)
    assert stand.prober.prepared() is Preparation.COMPLETE


async def test_who_does_not_know_yet_what_people_decided_is_not_prepared(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    store = MemoryStore(stage.clock)
    store.synced = False
    stand = stage.prober(world, leadership=looking(), store=store)
    await stand.run(20)
    assert stand.prober.prepared() is Preparation.NONE
    store.synced = True
    assert stand.prober.prepared() is Preparation.COMPLETE


async def test_a_standby_that_does_not_probe_has_only_listed(stage):
    world, leadership = stage.world(), SimulatedLeadership(leading=False, may_probe=False)
    world.add_shoot(SHOOT)
    stand = stage.prober(world, leadership=leadership)
    await stand.run(60)
    assert stand.prober.prepared() is Preparation.LISTED
    leadership.become(leading=False, may_probe=True)
    await stand.run(1)
    assert stand.prober.prepared() is Preparation.COMPLETE


async def test_a_shoot_that_cannot_be_reached_was_looked_at_all_the_same(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    with world.faults.api_down(SHOOT):
        stand = stage.prober(world, leadership=looking())
        await stand.run(10)
        assert stand.prober.prepared() is Preparation.COMPLETE


async def test_a_seed_without_shoots_leaves_nothing_to_prepare(stage):
    stand = stage.prober(stage.world(), leadership=looking())
    await stand.run(1)
    assert stand.prober.prepared() is Preparation.COMPLETE
