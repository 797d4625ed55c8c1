"""How often a direction must be seen before it counts."""

import pytest

from app.core.model.probing import VerdictReason
from tests.support.harness import SHOOT


@pytest.mark.parametrize("jitter", [0.0, 0.3])
async def test_probes_that_count_are_suspect_interval_apart_and_none_is_lost(lab, jitter):
    """A quick look after a slow one counts as well."""
    harness = await lab.healthy(failure_threshold=3)
    with harness.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.reason() is VerdictReason.COUNTING)
        first = harness.now
        with harness.faults.latency(SHOOT, jitter):
            await harness.until(lambda: "2 of 3" in harness.decision().message)
        await harness.until(harness.writes)
    assert 10.0 <= harness.now - first < 11.0


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


async def test_a_protection_that_somebody_else_began_is_not_flapping(lab):
    first = await lab.healthy()
    with first.faults.path_cut(SHOOT):
        await first.protect()
        await first.kill()
        second = first.again()
        await second.run(30)
    started = len(second.told("FlowStarted"))
    await second.until(lambda: len(second.told("FlowStarted")) > started, within=45)
