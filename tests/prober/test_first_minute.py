"""`initialDelay`, and starts in mid-outage."""

import pytest

from app.core.model.probing import ShootState, VerdictReason
from app.core.ports import Watched
from tests.support.harness import KCM, SHOOT, operation


async def test_observation_starts_at_once_and_only_scaling_is_held_back(lab):
    world = lab.world()
    harness = lab.prober(world, initial_delay=100.0)
    await harness.run(30)
    world.add_shoot(SHOOT)
    world.patch_cluster(SHOOT, operation("Create", harness.now))
    await harness.until(harness.probes)
    begun = harness.now
    await harness.run(1)
    assert harness.status().probes >= 1
    assert harness.state() is ShootState.HEALTHY
    assert harness.reason() is VerdictReason.INITIAL_DELAY
    with harness.faults.path_cut(SHOOT):
        await harness.run(60)
        assert harness.reason() is VerdictReason.INITIAL_DELAY
        assert harness.decision().would_be == "ScaleDown"
        assert not harness.writes()
        await harness.until(harness.writes)
        assert harness.now - begun == pytest.approx(100, abs=1.2), "at once when it ends"


@pytest.mark.parametrize("fresh", [0.0, 10.0])
async def test_after_a_restart_a_reconciled_shoot_is_not_held_back(lab, fresh):
    """However recent its last operation is: Gardener reconciles often."""
    world = lab.with_shoot()
    with world.faults.path_cut(SHOOT):
        await lab.clock.sleep(60)
        world.patch_cluster(SHOOT, operation("Reconcile", lab.clock.now() - fresh))
        await lab.clock.sleep(1)
        harness = lab.prober(world, initial_delay=300.0)
        begun = harness.now
        await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 0)
        assert harness.now - begun == pytest.approx(15, abs=2.5)


async def test_a_shoot_that_was_hibernated_when_clusters_were_first_listed_is_held_back_when_it_wakes(
    lab,
):
    """It was not eligible then; now it has become so, and its nodes are only joining."""
    world = lab.with_shoot()
    asleep = world.faults.hibernated(SHOOT)
    await lab.clock.sleep(1)
    harness = lab.prober(world, initial_delay=100.0)
    await harness.run(600)
    world.patch_cluster(SHOOT, operation("Reconcile", harness.now))
    asleep.lift()
    await harness.run(50)
    assert harness.reason() is VerdictReason.INITIAL_DELAY


async def test_a_restart_in_an_outage_that_ends_scales_nothing(harness):
    """Leases that moved while nobody looked are no outage."""
    with harness.faults.path_cut(SHOOT):
        await harness.run(22)
        await harness.kill()
    second = harness.again()
    await second.run(60)
    assert second.replicas() == (1, 1, 1)
    assert second.state() is ShootState.HEALTHY


@pytest.mark.parametrize("after", [5, 15, 24])
async def test_a_restart_in_mid_outage_costs_no_more_than_leases_take_to_be_known(harness, after):
    with harness.faults.path_cut(SHOOT):
        begun = harness.now
        await harness.run(after)
        await harness.kill()
        second = harness.again()
        await second.until(second.writes)
        known = harness.world.known_at(SHOOT, since=begun)
        assert second.now <= max(known + 1.5, begun + after + 16.5)


async def test_a_start_in_mid_outage_waits_until_its_leases_are_known(lab):
    world = lab.with_shoot()
    with world.faults.path_cut(SHOOT):
        await lab.clock.sleep(45)
        harness = lab.prober(world)
        begun = harness.now
        await harness.run(0.5)
        assert harness.reason() is VerdictReason.UNKNOWN_LEASES
        await harness.until(harness.writes)
        assert harness.now - begun == pytest.approx(15, abs=1.5)


async def test_a_probe_that_asked_nothing_tells_nothing_of_the_leases_that_the_next_one_reads(lab):
    world = lab.with_shoot()
    with world.faults.path_cut(SHOOT):
        await lab.clock.sleep(45)
        with world.faults.watch_not_opened(Watched.SECRETS):
            harness = lab.prober(world)
            await harness.run(3)
        begun = harness.now
        await harness.until(harness.writes)
        assert harness.now - begun == pytest.approx(15, abs=1.5)


async def test_a_start_in_mid_protection_keeps_it_until_the_nodes_are_back(lab):
    first = await lab.healthy()
    async with first.under_protection():
        await first.kill()
        second = lab.prober(first.world)
        await second.run(120)
        assert second.replicas() == (0, 0, 0)
        assert second.state() is ShootState.PROTECTED
        assert not second.told("MeltdownProtectionStarted"), "it has not begun again"
    await second.run(120)
    assert second.replicas() == (1, 1, 1)


async def test_a_running_prober_is_not_held_back_by_a_new_operation(harness):
    harness.world.patch_cluster(SHOOT, operation("Reconcile", harness.now))
    await harness.survive_an_outage()
