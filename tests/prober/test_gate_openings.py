"""A gate that opens while a probe is under way: what the probe saw, it saw while the gate was closed."""

from dataclasses import replace

import pytest

from app.core.model.probing import ShootState, VerdictReason
from app.simulation.manifests import EXTERNAL_SECRET_NAME
from tests.prober.test_gated import Gate
from tests.support.harness import GARDENER, SHOOT

POLICY = replace(
    GARDENER,
    external_secret=EXTERNAL_SECRET_NAME,
    failure_threshold=3,
    success_threshold=1,
)


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
async def harness(lab, gate):
    """A healthy shoot in endpoint mode, and a gate that does what it is told."""
    world = lab.world(external_secret_name=EXTERNAL_SECRET_NAME)
    world.add_shoot(SHOOT)
    harness = lab.prober(world, POLICY)
    harness.prober.registry.endpoints = gate
    return harness


async def next_probe_ends(harness):
    seen = len(harness.probes())
    await harness.until(lambda: len(harness.probes()) > seen)


async def test_a_probe_that_began_while_the_gate_was_closed_scales_nothing_after_it_opened(
    harness, gate
):
    """The end of a false alarm: the canary is back at once, and an attempt of before still fails."""
    await harness.run(60)
    gate.close()
    fault = harness.faults.path_cut(SHOOT)
    await harness.until(lambda: harness.reason() is VerdictReason.GATED)
    await harness.run(2)
    gate.open()
    await next_probe_ends(harness)
    assert harness.reason() is VerdictReason.GATED
    assert "open again since this probe began" in harness.decision().message
    fault.lift()
    await harness.until(lambda: harness.state() is ShootState.HEALTHY)
    await harness.run(60)
    assert not harness.writes()


async def test_the_probe_that_reaches_the_threshold_is_held_back_as_well(harness, gate):
    await harness.run(60)
    gate.close()
    fault = harness.faults.path_cut(SHOOT)
    await harness.until(lambda: "2 of 3 probes" in harness.decision().message)
    await harness.run(2)
    gate.open()
    await next_probe_ends(harness)
    assert harness.reason() is VerdictReason.GATED
    fault.lift()
    await harness.run(60)
    assert not harness.writes()


async def test_so_is_one_in_which_the_gate_closed_and_opened(harness, gate):
    await harness.run(60)
    fault = harness.faults.path_cut(SHOOT)
    await harness.until(lambda: "2 of 3 probes" in harness.decision().message)
    await harness.run(1)
    gate.close()
    await harness.run(1)
    gate.open()
    await next_probe_ends(harness)
    assert harness.reason() is VerdictReason.GATED
    fault.lift()
    await harness.run(60)
    assert not harness.writes()


async def test_the_next_probe_comes_at_once_and_decides(harness, gate):
    await harness.run(60)
    gate.close()
    harness.faults.path_cut(SHOOT)
    await harness.until(lambda: "2 of 3 probes" in harness.decision().message)
    await harness.run(2)
    gate.open()
    await next_probe_ends(harness)
    held = harness.now
    await harness.until(harness.writes)
    assert harness.now - held == pytest.approx(5.0, abs=0.2)  # one attempt on the external path
