"""What ends a scaling run, and what makes its writes wait (rules 4.3, the table)."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.core.clock import Clock
from app.core.model.overrides import Scope
from app.core.model.policy import DependentPolicy, ScalePolicy
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.core.model.workloads import Direction
from app.prober.rules import candidates
from app.prober.scaling.run import RunGuard
from app.simulation.traffic import Host, Trouble
from tests.prober.people import with_operator
from tests.support.doubles import before_each_write
from tests.support.harness import CA, ETCD, KCM, MCM, SHOOT, SLOW_KCM, changed

PATCHES = frozenset({"patch"})
WITH_ETCD_ONLY = (DependentPolicy(ETCD, ScalePolicy(0), ScalePolicy(0)),)
SLOW_MCM_UP = changed(MCM, scale_up=ScalePolicy(1, initial_delay=20))
SLOW_PATCHES = Trouble(latency=9.0, verbs=PATCHES, what=frozenset({"deployments"}))


async def waiting_up(harness):
    """A scaling run upwards that waits for MCM's delay."""
    await harness.survive_an_outage()
    await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 1)
    await harness.run(6)
    assert harness.state() is ShootState.RECOVERING


async def down_and_up_again(harness):
    """Protection was complete for a while, and a scaling run upwards has written KCM."""
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
        await harness.run(20)
    await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 1)


async def test_a_scale_up_verdict_ends_a_run_downwards_and_its_waits_at_once(lab):
    harness = await lab.healthy(dependents=SLOW_KCM)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.writes(MCM))
    await harness.until(lambda: harness.decision().verdict is Verdict.SCALE_UP)
    await harness.run(0.1)
    assert "was ended: the verdict is ScaleUp" in harness.told("FlowEnded")[0].message
    await harness.run(90)
    assert harness.replicas() == (1, 1, 1)
    assert not harness.writes(KCM), "it was never touched"


async def test_a_scale_down_verdict_ends_a_run_upwards_and_its_waits_at_once(lab):
    harness = await lab.healthy(dependents=changed(MCM, scale_up=ScalePolicy(1, initial_delay=300)))
    await waiting_up(harness)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 0)
        assert "was ended: the verdict is ScaleDown" in harness.told("FlowEnded")[1].message


async def test_a_stop_of_the_prober_ends_a_run_at_once(harness):
    await waiting_up(harness)
    harness.faults.hibernated(SHOOT)
    await harness.run(0.2)
    assert not harness.runs()
    await harness.run(120)
    assert harness.replicas() == (1, 0, 0)


async def test_a_stop_waits_for_the_request_that_was_sent_and_sends_no_other(harness):
    with (
        harness.faults.path_cut(SHOOT),
        harness.faults.seed_trouble(Trouble(latency=0.5, verbs=PATCHES)),
    ):
        await harness.until(lambda: harness.world.requests.live(Host.SEED, "patch") == 2)
        await harness.prober.stop("SIGTERM")
        assert len(harness.writes()) == 2
        await harness.run(30)
        assert harness.world.requests.live(Host.SEED, "patch") == 2


async def test_a_verdict_from_before_the_process_stood_still_is_not_written_on():
    clock = Clock.of_loop()
    guard = RunGuard(Direction.DOWN, clock, clock.now(), 15.0)
    held = []
    for seconds in (15, 1):
        await asyncio.sleep(seconds)
        held.append(guard.held)
    guard.tell(Verdict.SCALE_DOWN, clock.now())
    assert [*held, guard.held] == [False, True, False]


