"""A scaling run upwards: levels wait until the one before is ready."""

import pytest

from app.core.model import workloads as ann
from app.core.model.policy import OnFailure, ScalePolicy
from app.core.model.probing import ShootState
from app.core.ports import Watched
from app.simulation.traffic import Host, Trouble
from app.simulation.workloads import PodPace
from tests.support.stands import CA, KCM, MCM, SHOOT, changed


async def come_back(stand):
    """The shoot was protected, and its path has just come back."""
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()


def ups(stand, ref):
    return [write for write in stand.writes(ref) if write.patch.get("spec", {}).get("replicas")]


async def test_one_patch_has_the_saved_count_and_removes_all_three_keys(stand):
    await come_back(stand)
    await stand.until(lambda: ups(stand, KCM))
    (write,) = ups(stand, KCM)
    assert write.patch["spec"] == {"replicas": 1}
    removed = write.patch["metadata"]["annotations"]
    assert removed == {ann.REPLICAS: None, ann.MELTDOWN: None, ann.SINCE: None}


async def test_a_level_starts_when_the_one_before_is_ready_and_its_delay_is_over(stand):
    await come_back(stand)
    await stand.until(lambda: ups(stand, CA), within=120)
    (kcm,), (mcm,), (ca,) = ups(stand, KCM), ups(stand, MCM), ups(stand, CA)
    assert mcm.sent - kcm.at == pytest.approx(35.0, abs=0.2), (
        "5 s until KCM is ready, 30 s of delay"
    )
    assert ca.sent - mcm.at == pytest.approx(5.0, abs=0.2)


async def test_a_resource_that_does_not_get_ready_stops_the_run_at_its_timeout(stand):
    await come_back(stand)
    with stand.world.faults.pods_stuck(SHOOT, KCM):
        await stand.until(lambda: ups(stand, KCM))
        await stand.until(lambda: stand.told("ScalingFailed"), within=40)
        assert stand.now - ups(stand, KCM)[0].sent == pytest.approx(30.0, abs=0.5)
        await stand.run(120)
        assert stand.replicas() == (1, 0, 0)
        assert not ups(stand, MCM)
    await stand.run(60)
    assert stand.replicas() == (1, 1, 1)


async def test_what_has_failed_to_get_ready_fails_at_once_in_each_further_run(stand):
    await come_back(stand)
    with stand.world.faults.pods_stuck(SHOOT, KCM):
        await stand.until(lambda: stand.told("ScalingFailed"), within=120)
        begun = len(stand.told("FlowStarted"))
        await stand.until(lambda: len(stand.told("FlowStarted")) > begun + 1)
        scaling_runs = [n for n in stand.told("FlowEnded") if n.at > stand.now - 6]
        assert scaling_runs
        assert all(n.numbers["seconds"] < 0.5 for n in scaling_runs)


async def test_onScaleUpFailure_continue_goes_on_and_is_reported(stage):  # noqa: N802  the key's name
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, on_scale_up_failure=OnFailure.CONTINUE)
    await stand.run(60)
    with world.faults.path_cut(SHOOT):
        await stand.protect()
    with world.faults.pods_stuck(SHOOT, KCM):
        await stand.until(lambda: stand.replicas() == (1, 1, 1), within=150)
        await stand.until(lambda: stand.told("FlowEnded")[1:])
        assert stand.told("ScalingFailed")
        assert stand.state() is ShootState.FAILING


async def test_after_a_restart_readiness_is_awaited_from_when_it_is_first_seen(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    first = stage.prober(world)
    await first.run(60)
    with world.faults.path_cut(SHOOT):
        await first.protect()
    with world.faults.pods_stuck(SHOOT, KCM):
        await first.until(lambda: ups(first, KCM))
        await first.run(1)
        await first.kill()
        second = stage.prober(world)
        seen = await second.until(lambda: second.told("FlowStarted"), within=60)
        await second.until(lambda: second.told("ScalingFailed"), within=60)
        assert second.now - seen == pytest.approx(30.0, abs=1.0)
        assert not ups(second, MCM)


async def test_a_delay_is_counted_once_a_hold_that_ends_the_run_does_not_start_it_again(stand):
    await come_back(stand)
    await stand.until(lambda: ups(stand, KCM))
    await stand.run(6)
    could_start = stand.now
    with stand.world.faults.api_down(SHOOT):
        await stand.run(45)
    await stand.until(lambda: ups(stand, MCM), within=60)
    assert stand.now - could_start < 45 + 35, "not 30 s more after the new verdict"
    ended = [n for n in stand.told("FlowEnded") if "was ended" in n.message]
    assert ended, "the HOLD has ended the flow that waited"


async def test_an_outage_that_recurs_while_a_scale_up_waits_is_protected_again(stage):
    """KCM is back, MCM waits for its delay: it stays at 0 with its saved count, and waits anew afterwards."""
    world = stage.world()
    world.add_shoot(SHOOT)
    patient = changed(MCM, scale_up=ScalePolicy(1, initial_delay=90.0))
    stand = stage.prober(world, dependents=patient)
    await come_back(stand)
    await stand.until(lambda: ups(stand, KCM))
    await stand.run(10)
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.world.replicas(SHOOT, KCM) == 0)
        await stand.run(60)
        assert stand.replicas() == (0, 0, 0)
        assert stand.world.annotations(SHOOT, MCM)[ann.REPLICAS] == "1"
        assert not ups(stand, MCM)
    await stand.until(lambda: len(ups(stand, KCM)) == 2, within=90)
    again = stand.now
    await stand.until(lambda: ups(stand, MCM), within=120)
    assert stand.now - again == pytest.approx(95.0, abs=0.5)


