"""The controllers of the simulated control plane do to nodes and machines what the real ones do."""

import pytest

from app.core.model.workloads import ResourceRef
from app.simulation.actors import KCM, MCM
from app.simulation.traffic import Storage
from app.simulation.workloads import NAME as DEPLOYMENT_CONTROLLER
from tests.simulation.worlds import adapters, simulated

A = "shoot--local--a"
ETCD = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")


in_a_world = simulated(shoot=lambda world: world.add_shoot(A, nodes=6, replicas={KCM: 1, MCM: 1}))


@in_a_world
async def test_in_a_world_where_nothing_happens_nothing_happens(world, shoot, clock):
    await clock.sleep(3600)
    assert world.not_ready_nodes(A) == ()
    assert world.journal.writes == ()


@pytest.mark.parametrize(("grace", "lease_duration", "earliest"), [(None, 40, 40), ("20s", 20, 20)])
@in_a_world
async def test_a_node_is_marked_up_to_ten_seconds_after_its_grace(
    world, clock, grace, lease_duration, earliest
):
    shoot = world.add_shoot(A, nodes=6, grace=grace, lease_duration=lease_duration)
    world.faults.path_cut(A)
    last = {kubelet.node: kubelet.last for kubelet in shoot.fleet.kubelets}
    await clock.sleep(earliest + 20)
    marks = world.journal.of(KCM)
    assert len(marks) == len(world.not_ready_nodes(A)) == 6
    assert all(earliest <= mark.at - last[mark.ref.name] <= earliest + 10 for mark in marks)


@in_a_world
async def test_one_that_starts_in_mid_outage_gives_each_node_a_fresh_grace(world, shoot, clock):
    world.patch(A, KCM, {"spec": {"replicas": 0}})
    world.faults.path_cut(A)
    await clock.sleep(120)
    world.patch(A, KCM, {"spec": {"replicas": 1}})
    await clock.sleep(5 + 40)
    assert world.not_ready_nodes(A) == ()
    await clock.sleep(10)
    assert len(world.not_ready_nodes(A)) == 6


@in_a_world
async def test_a_node_whose_clock_was_set_back_is_marked_because_its_lease_does_not_get_newer(
    world, shoot, clock
):
    world.faults.clock_off(A, "node-2", -300)
    await clock.sleep(60)
    assert world.not_ready_nodes(A) == ("node-2",)


@in_a_world
async def test_a_node_whose_clock_is_off_for_ever_is_not_marked(world, clock):
    world.add_shoot(A, nodes=2).fleet.of("node-0").clock.step(600)
    await clock.sleep(600)
    assert world.not_ready_nodes(A) == ()


@pytest.mark.parametrize("how", Storage)
@in_a_world
async def test_storage_that_is_away_makes_kube_controller_manager_start_anew(
    world, shoot, clock, how
):
    with world.faults.storage_away(A, how):
        await clock.sleep(60)
        assert world.not_ready_nodes(A) == ()
    await clock.sleep(120)
    assert world.journal.of(KCM) == ()


@in_a_world
async def test_no_machine_is_deleted_while_machine_controller_manager_is_at_0(world, shoot, clock):
    world.faults.path_cut(A)
    world.patch(A, MCM, {"spec": {"replicas": 0}})
    await clock.sleep(3600)
    assert len(world.not_ready_nodes(A)) == 6
    assert world.machines_deleted(A) == ()
    assert all(machine.alive for machine in world.machines(A))


@in_a_world
async def test_machines_of_nodes_that_come_back_in_time_stay(world, shoot, clock):
    with world.faults.path_cut(A):
        await clock.sleep(400)
        assert {machine.phase for machine in world.machines(A)} == {"Unknown"}
    await clock.sleep(1800)
    assert {machine.phase for machine in world.machines(A)} == {"Running"}
    assert world.machines_deleted(A) == ()


@in_a_world
async def test_pods_that_are_scaled_away_vanish_and_new_ones_are_ready_after_their_delay(
    world, shoot, clock
):
    def counts():
        view = world.dependent(A, KCM)
        return view.observed, view.current, view.ready

    world.patch(A, KCM, {"spec": {"replicas": 0}})
    await clock.sleep(0.05)
    assert not world.dependent(A, KCM).observed
    await clock.sleep(0.1)
    assert counts() == (True, 1, 1)
    await clock.sleep(0.4)
    assert counts() == (True, 0, 0)
    world.patch(A, KCM, {"spec": {"replicas": 3}})
    await clock.sleep(0.2)
    assert counts() == (True, 3, 0)
    await clock.sleep(5)
    assert counts() == (True, 3, 3)


@in_a_world
async def test_a_change_of_mind_is_followed_to_the_last_spec(world, shoot, clock):
    for replicas in (0, 2, 0, 3):
        world.patch(A, KCM, {"spec": {"replicas": replicas}})
        await clock.sleep(0.3)
        assert world.dependent(A, KCM).ready <= 1
    await clock.sleep(4)
    assert world.dependent(A, KCM).ready == 0
    await clock.sleep(6)
    view = world.dependent(A, KCM)
    assert (view.replicas, view.current, view.ready, view.observed) == (3, 3, 3, True)


@in_a_world
async def test_a_kind_beyond_apps_is_sized_through_scale_and_shows_no_replicas(world, shoot, clock):
    world.add_dependent(A, ETCD, 3)
    view = world.dependent(A, ETCD)
    assert (view.replicas, view.ready, view.current, view.observed_generation) == (None,) * 4
    world.patch(A, ETCD, {"spec": {"size": 0}})
    await clock.sleep(1)
    assert (await adapters(world).seed.read_scale(A, ETCD)).current == 0
    assert {write.by for write in world.journal.writes} == {"operator", DEPLOYMENT_CONTROLLER}
