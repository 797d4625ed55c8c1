"""Which resources a scaling run touches, level by level, and what it does with each."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model import workloads as ann
from app.core.model.policy import DependentPolicy
from app.core.model.scaling_runs import ScalingStep
from app.core.model.workloads import Direction, ResourceRef
from app.prober.rules import scaling
from app.prober.rules.scaling import Why
from tests.prober.rules.facts import CA, KCM, MCM, NOW, dependent, ignored, protected, workload


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


# Whether a dependent is where a scaling run leaves it: then what that could not do is no failure any more.


UP, DOWN = Direction.UP, Direction.DOWN


def complete(view, direction=UP, *, optional=False):
    dependent = DependentPolicy(KCM, optional=optional)
    pending = scaling.pending_writes([dependent], {KCM: view}, NOW)
    ((planned,),) = pending.plans[direction]
    return scaling.complete(planned, direction)


def with_pods(view, pods):
    return replace(view, ready=pods, current=pods, generation=1, observed_generation=1)


def test_on_the_way_up_it_is_up_with_a_pod_that_is_ready_and_without_keys():
    assert complete(with_pods(workload(2), 2))
    assert not complete(with_pods(workload(2), 0))
    assert not complete(with_pods(protected(0, "2"), 0))
    assert not complete(with_pods(workload(2, {ann.REPLICAS: "2"}), 2))


def test_on_the_way_down_it_is_at_0_and_its_pods_are_gone():
    assert complete(with_pods(protected(0, "2"), 0), DOWN)
    assert not complete(with_pods(protected(0, "2"), 2), DOWN)
    assert not complete(with_pods(workload(2), 2), DOWN)


@pytest.mark.parametrize("direction", Direction)
def test_what_is_skipped_does_not_matter(direction):
    assert complete(None, direction, optional=True)
    assert complete(workload(0, {ann.IGNORE_SCALING: "true"}), direction)


def test_what_somebody_else_set_to_0_is_no_failure_of_a_way_up():
    assert complete(workload(0))


@pytest.mark.parametrize("direction", Direction)
def test_what_is_missing_and_not_optional_is_not_complete(direction):
    assert not complete(None, direction)


# Whether protection is active, since when, and what a scaling run would write (spec, words; 4.3).


OTHER = ResourceRef("druid.gardener.cloud/v1alpha1", "Etcd", "etcd-main")


def test_protection_is_active_iff_a_dependent_carries_the_meltdown_key():
    assert not scaling.protection_active([None, workload(0, {ann.REPLICAS: "3"})])
    assert scaling.protection_active([workload(), workload(3, {ann.MELTDOWN: "whatever"})])


def test_it_began_at_the_earliest_time_in_its_dependents_annotations():
    views = [
        None,
        protected(since="2027-01-15T08:00:05Z"),
        protected(since="2027-01-15T08:00:00Z"),
        protected(since="nonsense"),
        protected(since=None),
        workload(0, {ann.SINCE: "2020-01-01T00:00:00Z"}),
    ]
    assert scaling.protected_since(views) == NOW


def test_it_is_not_known_when_it_began_where_no_annotation_says():
    assert scaling.protected_since([protected(since=None), workload()]) is None


def pending(**views):
    dependents = [dependent(KCM), dependent(CA, optional=True)]
    return scaling.pending_writes(dependents, {KCM: views.get("kcm"), CA: views.get("ca")}, NOW)


def at_stake(found):
    """What holds of the writes that are pending."""
    holds = {
        "up": found.writes(UP),
        "down": found.writes(DOWN),
        "protected": found.protected,
        "exposed": found.exposed,
        "ignored": found.ignored,
    }
    return {each for each, it_does in holds.items() if it_does}


@pytest.mark.parametrize(
    ("views", "expected"),
    [
        pytest.param({"kcm": workload(1)}, {"down", "exposed"}, id="up"),
        pytest.param({"kcm": protected()}, {"up", "protected"}, id="scaled down"),
        pytest.param({}, set(), id="gone"),
        pytest.param({"kcm": workload(0)}, {"up"}, id="at 0 without our keys"),
        pytest.param(
            {"kcm": workload(1), "ca": workload(2, {ann.REPLICAS: "2"})},
            {"up", "down", "exposed"},
            id="up with a key of ours left",
        ),
        pytest.param({"kcm": ignored(1)}, {"ignored"}, id="up and ignored"),
        pytest.param({"kcm": ignored(1), "ca": ignored(2)}, {"ignored"}, id="all up and ignored"),
        pytest.param(
            {"kcm": ignored(1), "ca": workload(0)}, {"up", "ignored"}, id="ignored beside one at 0"
        ),
        pytest.param(
            {"kcm": ignored(1), "ca": workload(2)}, {"down", "exposed"}, id="ignored beside one up"
        ),
        pytest.param(
            {"kcm": ignored(1), "ca": protected()},
            {"up", "protected"},
            id="ignored beside one scaled down",
        ),
        pytest.param({"kcm": ignored(0), "ca": ignored(0)}, set(), id="all ignored at 0"),
        pytest.param(
            {"kcm": workload(1), "ca": protected()},
            {"up", "down", "protected", "exposed"},
            id="protection that is not complete",
        ),
    ],
)
def test_what_a_scaling_run_would_write_and_what_is_exposed(views, expected):
    assert at_stake(pending(**views)) == expected


def test_a_key_that_is_dropped_from_an_ignored_dependent_at_0_exposes_nothing():
    found = pending(kcm=ignored(0, **{ann.MELTDOWN: ""}), ca=protected())
    assert at_stake(found) == {"up", "down", "protected"}


def test_replicas_that_only_scale_knows_are_asked_for_wherever_there_may_be_something_to_write():
    """The key alone does not say that it is at 0: a process may have been killed between the two."""
    up = workload(None, ref=OTHER)
    down = protected(None, ref=OTHER)
    for view, expected in ((up, {"down", "exposed"}), (down, {"up", "down", "protected"})):
        found = scaling.pending_writes([dependent(OTHER)], {OTHER: view}, NOW)
        assert at_stake(found) == expected
    for direction in Direction:
        assert scaling.assumed(None, direction) is None
        assert scaling.assumed(workload(2, ref=MCM), direction) == workload(2, ref=MCM)
    assert scaling.assumed(up, Direction.UP) == workload(1, ref=OTHER)
    assert scaling.assumed(down, Direction.UP) == protected(0, ref=OTHER)
    assert scaling.assumed(down, Direction.DOWN) == protected(1, ref=OTHER)


# When a level of the way down could start.


def could_go_down(level=1, now=NOW + 100, **views):
    dependents = [dependent(KCM, down=1), dependent(MCM), dependent(CA, optional=True)]
    known = {KCM: views.get("kcm"), MCM: views.get("mcm"), CA: views.get("ca")}
    return scaling.could_go_down(dependents, known, level, now) - NOW


def test_a_level_could_start_when_the_second_was_over_in_which_the_last_below_it_was_taken_down():
    first, last = protected(since="2027-01-15T08:00:05Z"), protected(since="2027-01-15T08:00:20Z")
    assert could_go_down(mcm=first, ca=last) == 21
    assert could_go_down(mcm=last, ca=first) == 21


@pytest.mark.parametrize(
    "view",
    [
        None,
        workload(1),
        workload(0),
        protected(since=None),
        protected(since="nonsense"),
        protected(replicas=1, since="2027-01-15T08:00:00Z"),
    ],
    ids=["gone", "up", "not by us", "without a time", "with no time", "scaled up since"],
)
def test_what_nobody_took_down_or_nobody_knows_when_does_not_count(view):
    assert could_go_down(mcm=view) == 100
    assert could_go_down(mcm=view, ca=protected(since="2027-01-15T08:00:20Z")) == 21


def test_the_lowest_level_and_what_is_beside_or_above_it_have_nothing_to_count_from():
    assert could_go_down(0, mcm=protected(), ca=protected(), kcm=protected()) == 100
    assert could_go_down(1, kcm=protected()) == 100


def test_an_instant_by_a_clock_that_is_ahead_counts_as_now():
    assert could_go_down(mcm=protected(since="2027-01-15T09:00:00Z")) == 100
