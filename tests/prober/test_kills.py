"""kill -9 at every boundary of a request, and two processes at once: nothing is lost."""

import pytest

from app.core.metrics import Metrics
from app.core.model import workloads as ann
from app.core.model.probing import ShootState
from app.core.reporting.metering import Metering
from tests.support.doubles import SetLeadership
from tests.support.harness import CA, ETCD, KCM, MCM, SHOOT, WITH_ETCD

COUNTS = {KCM: 3, MCM: 1, CA: 2, ETCD: 5}
ALL = tuple(COUNTS)
MELTDOWNS = "dwd_meltdowns_total"
ROUND_TRIP = 0.02
BOUNDARIES = [n * ROUND_TRIP / 4 for n in range(24)]
"""Seconds after a scaling run downwards began: each of its requests is not sent, sent, carried out, or answered."""


def stage_world(lab):
    world = lab.world()
    world.add_shoot(SHOOT, replicas=COUNTS)
    return world


async def staged(lab):
    """A prober of all four dependents that has probed the shoot for a minute."""
    return await lab.healthy(shoot={"replicas": COUNTS}, dependents=WITH_ETCD)


def counts(world):
    return {ref: world.replicas(SHOOT, ref) for ref in ALL}


def nothing_lost(world):
    """Whatever is at 0 says how many it was."""
    return all(
        world.annotations(SHOOT, ref).get(ann.REPLICAS) == str(COUNTS[ref])
        and ann.MELTDOWN in world.annotations(SHOOT, ref)
        for ref in ALL
        if world.replicas(SHOOT, ref) == 0
    )


@pytest.mark.parametrize("after", BOUNDARIES)
async def test_killed_at_any_point_of_the_way_down_the_next_process_finishes_it(lab, after):
    first = await staged(lab)
    world = first.world
    with world.faults.path_cut(SHOOT):
        await first.until(lambda: first.told("FlowStarted"))
        await first.run(after)
        await first.kill()
        assert nothing_lost(world)
        await first.run(3)
        second = first.again()
        await second.until(lambda: not any(counts(world).values()))
        assert nothing_lost(world)
    await second.run(150)
    assert counts(world) == COUNTS
    assert not any(world.annotations(SHOOT, ref) for ref in ALL)


@pytest.mark.parametrize("offset", [n * ROUND_TRIP / 4 for n in range(6)])
@pytest.mark.parametrize("which", ALL, ids=str)
async def test_killed_at_any_point_of_the_way_up_the_next_process_finishes_it(lab, which, offset):
    first = await staged(lab)
    world = first.world
    with world.faults.path_cut(SHOOT):
        await first.protect()
    begun = len(world.journal.writes)
    await first.until(
        lambda: [
            w
            for w in world.journal.writes[begun:]
            if w.ref == which and w.by == "dependency-watchdog"
        ],
        within=150,
    )
    await first.run(offset)
    await first.kill()
    assert nothing_lost(world)
    second = first.again()
    await second.run(180)
    assert counts(world) == COUNTS
    assert not any(world.annotations(SHOOT, ref) for ref in ALL)
    assert second.state() is ShootState.HEALTHY


async def test_two_instances_whose_watches_lag_lose_no_saved_count(lab):
    """What each decides on is up to 3 s old."""
    world = lab.world(watch_delay=3.0)
    world.add_shoot(SHOOT, replicas=COUNTS)
    first = lab.prober(world, dependents=WITH_ETCD)
    lab.prober(world, dependents=WITH_ETCD)
    for _ in range(3):
        await first.run(60)
        with world.faults.path_cut(SHOOT):
            await first.run(60)
            assert nothing_lost(world)
        await first.run(200)
        assert counts(world) == COUNTS


async def probing_standby(lab):
    """A standby that has probed the shoot for a minute, with its world and its leadership."""
    world, leadership = stage_world(lab), SetLeadership(leading=False, may_probe=True)
    standby = lab.prober(world, leadership=leadership)
    await standby.run(60)
    return world, leadership, standby


async def test_a_standby_that_does_not_observe_asks_nobody_anything(lab):
    world = stage_world(lab)
    standby = lab.prober(world, leadership=SetLeadership(leading=False, may_probe=False))
    await standby.run(120)
    assert world.requests.live() == 0


