"""A scaling run downwards: levels, one patch, retries, failures."""

from dataclasses import replace

import pytest

from app.core.model import workloads as ann
from app.core.model.instants import rfc3339
from app.core.model.policy import OnFailure, ScalePolicy
from app.core.model.probing import ShootState
from app.core.ports import Watched
from app.simulation.traffic import Host, Trouble
from app.simulation.workloads import PodPace
from tests.support.harness import CA, GARDENER, KCM, MCM, SHOOT, changed

PATCHES = frozenset({"patch"})


async def test_there_is_no_get_before_the_first_patch(harness):
    harness.faults.path_cut(SHOOT)
    harness.world.requests.reset()
    await harness.protect()
    assert harness.world.requests.live(Host.SEED, "get") == 0
    assert harness.world.requests.live(Host.SEED) == 3


async def test_the_next_level_does_not_wait_until_the_pods_are_gone(lab):
    harness = await lab.healthy(lab.world(pace=PodPace(gone=25.0)))
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.writes(KCM))
        assert harness.writes(KCM)[0].at - harness.writes(MCM)[0].at < 0.1


@pytest.mark.parametrize("slow", [1.5, 3.0])
async def test_the_level_after_a_slow_patch_starts_1_s_after_it_was_sent(harness, slow):
    harness.faults.path_cut(SHOOT)
    with harness.faults.seed_trouble(Trouble(latency=slow, verbs=PATCHES)):
        await harness.until(lambda: len(harness.writes()) == 3)
    assert harness.writes(KCM)[0].at - harness.writes(MCM)[0].at == pytest.approx(1.0, abs=0.02)


async def test_the_level_after_a_patch_that_never_answers_starts_1_s_after_it_was_sent(harness):
    harness.faults.path_cut(SHOOT)
    hanging = harness.faults.seed_trouble(Trouble(silent=True, verbs=PATCHES))
    await harness.until(lambda: harness.world.requests.live(Host.SEED, "patch") == 2)
    sent = harness.now
    await harness.until(lambda: harness.world.requests.live(Host.SEED, "patch") == 3)
    assert harness.now - sent == pytest.approx(1.0, abs=0.05)
    hanging.lift()
    await harness.protect()
    assert harness.replicas() == (0, 0, 0)


async def test_a_missing_optional_dependent_and_a_slow_seed_hold_up_no_level_for_longer(lab):
    """Whether it is really gone is read live; that must not eat the seconds that KCM has."""
    harness = await lab.healthy(
        shoot={"replicas": {"kube-controller-manager": 1, "machine-controller-manager": 1}}
    )
    with (
        harness.faults.path_cut(SHOOT),
        harness.faults.seed_trouble(Trouble(silent=True, verbs=frozenset({"get"}))),
    ):
        await harness.until(lambda: harness.writes(KCM))
    assert harness.writes(KCM)[0].at - harness.writes(MCM)[0].at == pytest.approx(1.0, abs=0.05)


MISSING = "it does not exist and is not optional"


@pytest.mark.parametrize(("policy", "kcm"), [(OnFailure.CONTINUE, 0), (OnFailure.STOP, 1)])
async def test_a_missing_required_dependent_fails_and_only_stop_keeps_later_levels_up(
    lab, policy, kcm
):
    replicas = {"kube-controller-manager": 1, "cluster-autoscaler": 1}
    harness = await lab.healthy(shoot={"replicas": replicas}, on_scale_down_failure=policy)
    with harness.faults.path_cut(SHOOT):
        await harness.run(60)
        (failed, *_) = harness.told("ScalingFailed")
        assert (failed.resource, failed.message.split(": ")[-1]) == (MCM, MISSING)
        assert harness.world.replicas(SHOOT, CA) == 0, "it is of the same level"
        assert harness.world.replicas(SHOOT, KCM) == kcm


async def test_a_forbidden_patch_fails_is_told_and_is_tried_at_every_further_verdict(harness):
    harness.faults.path_cut(SHOOT)
    with harness.faults.patch_forbidden():
        await harness.run(60)
        assert not harness.writes()
        failed = harness.told("ScalingFailed")
        assert {n.resource for n in failed} == {KCM, MCM, CA}
        assert all(n.event and n.severity == "error" for n in failed)
        assert harness.state() is ShootState.FAILING
    await harness.run(6)
    assert harness.replicas() == (0, 0, 0)


async def test_refusals_before_a_write_that_was_accepted_count_no_more(harness):
    for _ in range(2):
        with harness.faults.path_cut(SHOOT):
            with harness.faults.patch_forbidden():
                await harness.until(lambda: harness.state() is ShootState.PROTECTING, within=60)
                await harness.run(3)
            await harness.run(10)
            assert harness.replicas() == (0, 0, 0)
        await harness.run(200)
    assert not harness.told("ScalingFailed")


