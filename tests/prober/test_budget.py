"""What a probe may cost, and when contact is made."""

import itertools

import pytest

from app.core.model import workloads as ann
from app.simulation.traffic import Host
from tests.support.stands import SHOOT


async def counted(stage, seconds=600, **options):
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, **options)
    await stand.run(120)
    world.requests.reset()
    before = len(stand.probes())
    await stand.run(seconds)
    return stand, len(stand.probes()) - before


async def test_in_the_steady_state_a_probe_is_two_requests_on_the_connection_that_is_open(stage):
    stand, probes = await counted(stage)
    requests = stand.world.requests
    assert requests.total(Host.SHOOT) == 2 * probes
    assert requests.total(Host.SHOOT, "get", "version") == probes
    assert requests.total(Host.SHOOT, "list", "leases") == probes
    assert not requests.connections
    assert requests.live(Host.SEED) == 0


async def test_with_gardeners_interval_a_probe_is_four_requests_two_of_them_contacts(stage):
    stand, probes = await counted(stage, seconds=900, probe_interval=30.0)
    requests = stand.world.requests
    assert requests.total(Host.SHOOT) == pytest.approx(4 * probes, abs=2)
    assert requests.total(Host.SHOOT, "list", "contact") == pytest.approx(2 * probes, abs=2)
    assert requests.live(Host.SEED) == 0
    assert not requests.connections


async def test_with_gardeners_interval_every_probe_comes_by_the_leases_after_about_26_s(stage):
    stand, _ = await counted(stage, probe_interval=30.0)
    probes = stand.probes()[3:]
    apart = [b - a for a, b in itertools.pairwise(probes)]
    assert all(20 <= each <= 30 for each in apart)


async def test_no_absence_of_storage_goes_unnoticed_between_probes(stage):
    """Away for 13 s, between two probes 26 s apart: what it hides is not taken for an outage."""
    for begin in range(0, 26, 2):
        world = stage.world(seed=begin)
        world.add_shoot(SHOOT)
        stand = stage.prober(world, probe_interval=30.0)
        await stand.run(120 + begin)
        with world.faults.storage_away(SHOOT):
            await stand.run(28)
        await stand.run(60)
        assert not stand.writes()
        await stand.kill()


async def test_a_single_late_lease_that_is_no_candidate_costs_nodes_once_in_five_minutes(stand):
    await stand.run(60)
    stand.world.faults.kubelet_dead(SHOOT, "node-3")
    stand.world.delete_machine(SHOOT, "machine-3")
    stand.world.patch(SHOOT, "cluster-autoscaler", {"metadata": {"labels": {"x": "y"}}})
    await stand.run(60)
    stand.world.requests.reset()
    await stand.run(1200)
    assert stand.world.requests.total(Host.SHOOT, "list", "nodes") <= 5


async def test_nodes_are_not_read_while_every_lease_is_renewed(stand):
    await stand.run(900)
    assert stand.world.requests.total(Host.SHOOT, "list", "nodes") == 0
    assert stand.status().candidacy is None


async def test_machines_come_from_the_watch(stand):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        await stand.run(60)
    assert stand.world.requests.live(Host.SEED, what="machines") == 0


async def test_under_protection_nodes_are_read_every_30_s(stand):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        stand.world.requests.reset()
        await stand.run(300)
        assert 9 <= stand.world.requests.total(Host.SHOOT, "list", "nodes") <= 11


async def test_the_confirming_reading_comes_by_a_connection_of_its_own(stand):
    await stand.run(60)
    stand.world.requests.reset()
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(stand.writes)
    leases = stand.world.requests.total(Host.SHOOT, "list", "leases")
    nodes = stand.world.requests.total(Host.SHOOT, "list", "nodes")
    assert stand.world.requests.connections[SHOOT] == nodes + 1
    assert leases >= 3, "the look's, again after its Nodes, and the confirming one"


@pytest.mark.parametrize(("replicas", "fewest", "most"), [(0, 0, 0), (1, 3, 4)])
async def test_an_outage_of_a_shoot_that_is_ignored_needs_nodes_only_to_say_that_it_is_unprotected(
    stand, replicas, fewest, most
):
    """Nothing would be written on the verdict; where all is at 0 there is nothing to be told either."""
    ignored = {"metadata": {"annotations": {ann.IGNORE_SCALING: "true"}}}
    for name in ("kube-controller-manager", "machine-controller-manager", "cluster-autoscaler"):
        stand.world.patch(SHOOT, name, {**ignored, "spec": {"replicas": replicas}})
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(120)
    assert fewest <= stand.world.requests.total(Host.SHOOT, "list", "nodes") <= most
    assert stand.world.requests.live(Host.SEED) == 0