async def test_a_standby_that_observes_judges_and_writes_nothing(lab):
    world = stage_world(lab)
    standby = lab.prober(world, leadership=SetLeadership(leading=False, may_probe=True))
    await standby.run(60)
    with world.faults.path_cut(SHOOT):
        await standby.run(60)
        assert standby.reason() == "NotLeader"
        assert standby.decision().would_be == "ScaleDown"
        assert not standby.writes()


async def test_a_standby_that_has_observed_takes_over_at_once(lab):
    world, leadership, standby = await probing_standby(lab)
    with world.faults.path_cut(SHOOT):
        await standby.run(60)
        leadership.become(leading=True)
        won = standby.now
        await standby.until(lambda: world.replicas(SHOOT, KCM) == 0)
        assert standby.now - won < 0.5


async def leads_and_protects(world, leadership, standby, *, after, within):
    """It begins to lead, writes nothing before `after` seconds, and has protected `within` seconds from then."""
    leadership.become(leading=True)
    await standby.run(after)
    assert not standby.writes()
    await standby.until(lambda: world.replicas(SHOOT, KCM) == 0, within=within)


@pytest.mark.parametrize("probed", [False, True], ids=["never", "before"])
async def test_a_standby_that_began_to_probe_when_the_leader_fell_silent_knows_the_leases_in_time(
    lab, probed
):
    """The leader is killed in mid-outage, the standby looks for 10 s before it leads.

    One that has probed before, as nobody led yet, is no slower than one that never did.
    """
    world = stage_world(lab)
    leadership = SetLeadership(leading=False, may_probe=probed)
    standby = lab.prober(world, leadership=leadership)
    await standby.run(20)
    leadership.become(leading=False, may_probe=False)
    leader = lab.prober(world)
    await leader.run(60)
    with world.faults.path_cut(SHOOT):
        await leader.run(15)
        await leader.kill()
        await leader.run(5)
        leadership.become(leading=False, may_probe=True)
        await leader.run(10)
        leadership.become(leading=True)
        await standby.until(lambda: world.replicas(SHOOT, KCM) == 0, within=10)


async def test_a_standby_that_has_probed_before_knows_how_far_the_clocks_of_nodes_are_off(lab):
    """Its own may be what is off: it must not take an outage of 15 s for one of 30."""
    world = stage_world(lab)
    for number in range(10):
        world.faults.clock_off(SHOOT, f"node-{number}", -300)
    leadership = SetLeadership(leading=False, may_probe=True)
    standby = lab.prober(world, leadership=leadership)
    await standby.run(40)
    leadership.become(leading=False, may_probe=False)
    await standby.run(60)
    with world.faults.path_cut(SHOOT):
        await leads_and_protects(world, leadership, standby, after=19, within=15)


@pytest.mark.parametrize("rest", [0, 3, 20])
async def test_a_standby_that_rests_forgets_no_absence_of_the_storage(lab, rest):
    """Its probes failed as its leader renewed once more; then the storage is back, and the kubelets are not yet."""
    world, leadership, standby = await probing_standby(lab)
    with world.faults.storage_away(SHOOT):
        await standby.run(40)
        leadership.become(leading=False, may_probe=not rest)
        await standby.run(rest)
        cut = world.faults.path_cut(SHOOT)
    await leads_and_protects(world, leadership, standby, after=29, within=5)
    cut.lift()


@pytest.mark.parametrize(("cut_for", "rest", "after"), [(12, 45, 14), (25, 3, 0)])
async def test_what_grew_old_while_a_standby_rested_has_to_be_watched_but_not_after_a_moment(
    lab, cut_for, rest, after
):
    world, leadership, standby = await probing_standby(lab)
    with world.faults.path_cut(SHOOT):
        await standby.run(cut_for)
        leadership.become(leading=False, may_probe=False)
        await standby.run(rest)
        await leads_and_protects(world, leadership, standby, after=after, within=8)


async def test_a_standby_counts_no_protection_that_the_leader_began(lab):
    world = stage_world(lab)
    leader = lab.prober(world)
    standby = lab.prober(world, leadership=SetLeadership(leading=False, may_probe=False))
    counted = []
    for each in (leader, standby):
        metrics = Metrics()
        each.environment.notice_bus.subscribe(Metering(metrics).note)
        counted.append(lambda registry=metrics.registry: registry.get_sample_value(MELTDOWNS))
    await leader.run(60)
    with world.faults.path_cut(SHOOT):
        await leader.protect()
    assert [each() for each in counted] == [1, 0]
