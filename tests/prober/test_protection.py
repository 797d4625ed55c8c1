"""Outages and recoveries, as the state of the world shows them."""

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


async def test_protection_whose_machines_all_fail_lasts_until_the_nodes_are_back(harness):
    """Nothing is a candidate any more; the Machines still say how many nodes there are."""
    async with harness.under_protection():
        conditions = [{"type": each, "status": "True"} for each in ("Ready", "KernelDeadlock")]
        for n in range(10):
            harness.world.patch_node(SHOOT, f"node-{n}", {"status": {"conditions": conditions}})
        await harness.run(180)
        assert harness.replicas() == (0, 0, 0)
        assert harness.decision().verdict is Verdict.HOLD
    await harness.run(120)
    assert harness.replicas() == (1, 1, 1)
