"""Outages and recoveries, as the state of the world shows them."""

import pytest

from app.core.model import workloads as ann
from app.core.model.probing import ShootState, Verdict
from tests.support.harness import CA, KCM, MCM, SHOOT


async def test_controllers_go_to_zero_before_a_node_is_marked_and_come_back_with_their_counts(lab):
    harness = await lab.healthy(shoot={"replicas": {KCM: 3, MCM: 1, CA: 1}})
    with harness.faults.path_cut(SHOOT):
        await harness.run(120)
        assert harness.replicas() == (0, 0, 0)
        assert harness.state() is ShootState.PROTECTED
        assert not harness.world.not_ready_nodes(SHOOT)
        assert harness.world.annotations(SHOOT, KCM)[ann.REPLICAS] == "3"
    await harness.run(120)
    assert harness.replicas() == (3, 1, 1)
    assert not ann.OURS & set(harness.world.annotations(SHOOT, KCM))
    assert harness.state() is ShootState.HEALTHY
    assert not harness.world.not_ready_nodes(SHOOT)


# Which leases count, and what few of them can say.


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
async def test_nodes_that_are_no_candidates_do_not_make_an_outage(harness, how):
    for n in range(7):
        EXCLUDED[how](harness.world, n)
    await harness.run(1)
    with harness.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(7)]):
        await harness.run(180)
        assert not harness.writes()


async def test_protection_whose_machines_all_fail_lasts_until_the_nodes_are_back(harness):
    """Nothing is a candidate any more; the Machines still say how many nodes there are."""
    async with harness.under_protection():
        for n in range(10):
            EXCLUDED["an unhealthy condition"](harness.world, n)
        await harness.run(180)
        assert harness.replicas() == (0, 0, 0)
        assert harness.decision().verdict is Verdict.HOLD
    await harness.run(120)
    assert harness.replicas() == (1, 1, 1)
