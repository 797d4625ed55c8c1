"""Which leases count, and what few of them can say."""

import pytest

from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.simulation.traffic import Host
from tests.support.stands import SHOOT


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


async def shoot(stage, *, wait=60, **options):
    world = stage.world()
    world.add_shoot(SHOOT, **options)
    stand = stage.prober(world)
    await stand.run(wait)
    return stand


@pytest.mark.parametrize("how", EXCLUDED)
async def test_nodes_that_are_no_candidates_do_not_make_an_outage(stage, how):
    stand = await shoot(stage)
    for n in range(7):
        EXCLUDED[how](stand.world, n)
    await stand.run(1)
    with stand.world.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(7)]):
        await stand.run(180)
        assert not stand.writes()


@pytest.mark.parametrize("how", EXCLUDED)
async def test_nodes_that_are_no_candidates_do_not_hide_an_outage(stage, how):
    """5 of 10 do not count and are fresh; the other 5 are cut."""
    stand = await shoot(stage)
    for n in range(5):
        EXCLUDED[how](stand.world, n)
    await stand.run(1)
    with stand.world.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(5, 10)]):
        await stand.until(stand.writes, within=60)


@pytest.mark.parametrize(("cut", "down"), [(59, False), (60, True)])
async def test_59_percent_are_not_enough_and_60_are(stage, cut, down):
    stand = await shoot(stage, nodes=100)
    with stand.world.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(cut)]):
        await stand.run(90)
        assert bool(stand.writes()) is down


async def test_leases_of_nodes_that_are_gone_do_not_count(stage):
    stand = await shoot(stage, nodes=3)
    for n in range(20):
        stand.world.add_lease(SHOOT, f"gone-{n}", stand.now - 3600)
    await stand.run(180)
    assert not stand.writes()
    assert stand.state() is ShootState.HEALTHY


@pytest.mark.parametrize("nodes", [0, 1])
async def test_fewer_than_two_candidates_never_take_anything_down(stage, nodes):
    stand = await shoot(stage, nodes=nodes)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(300)
        assert stand.decision().verdict is Verdict.HOLD
        assert not stand.writes()


async def test_one_fresh_candidate_is_a_scale_up(stage):
    stand = await shoot(stage, nodes=1)
    assert stand.decision().verdict is Verdict.SCALE_UP


async def test_no_candidate_at_all_is_a_hold_that_is_healthy(stage):
    stand = await shoot(stage, nodes=0)
    assert stand.reason() is VerdictReason.NO_CANDIDATES
    assert stand.state() is ShootState.HEALTHY


async def test_two_candidates_of_two_are_enough(stage):
    stand = await shoot(stage, nodes=2)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
    await stand.run(120)
    assert stand.replicas() == (1, 1, 1)


async def test_protection_whose_machines_all_fail_lasts_until_the_nodes_are_back(stage):
    """Nothing is a candidate any more; the Machines still say how many nodes there are."""
    stand = await shoot(stage)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        for n in range(10):
            EXCLUDED["an unhealthy condition"](stand.world, n)
        await stand.run(180)
        assert stand.replicas() == (0, 0, 0)
        assert stand.decision().verdict is Verdict.HOLD
    await stand.run(120)
    assert stand.replicas() == (1, 1, 1)


async def test_protection_ends_where_there_is_no_machine_left_to_protect(stage):
    stand = await shoot(stage, nodes=3)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        for n in range(3):
            stand.world.delete_machine(SHOOT, f"machine-{n}")
        await stand.run(180)
        assert stand.replicas() == (1, 1, 1)


async def test_a_few_fresh_candidates_do_not_end_a_protection_of_many(stage):
    """8 of 10 came out of candidacy in the outage, the 2 that are left are fresh: N < N′ / 2."""
    stand = await shoot(stage)
    cut = stand.world.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(8)])
    await stand.protect()
    for n in range(8):
        EXCLUDED["an unhealthy condition"](stand.world, n)
    await stand.run(180)
    assert stand.replicas() == (0, 0, 0)
    assert stand.reason() is VerdictReason.FEW_CANDIDATES
    cut.lift()
    await stand.run(120)
    assert stand.replicas() == (1, 1, 1)


async def test_an_exclusion_is_remembered_for_5_minutes_and_then_looked_at_again(stage):
    stand = await shoot(stage)
    for n in range(3):
        EXCLUDED["not managed"](stand.world, n)
        stand.world.faults.kubelet_dead(SHOOT, f"node-{n}")
    await stand.until(lambda: stand.world.requests.total(Host.SHOOT, "list", "nodes"))
    first = stand.now
    stand.world.requests.reset()
    await stand.until(lambda: stand.world.requests.total(Host.SHOOT, "list", "nodes"), within=400)
    assert stand.now - first == pytest.approx(300, abs=13)


async def test_a_lease_that_was_excluded_counts_again_as_soon_as_it_moves(stage):
    stand = await shoot(stage, nodes=4)
    dead = [stand.world.faults.kubelet_dead(SHOOT, f"node-{n}") for n in range(2)]
    for n in range(2):
        EXCLUDED["not managed"](stand.world, n)
    await stand.run(60)
    managed = {"metadata": {"annotations": {"node.machine.sapcloud.io/not-managed-by-mcm": None}}}
    for n in range(2):
        stand.world.patch_node(SHOOT, f"node-{n}", managed)
        dead[n].lift()
    await stand.run(30)
    with stand.world.faults.path_cut(SHOOT, nodes=["node-0", "node-1", "node-2"]):
        await stand.until(stand.writes, within=45)


async def test_a_clock_that_is_off_by_minutes_makes_no_outage_and_hides_none(stage):
    for seconds in (-300, -45, 45, 300):
        stand = await shoot(stage, wait=0)
        for n in range(10):
            stand.world.faults.clock_off(SHOOT, f"node-{n}", seconds)
        await stand.run(240)
        assert not stand.writes()
        with stand.world.faults.path_cut(SHOOT):
            await stand.until(stand.writes, within=60)
        await stand.kill()


async def test_the_message_says_the_numbers_the_spread_and_who_is_still_fresh(stage):
    stand = await shoot(stage)
    with stand.world.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(9)]):
        await stand.protect()
        await stand.run(20)
        message = stand.decision().message
    assert "9 of 10 node leases are older than 30 s (limit 60%)" in message
    assert "all within" in message
    assert "still fresh: node-9" in message
