"""Outages and recoveries, as the state of the world shows them."""

from app.core.model import workloads as ann
from app.core.model.probing import ShootState
from tests.support.harness import KCM, MCM, SHOOT


async def test_a_healthy_shoot_is_healthy_and_nothing_is_written(harness):
    await harness.run(300)
    assert harness.state() is ShootState.HEALTHY
    assert harness.replicas() == (1, 1, 1)
    assert not harness.world.journal.writes


async def test_when_the_nodes_lose_their_path_the_controllers_go_to_zero_before_a_node_is_marked(
    harness,
):
    with harness.faults.path_cut(SHOOT):
        await harness.run(120)
        assert harness.replicas() == (0, 0, 0)
        assert harness.state() is ShootState.PROTECTED
        assert not harness.world.not_ready_nodes(SHOOT)


async def test_when_the_path_is_back_the_controllers_come_back_with_their_counts(lab):
    harness = await lab.healthy(
        shoot={"replicas": {"kube-controller-manager": 3, "machine-controller-manager": 1}}
    )
    with harness.faults.path_cut(SHOOT):
        await harness.run(120)
        assert harness.world.annotations(SHOOT, KCM)[ann.REPLICAS] == "3"
    await harness.run(120)
    assert harness.world.replicas(SHOOT, KCM) == 3
    assert harness.world.replicas(SHOOT, MCM) == 1
    assert not ann.OURS & set(harness.world.annotations(SHOOT, KCM))
    assert harness.state() is ShootState.HEALTHY
    assert not harness.world.not_ready_nodes(SHOOT)
