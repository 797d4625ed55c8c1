"""A gate that opens while a probe is under way: what the probe saw, it saw while the gate was closed."""

from dataclasses import replace

import pytest

from app.core.model.policy import EndpointMode
from app.core.model.probing import ShootState, VerdictReason
from app.simulation.manifests import EXTERNAL_SECRET_NAME
from tests.prober.test_gated import Gate
from tests.support.stands import GARDENER, SHOOT

POLICY = replace(
    GARDENER,
    endpoint_mode=EndpointMode(EXTERNAL_SECRET_NAME),
    failure_threshold=3,
    success_threshold=1,
)


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
async def stand(stage, gate):
    """A healthy shoot in endpoint mode, and a gate that does what it is told."""
    world = stage.world(external_secret_name=EXTERNAL_SECRET_NAME)
    world.add_shoot(SHOOT)
    stand = stage.prober(world, POLICY)
    stand.prober.registry.endpoints = gate
    return stand


async def next_probe_ends(stand):
    seen = len(stand.probes())
    await stand.until(lambda: len(stand.probes()) > seen)


async def test_a_probe_that_began_while_the_gate_was_closed_scales_nothing_after_it_opened(
    stand, gate
):
    """The end of a false alarm: the canary is back at once, and an attempt of before still fails."""
    await stand.run(60)
    gate.close()
    fault = stand.world.faults.path_cut(SHOOT)
    await stand.until(lambda: stand.reason() is VerdictReason.GATED)
    await stand.run(2)
    gate.open()
    await next_probe_ends(stand)
    assert stand.reason() is VerdictReason.GATED
    assert "open again since this probe began" in stand.decision().message
    fault.lift()
    await stand.until(lambda: stand.state() is ShootState.HEALTHY)
    await stand.run(60)
    assert not stand.writes()


async def test_the_probe_that_reaches_the_threshold_is_held_back_as_well(stand, gate):
    await stand.run(60)
    gate.close()
    fault = stand.world.faults.path_cut(SHOOT)
    await stand.until(lambda: "2 of 3 probes" in stand.decision().message)
    await stand.run(2)
    gate.open()
    await next_probe_ends(stand)
    assert stand.reason() is VerdictReason.GATED
    fault.lift()
    await stand.run(60)
    assert not stand.writes()


async def test_so_is_one_in_which_the_gate_closed_and_opened(stand, gate):
    await stand.run(60)
    fault = stand.world.faults.path_cut(SHOOT)
    await stand.until(lambda: "2 of 3 probes" in stand.decision().message)
    await stand.run(1)
    gate.close()
    await stand.run(1)
    gate.open()
    await next_probe_ends(stand)
    assert stand.reason() is VerdictReason.GATED
    fault.lift()
    await stand.run(60)
    assert not stand.writes()


async def test_the_next_probe_comes_at_once_and_decides(stand, gate):
    await stand.run(60)
    gate.close()
    stand.world.faults.path_cut(SHOOT)
    await stand.until(lambda: "2 of 3 probes" in stand.decision().message)
    await stand.run(2)
    gate.open()
    await next_probe_ends(stand)
    held = stand.now
    await stand.until(stand.writes)
    assert stand.now - held == pytest.approx(5.0, abs=0.2)  # one attempt on the external path
