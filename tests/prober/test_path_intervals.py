"""How often the paths are looked at while something holds back a scale-down."""

from dataclasses import replace
from itertools import pairwise

import pytest

from app.core.model.probing import Verdict, VerdictReason
from app.core.model.shoots import Route
from tests.prober.test_endpoint_mode import CANARY, POLICY
from tests.support.harness import SHOOT

REGULAR, SUSPECT = 20.0, 5.0


@pytest.fixture
async def harness(lab):
    """A shoot that is well is looked at every 20 s; the gate is closed while the seed reaches nothing outside."""
    world = lab.world(external_secret_name=POLICY.secret_names[Route.EXTERNAL])
    world.add_shoot(SHOOT)
    policy = replace(
        POLICY, probe_interval=REGULAR, suspect_interval=SUSPECT, endpoint_probes=(CANARY,)
    )
    return lab.prober(world, policy)


def apart(harness, since):
    probes = [at for at in harness.probes() if at > since]
    return [after - before for before, after in pairwise(probes)]


async def test_while_a_gate_is_closed_the_paths_are_looked_at_every_suspect_interval(harness):
    await harness.run(60)
    with harness.faults.seed_network_cut():
        await harness.until(lambda: harness.reason() is VerdictReason.GATED)
        since = harness.now
        await harness.run(60)
        assert harness.reason() is VerdictReason.GATED
    assert len(apart(harness, since)) >= 5
    assert all(each <= SUSPECT + 5.5 for each in apart(harness, since))  # an attempt may take 5 s


async def test_when_all_is_well_again_so_is_the_pace(harness):
    await harness.run(60)
    with harness.faults.seed_network_cut():
        await harness.until(lambda: harness.reason() is VerdictReason.GATED)
    await harness.until(lambda: harness.decision().verdict is Verdict.SCALE_UP)
    since = harness.now
    await harness.run(120)
    assert min(apart(harness, since)) >= REGULAR * 0.8
