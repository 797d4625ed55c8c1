"""Which resources a scaling run touches, level by level."""

from hypothesis import given
from hypothesis import strategies as st

from app.core.model.workloads import Direction, ResourceRef
from app.prober.rules import scaling
from tests.prober.rules.facts import CA, KCM, MCM, dependent


def names(dependents, direction):
    return [[d.ref for d in level] for level in scaling.levels(dependents, direction)]


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
    planned = scaling.levels(dependents, direction)
    touched = [each.ref for level in planned for each in level]
    assert sorted(touched) == sorted(each.ref for each in dependents)
    numbers = [{each.scale(direction).level for each in level} for level in planned]
    assert all(len(each) == 1 for each in numbers)
    assert sorted(min(n) for n in numbers) == [min(n) for n in numbers]
    assert len({min(n) for n in numbers}) == len(numbers)
