"""Which leases count, and what few of them can say."""

import pytest

from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.simulation.traffic import Host
from tests.support.harness import SHOOT


def condition(kind, **more):
    ready = {"type": "Ready", "status": "True"}
    return {"status": {"conditions": [ready, {"type": kind, "status": "True", **more}]}}


EXCLUDED = {
    "not managed": lambda world, n: world.patch_node(
        SHOOT,
        f"node-{n}",
        {"metadata": {"annotations": {"node.machine.sapcloud.io/not-managed-by-mcm": "1"}}},
    ),
    "an unhealthy condition": lambda world, n: world.patch_node(
        SHOOT, f"node-{n}", condition("KernelDeadlock")
    ),
    "no machine": lambda world, n: world.delete_machine(SHOOT, f"machine-{n}"),
    "a failed machine": lambda world, n: world.machine_phase(SHOOT, f"machine-{n}", "Failed"),
    "a terminating machine": lambda world, n: world.machine_phase(
        SHOOT, f"machine-{n}", "Terminating"
    ),
    "an update in place": lambda world, n: world.patch_node(
        SHOOT, f"node-{n}", condition("InPlaceUpdate", reason="ReadyForUpdate")
    ),
}


async def shoot(lab, *, wait=60, **options):
    world = lab.world()
    world.add_shoot(SHOOT, **options)
    harness = lab.prober(world)
    await harness.run(wait)
    return harness


@pytest.mark.parametrize("how", EXCLUDED)
async def test_nodes_that_are_no_candidates_do_not_make_an_outage(lab, how):
    harness = await shoot(lab)
    for n in range(7):
        EXCLUDED[how](harness.world, n)
    await harness.run(1)
    with harness.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(7)]):
        await harness.run(180)
        assert not harness.writes()


@pytest.mark.parametrize("how", EXCLUDED)
async def test_nodes_that_are_no_candidates_do_not_hide_an_outage(lab, how):
    """5 of 10 do not count and are fresh; the other 5 are cut."""
    harness = await shoot(lab)
    for n in range(5):
        EXCLUDED[how](harness.world, n)
    await harness.run(1)
    with harness.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(5, 10)]):
        await harness.until(harness.writes, within=60)


@pytest.mark.parametrize(("cut", "down"), [(59, False), (60, True)])
async def test_59_percent_are_not_enough_and_60_are(lab, cut, down):
    harness = await shoot(lab, nodes=100)
    with harness.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(cut)]):
        await harness.run(90)
        assert bool(harness.writes()) is down


async def test_leases_of_nodes_that_are_gone_do_not_count(lab):
    harness = await shoot(lab, nodes=3)
    for n in range(20):
        harness.world.add_lease(SHOOT, f"gone-{n}", harness.now - 3600)
    await harness.run(180)
    assert not harness.writes()
    assert harness.state() is ShootState.HEALTHY


@pytest.mark.parametrize("nodes", [0, 1])
async def test_fewer_than_two_candidates_never_take_anything_down(lab, nodes):
    harness = await shoot(lab, nodes=nodes)
    with harness.faults.path_cut(SHOOT):
        await harness.run(300)
        assert harness.decision().verdict is Verdict.HOLD
        assert not harness.writes()


async def test_one_fresh_candidate_is_a_scale_up(lab):
    harness = await shoot(lab, nodes=1)
    assert harness.decision().verdict is Verdict.SCALE_UP


async def test_no_candidate_at_all_is_a_hold_that_is_healthy(lab):
    harness = await shoot(lab, nodes=0)
    assert harness.reason() is VerdictReason.NO_CANDIDATES
    assert harness.state() is ShootState.HEALTHY


async def test_two_candidates_of_two_are_enough(lab):
    harness = await shoot(lab, nodes=2)
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
    await harness.run(120)
    assert harness.replicas() == (1, 1, 1)


async def test_protection_whose_machines_all_fail_lasts_until_the_nodes_are_back(lab):
    """Nothing is a candidate any more; the Machines still say how many nodes there are."""
    harness = await shoot(lab)
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
        for n in range(10):
            EXCLUDED["an unhealthy condition"](harness.world, n)
        await harness.run(180)
        assert harness.replicas() == (0, 0, 0)
        assert harness.decision().verdict is Verdict.HOLD
    await harness.run(120)
    assert harness.replicas() == (1, 1, 1)


async def test_protection_ends_where_there_is_no_machine_left_to_protect(lab):
    harness = await shoot(lab, nodes=3)
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
        for n in range(3):
            harness.world.delete_machine(SHOOT, f"machine-{n}")
        await harness.run(180)
        assert harness.replicas() == (1, 1, 1)


async def test_a_few_fresh_candidates_do_not_end_a_protection_of_many(lab):
    """8 of 10 came out of candidacy in the outage, the 2 that are left are fresh: N < N′ / 2."""
    harness = await shoot(lab)
    cut = harness.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(8)])
    await harness.protect()
    for n in range(8):
        EXCLUDED["an unhealthy condition"](harness.world, n)
    await harness.run(180)
    assert harness.replicas() == (0, 0, 0)
    assert harness.reason() is VerdictReason.FEW_CANDIDATES
    cut.lift()
    await harness.run(120)
    assert harness.replicas() == (1, 1, 1)


async def test_an_exclusion_is_remembered_for_5_minutes_and_then_looked_at_again(lab):
    harness = await shoot(lab)
    for n in range(3):
        EXCLUDED["not managed"](harness.world, n)
        harness.faults.kubelet_dead(SHOOT, f"node-{n}")
    await harness.until(lambda: harness.world.requests.total(Host.SHOOT, "list", "nodes"))
    first = harness.now
    harness.world.requests.reset()
    await harness.until(
        lambda: harness.world.requests.total(Host.SHOOT, "list", "nodes"), within=400
    )
    assert harness.now - first == pytest.approx(300, abs=13)


async def test_a_lease_that_was_excluded_counts_again_as_soon_as_it_moves(lab):
    harness = await shoot(lab, nodes=4)
    dead = [harness.faults.kubelet_dead(SHOOT, f"node-{n}") for n in range(2)]
    for n in range(2):
        EXCLUDED["not managed"](harness.world, n)
    await harness.run(60)
    managed = {"metadata": {"annotations": {"node.machine.sapcloud.io/not-managed-by-mcm": None}}}
    for n in range(2):
        harness.world.patch_node(SHOOT, f"node-{n}", managed)
        dead[n].lift()
    await harness.run(30)
    with harness.faults.path_cut(SHOOT, nodes=["node-0", "node-1", "node-2"]):
        await harness.until(harness.writes, within=45)


async def test_a_clock_that_is_off_by_minutes_makes_no_outage_and_hides_none(lab):
    for seconds in (-300, -45, 45, 300):
        harness = await shoot(lab, wait=0)
        for n in range(10):
            harness.faults.clock_off(SHOOT, f"node-{n}", seconds)
        await harness.run(240)
        assert not harness.writes()
        with harness.faults.path_cut(SHOOT):
            await harness.until(harness.writes, within=60)
        await harness.kill()


async def test_the_message_says_the_numbers_the_spread_and_who_is_still_fresh(lab):
    harness = await shoot(lab)
    with harness.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(9)]):
        await harness.protect()
        await harness.run(20)
        message = harness.decision().message
    assert "9 of 10 node leases are older than 30 s (limit 60%)" in message
    assert "all within" in message
    assert "still fresh: node-9" in message
