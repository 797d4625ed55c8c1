"""When a shoot is probed (rules 2), row by row."""

import pytest

from app.core.model import workloads as ann
from app.core.model.instants import rfc3339
from app.core.model.probing import ShootState
from app.core.ports import Watched
from app.simulation.store import ObjectKey
from tests.support.stands import GARDENER, KCM, MCM, SHOOT

PROTECTED = {
    "metadata": {"annotations": {ann.MELTDOWN: "", ann.REPLICAS: "2"}},
    "spec": {"replicas": 0},
}


def operation(kind, state, at=0.0):
    return {
        "status": {"lastOperation": {"type": kind, "state": state, "lastUpdateTime": rfc3339(at)}}
    }


def empty(stage, last=None, **options):
    """A shoot whose last operation is `last`, and a prober on it."""
    world = stage.world()
    world.add_shoot(SHOOT, **options)
    if last is not None:
        world.patch_cluster(SHOOT, operation(*last))
    world._stage.caches.catch_up()
    return world


STOPS = {
    "hibernated": lambda world: world.faults.hibernated(SHOOT),
    "migrating": lambda world: world.faults.migrating(SHOOT),
    "the Cluster is deleted": lambda world: world.faults.deleted(SHOOT),
    "the Cluster is gone": lambda world: world.faults.cluster_gone(SHOOT),
    "the Shoot is deleted": lambda world: world.patch_cluster(
        SHOOT, {"metadata": {"deletionTimestamp": rfc3339(1e9)}}
    ),
    "no workers": lambda world: world.patch_cluster(SHOOT, {"spec": {"provider": {"workers": []}}}),
}


@pytest.mark.parametrize("how", STOPS)
async def test_what_stops_the_prober_ends_its_requests(stand, how):
    await stand.run(60)
    STOPS[how](stand.world)
    await stand.run(1)
    assert not stand.runs()
    stand.world.requests.reset()
    await stand.run(120)
    assert stand.world.requests.live() == 0
    assert not stand.writes()


@pytest.mark.parametrize("how", STOPS)
async def test_a_stop_while_protected_scales_nothing_and_is_told(stand, how):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        written = len(stand.writes())
        STOPS[how](stand.world)
        await stand.run(60)
    await stand.run(300)
    assert stand.replicas() == (0, 0, 0)
    assert len(stand.writes()) == written
    if (status := stand.prober.registry.status(SHOOT)) is not None:
        assert "protection was active when probing ended" in status.message
        assert status.protected_since is not None
    abandoned = stand.told("ProtectionAbandoned")
    assert {notice.resource for notice in abandoned} >= {KCM, MCM}
    assert all(notice.event for notice in abandoned)


async def test_a_stop_without_protection_abandons_nothing(stand):
    await stand.run(60)
    stand.world.faults.hibernated(SHOOT)
    await stand.run(60)
    assert not stand.told("ProtectionAbandoned")
    assert stand.state() is ShootState.NOT_PROBED


async def test_a_standby_leaves_it_to_the_leader_to_tell_of_what_is_abandoned(stand):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        stand.world.leadership.become(leading=False)
        stand.world.faults.hibernated(SHOOT)
        await stand.run(60)
    assert stand.state() is ShootState.NOT_PROBED
    assert not stand.told("ProtectionAbandoned")


async def test_the_end_of_the_process_abandons_nothing(stand):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        await stand.prober.stop("SIGTERM")
    assert not stand.told("ProtectionAbandoned")
    assert stand.replicas() == (0, 0, 0)


@pytest.mark.parametrize(
    "last",
    [
        ("Reconcile", "Processing"),
        ("Reconcile", "Error"),
        ("Reconcile", "Failed"),
        ("Create", "Succeeded"),
        ("Restore", "Succeeded"),
    ],
)
async def test_an_operation_that_starts_the_prober(stage, last):
    stand = stage.prober(empty(stage, last))
    await stand.run(5)
    assert stand.runs()


@pytest.mark.parametrize(
    "last", [("Create", "Processing"), ("Create", "Error"), ("Restore", "Failed")]
)
async def test_an_operation_that_does_not_start_the_prober(stage, last):
    stand = stage.prober(empty(stage, last))
    await stand.run(60)
    assert not stand.runs()
    assert stand.state() is ShootState.NOT_PROBED
    assert stand.world.requests.live() == 0


@pytest.mark.parametrize("last", [("Create", "Processing"), ("Restore", "Failed")])
async def test_an_operation_that_does_not_start_the_prober_leaves_a_running_one(stand, last):
    await stand.run(60)
    stand.world.patch_cluster(SHOOT, operation(*last))
    await stand.run(60)
    assert stand.runs()
    assert stand.state() is ShootState.HEALTHY


async def test_a_shoot_without_last_operation_is_not_started_and_a_running_one_goes_on(stage):
    world = empty(stage)
    running = stage.prober(world)
    await running.run(30)
    world.patch_cluster(SHOOT, {"status": {"lastOperation": None}})
    await running.run(30)
    assert running.runs()
    new = stage.prober(world)
    await new.run(30)
    assert not new.runs()


async def test_a_shoot_that_wakes_up_is_not_started_until_it_is_awake(stage):
    world = empty(stage)
    world.patch_cluster(SHOOT, {"status": {"isHibernated": True}})
    await stage.clock.sleep(1)
    stand = stage.prober(world)
    await stand.run(60)
    assert not stand.runs()
    world.patch_cluster(SHOOT, {"status": {"isHibernated": False}})
    await stand.run(5)
    assert stand.runs()


