"""How often the paths are looked at while something holds back a scale-down."""

from dataclasses import replace
from itertools import pairwise

import pytest

from app.core.model.probing import Verdict, VerdictReason
from app.core.model.shoots import Route
from tests.prober.test_endpoint_mode import CANARY, POLICY
from tests.support.stands import SHOOT

REGULAR, SUSPECT = 20.0, 5.0


@pytest.fixture
async def stand(stage):
    """A shoot that is well is looked at every 20 s; the gate is closed while the seed reaches nothing outside."""
    world = stage.world(external_secret_name=POLICY.secret_names[Route.EXTERNAL])
    world.add_shoot(SHOOT)
    policy = replace(
        POLICY, probe_interval=REGULAR, suspect_interval=SUSPECT, endpoint_probes=(CANARY,)
    )
    return stage.prober(world, policy)


def apart(stand, since):
    probes = [at for at in stand.probes() if at > since]
    return [after - before for before, after in pairwise(probes)]


async def test_while_a_gate_is_closed_the_paths_are_looked_at_every_suspect_interval(stand):
    await stand.run(60)
    with stand.world.faults.seed_network_cut():
        await stand.until(lambda: stand.reason() is VerdictReason.GATED)
        since = stand.now
        await stand.run(60)
        assert stand.reason() is VerdictReason.GATED
    assert len(apart(stand, since)) >= 5
    assert all(each <= SUSPECT + 5.5 for each in apart(stand, since))  # an attempt may take 5 s


async def test_when_all_is_well_again_so_is_the_pace(stand):
    await stand.run(60)
    with stand.world.faults.seed_network_cut():
        await stand.until(lambda: stand.reason() is VerdictReason.GATED)
    await stand.until(lambda: stand.decision().verdict is Verdict.SCALE_UP)
    since = stand.now
    await stand.run(120)
    assert min(apart(stand, since)) >= REGULAR * 0.8
