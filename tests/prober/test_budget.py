"""What a probe may cost, and when contact is made."""

import itertools

import pytest

from app.simulation.traffic import Host
from tests.support.harness import SHOOT


async def counted(lab, seconds=600, **options):
    harness = await lab.healthy(settle=120, **options)
    harness.world.requests.reset()
    before = len(harness.probes())
    await harness.run(seconds)
    return harness, len(harness.probes()) - before


async def test_in_the_steady_state_a_probe_is_two_requests_on_the_connection_that_is_open(lab):
    harness, probes = await counted(lab)
    requests = harness.world.requests
    assert requests.total(Host.SHOOT) == 2 * probes
    assert requests.total(Host.SHOOT, "get", "version") == probes
    assert requests.total(Host.SHOOT, "list", "leases") == probes
    assert not requests.connections
    assert requests.live(Host.SEED) == 0


async def test_with_gardeners_interval_a_probe_is_four_requests_two_of_them_contacts(lab):
    harness, probes = await counted(lab, seconds=900, probe_interval=30.0)
    requests = harness.world.requests
    assert requests.total(Host.SHOOT) == pytest.approx(4 * probes, abs=2)
    assert requests.total(Host.SHOOT, "list", "contact") == pytest.approx(2 * probes, abs=2)
    assert requests.live(Host.SEED) == 0
    assert not requests.connections


async def test_with_gardeners_interval_every_probe_comes_by_the_leases_after_about_26_s(lab):
    harness, _ = await counted(lab, probe_interval=30.0)
    probes = harness.probes()[3:]
    apart = [b - a for a, b in itertools.pairwise(probes)]
    assert all(20 <= each <= 30 for each in apart)


async def test_no_absence_of_storage_goes_unnoticed_between_probes(lab):
    """Away for 13 s, between two probes 26 s apart: what it hides is not taken for an outage."""
    for begin in range(0, 26, 2):
        world = lab.with_shoot(seed=begin)
        harness = lab.prober(world, probe_interval=30.0)
        await harness.run(120 + begin)
        with world.faults.storage_away(SHOOT):
            await harness.run(28)
        await harness.run(60)
        assert not harness.writes()
        await harness.kill()


async def test_the_confirming_reading_comes_by_a_connection_of_its_own(harness):
    harness.world.requests.reset()
    with harness.faults.path_cut(SHOOT):
        await harness.until(harness.writes)
    leases = harness.world.requests.total(Host.SHOOT, "list", "leases")
    nodes = harness.world.requests.total(Host.SHOOT, "list", "nodes")
    assert harness.world.requests.connections[SHOOT] == nodes + 1
    assert leases >= 3, "the look's, again after its Nodes, and the confirming one"