async def test_refusals_of_five_minutes_ago_count_no_more(harness):
    with harness.faults.patch_forbidden():
        with harness.faults.path_cut(SHOOT):
            await harness.until(lambda: len(harness.told("ScalingFailed")) == 3, within=60)
        await harness.run(320)
        with harness.faults.path_cut(SHOOT):
            failed = len(harness.told("ScalingFailed"))
            await harness.until(lambda: harness.state() is ShootState.PROTECTING, within=60)
            await harness.run(3)
    assert len(harness.told("ScalingFailed")) == failed


async def test_a_refusal_where_a_failure_ends_the_run_is_no_reason_to_begin_the_next_level(lab):
    harness = await lab.healthy(on_scale_down_failure=OnFailure.STOP)
    with harness.faults.path_cut(SHOOT), harness.faults.patch_forbidden():
        await harness.until(lambda: harness.told("ScalingFailed"), within=60)
        await harness.run(3)
        assert {each.resource for each in harness.told("ScalingFailed")} == {MCM, CA}


async def test_patches_that_are_refused_three_times_fail_and_later_runs_try_each_just_once(harness):
    harness.faults.path_cut(SHOOT)
    with harness.faults.patch_forbidden():
        await harness.until(lambda: len(harness.told("ScalingFailed")) == 3, within=60)
        assert harness.world.requests.live(Host.SEED, "patch") == 9
        await harness.until(lambda: len(harness.told("FlowStarted")) == 2)
        await harness.run(1)
        assert len(harness.told("ScalingFailed")) == 6
        assert harness.world.requests.live(Host.SEED, "patch") == 12


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble(error_rate=1.0),
        Trouble(refused=True),
        pytest.param(Trouble(forbidden=True), id="403 of a kube-apiserver that has just started"),
    ],
)
async def test_a_failing_patch_is_tried_again_until_it_is_accepted(harness, trouble):
    harness.faults.path_cut(SHOOT)
    wrong = harness.faults.seed_trouble(replace(trouble, verbs=PATCHES))
    await harness.until(lambda: harness.world.requests.live(Host.SEED, "patch"))
    await harness.run(3)
    wrong.lift()
    await harness.run(3)
    assert harness.replicas() == (0, 0, 0)
    assert len(harness.told("FlowStarted")) == 1


async def test_a_patch_that_waits_for_a_webhook_s_whole_time_out_is_made_all_the_same(harness):
    """kube-apiserver waits 10 s for one that does not answer, and gives up the patch if its sender does."""
    with harness.faults.seed_trouble(Trouble(latency=11.0, verbs=PATCHES)):
        with harness.faults.path_cut(SHOOT):
            await harness.protect()
        await harness.until(lambda: harness.replicas() == (1, 1, 1), within=180)


async def test_a_429_on_a_patch_is_heeded_for_its_retry_after(harness):
    harness.faults.path_cut(SHOOT)
    wrong = harness.faults.seed_trouble(Trouble(throttled=True, retry_after=4.0, verbs=PATCHES))
    await harness.until(lambda: harness.world.requests.live(Host.SEED, "patch"))
    await harness.run(0.1)
    wrong.lift()
    tried = harness.world.requests.live(Host.SEED, "patch")
    await harness.run(3.5)
    assert harness.world.requests.live(Host.SEED, "patch") - tried <= 1, "only KCM's first"
    await harness.run(2)
    assert harness.replicas() == (0, 0, 0)


async def test_patches_that_never_succeed_fail_at_the_timeout(harness):
    harness.faults.path_cut(SHOOT)
    with harness.faults.seed_trouble(Trouble(error_rate=1.0, verbs=PATCHES)):
        await harness.until(lambda: harness.told("FlowStarted"))
        begun = harness.now
        await harness.until(lambda: harness.told("FlowEnded"), within=90)
        assert harness.now - begun == pytest.approx(30, abs=1)
        assert harness.told("FlowEnded")[0].severity == "error"


async def test_a_conflict_rereads_and_decides_again(harness):
    """Somebody scaled KCM to 3 and the watch has not shown it: the saved count is 3 all the same."""
    with harness.faults.watch_stalled(Watched.DEPENDENTS):
        harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 3}})
        with harness.faults.path_cut(SHOOT):
            await harness.until(lambda: harness.writes(KCM))
    assert harness.world.annotations(SHOOT, KCM)[ann.REPLICAS] == "3"
    assert harness.world.replicas(SHOOT, KCM) == 0


def taken_down(world, ref):
    """By another instance, with all keys."""
    keys = {ann.REPLICAS: "1", ann.MELTDOWN: "", ann.SINCE: rfc3339(world.clock.now())}
    world.patch(SHOOT, ref, {"metadata": {"annotations": keys}, "spec": {"replicas": 0}})


def ignored(world, ref):
    world.patch(SHOOT, ref, {"metadata": {"annotations": {ann.IGNORE_SCALING: "true"}}})


def gone(world, ref):
    world.delete(SHOOT, ref)


@pytest.mark.parametrize("became", [taken_down, ignored, gone])
async def test_what_a_conflict_has_shown_is_known_while_the_watch_is_behind(harness, became):
    """The watch goes on showing a version that was refused: nobody sends a patch of that again, look after probe."""
    with harness.faults.watch_stalled(Watched.DEPENDENTS), harness.faults.path_cut(SHOOT):
        became(harness.world, CA)
        await harness.until(lambda: harness.writes(KCM))
        await harness.run(60)
        assert harness.world.requests.live(Host.SEED, "patch") == 3
    assert harness.state() is ShootState.PROTECTED