async def test_a_verdict_is_as_old_as_its_leases_where_the_process_stood_still_while_it_judged_them(
    harness, monkeypatch
):
    tally, frozen = candidates.tally_with_nodes, []

    def freezing(*given):
        frozen.append(harness.now)
        if len(frozen) == 2:  # that of the second reading, which confirms the first one
            loop: Any = asyncio.get_running_loop()
            loop.setup_looptime(start=loop.time() + 60, noop_cycles=1)
        return tally(*given)

    with harness.faults.path_cut(SHOOT):
        monkeypatch.setattr(candidates, "tally_with_nodes", freezing)
        await harness.until(lambda: harness.told("FlowStarted"), within=120)
        assert harness.now == pytest.approx(frozen[1] + 60, abs=0.1)
        await harness.run(1)
        assert not harness.writes()
        await harness.until(harness.writes, within=120)
        assert harness.now > frozen[2]


@pytest.mark.parametrize("again", [False, True])
async def test_lost_leadership_ends_a_run_and_its_waits_at_once(harness, again):
    await waiting_up(harness)
    ended = len(harness.told("FlowEnded"))
    harness.leadership.become(leading=False)
    await harness.run(0.1)
    assert "is not the leader" in harness.told("FlowEnded")[ended].message
    await harness.run(60)
    assert harness.replicas() == (1, 0, 0)
    if again:
        harness.leadership.become(leading=True)
        await harness.run(60)
        assert harness.replicas() == (1, 1, 1)


async def test_a_hold_makes_the_next_write_wait_and_a_confirmed_verdict_lets_it_go(lab):
    harness = await lab.healthy(dependents=changed(KCM, scale_down=ScalePolicy(1, initial_delay=6)))
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.writes(MCM))
        with harness.faults.api_down(SHOOT):
            await harness.run(11)
            assert harness.reason() is VerdictReason.UNREACHABLE
            assert not harness.writes(KCM), "its delay is over, its verdict is not current"
        await harness.until(lambda: harness.writes(KCM), within=15)
        assert len(harness.told("FlowStarted")) == 1


async def test_a_hold_that_lasts_three_suspect_intervals_ends_the_run(lab):
    harness = await lab.healthy(dependents=changed(KCM, scale_down=ScalePolicy(1, initial_delay=6)))
    with harness.faults.path_cut(SHOOT):
        mcm = await harness.until(lambda: harness.writes(MCM))
        with harness.faults.api_down(SHOOT):
            await harness.until(lambda: harness.told("FlowEnded"))
            assert harness.now - mcm == pytest.approx(6 + 15, abs=0.2)
            assert "not confirmed" in harness.told("FlowEnded")[0].message
        await harness.until(lambda: harness.writes(KCM), within=60)


async def test_a_hold_of_a_write_that_waits_for_readiness_ends_nothing(harness):
    """Only writes wait for a verdict."""
    await harness.survive_an_outage()
    with harness.faults.pods_stuck(SHOOT, KCM):
        await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 1)
        with harness.faults.api_down(SHOOT):
            await harness.run(20)
            assert harness.state() is ShootState.RECOVERING


async def test_the_probe_loop_never_waits_for_a_run(harness):
    with (
        harness.faults.path_cut(SHOOT),
        harness.faults.seed_trouble(Trouble(silent=True, verbs=PATCHES)),
    ):
        await harness.until(lambda: harness.told("FlowStarted"))
        probes = len(harness.probes())
        await harness.run(30)
        assert len(harness.probes()) - probes >= 5


async def test_a_shoot_has_one_run_at_a_time(harness):
    for seconds in (29, 31, 35, 40):
        with harness.faults.path_cut(SHOOT):
            await harness.run(seconds)
        await harness.run(seconds)
    await harness.run(500)
    running = 0
    for notice in harness.notices:
        running += {"FlowStarted": 1, "FlowEnded": -1}.get(notice.reason, 0)
        assert running in (0, 1)
    assert harness.replicas() == (1, 1, 1)


async def test_a_failed_runner_makes_the_writes_of_its_run_wait(lab):
    """An unexpected failure is a HOLD, too."""
    harness = await lab.healthy(dependents=changed(KCM, scale_down=ScalePolicy(1, initial_delay=6)))
    # A rendered traceback would cost a second of real time each.
    with harness.faults.path_cut(SHOOT), capture_logs():
        await harness.until(lambda: harness.writes(MCM))
        harness.prober.registry.runner(SHOOT)._probe.probe = None
        await harness.run(60)
        assert not harness.writes(KCM)


