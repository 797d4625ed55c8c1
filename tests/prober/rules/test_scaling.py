"""What to do with one resource."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model import workloads as ann
from app.core.model.scaling_runs import ScalingStep
from app.core.model.workloads import Direction
from app.prober.rules import scaling
from app.prober.rules.scaling import Why
from tests.prober.rules.facts import NOW, SINCE, protected, workload

UP, DOWN = Direction.UP, Direction.DOWN
TRUE = ["1", "t", "T", "true", "True", "TRUE"]
FALSE = ["0", "f", "F", "false", "False", "FALSE"]


def decide(view, direction, **more):
    return scaling.decide(view, direction, NOW, **more)


def short(task):
    return task.step, task.why


# Step 1.


@pytest.mark.parametrize("direction", Direction)
def test_gone_and_optional_is_skipped_gone_and_not_optional_has_failed(direction):
    assert short(decide(None, direction, optional=True)) == (ScalingStep.SKIP, Why.GONE)
    assert short(decide(None, direction)) == (ScalingStep.FAILED, Why.NOT_FOUND)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("value", TRUE)
def test_ignore_scaling_is_skipped(direction, value):
    task = decide(workload(3, {ann.IGNORE_SCALING: value}), direction)
    assert short(task) == (ScalingStep.SKIP, Why.IGNORED)
    assert not task.writes


@pytest.mark.parametrize("direction", Direction)
def test_ignore_scaling_drops_the_meltdown_key_and_keeps_the_saved_count(direction):
    view = protected(0, "3")
    view = replace(view, annotations={**view.annotations, ann.IGNORE_SCALING: "true"})
    task = decide(view, direction)
    assert short(task) == (ScalingStep.TIDY, Why.LEFT_AT_ZERO)
    assert task.patch.replicas is None
    assert task.patch.annotations == {ann.MELTDOWN: None, ann.SINCE: None}


def test_ignore_scaling_of_one_that_is_up_is_not_left_at_zero():
    task = decide(workload(2, {ann.MELTDOWN: "", ann.IGNORE_SCALING: "t"}), UP)
    assert short(task) == (ScalingStep.TIDY, Why.IGNORED)
    assert task.patch.annotations == {ann.MELTDOWN: None}


@pytest.mark.parametrize("value", FALSE)
def test_ignore_scaling_false_is_not_ignored_and_has_no_warning(value):
    task = decide(workload(3, {ann.IGNORE_SCALING: value}), DOWN)
    assert (task.step, task.warnings) == (ScalingStep.WRITE, ())


@pytest.mark.parametrize("value", ["", "yes", "tRUE", " true", "on"])
def test_any_other_value_is_not_ignored_with_a_warning(value):
    for direction in Direction:
        task = decide(workload(3, {ann.IGNORE_SCALING: value}), direction)
        assert task.step is not ScalingStep.SKIP
        assert task.warnings == ("InvalidIgnoreScalingAnnotation",)


def test_up_and_already_up_removes_what_is_left_of_the_keys():
    task = decide(protected(2, "3"), UP)
    assert short(task) == (ScalingStep.TIDY, Why.KEYS_REMOVED)
    assert task.patch.replicas is None
    assert set(task.patch.annotations) == {ann.REPLICAS, ann.MELTDOWN, ann.SINCE}
    assert set(task.patch.annotations.values()) == {None}


def test_up_and_already_up_without_keys_is_nothing():
    assert short(decide(workload(2), UP)) == (ScalingStep.NOTHING, Why.ALREADY)


def test_up_at_0_with_neither_key_only_if_it_was_found_so_long_enough():
    assert short(decide(workload(0), UP)) == (ScalingStep.SKIP, Why.NOT_OURS)
    task = decide(workload(0), UP, found_at_zero=True)
    assert short(task) == (ScalingStep.WRITE, Why.FOUND_AT_ZERO)
    assert task.patch.replicas == 1


def test_down_at_0_is_nothing():
    assert short(decide(workload(0), DOWN)) == (ScalingStep.NOTHING, Why.ALREADY)
    assert short(decide(protected(), DOWN)) == (ScalingStep.NOTHING, Why.ALREADY)


# Step 3: one patch.


def test_down_is_one_patch_with_saved_count_meltdown_key_since_and_0_replicas():
    task = decide(workload(3), DOWN)
    assert (task.step, task.before, task.after) == (ScalingStep.WRITE, 3, 0)
    assert task.patch.body() == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {ann.REPLICAS: "3", ann.MELTDOWN: "", ann.SINCE: SINCE},
        },
        "spec": {"replicas": 0},
    }


def test_up_is_one_patch_with_the_count_and_all_three_keys_removed():
    task = decide(protected(0, "3"), UP)
    assert (task.step, task.before, task.after) == (ScalingStep.WRITE, 0, 3)
    assert task.patch.body() == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {ann.REPLICAS: None, ann.MELTDOWN: None, ann.SINCE: None},
        },
        "spec": {"replicas": 3},
    }


def test_down_keeps_the_larger_of_saved_and_current_where_both_keys_are_there():
    assert decide(protected(1, "3"), DOWN).patch.annotations[ann.REPLICAS] == "3"
    assert decide(protected(5, "3"), DOWN).patch.annotations[ann.REPLICAS] == "5"


def test_down_does_not_believe_a_saved_count_without_the_meltdown_key():
    task = decide(workload(1, {ann.REPLICAS: "3"}), DOWN)
    assert task.patch.annotations[ann.REPLICAS] == "1"


def test_down_does_not_believe_an_invalid_saved_count():
    assert decide(protected(2, "x"), DOWN).patch.annotations[ann.REPLICAS] == "2"


def test_a_renewed_scale_down_keeps_since():
    known = "2026-12-31T00:00:00Z"
    assert decide(protected(2, since=known), DOWN).patch.annotations[ann.SINCE] == known


@pytest.mark.parametrize("since", [None, "yesterday"])
def test_a_since_that_is_missing_or_nonsense_is_now(since):
    assert decide(protected(2, since=since), DOWN).patch.annotations[ann.SINCE] == SINCE


def test_a_since_without_the_meltdown_key_is_not_kept():
    task = decide(workload(2, {ann.SINCE: "2026-12-31T00:00:00Z"}), DOWN)
    assert task.patch.annotations[ann.SINCE] == SINCE


def test_replicas_that_are_not_known_count_as_1_on_the_way_down():
    assert decide(workload(None), DOWN).patch.annotations[ann.REPLICAS] == "1"


# Step 4: the count.


@pytest.mark.parametrize(
    ("saved", "count", "warned"),
    [
        ("1", 1, False),
        ("3", 3, False),
        ("2147483647", 2147483647, False),
        ("2147483648", 1, True),
        ("9999999999", 1, True),
        ("0", 1, True),
        ("03", 1, True),
        ("-2", 1, True),
        ("", 1, True),
        ("3 ", 1, True),
        ("3\n", 1, True),
        ("٣", 1, True),
        (None, 1, False),
    ],
)
def test_an_invalid_saved_count_means_1_with_a_warning(saved, count, warned):
    task = decide(protected(0, saved), UP)
    assert task.patch.replicas == count
    assert task.warnings == (("InvalidReplicasAnnotation",) if warned else ())


# Found at zero.


@pytest.mark.parametrize(
    ("view", "found"),
    [
        (workload(0), True),
        (None, False),
        (workload(1), False),
        (protected(), False),
        (workload(0, {ann.REPLICAS: "x"}), False),
        (workload(0, {ann.IGNORE_SCALING: "true"}), False),
    ],
)
def test_found_at_zero_is_what_has_neither_our_keys_nor_ignore_scaling(view, found):
    assert (decide(view, UP, found_at_zero=True).why is Why.FOUND_AT_ZERO) is found


# Step 5.


@pytest.mark.parametrize(
    ("direction", "status", "settled"),
    [
        (UP, {"ready": 0}, False),
        (UP, {"ready": 1}, True),
        (UP, {"ready": 1, "generation": 2, "observed_generation": 1}, False),
        (UP, {"ready": 1, "generation": 2, "observed_generation": None}, True),
        (UP, {"ready": None, "current": 0}, False),
        (UP, {"ready": None, "current": 2}, True),
        (UP, {"ready": None, "current": None}, True),
        (DOWN, {"current": 1}, False),
        (DOWN, {"current": 0}, True),
        (DOWN, {"current": None}, True),
        (DOWN, {"current": 0, "generation": 2, "observed_generation": 1}, False),
    ],
)
def test_waits_until_ready_or_gone_with_observed_generation_caught_up(direction, status, settled):
    assert scaling.settled(workload(1, **status), direction) is settled


# Down, then up.


class Object:
    """A dependent in the API server: replicas, annotations, and a version that each write moves on."""

    def __init__(self, replicas):
        self.replicas, self.annotations, self.version = replicas, {}, 1

    def view(self):
        return replace(
            workload(self.replicas, dict(self.annotations)), resource_version=str(self.version)
        )

    def patch(self, patch):
        """Whether it was accepted: a version that is not the newest is a conflict."""
        if patch.resource_version != str(self.version):
            return False
        self.replicas = self.replicas if patch.replicas is None else patch.replicas
        for key, value in patch.annotations.items():
            self.annotations.pop(key, None)
            if value is not None:
                self.annotations[key] = value
        self.version += 1
        return True


def run(thing, direction):
    """One run, until it is accepted; a killed one is none."""
    task = decide(thing.view(), direction)
    if task.patch is not None:
        assert thing.patch(task.patch)
    return task


COUNTS = st.integers(1, 2**31 - 1)
EVENTS = st.lists(
    st.sampled_from(["down", "killed", "conflict", "status", "label", "raised"]), max_size=12
)


@given(COUNTS, EVENTS, COUNTS)
def test_down_then_up_restores_the_count_whatever_happened_between(count, events, raised):
    """Repeated scaling runs, kills before the write, conflicts, others' writes, and someone who starts it in
    mid-outage."""
    thing, expected = Object(count), count
    run(thing, DOWN)
    for event in events:
        if event == "raised":
            thing.replicas, thing.version = raised, thing.version + 1
            expected = max(expected, raised)
            run(thing, DOWN)
        elif event == "conflict":
            stale = decide(thing.view(), UP)
            thing.version += 1
            assert not thing.patch(stale.patch)
        elif event == "killed":
            decide(thing.view(), DOWN)
        elif event == "down":
            run(thing, DOWN)
        else:
            thing.version += 1
        assert thing.replicas == 0
    run(thing, UP)
    assert (thing.replicas, thing.annotations) == (expected, {})
    assert run(thing, UP).step is ScalingStep.NOTHING


@given(COUNTS, st.integers(1, 9))
def test_up_leaves_the_replicas_that_someone_has_set_meanwhile(count, theirs):
    thing = Object(count)
    run(thing, DOWN)
    thing.replicas = theirs
    run(thing, UP)
    assert (thing.replicas, thing.annotations) == (theirs, {})


@given(COUNTS, st.lists(st.sampled_from(Direction), max_size=6))
def test_two_instances_acting_at_once_lose_no_saved_count(count, others):
    thing = Object(count)
    mine = decide(thing.view(), DOWN)
    for direction in others:
        run(thing, direction)
    if others and thing.version != 1:
        assert not thing.patch(mine.patch)
    run(thing, DOWN)
    run(thing, UP)
    assert thing.replicas == count


@given(COUNTS)
def test_ignore_scaling_in_mid_outage_keeps_the_count_for_later(count):
    thing = Object(count)
    run(thing, DOWN)
    thing.annotations[ann.IGNORE_SCALING] = "true"
    run(thing, UP)
    assert (thing.replicas, thing.view().protected) == (0, False)
    del thing.annotations[ann.IGNORE_SCALING]
    run(thing, UP)
    assert thing.replicas == count


@given(
    st.none() | st.integers(0, 5),
    st.dictionaries(st.sampled_from(sorted(ann.OURS)), st.text(max_size=11), max_size=4),
    st.booleans(),
    st.sampled_from(Direction),
)
def test_a_second_run_of_the_same_run_has_nothing_to_write(replicas, annotations, found, direction):
    thing = Object(replicas)
    thing.annotations = annotations
    task = decide(thing.view(), direction, found_at_zero=found)
    if task.patch is not None:
        assert thing.patch(task.patch)
        assert task.patch.replicas is None or task.step is ScalingStep.WRITE
    assert not decide(thing.view(), direction).writes
