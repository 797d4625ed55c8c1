"""How far a process is that may come to lead: what it has listed, and what it has looked at."""

import pytest

from app.core.ports import Preparation, Watched
from app.simulation.ownership import SimulatedOwnership
from tests.support.overrides import MemoryStore
from tests.support.stands import SHOOT


def looking():
    """A standby whose leader has gone quiet."""
    return SimulatedOwnership(leading=False, observing=True)


@pytest.mark.parametrize("what", [Watched.CLUSTERS, Watched.SECRETS, Watched.DEPENDENTS])
async def test_who_has_not_listed_all_that_a_verdict_needs_is_not_prepared(stage, what):
    world = stage.world()
    world.add_shoot(SHOOT)
    missing = world.faults.watch_not_synced(what)
    stand = stage.prober(world, ownership=looking())
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
    stand = stage.prober(world, ownership=looking(), store=store)
    await stand.run(20)
    assert stand.prober.prepared() is Preparation.NONE
    store.synced = True
    assert stand.prober.prepared() is Preparation.COMPLETE


async def test_a_standby_that_does_not_look_has_only_listed(stage):
    world, ownership = stage.world(), SimulatedOwnership(leading=False, observing=False)
    world.add_shoot(SHOOT)
    stand = stage.prober(world, ownership=ownership)
    await stand.run(60)
    assert stand.prober.prepared() is Preparation.LISTED
    ownership.become(leading=False, observing=True)
    await stand.run(1)
    assert stand.prober.prepared() is Preparation.COMPLETE


async def test_a_shoot_that_cannot_be_reached_was_looked_at_all_the_same(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    with world.faults.api_down(SHOOT):
        stand = stage.prober(world, ownership=looking())
        await stand.run(10)
        assert stand.prober.prepared() is Preparation.COMPLETE


async def test_a_seed_without_shoots_leaves_nothing_to_prepare(stage):
    stand = stage.prober(stage.world(), ownership=looking())
    await stand.run(1)
    assert stand.prober.prepared() is Preparation.COMPLETE
