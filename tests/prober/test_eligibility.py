"""When a shoot is probed (rules 2), row by row."""

import pytest

from app.core.model import workloads as ann
from app.core.model.instants import rfc3339
from app.core.model.probing import ShootState
from app.core.ports import Watched
from tests.support.harness import GARDENER, KCM, MCM, SHOOT, operation

PROTECTED = {
    "metadata": {"annotations": {ann.MELTDOWN: "", ann.REPLICAS: "2"}},
    "spec": {"replicas": 0},
}


def empty(lab, last=None, **options):
    """A shoot whose last operation is `last`, and a prober on it."""
    world = lab.world()
    world.add_shoot(SHOOT, **options)
    if last is not None:
        world.patch_cluster(SHOOT, operation(last[0], 0.0, last[1]))
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
async def test_what_stops_the_prober_ends_its_requests(harness, how):
    STOPS[how](harness.world)
    await harness.run(1)
    assert not harness.runs()
    harness.world.requests.reset()
    await harness.run(120)
    assert harness.world.requests.live() == 0
    assert not harness.writes()


@pytest.mark.parametrize("how", STOPS)
async def test_a_stop_while_protected_scales_nothing_and_is_told(harness, how):
    async with harness.under_protection():
        written = len(harness.writes())
        STOPS[how](harness.world)
        await harness.run(60)
    await harness.run(300)
    assert harness.replicas() == (0, 0, 0)
    assert len(harness.writes()) == written
    if (status := harness.prober.registry.status(SHOOT)) is not None:
        assert "protection was active when probing ended" in status.message
        assert status.protected_since is not None
    abandoned = harness.told("ProtectionAbandoned")
    assert {notice.resource for notice in abandoned} >= {KCM, MCM}
    assert all(notice.event for notice in abandoned)


async def test_a_stop_without_protection_abandons_nothing(harness):
    harness.faults.hibernated(SHOOT)
    await harness.run(60)
    assert not harness.told("ProtectionAbandoned")
    assert harness.state() is ShootState.NOT_PROBED


async def test_a_standby_leaves_it_to_the_leader_to_tell_of_what_is_abandoned(harness):
    async with harness.under_protection():
        harness.leadership.become(leading=False)
        harness.faults.hibernated(SHOOT)
        await harness.run(60)
    assert harness.state() is ShootState.NOT_PROBED
    assert not harness.told("ProtectionAbandoned")


async def test_the_end_of_the_process_abandons_nothing(harness):
    async with harness.under_protection():
        await harness.prober.stop("SIGTERM")
    assert not harness.told("ProtectionAbandoned")
    assert harness.replicas() == (0, 0, 0)


@pytest.mark.parametrize("last", [("Create", "Processing"), ("Restore", "Failed")])
async def test_active_protection_starts_the_prober_of_a_shoot_that_is_not_ready(lab, last):
    world = empty(lab, last)
    world.patch(SHOOT, KCM, PROTECTED)
    await lab.clock.sleep(1)
    harness = lab.prober(world, initial_delay=0.0)
    await harness.run(60)
    assert harness.runs()
    assert world.replicas(SHOOT, KCM) == 2


async def test_protection_that_appears_starts_the_prober_of_a_shoot_that_is_not_ready(lab):
    world = empty(lab, ("Create", "Processing"))
    harness = lab.prober(world)
    await harness.run(60)
    assert not harness.runs()
    world.patch(SHOOT, KCM, PROTECTED)
    await harness.run(1)
    assert harness.runs()


@pytest.mark.parametrize("name", ["hibernated", "isHibernated"])
async def test_a_shoot_that_wakes_up_is_probed_once_gardenlet_says_that_it_is_awake(lab, name):
    """Before, gardenlet starts its controllers in an order of its own, and the API server is still to come."""
    world = empty(lab, ("Reconcile", "Processing"))
    world.patch_cluster(SHOOT, {"status": {name: True}})
    await lab.clock.sleep(1)
    harness = lab.prober(world)
    await harness.run(60)
    assert not harness.runs()
    assert harness.prober.registry.status(SHOOT).reason == "WakingUp"
    world.patch_cluster(SHOOT, {"status": {name: False}})
    await harness.run(60)
    assert harness.state() is ShootState.HEALTHY


async def test_an_undecodable_shoot_keeps_a_running_prober_and_is_reported(harness):
    harness.faults.undecodable(SHOOT)
    await harness.run(60)
    assert harness.runs()
    assert harness.state() is ShootState.HEALTHY
    assert len(harness.told("Undecodable")) == 1
    await harness.survive_an_outage()


async def test_what_was_reported_of_a_shoot_is_forgotten_with_its_cluster(harness):
    reported = harness.prober.controller._reported
    await harness.run(60)
    harness.faults.undecodable(SHOOT)
    await harness.run(1)
    assert SHOOT in reported
    harness.faults.cluster_gone(SHOOT)
    await harness.run(1)
    assert reported == {}


async def test_a_stopped_shoot_that_comes_back_is_probed_again(harness):
    with harness.faults.hibernated(SHOOT):
        await harness.run(60)
        assert not harness.world.place.port(SHOOT).connections
    await harness.run(60)
    assert harness.state() is ShootState.HEALTHY


async def test_a_cluster_that_is_gone_is_forgotten(harness):
    harness.faults.cluster_gone(SHOOT)
    await harness.run(1)
    assert harness.prober.registry.status(SHOOT) is None
    assert not harness.prober.registry.statuses()


async def test_a_cluster_that_is_made_again_unseen_is_decided_on_as_a_new_one(harness):
    harness.faults.cluster_gone(SHOOT).lift()
    harness.world.patch_cluster(SHOOT, operation("Create", harness.now, "Processing"))
    await harness.run(1)
    assert not harness.runs()


async def test_a_changed_grace_is_taken_at_the_next_probe_without_losing_state(harness):
    kcm = {"kubeControllerManager": {"nodeMonitorGracePeriod": "200s"}}
    harness.world.patch_cluster(SHOOT, {"spec": {"kubernetes": kcm}})
    await harness.run(30)
    assert harness.status().probes > 5, "the runner was not started anew"
    assert harness.status().expiry == 150
    with harness.faults.path_cut(SHOOT):
        await harness.run(120)
        assert harness.replicas() == (1, 1, 1)
        await harness.run(60)
        assert harness.replicas() == (0, 0, 0)


async def test_a_shoot_that_joins_is_probed(lab):
    world = lab.world()
    harness = lab.prober(world, GARDENER)
    await harness.run(10)
    world.add_shoot("shoot--local--b")
    await harness.run(5)
    assert harness.runs("shoot--local--b")


async def test_the_shoots_are_known_once_each_cluster_of_the_first_list_was_decided_on(lab):
    world = lab.world()
    for number in range(5):
        world.add_shoot(f"shoot--local--{number}")
    with world.faults.watch_not_opened(Watched.CLUSTERS):
        harness = lab.prober(world)
        await harness.run(5)
        assert not harness.prober.registry.listed
    await harness.until(lambda: harness.prober.registry.listed, within=5)
    assert len(harness.prober.registry.statuses()) == 5
