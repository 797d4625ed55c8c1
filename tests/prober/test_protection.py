"""Outages and recoveries, as the state of the world shows them."""

from app.core.model import workloads as ann
from app.core.model.probing import ShootState
from tests.support.stands import KCM, MCM, SHOOT


async def test_a_healthy_shoot_is_healthy_and_nothing_is_written(stand):
    await stand.run(300)
    assert stand.state() is ShootState.HEALTHY
    assert stand.replicas() == (1, 1, 1)
    assert not stand.world.journal.writes


async def test_when_the_nodes_lose_their_path_the_controllers_go_to_zero_before_a_node_is_marked(
    stand,
):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(120)
        assert stand.replicas() == (0, 0, 0)
        assert stand.state() is ShootState.PROTECTED
        assert not stand.world.not_ready_nodes(SHOOT)


async def test_when_the_path_is_back_the_controllers_come_back_with_their_counts(stage):
    world = stage.world()
    world.add_shoot(SHOOT, replicas={"kube-controller-manager": 3, "machine-controller-manager": 1})
    stand = stage.prober(world)
    await stand.run(60)
    with world.faults.path_cut(SHOOT):
        await stand.run(120)
        assert stand.world.annotations(SHOOT, KCM)[ann.REPLICAS] == "3"
    await stand.run(120)
    assert world.replicas(SHOOT, KCM) == 3
    assert world.replicas(SHOOT, MCM) == 1
    assert not ann.OURS & set(world.annotations(SHOOT, KCM))
    assert stand.state() is ShootState.HEALTHY
    assert not world.not_ready_nodes(SHOOT)
