"""Which leases count, and what few of them can say."""

import pytest

from app.core.model.probing import ShootState, Verdict
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
}


@pytest.mark.parametrize("how", EXCLUDED)
async def test_nodes_that_are_no_candidates_do_not_make_an_outage(lab, how):
    harness = await lab.healthy()
    for n in range(7):
        EXCLUDED[how](harness.world, n)
    await harness.run(1)
    with harness.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(7)]):
        await harness.run(180)
        assert not harness.writes()


async def test_leases_of_nodes_that_are_gone_do_not_count(lab):
    harness = await lab.healthy(shoot={"nodes": 3})
    for n in range(20):
        harness.world.add_lease(SHOOT, f"gone-{n}", harness.now - 3600)
    await harness.run(180)
    assert not harness.writes()
    assert harness.state() is ShootState.HEALTHY


async def test_protection_whose_machines_all_fail_lasts_until_the_nodes_are_back(lab):
    """Nothing is a candidate any more; the Machines still say how many nodes there are."""
    harness = await lab.healthy()
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
        for n in range(10):
            EXCLUDED["an unhealthy condition"](harness.world, n)
        await harness.run(180)
        assert harness.replicas() == (0, 0, 0)
        assert harness.decision().verdict is Verdict.HOLD
    await harness.run(120)
    assert harness.replicas() == (1, 1, 1)


async def test_an_exclusion_is_remembered_for_5_minutes_and_then_looked_at_again(lab):
    harness = await lab.healthy()
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
    harness = await lab.healthy(shoot={"nodes": 4})
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
