"""Sentences of the spec that do not hold yet; each marker goes when its cause does."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from app.core.model.policy import DependentPolicy, ScalePolicy
from app.core.model.probing import Reason, Verdict
from app.core.model.workloads import ResourceRef
from app.core.records.metering import Metering
from app.core.runtime.clock import Clock
from app.core.runtime.metrics import Metrics
from app.core.runtime.tasks import Tasks
from app.core.simulation.ownership import SimulatedOwnership
from app.core.simulation.traffic import Host, Trouble
from tests.core.kube.test_election import Candidate, Lease
from tests.support.stands import KCM, MCM, SHOOT, Stage, changed

PATCHES = frozenset({"patch"})
ETCD = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")
WITH_ETCD_ONLY = (DependentPolicy(ETCD, ScalePolicy(0), ScalePolicy(0)),)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    made = Stage(tasks, clock)
    yield made
    await made.close()
    await tasks.stop()


async def shoot(stage, **changes):
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, **changes)
    await stand.run(60)
    return stand


@pytest.mark.xfail(strict=True, reason="spec 4.3, what ends a flow: the wish outlives the HOLD")
async def test_a_flow_that_waited_for_the_other_one_writes_nothing_while_the_verdict_is_a_hold(
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
                await stand.until(lambda: stand.reason() is Reason.UNREACHABLE)
                before = stand.world.requests.total(Host.SEED, "patch")
                await stand.run(4)
                assert stand.reason() is Reason.UNREACHABLE
                assert stand.world.requests.total(Host.SEED, "patch") == before


@pytest.mark.xfail(strict=True, reason="spec 8: no write starts after leadership was lost")
async def test_the_second_write_of_another_kind_does_not_start_after_leadership_was_lost(stage):
    world = stage.world()
    world.add_shoot(SHOOT, replicas={ETCD: 1})
    stand = stage.prober(world, dependents=WITH_ETCD_ONLY)
    await stand.run(60)
    with (
        world.faults.path_cut(SHOOT),
        world.faults.seed_trouble(Trouble(latency=2.0, verbs=PATCHES)),
    ):
        await stand.until(lambda: world.requests.total(Host.SEED, "patch") == 1)
        world.ownership.become(leading=False)
        await stand.run(20)
    assert world.requests.total(Host.SEED, "patch") == 1


@pytest.mark.xfail(strict=True, reason="spec 4.3, step 1: a later level has something to write")
async def test_what_was_found_at_zero_waits_for_the_level_before_to_be_ready(stage):
    stand = await shoot(stage)
    with stand.world.faults.pods_stuck(SHOOT, KCM):
        stand.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
        await stand.run(3)
        stand.world.patch(SHOOT, KCM, {"spec": {"replicas": 1}})
        await stand.run(3)
        stand.world.patch(SHOOT, MCM, {"spec": {"replicas": 0}})
        await stand.run(120)
        assert not stand.writes(MCM)


@pytest.mark.xfail(strict=True, reason="metrics.md: two replicas tell of the same protection")
async def test_a_standby_counts_no_protection_that_the_leader_began(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    leader = stage.prober(world)
    standby = stage.prober(world, ownership=SimulatedOwnership(leading=False, observing=False))
    metrics = Metrics()
    standby.environment.board.subscribe(Metering(metrics).note)
    await leader.run(60)
    with world.faults.path_cut(SHOOT):
        await leader.protect()
    assert metrics.registry.get_sample_value("dwd_meltdowns_total") == 0


@pytest.mark.xfail(strict=True, reason="spec 4.4: logged, counted, shown, started again")
async def test_a_runner_that_failed_is_counted(stage):
    stand = await shoot(stage)
    metrics = Metrics()
    stand.environment.board.subscribe(Metering(metrics).note)
    stand.prober.registry.runner(SHOOT)._observer.look = None
    with capture_logs():
        await stand.run(30)
    assert stand.told("RunnerFailed")
    found = [s for f in metrics.registry.collect() for s in f.samples]
    assert any(s.name == "dwd_runner_failures_total" and s.value for s in found)


@pytest.mark.xfail(strict=True, reason="the loop of the election takes a release for a loss")
async def test_a_clean_release_is_no_death_of_the_election():
    candidate = Candidate(Lease())
    tasks = Tasks(candidate.clock)
    _ = tasks.shared(candidate.election.run, "leader election")
    await asyncio.sleep(1.9)
    with capture_logs() as lines:
        await candidate.election.release()
        await asyncio.sleep(0.3)
    await tasks.stop()
    assert not [line for line in lines if line["log_level"] == "critical"]


@pytest.mark.xfail(strict=True, reason="a renewal on its way brings leadership back")
async def test_who_has_released_the_lease_does_not_lead_again():
    candidate = Candidate(Lease())
    answered = candidate.path.replace

    async def slowly(record, term, within):
        found = await answered(record, term, within)
        if term.holder:
            await asyncio.sleep(0.5)
        return found

    candidate.path.replace = slowly
    task = asyncio.ensure_future(candidate.election.run())
    await asyncio.sleep(2.1)
    await candidate.election.release()
    await asyncio.sleep(0.6)
    leads = candidate.leading
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not leads
