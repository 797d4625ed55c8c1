"""What people may have scaled, and what becomes of a hold whose scaling run nobody runs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model import workloads as ann
from app.core.model.overrides import Hold
from app.core.model.probing import Verdict
from app.core.model.workloads import Direction, ResourceRef, WorkloadView
from app.prober.rules import manual
from app.prober.rules.manual import HoldAction, ManualContext
from app.prober.rules.scaling import ScalingStep, Why
from tests.prober.rules.facts import NOW
from tests.support.harness import CA, GARDENER, KCM, MCM

UP, DOWN = Direction.UP, Direction.DOWN
RUNNING = Hold(
    "tests", "bob", NOW - 60, NOW + 600, Direction.DOWN, "0badcafe-1", force=False, done=False
)


# What needs force.


def test_a_shoot_that_is_not_probed_needs_force_whichever_way():
    for direction in Direction:
        text = manual.objection(direction, ManualContext(probed=False))
        assert text == (
            "the shoot is not probed, so nothing scales it back; use force to scale it anyway"
        )


def test_up_needs_force_while_the_verdict_would_be_scale_down():
    text = manual.objection(UP, ManualContext(probed=True, would_be=Verdict.SCALE_DOWN))
    assert text == (
        "the verdict would be SCALE DOWN: controllers that come back now would act on expired leases; "
        "use force to scale it anyway"
    )


@pytest.mark.parametrize("would_be", [*Verdict, None])
def test_everything_else_needs_no_force(would_be):
    assert manual.objection(DOWN, ManualContext(probed=True, would_be=would_be)) is None
    if would_be is not Verdict.SCALE_DOWN:
        assert manual.objection(UP, ManualContext(probed=True, would_be=would_be)) is None


# The plan.


def view(ref: ResourceRef, replicas: int, **annotations: str) -> WorkloadView:
    return WorkloadView(ref, "shoot--a", "uid", "7", replicas, annotations)


def planned(direction, *views):
    found = manual.plan(GARDENER.dependents, {each.ref: each for each in views}, direction, NOW)
    return [(each.ref, task.step, task.why) for each, task in found]


def test_a_plan_goes_level_by_level_and_says_of_each_resource_what_or_why_not():
    ignored = view(CA, 1, **{ann.IGNORE_SCALING: "true"})
    assert planned(DOWN, view(KCM, 1), view(MCM, 0), ignored) == [
        (MCM, ScalingStep.NOTHING, Why.ALREADY),
        (CA, ScalingStep.SKIP, Why.IGNORED),
        (KCM, ScalingStep.WRITE, Why.SCALED_DOWN),
    ]


def test_what_is_at_0_without_our_keys_is_something_to_do_by_hand():
    assert planned(UP, view(KCM, 0), view(MCM, 0)) == [
        (KCM, ScalingStep.WRITE, Why.FOUND_AT_ZERO),
        (MCM, ScalingStep.WRITE, Why.FOUND_AT_ZERO),
        (CA, ScalingStep.SKIP, Why.GONE),
    ]


def test_a_resource_that_must_exist_and_does_not_is_a_step_that_fails():
    assert (MCM, ScalingStep.FAILED, Why.NOT_FOUND) in planned(UP, view(KCM, 1))


# Holds whose scaling run nobody runs.


def decided(hold, *, probed=True, now=NOW):
    return manual.hold_action(hold, probed=probed, now=now)[0]


def test_a_run_that_is_done_is_left_alone():
    assert decided(replace(RUNNING, done=True)) is HoldAction.NOTHING
    assert decided(replace(RUNNING, done=True), probed=False, now=NOW + 9_999) is HoldAction.NOTHING


def test_a_run_that_is_not_done_is_carried_on_where_the_shoot_is_probed():
    assert decided(RUNNING) is HoldAction.CARRY_ON
    assert decided(RUNNING, probed=False) is HoldAction.OVER


def test_a_forced_one_is_carried_on_where_the_shoot_is_not_probed_too():
    assert decided(replace(RUNNING, force=True), probed=False) is HoldAction.CARRY_ON


def test_one_whose_time_is_over_is_not_carried_on_forced_or_not():
    for force in (False, True):
        hold = replace(RUNNING, force=force)
        assert decided(hold, now=hold.until - 0.001) is HoldAction.CARRY_ON
        assert decided(hold, now=hold.until) is HoldAction.OVER


@pytest.mark.parametrize("lost", [{"operation": None}, {"direction": None}])
def test_one_that_names_no_run_is_over(lost):
    assert decided(replace(RUNNING, **lost)) is HoldAction.OVER


@given(
    st.builds(
        Hold,
        st.just("r"),
        st.just("a"),
        st.just(NOW),
        st.floats(NOW - 100, NOW + 100),
        st.none() | st.sampled_from(Direction),
        st.none() | st.just("0badcafe-1"),
        st.booleans(),
        st.booleans(),
    ),
    st.booleans(),
)
def test_only_a_whole_unfinished_hold_within_its_time_is_ever_carried_on(hold, probed):
    what, why = manual.hold_action(hold, probed=probed, now=NOW)
    if what is HoldAction.CARRY_ON:
        assert not hold.done
        assert hold.operation
        assert hold.direction
        assert hold.until > NOW
        assert probed or hold.force
    assert bool(why) == (what is HoldAction.OVER)
