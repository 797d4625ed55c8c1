"""What the exploration of failures found (docs/exploration.md), each as a story of its own."""

import pytest

from app.core.model.probing import ShootState, VerdictReason
from app.core.ports import Watched
from tests.prober.people import DOWN, with_operator
from tests.support.doubles import SetLeadership
from tests.support.harness import CA, ETCD, KCM, MCM, SHOOT, WITH_ETCD


@pytest.mark.parametrize("silent_before", [True, False])
async def test_a_count_behind_scale_survives_a_watch_that_shows_nothing_of_its_saved_count(
    lab, silent_before
):
    """Only `scale` is read live then: its resourceVersion must not vouch for annotations that are older."""
    harness = await lab.healthy(
        shoot={"replicas": {KCM: 1, MCM: 1, CA: 1, ETCD: 3}}, dependents=WITH_ETCD
    )
    with harness.faults.path_cut(SHOOT):
        stalled = harness.faults.watch_stalled(Watched.DEPENDENTS) if silent_before else None
        await harness.until(lambda: not harness.world.replicas(SHOOT, ETCD))
        await harness.run(10)
    await harness.run(180)
    assert harness.world.replicas(SHOOT, ETCD) == 3
    assert not harness.world.annotations(SHOOT, ETCD)
    if stalled is not None:
        stalled.lift()


async def test_a_standby_that_looked_once_ends_no_outage_when_it_takes_over_long_after(lab):
    """The leases have moved since, but when: perhaps just before the outage."""
    world = lab.with_shoot()
    leader, leadership = lab.prober(world), SetLeadership(leading=False, may_probe=True)
    standby = lab.prober(world, leadership=leadership)
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
    harness,
):
    """The path came back for a moment, in which the leases moved, and nobody could see it."""
    await harness.survive_an_outage()
    harness.faults.watch_stalled(Watched.MACHINES)
    await harness.run(9)
    with harness.faults.path_cut(SHOOT):
        with harness.faults.api_down(SHOOT):
            await harness.run(45)
        await harness.run(120)
        assert harness.replicas() == (0, 0, 0)
        assert not harness.told("ScaledUp")


async def test_a_hold_that_only_our_own_write_has_shown_outlives_a_watch_that_is_behind(lab):
    """Lists and watches of the ScaleRequests show nothing of it: nobody has ended the hold."""
    operator = await with_operator(lab, max_protection=300.0)
    async with operator.under_protection():
        operator.faults.overrides_watch_stalled()
        await operator.until(lambda: operator.replicas() == (1, 1, 1), within=400)
        await operator.run(120)
        assert operator.reason() is VerdictReason.HELD
        assert operator.replicas() == (1, 1, 1)


async def test_a_cancelled_run_does_not_come_back_with_a_watch_that_shows_what_was_before(operator):
    """The ScaleRequest was deleted, and its watch goes on showing one that has not ended."""
    began = await operator.scale(DOWN)
    await operator.run(0.1)
    stalled = operator.faults.overrides_watch_stalled()
    await operator.prober.scaling_runs.cancel(began.id, by="bob")
    await operator.run(60)
    stalled.lift()
    await operator.run(60)
    assert operator.environment.overrides.effective(SHOOT).hold is None
    assert operator.replicas() == (1, 1, 1), "the leases are well, and nobody holds it down"


async def test_a_first_reading_that_hung_until_the_storage_was_back_proves_nothing_of_that_time(
    lab,
):
    """The kubelets renew within seconds of its return; to a process that counts from its request they are silent."""
    world = lab.world(seed=9)  # in which both kubelets pause as the storage returns
    world.add_shoot(SHOOT, nodes=2, lease_duration=20)
    await lab.clock.sleep(60)
    away = world.faults.storage_away(SHOOT)
    await lab.clock.sleep(84.5)
    harness = lab.prober(world)
    await harness.run(4.8)
    away.lift()
    await harness.run(60)
    assert not harness.writes()
    assert harness.state() is ShootState.HEALTHY
