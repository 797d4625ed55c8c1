"""What the exploration of failures found (docs/exploration.md), each as a story of its own."""

import pytest

from app.core.model.policy import DependentPolicy, ScalePolicy
from app.core.model.probing import VerdictReason
from app.core.model.workloads import ResourceRef
from app.core.ports import Watched
from app.simulation.leadership import SimulatedLeadership
from tests.prober.people import DOWN, at_hand
from tests.support.stands import CA, GARDENER, KCM, MCM, SHOOT

ETCD = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")
WITH_ETCD = (*GARDENER.dependents, DependentPolicy(ETCD, ScalePolicy(3), ScalePolicy(2)))


@pytest.mark.parametrize("silent_before", [True, False])
async def test_a_count_behind_scale_survives_a_watch_that_shows_nothing_of_its_saved_count(
    stage, silent_before
):
    """Only `scale` is read live then: its resourceVersion must not vouch for annotations that are older."""
    world = stage.world()
    world.add_shoot(SHOOT, replicas={KCM: 1, MCM: 1, CA: 1, ETCD: 3})
    stand = stage.prober(world, dependents=WITH_ETCD)
    await stand.run(60)
    with world.faults.path_cut(SHOOT):
        stalled = world.faults.watch_stalled(Watched.DEPENDENTS) if silent_before else None
        await stand.until(lambda: not world.replicas(SHOOT, ETCD))
        await stand.run(10)
    await stand.run(180)
    assert world.replicas(SHOOT, ETCD) == 3
    assert not world.annotations(SHOOT, ETCD)
    if stalled is not None:
        stalled.lift()


async def test_a_standby_that_looked_once_ends_no_outage_when_it_takes_over_long_after(stage):
    """The leases have moved since, but when: perhaps just before the outage."""
    world = stage.world()
    world.add_shoot(SHOOT)
    leader, leadership = stage.prober(world), SimulatedLeadership(leading=False, may_probe=True)
    standby = stage.prober(world, leadership=leadership)
    await leader.run(60)
    leadership.become(leading=False, may_probe=False)
    await leader.run(25)
    with world.faults.path_cut(SHOOT):
        await leader.protect()
        await leader.kill()
        leadership.become(leading=True)
        await standby.run(120)
        assert standby.replicas() == (0, 0, 0)
        assert not standby.told("ScaledUp")
    await standby.run(120)
    assert standby.replicas() == (1, 1, 1)


async def test_an_outage_that_recurs_while_the_api_server_is_away_is_not_over_when_that_is_back(
    stage,
):
    """The path came back for a moment, in which the leases moved, and nobody could see it."""
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world)
    await stand.run(60)
    with world.faults.path_cut(SHOOT):
        await stand.protect()
    stand.world.faults.watch_stalled(Watched.MACHINES)
    await stand.run(9)
    with world.faults.path_cut(SHOOT):
        with world.faults.api_down(SHOOT):
            await stand.run(45)
        await stand.run(120)
        assert stand.replicas() == (0, 0, 0)
        assert not stand.told("ScaledUp")


async def test_a_hold_that_only_our_own_write_has_shown_outlives_a_watch_that_is_behind(stage):
    """The watch of the overrides goes on being in contact, and shows nothing of it: nobody has ended the hold."""
    hand = await at_hand(stage, max_protection=300.0)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        hand.store.held = True
        await hand.stand.until(lambda: hand.stand.replicas() == (1, 1, 1), within=400)
        await hand.stand.run(120)
        assert hand.stand.reason() is VerdictReason.HELD
        assert hand.stand.replicas() == (1, 1, 1)


async def test_a_cancelled_run_does_not_come_back_with_a_watch_that_shows_what_was_before(stage):
    """The ConfigMap was deleted, and its watch goes on showing a hold whose scaling run has not ended."""
    hand = await at_hand(stage)
    began = await hand.scale(DOWN)
    await hand.stand.run(0.1)
    hand.store.held = True
    await hand.stand.prober.scaling_runs.cancel(began.id, by="bob")
    await hand.done()
    hand.store.kubectl(None)
    await hand.stand.run(120)
    assert hand.stand.environment.overrides.effective(SHOOT).hold is None
    assert hand.stand.replicas() == (1, 1, 1), "the leases are well, and nobody holds it down"
