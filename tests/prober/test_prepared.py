"""How far a process is that may come to lead: what it has listed, and what it has looked at."""

import pytest

from app.core.ports import Preparation, Watched
from tests.support.doubles import SetLeadership
from tests.support.harness import SHOOT


def looking():
    """A standby whose leader has gone quiet."""
    return SetLeadership(leading=False, may_probe=True)


@pytest.mark.parametrize(
    ("begin", "after"),
    [
        (lambda faults: faults.watch_not_opened(Watched.CLUSTERS), 60),
        (lambda faults: faults.watch_not_opened(Watched.SECRETS), 60),
        (lambda faults: faults.watch_not_opened(Watched.DEPENDENTS), 60),
        (lambda faults: faults.overrides_away(), 20),
    ],
    ids=["clusters", "secrets", "dependents", "what people decided"],
)
async def test_who_has_not_listed_all_that_a_verdict_needs_is_not_prepared(lab, begin, after):
    world = lab.world()
    missing = begin(world.faults)
    harness = await lab.healthy(world, settle=after, leadership=looking())
    assert harness.prober.prepared() is Preparation.NONE
    missing.lift()
    await harness.run(after)
    assert harness.prober.prepared() is Preparation.COMPLETE


async def test_a_standby_that_does_not_probe_has_only_listed(lab):
    leadership = SetLeadership(leading=False, may_probe=False)
    harness = await lab.healthy(leadership=leadership)
    assert harness.prober.prepared() is Preparation.LISTED
    leadership.become(leading=False, may_probe=True)
    await harness.run(1)
    assert harness.prober.prepared() is Preparation.COMPLETE


async def test_a_shoot_that_cannot_be_reached_was_looked_at_all_the_same(lab):
    world = lab.with_shoot()
    with world.faults.api_down(SHOOT):
        harness = lab.prober(world, leadership=looking())
        await harness.run(10)
        assert harness.prober.prepared() is Preparation.COMPLETE


async def test_a_seed_without_shoots_leaves_nothing_to_prepare(lab):
    harness = lab.prober(lab.world(), leadership=looking())
    await harness.run(1)
    assert harness.prober.prepared() is Preparation.COMPLETE