async def others_come_back(harness):
    """The turns of so many other shoots that the next one waits for 40 s."""
    others = [asyncio.ensure_future(harness.environment.scale_ups.take()) for _ in range(400)]
    await harness.run(0)
    return others


async def test_a_scale_up_that_is_ended_while_it_waits_for_its_turn_writes_nothing(harness):
    await harness.survive_an_outage()
    _ = await others_come_back(harness)
    await harness.until(lambda: harness.state() is ShootState.RECOVERING)
    harness.leadership.become(leading=False)
    await harness.until(lambda: len(harness.told("FlowEnded")) == 2, within=0.1)
    await harness.run(60)
    assert harness.replicas() == (0, 0, 0)


async def test_scale_ups_that_were_ended_while_they_waited_keep_no_other_one_waiting(harness):
    """A pause of all shoots, for example, that comes and goes after a mass outage."""
    await harness.survive_an_outage()
    for each in await others_come_back(harness):
        each.cancel()
    await harness.until(lambda: harness.world.replicas(SHOOT, KCM) == 1, within=20)


async def test_a_run_that_waited_for_the_other_one_writes_nothing_while_the_verdict_is_a_hold(lab):
    harness = await lab.healthy(dependents=SLOW_MCM_UP)
    faults = harness.faults
    await down_and_up_again(harness)
    with faults.path_cut(SHOOT):
        await harness.run(20)
        with faults.seed_trouble(SLOW_PATCHES):  # MCM's way up is sent now
            await harness.until(lambda: harness.decision().verdict is Verdict.SCALE_DOWN)
            with faults.api_down(SHOOT):
                await harness.until(lambda: harness.reason() is VerdictReason.UNREACHABLE)
                before = harness.world.requests.live(Host.SEED, "patch")
                await harness.run(4)
                assert harness.reason() is VerdictReason.UNREACHABLE
                assert harness.world.requests.live(Host.SEED, "patch") == before


@pytest.mark.parametrize("everyone", [False, True])
async def test_a_run_that_waited_for_the_other_one_does_not_begin_under_a_pause_that_came_meanwhile(
    lab, everyone
):
    """A pause of scaling down leaves the run upwards alone whose last request is still on its way."""
    operator = await with_operator(lab, dependents=SLOW_MCM_UP)
    await down_and_up_again(operator)
    faults = operator.faults
    with faults.path_cut(SHOOT):
        await operator.run(20)
        with faults.seed_trouble(SLOW_PATCHES):  # MCM's way up is sent now
            await operator.until(lambda: operator.decision().verdict is Verdict.SCALE_DOWN)
            with faults.api_hanging(SHOOT):  # so that no verdict comes before that is answered
                await operator.pause(Scope.SCALE_DOWN, everyone=everyone)
                before = operator.world.requests.live(Host.SEED, "patch")
                await operator.until(lambda: len(operator.told("FlowEnded")) == 2)
                await operator.run(20)
                assert operator.world.requests.live(Host.SEED, "patch") == before


async def test_the_second_write_of_another_kind_does_not_start_after_leadership_was_lost(lab):
    harness = await lab.healthy(shoot={"replicas": {ETCD: 1}}, dependents=WITH_ETCD_ONLY)
    with (
        harness.faults.path_cut(SHOOT),
        harness.faults.seed_trouble(Trouble(latency=2.0, verbs=PATCHES)),
    ):
        await harness.until(lambda: harness.world.requests.live(Host.SEED, "patch") == 1)
        harness.leadership.become(leading=False)
        await harness.run(20)
    assert harness.world.requests.live(Host.SEED, "patch") == 1


