"""A scaling run upwards: levels wait until the one before is ready."""

import pytest

from app.core.model import workloads as ann
from app.core.model.policy import OnFailure, ScalePolicy
from app.core.model.probing import ShootState
from app.core.ports import Watched
from app.simulation.traffic import Host, Trouble
from tests.support.harness import CA, KCM, MCM, SHOOT, changed


def ups(harness, ref):
    return [write for write in harness.writes(ref) if write.patch.get("spec", {}).get("replicas")]


async def test_a_level_starts_when_the_one_before_is_ready_and_its_delay_is_over(harness):
    await harness.survive_an_outage()
    await harness.until(lambda: ups(harness, CA), within=120)
    (kcm,), (mcm,), (ca,) = ups(harness, KCM), ups(harness, MCM), ups(harness, CA)
    assert mcm.at - kcm.at == pytest.approx(35.0, abs=0.2), "5 s until KCM is ready, 30 s of delay"
    assert ca.at - mcm.at == pytest.approx(5.0, abs=0.2)


async def test_a_resource_that_does_not_get_ready_stops_the_run_at_its_timeout(harness):
    await harness.survive_an_outage()
    with harness.faults.pods_stuck(SHOOT, KCM):
        await harness.until(lambda: ups(harness, KCM))
        await harness.until(lambda: harness.told("ScalingFailed"), within=40)
        assert harness.now - ups(harness, KCM)[0].at == pytest.approx(30.0, abs=0.5)
        assert "no pod was ready after 30s" in harness.told("ScalingFailed")[0].message
        await harness.run(120)
        assert harness.replicas() == (1, 0, 0)
        assert not ups(harness, MCM)
    await harness.run(60)
    assert harness.replicas() == (1, 1, 1)


async def test_what_has_failed_to_get_ready_fails_at_once_in_each_further_run(harness):
    await harness.survive_an_outage()
    with harness.faults.pods_stuck(SHOOT, KCM):
        await harness.until(lambda: harness.told("ScalingFailed"), within=120)
        begun = len(harness.told("FlowStarted"))
        await harness.until(lambda: len(harness.told("FlowStarted")) > begun + 1)
        scaling_runs = [n for n in harness.told("FlowEnded") if n.at > harness.now - 6]
        assert scaling_runs
        assert all(n.seconds < 0.5 for n in scaling_runs)


async def test_onScaleUpFailure_continue_goes_on_and_is_reported(lab):  # noqa: N802  the key's name
    harness = await lab.healthy(on_scale_up_failure=OnFailure.CONTINUE)
    await harness.survive_an_outage()
    with harness.faults.pods_stuck(SHOOT, KCM):
        await harness.until(lambda: harness.replicas() == (1, 1, 1), within=150)
        await harness.until(lambda: harness.told("FlowEnded")[1:])
        assert harness.told("ScalingFailed")
        assert harness.state() is ShootState.FAILING


async def test_after_a_restart_readiness_is_awaited_from_when_it_is_first_seen(lab):
    first = await lab.healthy()
    await first.survive_an_outage()
    with first.faults.pods_stuck(SHOOT, KCM):
        await first.until(lambda: ups(first, KCM))
        await first.run(1)
        await first.kill()
        second = lab.prober(first.world)
        seen = await second.until(lambda: second.told("FlowStarted"), within=60)
        await second.until(lambda: second.told("ScalingFailed"), within=60)
        assert second.now - seen == pytest.approx(30.0, abs=1.0)
        assert not ups(second, MCM)


async def test_what_an_earlier_process_has_scaled_up_is_told_as_up_already(lab):
    first = await lab.healthy()
    await first.survive_an_outage()
    with first.faults.pods_stuck(SHOOT, KCM):
        await first.until(lambda: ups(first, KCM))
        await first.kill()
        second = lab.prober(first.world)
        await second.until(lambda: second.told("FlowStarted"), within=60)
    await second.until(lambda: ups(second, MCM), within=60)
    (told,) = second.told("AlreadyScaled")
    assert told.message == f"{KCM} was up already; its pods are ready"
    assert KCM not in {each.resource for each in second.told("ScaledUp")}


async def test_a_delay_is_counted_once_a_hold_that_ends_the_run_does_not_start_it_again(harness):
    await harness.survive_an_outage()
    await harness.until(lambda: ups(harness, KCM))
    await harness.run(6)
    could_start = harness.now
    with harness.faults.api_down(SHOOT):
        await harness.run(45)
    await harness.until(lambda: ups(harness, MCM), within=60)
    assert harness.now - could_start < 45 + 35, "not 30 s more after the new verdict"
    ended = [n for n in harness.told("FlowEnded") if "was ended" in n.message]
    assert ended, "the HOLD has ended the flow that waited"


