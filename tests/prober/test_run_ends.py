"""What ends a scaling run, and what makes its writes wait (rules 4.3, the table)."""

import asyncio

import pytest
from structlog.testing import capture_logs

from app.core.model.policy import DependentPolicy, ScalePolicy
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.core.model.workloads import ResourceRef
from app.simulation.traffic import Host, Trouble
from tests.support.stands import KCM, MCM, SHOOT, changed

PATCHES = frozenset({"patch"})
SLOW_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=60.0))
"""A scaling run downwards waits a minute before it writes KCM."""
ETCD = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")
WITH_ETCD_ONLY = (DependentPolicy(ETCD, ScalePolicy(0), ScalePolicy(0)),)


async def shoot(stage, **changes):
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, **changes)
    await stand.run(60)
    return stand


async def waiting_up(stand):
    """A scaling run upwards that waits for MCM's delay."""
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
    await stand.until(lambda: stand.world.replicas(SHOOT, KCM) == 1)
    await stand.run(6)
    assert stand.state() is ShootState.RECOVERING


async def test_a_scale_up_verdict_ends_a_run_downwards_and_its_waits_at_once(stage):
    stand = await shoot(stage, dependents=SLOW_KCM)
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.writes(MCM))
    await stand.until(lambda: stand.decision().verdict is Verdict.SCALE_UP)
    await stand.run(0.1)
    ended = stand.told("FlowEnded")[0]
    assert "was ended: the verdict is ScaleUp" in ended.message
    await stand.run(90)
    assert stand.replicas() == (1, 1, 1)
    assert not stand.writes(KCM), "it was never touched"


async def test_a_scale_down_verdict_ends_a_run_upwards_and_its_waits_at_once(stage):
    stand = await shoot(stage, dependents=changed(MCM, scale_up=ScalePolicy(1, initial_delay=300)))
    await waiting_up(stand)
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.world.replicas(SHOOT, KCM) == 0)
        assert "was ended: the verdict is ScaleDown" in stand.told("FlowEnded")[1].message


async def test_a_stop_of_the_prober_ends_a_run_at_once(stage):
    stand = await shoot(stage)
    await waiting_up(stand)
    stand.world.faults.hibernated(SHOOT)
    await stand.run(0.2)
    assert not stand.runs()
    await stand.run(120)
    assert stand.replicas() == (1, 0, 0)


async def test_a_stop_waits_for_the_request_that_was_sent_and_sends_no_other(stage):
    stand = await shoot(stage)
    with (
        stand.world.faults.path_cut(SHOOT),
        stand.world.faults.seed_trouble(Trouble(latency=0.5, verbs=PATCHES)),
    ):
        await stand.until(lambda: stand.world.requests.live(Host.SEED, "patch") == 2)
        await stand.prober.stop("SIGTERM")
        assert len(stand.writes()) == 2
        await stand.run(30)
        assert stand.world.requests.live(Host.SEED, "patch") == 2


@pytest.mark.parametrize("again", [False, True])
async def test_lost_leadership_ends_a_run_and_its_waits_at_once(stage, again):
    stand = await shoot(stage)
    await waiting_up(stand)
    ended = len(stand.told("FlowEnded"))
    stand.world.leadership.become(leading=False)
    await stand.run(0.1)
    assert "does not lead" in stand.told("FlowEnded")[ended].message
    await stand.run(60)
    assert stand.replicas() == (1, 0, 0)
    if again:
        stand.world.leadership.become(leading=True)
        await stand.run(60)
        assert stand.replicas() == (1, 1, 1)


async def test_no_write_starts_after_leadership_was_lost_in_a_run_downwards(stage):
    stand = await shoot(stage, dependents=changed(KCM, scale_down=ScalePolicy(1, initial_delay=3)))
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.writes(MCM))
        stand.world.leadership.become(leading=False)
        await stand.run(120)
        assert not stand.writes(KCM)


async def test_a_hold_makes_the_next_write_wait_and_a_confirmed_verdict_lets_it_go(stage):
    stand = await shoot(stage, dependents=changed(KCM, scale_down=ScalePolicy(1, initial_delay=6)))
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.writes(MCM))
        with stand.world.faults.api_down(SHOOT):
            await stand.run(11)
            assert stand.reason() is VerdictReason.UNREACHABLE
            assert not stand.writes(KCM), "its delay is over, its verdict is not current"
        await stand.until(lambda: stand.writes(KCM), within=15)
        assert len(stand.told("FlowStarted")) == 1


async def test_a_hold_that_lasts_three_suspect_intervals_ends_the_run(stage):
    stand = await shoot(stage, dependents=changed(KCM, scale_down=ScalePolicy(1, initial_delay=6)))
    with stand.world.faults.path_cut(SHOOT):
        mcm = await stand.until(lambda: stand.writes(MCM))
        with stand.world.faults.api_down(SHOOT):
            await stand.until(lambda: stand.told("FlowEnded"))
            assert stand.now - mcm == pytest.approx(6 + 15, abs=0.2)
            assert "not confirmed" in stand.told("FlowEnded")[0].message
        await stand.until(lambda: stand.writes(KCM), within=60)


async def test_a_hold_of_a_write_that_waits_for_readiness_ends_nothing(stage):
    """Only writes wait for a verdict."""
    stand = await shoot(stage)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
    with stand.world.faults.pods_stuck(SHOOT, KCM):
        await stand.until(lambda: stand.world.replicas(SHOOT, KCM) == 1)
        with stand.world.faults.api_down(SHOOT):
            await stand.run(20)
            assert stand.state() is ShootState.RECOVERING