async def test_a_patch_that_was_carried_out_without_an_answer_is_reported_as_done(harness):
    """The retry meets a conflict, re-reads, and finds its own work."""
    harness.faults.path_cut(SHOOT)
    await harness.until(lambda: harness.world.requests.live(Host.SEED, "patch"))
    await harness.clock.sleep(0.012)  # it is carried out, and its answer is on the way
    lost = harness.faults.seed_trouble(Trouble(latency=20.0, verbs=PATCHES))
    assert harness.writes()
    await harness.run(1)
    lost.lift()
    await harness.protect()
    assert {n.resource for n in harness.told("ScaledDown")} == {KCM, MCM, CA}


async def test_pods_that_do_not_go_within_the_timeout_are_reported_and_stop_nothing(lab):
    harness = await lab.healthy(lab.world(pace=PodPace(gone=600.0)))
    with harness.faults.path_cut(SHOOT):
        await harness.run(120)
        assert harness.replicas() == (0, 0, 0)
        assert "pods were left after" in harness.told("ScalingFailed")[0].message


async def test_a_new_leader_waits_for_what_is_left_of_a_delay_on_the_way_down(lab):
    """The one before was killed in the midst of it; the seed says since when the level below is at 0."""
    delayed = changed(KCM, scale_down=ScalePolicy(1, initial_delay=40.0))
    first = await lab.healthy(dependents=delayed)
    with first.faults.path_cut(SHOOT):
        await first.until(lambda: first.writes(MCM))
        await first.run(5)
        await first.kill()
        second = first.again()
        await second.until(lambda: second.writes(KCM))
        (kcm,), (mcm,) = second.writes(KCM), second.writes(MCM)
        assert kcm.at - mcm.at == pytest.approx(40.0, abs=1.1)


async def test_what_somebody_scales_up_in_mid_outage_goes_down_again_without_a_delay(lab):
    """Its level could start long ago."""
    harness = await lab.healthy(dependents=changed(KCM, scale_down=ScalePolicy(1, 20.0)))
    async with harness.under_protection():
        await harness.run(30)
        harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 2}})
        await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 0, within=10)


async def test_a_write_whose_wait_was_ended_is_an_event_all_the_same(lab):
    harness = await lab.healthy(lab.world(pace=PodPace(gone=20.0)))
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: len(harness.writes()) == 3)
        await harness.run(1)
        await harness.prober.stop("SIGTERM")
    assert {n.resource for n in harness.told("ScaledDown") if n.event} == {KCM, MCM, CA}
    assert {n.severity for n in harness.told("ScaledDown")} == {"info"}, "and no warning"


async def test_the_timeout_counts_from_the_first_request_and_not_from_the_delay_before_it(lab):
    slow = changed(KCM, scale_down=ScalePolicy(1, initial_delay=12.0, timeout=5.0))
    harness = await lab.healthy(lab.world(pace=PodPace(gone=3.0)), dependents=slow)
    await harness.survive_an_outage()
    assert not harness.told("ScalingFailed")


async def test_conflicts_that_never_end_fail_at_the_timeout(harness):
    harness.faults.path_cut(SHOOT)
    await harness.until(lambda: harness.told("FlowStarted"))
    for n in range(4000):
        harness.world.patch(SHOOT, KCM, {"metadata": {"labels": {"n": str(n)}}})
        await harness.clock.sleep(0.01)
    assert [n for n in harness.told("ScalingFailed") if "conflicting" in n.message]
    assert harness.world.replicas(SHOOT, MCM) == 0
    await harness.protect()
    assert harness.world.annotations(SHOOT, KCM)[ann.REPLICAS] == "1"


async def test_what_somebody_scales_up_while_pods_are_awaited_goes_down_at_the_next_verdict(lab):
    """The wait for pods only decides what is reported."""
    patient = tuple(
        replace(each, scale_down=replace(each.scale_down, timeout=60.0))
        for each in GARDENER.dependents
    )
    harness = await lab.healthy(lab.world(pace=PodPace(gone=1e6)), dependents=patient)
    world = harness.world
    harness.faults.path_cut(SHOOT)
    await harness.until(lambda: harness.writes(KCM))
    await harness.run(3)
    assert harness.state() is ShootState.PROTECTING, "its pods are still awaited"
    world.patch(SHOOT, KCM, {"spec": {"replicas": 2}})
    await harness.until(
        lambda: harness.replicas() == (0, 0, 0), within=GARDENER.suspect_interval + 1
    )
    assert world.annotations(SHOOT, KCM)[ann.REPLICAS] == "2"
    assert (
        "Deployment/kube-controller-manager must be scaled down again"
        in harness.told("FlowEnded")[0].message
    )
    assert len(harness.writes()) == 4, "what is at 0 is not written again"
    await harness.run(90)
    assert harness.state() is ShootState.PROTECTED
