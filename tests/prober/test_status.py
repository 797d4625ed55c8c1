"""The status of a shoot: made anew only where something has changed, and in brief the same as in full."""

from dataclasses import replace

import pytest

from app.core.model.probing import (
    Decision,
    Failure,
    PathReading,
    PathView,
    RequestKind,
    ShootState,
    Verdict,
    VerdictReason,
)
from app.core.model.shoots import Route
from app.core.model.workloads import Direction
from app.prober.rules.state import StateInputs
from app.prober.status import ShootStatus, StatusTracker
from tests.support.harness import SHOOT

HEALTHY = Decision(Verdict.SCALE_UP, VerdictReason.LEASES_RENEWED, "all is well", Verdict.SCALE_UP)
WELL = StateInputs(HEALTHY)
FACTS = ShootStatus(SHOOT, decision=HEALTHY, facts=WELL)
FAILED = replace(FACTS, scaling_failure="no", facts=replace(WELL, scaling_failed=True))


def summaries_agree(harness):
    registry = harness.prober.registry
    return registry.summaries() == [each.summary for each in registry.statuses()]


def only(harness):
    (found,) = harness.prober.registry.summaries()
    return found


def test_the_same_facts_are_made_into_a_status_once():
    tracker = StatusTracker(0.0)
    first = tracker.update(FACTS, 1.0)
    assert tracker.update(replace(FACTS), 2.0) is first
    assert first.state is ShootState.HEALTHY


def test_facts_that_have_changed_are_made_into_one_anew():
    tracker = StatusTracker(0.0)
    first = tracker.update(FACTS, 1.0)
    second = tracker.update(FAILED, 2.0)
    assert (first.state, second.state) == (ShootState.HEALTHY, ShootState.FAILING)
    assert second.since == 2.0


def test_a_probe_that_nobody_saw_is_in_the_next_status():
    tracker = StatusTracker(0.0)
    tracker.update(FACTS, 1.0)
    tracker.note(FAILED, 2.0)
    found = tracker.update(FACTS, 3.0)
    assert (found.state, found.since) == (ShootState.HEALTHY, 3.0)
    assert {each.type: each.since for each in found.conditions}["ScalingSucceeded"] == 3.0


def test_a_change_that_only_a_summary_saw_is_in_the_next_status():
    tracker = StatusTracker(0.0)
    tracker.update(FACTS, 1.0)
    seen = tracker.summary(SHOOT, replace(WELL, running=Direction.UP), 2.0)
    assert (seen.state, seen.since) == (ShootState.RECOVERING, 2.0)
    found = tracker.update(FACTS, 3.0)
    assert (found.state, found.since) == (ShootState.HEALTHY, 3.0)


def test_a_summary_keeps_the_instant_of_the_last_change():
    tracker = StatusTracker(0.0)
    tracker.update(FACTS, 1.0)
    assert tracker.summary(SHOOT, WELL, 5.0) == tracker.update(FACTS, 6.0).summary
    assert tracker.summary(SHOOT, WELL, 7.0).since == 1.0


CUT = Failure(VerdictReason.UNREACHABLE, "refused", RequestKind.EXTERNAL)


@pytest.mark.parametrize(
    ("result", "status", "reason"),
    [
        (PathReading(CUT), "False", VerdictReason.UNREACHABLE),
        (PathReading(counting="1 of 3 successes"), "Unknown", "NotProbed"),
    ],
    ids=["it was tried", "the internal path lacks successes, and it was not"],
)
def test_what_the_external_path_was_last_counts_only_where_it_is_tried_still(
    result, status, reason
):
    paths = (PathView(Route.INTERNAL, 1.0, 0.1), PathView(Route.EXTERNAL, 0.5, 0.1, CUT))
    found = StatusTracker(0.0).update(replace(FACTS, paths=paths, result=result), 1.0)
    seen = {each.type: each for each in found.conditions}["ExternalPathReachable"]
    assert (seen.status, seen.reason) == (status, reason)


async def test_a_summary_says_the_same_as_the_whole_through_an_outage(harness):
    seen = set()

    def looked():
        assert summaries_agree(harness)
        seen.add(harness.state())
        return harness.state() is ShootState.PROTECTED

    await harness.run(60)
    with harness.faults.path_cut(SHOOT):
        await harness.until(looked)
    await harness.until(lambda: not looked() and harness.state() is ShootState.HEALTHY, within=120)
    assert seen >= {ShootState.HEALTHY, ShootState.PROTECTED, ShootState.RECOVERING}


async def test_a_shoot_that_is_not_probed_has_a_summary(harness):
    await harness.run(5)
    harness.faults.hibernated(SHOOT)
    await harness.until(lambda: harness.state() is ShootState.NOT_PROBED)
    assert summaries_agree(harness)
