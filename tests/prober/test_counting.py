"""How often a direction must be seen before it counts."""

import itertools

import pytest

from app.core.model.probing import Verdict, VerdictReason
from app.simulation.traffic import Trouble
from tests.support.harness import SHOOT


def verdicts(harness, verdict):
    return [n for n in harness.notices if n.kind == "Look" and n.verdict is verdict]


async def test_one_probe_is_enough_for_a_scale_down_by_default(harness):
    await harness.run(60)
    with harness.faults.path_cut(SHOOT):
        await harness.until(harness.writes)
    assert not [n for n in harness.notices if n.reason == VerdictReason.COUNTING]


@pytest.mark.parametrize("jitter", [0.0, 0.3])
async def test_probes_that_count_are_suspect_interval_apart_and_none_is_lost(lab, jitter):
    """A quick look after a slow one counts as well."""
    world = lab.world()
    world.add_shoot(SHOOT)
    harness = lab.prober(world, failure_threshold=3)
    await harness.run(60)
    with world.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.reason() is VerdictReason.COUNTING)
        first = harness.now
        with world.faults.latency(SHOOT, jitter):
            await harness.until(lambda: "2 of 3" in harness.decision().message)
        await harness.until(harness.writes)
    assert 10.0 <= harness.now - first < 11.0


async def test_three_good_probes_five_seconds_apart_end_a_protection(harness):
    await harness.run(60)
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
        await harness.run(7)
    seen = len(harness.probes())
    await harness.until(lambda: harness.told("FlowStarted")[1:], within=90)
    counting = [n for n in harness.notices if n.kind == "Look"][seen:]
    good = [
        n for n in counting if n.reason == VerdictReason.COUNTING or n.verdict is Verdict.SCALE_UP
    ]
    assert len(good) == 3
    assert good[-1].at - good[0].at == pytest.approx(10.0, abs=0.2)


async def test_a_slow_first_good_probe_does_not_make_a_fourth_one_necessary(harness):
    await harness.run(60)
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
        await harness.run(7)
    with harness.faults.latency(SHOOT, 0.2):
        await harness.until(lambda: harness.reason() is VerdictReason.COUNTING, within=60)
    seen = len(harness.probes())
    await harness.until(lambda: len(harness.told("FlowStarted")) == 2, within=90)
    assert len(harness.probes()) - seen <= 2


async def test_without_protection_one_good_probe_is_a_scale_up(harness):
    await harness.run(5)
    assert harness.decision().verdict is Verdict.SCALE_UP


async def test_a_probe_of_the_other_direction_sets_the_count_to_0(harness):
    await harness.run(60)
    cut = harness.faults.path_cut(SHOOT)
    await harness.protect()
    cut.lift()
    await harness.until(lambda: "2 of 3" in harness.decision().message, within=60)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.decision().would_be is Verdict.SCALE_DOWN)
    await harness.until(lambda: harness.reason() is VerdictReason.COUNTING)
    assert "1 of 3" in harness.decision().message


@pytest.mark.parametrize(
    ("trouble", "kept"),
    [
        (Trouble(throttled=True, retry_after=1.0), True),
        (Trouble(refused=True), False),
        (Trouble(error_rate=1.0, what=frozenset({"leases"})), False),
    ],
)
async def test_a_429_leaves_the_count_and_every_other_failure_sets_it_to_0(harness, trouble, kept):
    await harness.run(60)
    cut = harness.faults.path_cut(SHOOT)
    await harness.protect()
    cut.lift()
    await harness.until(lambda: "2 of 3" in harness.decision().message, within=60)
    probes = len(harness.probes())
    with harness.faults.trouble(SHOOT, trouble):
        await harness.until(lambda: len(harness.probes()) > probes)
    await harness.until(lambda: len(harness.probes()) > probes + 1)
    if kept:
        assert (
            harness.reason() is not VerdictReason.COUNTING or "2 of 3" in harness.decision().message
        )
    else:
        assert "1 of 3" in harness.decision().message


async def test_lost_leadership_leaves_the_count(harness):
    await harness.run(60)
    cut = harness.faults.path_cut(SHOOT)
    await harness.protect()
    cut.lift()
    await harness.until(lambda: "2 of 3" in harness.decision().message, within=60)
    harness.leadership.become(leading=False)
    await harness.until(lambda: harness.reason() is VerdictReason.NOT_LEADER)
    await harness.run(4)
    harness.leadership.become(leading=True)
    await harness.until(lambda: harness.reason() is not VerdictReason.NOT_LEADER)
    assert harness.decision().verdict is Verdict.SCALE_UP or "2 of 3" in harness.decision().message


async def test_each_further_protection_within_an_hour_needs_a_longer_good_span(harness):
    """30 s for the second, 60 s for the third."""
    spans = []
    for _ in range(3):
        await harness.run(120)
        begun = len(harness.told("FlowStarted"))
        with harness.faults.path_cut(SHOOT):
            await harness.protect()
            await harness.run(5)
        await harness.until(lambda: harness.reason() is VerdictReason.COUNTING, within=60)
        first = harness.probes()[-1]
        await harness.until(lambda n=begun: len(harness.told("FlowStarted")) == n + 2, within=200)
        spans.append(harness.now - first)
    assert spans[0] == pytest.approx(10, abs=1)
    assert spans[1] == pytest.approx(30, abs=6)
    assert spans[2] == pytest.approx(60, abs=6)


async def test_a_protection_an_hour_after_the_last_is_the_first_again(harness):
    await harness.run(60)
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
    await harness.run(3700)
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
    await harness.until(lambda: len(harness.told("FlowStarted")) == 4, within=45)


async def test_a_protection_that_somebody_else_began_is_not_flapping(lab):
    world = lab.world()
    world.add_shoot(SHOOT)
    first, second = lab.prober(world), None
    await first.run(60)
    with world.faults.path_cut(SHOOT):
        await first.protect()
        await first.kill()
        second = lab.prober(world)
        await second.run(30)
    started = len(second.told("FlowStarted"))
    await second.until(lambda: len(second.told("FlowStarted")) > started, within=45)


async def test_under_protection_and_while_counting_probes_come_every_suspect_interval(harness):
    await harness.run(60)
    with harness.faults.path_cut(SHOOT):
        await harness.protect()
        before = len(harness.probes())
        await harness.run(100)
        assert 19 <= len(harness.probes()) - before <= 20


async def test_the_probes_come_after_the_interval_with_jitter(harness):
    await harness.run(300)
    probes = harness.probes()
    apart = [b - a for a, b in itertools.pairwise(probes)]
    assert all(9.99 <= each <= 12.01 for each in apart)
    assert max(apart) - min(apart) > 0.5