@pytest.mark.parametrize("last", [("Create", "Processing"), ("Restore", "Failed")])
async def test_active_protection_starts_the_prober_of_a_shoot_that_is_not_ready(stage, last):
    world = empty(stage, last)
    world.patch(SHOOT, KCM, PROTECTED)
    await stage.clock.sleep(1)
    stand = stage.prober(world, initial_delay=0.0)
    await stand.run(60)
    assert stand.runs()
    assert world.replicas(SHOOT, KCM) == 2


async def test_protection_that_appears_starts_the_prober_of_a_shoot_that_is_not_ready(stage):
    world = empty(stage, ("Create", "Processing"))
    stand = stage.prober(world)
    await stand.run(60)
    assert not stand.runs()
    world.patch(SHOOT, KCM, PROTECTED)
    await stand.run(1)
    assert stand.runs()


async def test_an_undecodable_shoot_keeps_a_running_prober_and_is_reported(stand):
    await stand.run(60)
    stand.world.faults.undecodable(SHOOT)
    await stand.run(60)
    assert stand.runs()
    assert stand.state() is ShootState.HEALTHY
    assert len(stand.told("Undecodable")) == 1
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()


async def test_an_undecodable_shoot_starts_no_prober_until_it_can_be_read(stage):
    world = empty(stage)
    fault = world.faults.undecodable(SHOOT)
    await stage.clock.sleep(1)
    stand = stage.prober(world)
    await stand.run(60)
    assert not stand.runs()
    assert stand.told("Undecodable")
    fault.lift()
    await stand.run(1)
    assert stand.runs()


async def test_a_stopped_shoot_that_comes_back_is_probed_again(stand):
    await stand.run(60)
    with stand.world.faults.hibernated(SHOOT):
        await stand.run(60)
        assert not stand.world.stage.place.port(SHOOT).connections
    await stand.run(60)
    assert stand.state() is ShootState.HEALTHY


async def test_a_cluster_that_is_gone_is_forgotten(stand):
    await stand.run(60)
    stand.world.faults.cluster_gone(SHOOT)
    await stand.run(1)
    assert stand.prober.registry.status(SHOOT) is None
    assert not stand.prober.registry.statuses()


async def test_a_changed_grace_is_taken_at_the_next_probe_without_losing_state(stand):
    await stand.run(60)
    kcm = {"kubeControllerManager": {"nodeMonitorGracePeriod": "200s"}}
    stand.world.patch_cluster(SHOOT, {"spec": {"kubernetes": kcm}})
    await stand.run(30)
    probes = stand.status().probes
    assert probes > 5, "the runner was not started anew"
    assert stand.status().expiry == 150
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(120)
        assert stand.replicas() == (1, 1, 1)
        await stand.run(60)
        assert stand.replicas() == (0, 0, 0)


async def test_changed_node_conditions_are_taken_at_the_next_probe(stand):
    world = stand.world
    await stand.run(60)
    for number in range(8):
        condition = [{"type": "Ready", "status": "True"}, {"type": "Frozen", "status": "True"}]
        world.patch_node(SHOOT, f"node-{number}", {"status": {"conditions": condition}})
    world.patch_cluster(SHOOT, pool("Frozen"))
    await stand.run(30)
    with world.faults.path_cut(SHOOT, nodes=[f"node-{n}" for n in range(8)]):
        await stand.run(120)
        assert stand.replicas() == (1, 1, 1), "none of the expired ones is a candidate"


def pool(*conditions):
    worker = {"name": "worker", "machineControllerManager": {"nodeConditions": list(conditions)}}
    return {"spec": {"provider": {"workers": [worker]}}}


async def test_the_same_conditions_in_another_order_change_nothing(stage):
    world = empty(stage)
    world.patch_cluster(SHOOT, pool("A", "B"))
    stand = stage.prober(world)
    await stand.run(60)
    runner = stand.prober.registry.runner(SHOOT)
    before = runner._judge.subject
    world.patch_cluster(SHOOT, pool("B", "A"))
    await stand.run(10)
    assert stand.prober.registry.runner(SHOOT) is runner
    assert runner._judge.subject == before


async def test_a_shoot_that_joins_is_probed_and_one_that_leaves_is_not(stage):
    world = stage.world()
    stand = stage.prober(world, GARDENER)
    await stand.run(10)
    world.add_shoot("shoot--local--b")
    await stand.run(5)
    assert stand.runs("shoot--local--b")
    world.store.delete(ObjectKey("Cluster", "", "shoot--local--b"))
    await stand.run(5)
    assert not stand.runs("shoot--local--b")


async def test_the_shoots_are_known_once_each_cluster_of_the_first_list_was_decided_on(stage):
    world = stage.world()
    for number in range(5):
        world.add_shoot(f"shoot--local--{number}")
    with world.faults.watch_not_synced(Watched.CLUSTERS):
        stand = stage.prober(world)
        await stand.run(5)
        assert not stand.prober.registry.listed
    await stand.until(lambda: stand.prober.registry.listed, within=5)
    assert len(stand.prober.registry.statuses()) == 5


async def test_a_seed_without_shoots_is_known_too(stage):
    stand = stage.prober(stage.world())
    await stand.until(lambda: stand.prober.registry.listed, within=5)