async def test_a_verdict_down_starts_the_delays_of_the_way_up_anew_even_with_nothing_to_write(
    stage,
):
    world = stage.world()
    world.add_shoot(SHOOT)
    slow = changed(KCM, scale_up=ScalePolicy(0, initial_delay=60.0))
    stand = stage.prober(world, dependents=slow)
    await stand.run(60)
    with world.faults.path_cut(SHOOT):
        await stand.protect()
    await stand.until(lambda: stand.told("FlowStarted")[1:], within=60)
    with world.faults.path_cut(SHOOT):
        await stand.run(70)
        assert stand.state() is ShootState.PROTECTED
    await stand.until(lambda: len(stand.told("FlowStarted")) == 3, within=60)
    begun = stand.now
    await stand.until(lambda: ups(stand, KCM), within=90)
    assert stand.now - begun == pytest.approx(60.0, abs=0.5)


async def test_a_delay_ends_in_a_verdict_that_is_still_current_or_in_nothing(stand):
    """The server goes away in the delay: the write waits for the next verdict, at most 15 s."""
    await come_back(stand)
    await stand.until(lambda: ups(stand, KCM))
    await stand.run(30)
    with stand.world.faults.api_down(SHOOT):
        await stand.run(100)
        assert not ups(stand, MCM)
        assert stand.replicas() == (1, 0, 0)


async def test_a_resource_that_is_gone_and_required_fails_the_run(stand):
    await come_back(stand)
    stand.world.delete(SHOOT, KCM)
    await stand.run(60)
    assert stand.world.replicas(SHOOT, MCM) == 0
    assert "does not exist" in stand.told("ScalingFailed")[0].message


async def test_an_optional_resource_that_is_gone_is_skipped_on_the_way_up(stand):
    await come_back(stand)
    stand.world.delete(SHOOT, CA)
    await stand.until(lambda: ups(stand, MCM), within=90)
    await stand.until(lambda: stand.state() is ShootState.HEALTHY)
    assert not stand.told("ScalingFailed")


async def test_a_conflict_on_the_way_up_rereads_and_decides_again(stand):
    await come_back(stand)
    with stand.world.faults.watch_stalled(Watched.DEPENDENTS):
        stand.world.patch(SHOOT, KCM, {"metadata": {"annotations": {ann.REPLICAS: "5"}}})
        await stand.until(lambda: ups(stand, KCM))
        assert stand.world.replicas(SHOOT, KCM) == 5


async def test_a_seed_that_fails_delays_the_way_up_and_loses_nothing(stand):
    await come_back(stand)
    with stand.world.faults.seed_errors():
        await stand.run(90)
        assert stand.replicas() == (0, 0, 0)
    await stand.run(120)
    assert stand.replicas() == (1, 1, 1)
    assert not stand.world.protected(SHOOT)


async def test_pods_that_take_long_hold_up_the_next_level(stage):
    world = stage.world(pace=PodPace(ready=20.0))
    world.add_shoot(SHOOT)
    stand = stage.prober(world)
    await stand.run(60)
    with world.faults.path_cut(SHOOT):
        await stand.protect()
    await stand.until(lambda: ups(stand, MCM), within=120)
    assert ups(stand, MCM)[0].sent - ups(stand, KCM)[0].at == pytest.approx(50.0, abs=0.5)


async def test_a_silent_watch_of_dependents_does_not_hold_up_the_way_up(stand):
    """What the watch does not show is read live."""
    await come_back(stand)
    await stand.until(lambda: ups(stand, KCM))
    with stand.world.faults.watch_stalled(Watched.DEPENDENTS):
        await stand.until(lambda: ups(stand, MCM), within=70)
        assert not stand.told("ScalingFailed")


async def test_scale_ups_end_with_events(stand):
    await come_back(stand)
    await stand.until(lambda: stand.state() is ShootState.HEALTHY, within=120)
    assert {n.resource for n in stand.told("ScaledUp") if n.event} == {KCM, MCM, CA}
    assert stand.told("MeltdownProtectionEnded")[0].event


async def test_a_slow_seed_on_the_way_up_loses_no_count(stand):
    await come_back(stand)
    slow = Trouble(latency=4.0, verbs=frozenset({"patch"}))
    with stand.world.faults.seed_trouble(slow):
        await stand.run(180)
    assert stand.replicas() == (1, 1, 1)
    assert stand.world.requests.live(Host.SEED, "patch") == 6


async def test_a_watch_and_a_seed_that_are_both_silent_only_hold_up_the_way_up(stand):
    await come_back(stand)
    await stand.until(lambda: ups(stand, KCM))
    with (
        stand.world.faults.watch_stalled(Watched.DEPENDENTS),
        stand.world.faults.seed_errors(),
    ):
        await stand.run(25)
        assert not stand.told("ScalingFailed")
    await stand.until(lambda: stand.replicas() == (1, 1, 1), within=90)
