"""Which resources a scaling run touches, level by level, and what it does with each."""

from hypothesis import given
from hypothesis import strategies as st

from app.core.model import workloads as ann
from app.core.model.scaling_runs import ScalingStep
from app.core.model.workloads import Direction, ResourceRef
from app.prober.rules import scaling
from app.prober.rules.scaling import Why
from tests.prober.rules.facts import CA, KCM, MCM, NOW, dependent, protected, workload


def names(dependents, direction):
    plan = scaling.plan(dependents, lambda _: None, direction, NOW)
    return [[each.dependent.ref for each in level] for level in plan]


def test_levels_ascend_and_all_of_one_level_go_at_once():
    gardener = [dependent(KCM, 0, 1), dependent(MCM, 1, 0), dependent(CA, 2, 0)]
    assert names(gardener, Direction.DOWN) == [[MCM, CA], [KCM]]
    assert names(gardener, Direction.UP) == [[KCM], [MCM], [CA]]


def test_gaps_between_levels_are_fine():
    assert names([dependent(KCM, 70), dependent(MCM, 3)], Direction.UP) == [[MCM], [KCM]]


def test_nothing_to_plan():
    assert names([], Direction.UP) == []


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
    st.sampled_from(Direction),
)
def test_planning_touches_each_resource_once(levels, direction):
    dependents = [
        dependent(ResourceRef("apps/v1", "Deployment", f"d{n}"), up, down)
        for n, (up, down) in enumerate(levels)
    ]
    plan = scaling.plan(dependents, lambda _: None, direction, NOW)
    planned = [[each.dependent for each in level] for level in plan]
    touched = [each.ref for level in planned for each in level]
    assert sorted(touched) == sorted(each.ref for each in dependents)
    numbers = [{each.scale(direction).level for each in level} for level in planned]
    assert all(len(each) == 1 for each in numbers)
    assert sorted(min(n) for n in numbers) == [min(n) for n in numbers]
    assert len({min(n) for n in numbers}) == len(numbers)


# What is done with each of them.


def planned(direction, *views, **more):
    gardener = [dependent(KCM, 0, 1), dependent(MCM, 1, 0), dependent(CA, 2, 0, optional=True)]
    known = {each.ref: each for each in views}
    plan = scaling.plan(gardener, known.get, direction, NOW, **more)
    return [(each.ref, task.step, task.why) for level in plan for each, _, task in level]


def test_a_plan_says_of_each_resource_what_or_why_not():
    ignored = workload(1, {ann.IGNORE_SCALING: "true"}, CA)
    assert planned(Direction.DOWN, workload(1, ref=KCM), workload(0, ref=MCM), ignored) == [
        (MCM, ScalingStep.NOTHING, Why.ALREADY),
        (CA, ScalingStep.SKIP, Why.IGNORED),
        (KCM, ScalingStep.WRITE, Why.SCALED_DOWN),
    ]


def test_what_is_at_0_without_our_keys_is_something_to_do_unless_it_is_too_early_to_say():
    zeros = workload(0, ref=KCM), workload(0, ref=MCM)
    assert planned(Direction.UP, *zeros) == [
        (KCM, ScalingStep.WRITE, Why.FOUND_AT_ZERO),
        (MCM, ScalingStep.WRITE, Why.FOUND_AT_ZERO),
        (CA, ScalingStep.SKIP, Why.GONE),
    ]
    assert planned(Direction.UP, *zeros, found_at_zero=lambda ref: ref == KCM)[:2] == [
        (KCM, ScalingStep.WRITE, Why.FOUND_AT_ZERO),
        (MCM, ScalingStep.SKIP, Why.NOT_OURS),
    ]


def test_a_resource_that_must_exist_and_does_not_is_a_step_that_fails():
    assert (MCM, ScalingStep.FAILED, Why.NOT_FOUND) in planned(Direction.UP, workload(ref=KCM))


def test_levels_write_if_one_of_their_resources_is_written():
    plan = scaling.plan(
        [dependent(KCM), dependent(MCM, 1)],
        {KCM: workload(ref=KCM), MCM: protected(ref=MCM)}.get,
        Direction.UP,
        NOW,
    )
    assert scaling.writes(plan)
    assert [scaling.writes([level]) for level in plan] == [False, True]
    assert not scaling.writes([])