@pytest.mark.parametrize("sent", [0, 1], ids=["the annotations", "the scale"])
async def test_a_write_that_waited_for_the_budget_does_not_start_after_the_lease_ran_out(
    lab, monkeypatch, sent
):
    """Nobody has told the run yet that this instance does not lead any more."""
    harness = await lab.healthy(shoot={"replicas": {ETCD: 1}}, dependents=WITH_ETCD_ONLY)
    writes = []

    def runs_out(request):
        writes.append(request)
        if len(writes) > sent:
            harness.leadership.run_out()

    before_each_write(monkeypatch, runs_out)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: len(writes) > sent)
        await harness.run(20)
    assert harness.world.requests.live(Host.SEED, "patch") == sent
    assert "not the leader" in harness.told("FlowEnded")[0].message


async def test_a_write_that_waited_for_the_budget_does_not_start_under_a_hold(lab, monkeypatch):
    harness = await lab.healthy(shoot={"replicas": {ETCD: 1}}, dependents=WITH_ETCD_ONLY)
    tries = []

    def held(_):
        tries.append(harness.now)
        if len(tries) == 1:
            harness.prober.registry.scaler(SHOOT).scaling_run.guard.tell(Verdict.HOLD, harness.now)

    before_each_write(monkeypatch, held)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: tries)
        await harness.run(1)
        assert harness.world.requests.live(Host.SEED, "patch") == 0
        await harness.until(lambda: harness.world.requests.live(Host.SEED, "patch"), within=10)


async def test_a_process_that_ends_in_mid_run_calls_nothing_a_failure(harness):
    """Its stop took too long, and what was left was cancelled: a resource of the scaling run, in its wait or in a
    request."""
    await waiting_up(harness)
    await harness.kill()
    assert harness.told("FlowStarted")
    assert not harness.told("ScalingFailed")


async def test_a_process_that_ends_in_mid_request_leaves_no_task_behind(harness):
    with (
        harness.faults.seed_trouble(Trouble(silent=True, verbs=PATCHES)),
        harness.faults.path_cut(SHOOT),
    ):
        await harness.until(lambda: harness.world.requests.live(Host.SEED, "patch"))
        await harness.kill()
        await harness.run(0)
    assert not harness.told("ScalingFailed")
    waiting = [task for task in asyncio.all_tasks() if "Event.wait" in repr(task.get_coro())]
    assert not waiting


# A scaling run that failed shows until what it could not do is done, and no longer.


async def fail_to_come_back(harness, ref):
    """The last level was scaled up, and its pods do not get ready in time."""
    await harness.survive_an_outage()
    stuck = harness.faults.pods_stuck(SHOOT, ref)
    await harness.until(lambda: harness.told("ScalingFailed"), within=200)
    return stuck


async def test_pods_that_do_not_get_ready_in_time_show_for_as_long_as_they_are_not(harness):
    await fail_to_come_back(harness, CA)
    await harness.run(300)
    assert harness.state() is ShootState.FAILING
    assert harness.scaling()[0] == "False"


async def test_pods_that_get_ready_later_leave_no_failure_behind(harness):
    (await fail_to_come_back(harness, CA)).lift()
    await harness.run(20)
    assert harness.state() is ShootState.HEALTHY
    assert harness.scaling() == (
        "True",
        "what the last scaling run could not do has been done since",
    )


async def test_what_fails_later_is_no_failure_of_the_scaling_run(harness):
    stuck = await fail_to_come_back(harness, CA)
    harness.faults.pods_stuck(SHOOT, KCM)
    for replicas in (0, 1):
        harness.world.patch(SHOOT, KCM, {"spec": {"replicas": replicas}})
        await harness.run(5)
    stuck.lift()
    await harness.run(20)
    assert harness.world.dependent(SHOOT, KCM).ready == 0
    assert harness.state() is ShootState.HEALTHY
    assert harness.scaling()[0] == "True"