async def test_a_level_that_waits_for_the_verdict_lets_no_other_one_write_either(stage):
    stand = await shoot(stage, dependents=changed(MCM, scale_down=ScalePolicy(0, initial_delay=6)))
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.told("FlowStarted"))
        with stand.world.faults.api_down(SHOOT):
            await stand.run(40)
            assert not stand.writes(MCM)
            assert not stand.writes(KCM)


async def test_the_probe_loop_never_waits_for_a_run(stage):
    stand = await shoot(stage)
    with (
        stand.world.faults.path_cut(SHOOT),
        stand.world.faults.seed_trouble(Trouble(silent=True, verbs=PATCHES)),
    ):
        await stand.until(lambda: stand.told("FlowStarted"))
        probes = len(stand.probes())
        await stand.run(30)
        assert len(stand.probes()) - probes >= 5


async def test_a_shoot_has_one_run_at_a_time(stage):
    stand = await shoot(stage)
    for seconds in (29, 31, 35, 40):
        with stand.world.faults.path_cut(SHOOT):
            await stand.run(seconds)
        await stand.run(seconds)
    await stand.run(500)
    running = 0
    for notice in stand.notices:
        running += {"FlowStarted": 1, "FlowEnded": -1}.get(notice.reason, 0)
        assert running in (0, 1)
    assert stand.replicas() == (1, 1, 1)


async def test_a_failed_runner_makes_the_writes_of_its_run_wait(stage):
    """An unexpected failure is a HOLD, too."""
    with capture_logs():  # a rendered traceback would cost a second of real time each
        await fail(stage)


async def fail(stage):
    stand = await shoot(stage, dependents=changed(KCM, scale_down=ScalePolicy(1, initial_delay=6)))
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.writes(MCM))
        runner = stand.prober.registry.runner(SHOOT)
        runner._observer.probe = None
        await stand.run(60)
        assert not stand.writes(KCM)


async def test_a_scale_up_that_is_ended_while_it_waits_for_its_turn_writes_nothing(stage):
    stand = await shoot(stage)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
    for _ in range(200):  # many other shoots come back
        stand.environment.scale_ups.turn(stand.now + 10)
    await stand.until(lambda: stand.state() is ShootState.RECOVERING)
    stand.world.leadership.become(leading=False)
    await stand.until(lambda: len(stand.told("FlowEnded")) == 2, within=0.1)
    await stand.run(60)
    assert stand.replicas() == (0, 0, 0)


async def test_a_run_that_waited_for_the_other_one_writes_nothing_while_the_verdict_is_a_hold(
    stage,
):
    stand = await shoot(stage, dependents=changed(MCM, scale_up=ScalePolicy(1, initial_delay=20)))
    faults = stand.world.faults
    with faults.path_cut(SHOOT):
        await stand.protect()
        await stand.run(20)
    await stand.until(lambda: stand.world.replicas(SHOOT, KCM) == 1)
    with faults.path_cut(SHOOT):
        await stand.run(20)
        with faults.seed_trouble(Trouble(latency=9.0, verbs=PATCHES)):  # MCM's way up is sent now
            await stand.until(lambda: stand.decision().verdict is Verdict.SCALE_DOWN)
            with faults.api_down(SHOOT):
                await stand.until(lambda: stand.reason() is VerdictReason.UNREACHABLE)
                before = stand.world.requests.live(Host.SEED, "patch")
                await stand.run(4)
                assert stand.reason() is VerdictReason.UNREACHABLE
                assert stand.world.requests.live(Host.SEED, "patch") == before


async def test_the_second_write_of_another_kind_does_not_start_after_leadership_was_lost(stage):
    world = stage.world()
    world.add_shoot(SHOOT, replicas={ETCD: 1})
    stand = stage.prober(world, dependents=WITH_ETCD_ONLY)
    await stand.run(60)
    with (
        world.faults.path_cut(SHOOT),
        world.faults.seed_trouble(Trouble(latency=2.0, verbs=PATCHES)),
    ):
        await stand.until(lambda: world.requests.live(Host.SEED, "patch") == 1)
        world.leadership.become(leading=False)
        await stand.run(20)
    assert world.requests.live(Host.SEED, "patch") == 1


async def test_a_process_that_ends_in_mid_run_calls_nothing_a_failure(stage):
    """Its stop took too long, and what was left was cancelled: a resource of the scaling run, in its wait or in a
    request."""
    stand = await shoot(stage)
    await waiting_up(stand)
    await stand.kill()
    assert stand.told("FlowStarted")
    assert not stand.told("ScalingFailed")


async def test_a_process_that_ends_in_mid_request_leaves_no_task_behind(stage):
    stand = await shoot(stage)
    with (
        stand.world.faults.seed_trouble(Trouble(silent=True, verbs=PATCHES)),
        stand.world.faults.path_cut(SHOOT),
    ):
        await stand.until(lambda: stand.world.requests.live(Host.SEED, "patch"))
        await stand.kill()
        await stand.run(0)
    assert not stand.told("ScalingFailed")
    waiting = [task for task in asyncio.all_tasks() if "Event.wait" in repr(task.get_coro())]
    assert not waiting