async def test_an_outage_that_recurs_while_a_scale_up_waits_is_protected_again(lab):
    """KCM is back, MCM waits for its delay: it stays at 0 with its saved count, and waits anew afterwards."""
    patient = changed(MCM, scale_up=ScalePolicy(1, initial_delay=90.0))
    harness = await lab.healthy(dependents=patient)
    await harness.survive_an_outage()
    await harness.until(lambda: ups(harness, KCM))
    await harness.run(10)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 0)
        await harness.run(60)
        assert harness.replicas() == (0, 0, 0)
        assert harness.world.annotations(SHOOT, MCM)[ann.REPLICAS] == "1"
        assert not ups(harness, MCM)
    await harness.until(lambda: len(ups(harness, KCM)) == 2, within=90)
    again = harness.now
    await harness.until(lambda: ups(harness, MCM), within=120)
    assert harness.now - again == pytest.approx(95.0, abs=0.5)


async def test_a_verdict_down_starts_the_delays_of_the_way_up_anew_even_with_nothing_to_write(lab):
    slow = changed(KCM, scale_up=ScalePolicy(0, initial_delay=60.0))
    harness = await lab.healthy(dependents=slow)
    await harness.survive_an_outage()
    await harness.until(lambda: harness.told("FlowStarted")[1:], within=60)
    with harness.faults.path_cut(SHOOT):
        await harness.run(70)
        assert harness.state() is ShootState.PROTECTED
    await harness.until(lambda: len(harness.told("FlowStarted")) == 3, within=60)
    begun = harness.now
    await harness.until(lambda: ups(harness, KCM), within=90)
    assert harness.now - begun == pytest.approx(60.0, abs=0.5)


async def test_a_delay_ends_in_a_verdict_that_is_still_current_or_in_nothing(harness):
    """The server goes away in the delay: the write waits for the next verdict, at most 15 s."""
    await harness.survive_an_outage()
    await harness.until(lambda: ups(harness, KCM))
    await harness.run(30)
    with harness.faults.api_down(SHOOT):
        await harness.run(100)
        assert not ups(harness, MCM)
        assert harness.replicas() == (1, 0, 0)


async def test_a_silent_watch_of_dependents_does_not_hold_up_the_way_up(harness):
    """What the watch does not show is read live."""
    await harness.survive_an_outage()
    await harness.until(lambda: ups(harness, KCM))
    with harness.faults.watch_stalled(Watched.DEPENDENTS):
        await harness.until(lambda: ups(harness, MCM), within=70)
        assert not harness.told("ScalingFailed")


async def test_what_is_deleted_and_made_again_is_awaited_as_what_it_is_now(harness):
    for seconds in range(6):  # its generation is far above that of the new one
        harness.world.patch(SHOOT, KCM, {"spec": {"minReadySeconds": seconds}})
    await harness.survive_an_outage()
    await harness.until(lambda: ups(harness, KCM))
    harness.world.delete(SHOOT, KCM)
    harness.world.add_dependent(SHOOT, KCM, 1)
    await harness.until(lambda: ups(harness, MCM), within=40)


async def test_what_is_deleted_while_it_is_awaited_is_not_ready_until_it_is_there_again(harness):
    await harness.survive_an_outage()
    await harness.until(lambda: ups(harness, KCM))
    harness.world.delete(SHOOT, KCM)
    await harness.run(10)
    assert not harness.told("FlowEnded")[1:]
    harness.world.add_dependent(SHOOT, KCM, 1)
    again = harness.now
    await harness.until(lambda: ups(harness, MCM), within=40)
    assert harness.now - again > 29, "its delay begins when the level before is ready"


async def test_what_is_deleted_for_good_while_it_is_awaited_ends_the_run_as_failed(harness):
    await harness.survive_an_outage()
    await harness.until(lambda: ups(harness, KCM))
    harness.world.delete(SHOOT, KCM)
    await harness.until(lambda: harness.told("ScalingFailed"), within=35)
    await harness.run(120)
    assert not ups(harness, MCM)


async def test_what_need_not_exist_is_not_awaited_when_it_is_deleted(lab):
    harness = await lab.healthy(dependents=changed(KCM, optional=True))
    await harness.survive_an_outage()
    await harness.until(lambda: ups(harness, KCM))
    harness.world.delete(SHOOT, KCM)
    await harness.until(lambda: ups(harness, MCM), within=33)
    assert not harness.told("ScalingFailed")


async def test_a_slow_seed_on_the_way_up_loses_no_count(harness):
    await harness.survive_an_outage()
    with harness.faults.seed_trouble(Trouble(latency=4.0, verbs=frozenset({"patch"}))):
        await harness.run(180)
    assert harness.replicas() == (1, 1, 1)
    assert harness.world.requests.live(Host.SEED, "patch") == 6


async def test_a_watch_and_a_seed_that_are_both_silent_only_hold_up_the_way_up(harness):
    await harness.survive_an_outage()
    await harness.until(lambda: ups(harness, KCM))
    with harness.faults.watch_stalled(Watched.DEPENDENTS), harness.faults.seed_errors():
        await harness.run(25)
        assert not harness.told("ScalingFailed")
    await harness.until(lambda: harness.replicas() == (1, 1, 1), within=90)
