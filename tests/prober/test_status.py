"""What is drawn of a shoot: not anew where nothing has changed, and in brief the same as in full."""

from dataclasses import replace

from app.core.model.probing import Decision, ShootState, Verdict, VerdictReason
from app.core.model.workloads import Direction
from app.prober.rules.state import StateInputs
from app.prober.status import ShootStatus, StatusTracker
from tests.support.harness import SHOOT

HEALTHY = Decision(Verdict.SCALE_UP, VerdictReason.LEASES_RENEWED, "all is well", Verdict.SCALE_UP)
WELL = StateInputs(HEALTHY)
FACTS = ShootStatus(SHOOT, decision=HEALTHY, facts=WELL)
FAILED = replace(FACTS, scaling_failure="no", facts=replace(WELL, scaling_failed=True))


def outlines_agree(harness):
    registry = harness.prober.registry
    return registry.summaries() == [each.summary for each in registry.statuses()]


def only(harness):
    (found,) = harness.prober.registry.summaries()
    return found


def test_the_same_facts_are_drawn_once():
    portrait = StatusTracker(0.0)
    first = portrait.update(FACTS, 1.0)
    assert portrait.update(replace(FACTS), 2.0) is first
    assert first.state is ShootState.HEALTHY


def test_facts_that_have_changed_are_drawn_anew():
    portrait = StatusTracker(0.0)
    first = portrait.update(FACTS, 1.0)
    second = portrait.update(FAILED, 2.0)
    assert (first.state, second.state) == (ShootState.HEALTHY, ShootState.FAILING)
    assert second.since == 2.0


def test_a_probe_that_nobody_saw_is_in_the_next_drawing():
    portrait = StatusTracker(0.0)
    portrait.update(FACTS, 1.0)
    portrait.note(FAILED, 2.0)
    found = portrait.update(FACTS, 3.0)
    assert (found.state, found.since) == (ShootState.HEALTHY, 3.0)
    assert {each.type: each.since for each in found.conditions}["ScalingSucceeded"] == 3.0


def test_a_change_that_only_an_outline_saw_is_in_the_next_drawing():
    portrait = StatusTracker(0.0)
    portrait.update(FACTS, 1.0)
    seen = portrait.summary(SHOOT, replace(WELL, running=Direction.UP), 2.0)
    assert (seen.state, seen.since) == (ShootState.RECOVERING, 2.0)
    found = portrait.update(FACTS, 3.0)
    assert (found.state, found.since) == (ShootState.HEALTHY, 3.0)


def test_an_outline_keeps_the_instant_of_the_last_change():
    portrait = StatusTracker(0.0)
    portrait.update(FACTS, 1.0)
    assert portrait.summary(SHOOT, WELL, 5.0) == portrait.update(FACTS, 6.0).summary
    assert portrait.summary(SHOOT, WELL, 7.0).since == 1.0


async def test_an_outline_says_the_same_as_the_whole_through_an_outage(harness):
    seen = set()

    def looked():
        assert outlines_agree(harness)
        seen.add(harness.state())
        return harness.state() is ShootState.PROTECTED

    await harness.run(60)
    with harness.faults.path_cut(SHOOT):
        await harness.until(looked)
    await harness.until(lambda: not looked() and harness.state() is ShootState.HEALTHY, within=120)
    assert seen >= {ShootState.HEALTHY, ShootState.PROTECTED, ShootState.RECOVERING}


async def test_a_failed_run_is_in_the_outline(harness):
    with harness.faults.patch_forbidden(), harness.faults.path_cut(SHOOT):
        await harness.until(lambda: only(harness).state is ShootState.FAILING)
        assert outlines_agree(harness)


async def test_a_shoot_that_is_not_probed_has_an_outline(harness):
    await harness.run(5)
    harness.faults.hibernated(SHOOT)
    await harness.until(lambda: harness.state() is ShootState.NOT_PROBED)
    assert outlines_agree(harness)
