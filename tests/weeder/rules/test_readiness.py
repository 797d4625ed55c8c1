"""Whether a service is ready, since when, and which of its changes begins a recovery."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.weeding import SliceEndpoint
from app.weeder import rules
from app.weeder.rules import Readiness, ReadinessChange
from tests.weeder.rules.facts import NOW, down, piece, pod

WATCH = 300.0
READY, LOST, NONE = ReadinessChange.BECAME_READY, ReadinessChange.LOST, ReadinessChange.NONE


def changes(*history):
    """The changes that are seen when the slices are these, one second after the other."""
    state, seen = None, []
    for second, slices in enumerate(history):
        state, change = rules.next_readiness(state, slices, NOW + second)
        seen.append(change)
    return seen


# Ready.


@pytest.mark.parametrize(
    "slices",
    [
        (),
        (piece(),),
        (piece(), piece(name="t")),
        (piece(down()),),
        (piece(down("a"), down("b")), piece(name="t")),
    ],
)
def test_a_service_without_a_ready_endpoint_is_not_ready(slices):
    assert not rules.is_ready(slices)
    assert rules.pods_behind(slices) == ()


def test_one_ready_endpoint_among_others_makes_it_ready():
    assert rules.is_ready((piece(down("a"), "b", down("c")),))


def test_a_ready_endpoint_in_any_of_its_slices_makes_it_ready():
    slices = (piece(down()), piece(name="t"), piece("a", name="u"))
    assert all(rules.is_ready(order) for order in itertools.permutations(slices))


def test_a_ready_endpoint_that_names_no_pod_makes_it_ready():
    slices = (piece(SliceEndpoint(ready=True)),)
    assert rules.is_ready(slices)
    assert rules.pods_behind(slices) == ()


def test_a_slice_without_the_service_label_counts_for_no_service():
    stray = piece("a", service="")
    assert not rules.is_ready((stray,))
    assert rules.pods_behind((stray, piece("b"))) == ("b",)


def test_the_pods_behind_it_are_those_of_ready_endpoints_each_once_and_sorted():
    slices = (piece("b", down("x"), "a"), piece("b", "c", "", name="t"))
    assert rules.pods_behind(slices) == ("a", "b", "c")


# The change from not ready to ready.


def test_the_first_probe_is_no_change_whatever_it_finds():
    assert rules.first_seen((piece("a"),)) == Readiness(ready=True, since=None)
    assert rules.first_seen(()) == Readiness(ready=False, since=None)


def test_a_service_that_was_never_seen_and_is_ready_has_become_ready():
    state, change = rules.next_readiness(None, (piece("a"),), NOW)
    assert (state, change) == (Readiness(ready=True, since=NOW), READY)


def test_a_service_that_was_never_seen_and_is_not_ready_has_not_changed():
    state, change = rules.next_readiness(None, (piece(down()),), NOW)
    assert (state, change) == (Readiness(ready=False, since=None), NONE)


@pytest.mark.parametrize("since", [None, NOW - 60])
@pytest.mark.parametrize("slices", [(), (piece("a"),)])
def test_what_stays_the_same_keeps_its_time(slices, since):
    before = Readiness(rules.is_ready(slices), since)
    assert rules.next_readiness(before, slices, NOW) == (before, NONE)


@pytest.mark.parametrize("since", [None, NOW - 60])
def test_a_change_is_known_since_now(since):
    was_ready, was_lost = Readiness(ready=True, since=since), Readiness(ready=False, since=since)
    assert rules.next_readiness(was_lost, (piece("a"),), NOW) == (
        Readiness(ready=True, since=NOW),
        READY,
    )
    assert rules.next_readiness(was_ready, (), NOW) == (Readiness(ready=False, since=NOW), LOST)


def test_a_deleted_slice_is_a_loss_if_it_had_the_last_ready_endpoint():
    first, second = piece("a"), piece(down("b"), name="t")
    assert changes((first, second), (second,), (first, second)) == [READY, LOST, READY]


@given(st.lists(st.lists(st.lists(st.booleans(), max_size=3), max_size=3), max_size=12))
def test_changes_alternate_and_tell_when_it_became_what_it_is(history):
    state, ready, since = None, False, None
    for second, slices in enumerate(history):
        views = [piece(*(SliceEndpoint(up, "a") for up in one)) for one in slices]
        state, change = rules.next_readiness(state, views, NOW + second)
        now_ready = (
            sum(sum(one) for one in slices) > 0
        )  # counted, not asked for one after the other
        if now_ready != ready:
            since = NOW + second
        expected = NONE if now_ready == ready else READY if now_ready else LOST
        ready = now_ready
        assert (change, state) == (expected, Readiness(ready, since))


# Since when it is ready.


def test_it_became_ready_with_the_earliest_ready_transition_behind_it():
    pods = [pod(ready_since=NOW - 5), pod(ready_since=NOW - 9), pod(ready_since=NOW - 1)]
    assert rules.became_ready(pods) == NOW - 9


def test_pods_that_do_not_tell_are_passed_over():
    assert rules.became_ready([pod(), pod(ready_since=NOW - 9), pod()]) == NOW - 9
    assert rules.became_ready([pod(ready_since=0.0), pod(ready_since=NOW)]) == 0.0


@pytest.mark.parametrize("pods", [[], [pod()], [pod(), pod()]])
def test_without_a_pod_that_tells_it_is_not_known_since_when(pods):
    assert rules.became_ready(pods) is None


# Start: ready for less than watchDuration is a recovery with the remaining time.


def test_at_start_a_service_that_is_ready_for_an_unknown_time_is_left_alone():
    assert rules.at_start(None, NOW, WATCH) is None


@pytest.mark.parametrize("ago", [0.0, 1.0, 299.5])
def test_at_start_one_that_is_ready_for_less_is_weeded_for_the_remaining_time(ago):
    assert rules.at_start(NOW - ago, NOW, WATCH) == NOW - ago + WATCH


@pytest.mark.parametrize("ago", [300.0, 300.5, 1e9])
def test_at_start_one_that_is_ready_for_longer_is_left_alone(ago):
    assert rules.at_start(NOW - ago, NOW, WATCH) is None


def test_at_start_a_time_in_the_future_counts_as_now():
    assert rules.at_start(NOW + 3600, NOW, WATCH) == NOW + WATCH


# Gaps: what became ready after the last contact is a recovery.


def test_after_a_gap_what_was_ready_before_the_last_contact_is_no_recovery():
    assert rules.after_gap(NOW - 30, NOW - 20, NOW, WATCH) is None


def test_after_a_gap_what_became_ready_in_it_is_weeded_for_the_remaining_time():
    assert rules.after_gap(NOW - 15, NOW - 20, NOW, WATCH) == NOW - 15 + WATCH


def test_after_a_gap_a_time_cut_to_its_second_may_lie_after_the_contact_of_that_second():
    heard = NOW - 20 + 0.7
    assert rules.after_gap(NOW - 20, heard, NOW, WATCH) == NOW - 20 + WATCH
    assert rules.after_gap(NOW - 21, heard, NOW, WATCH) is None
    assert rules.after_gap(NOW - 21, NOW - 20, NOW, WATCH) is None


def test_after_a_gap_longer_than_watch_duration_what_is_ready_for_as_long_is_left_alone():
    assert rules.after_gap(NOW - 300, NOW - 900, NOW, WATCH) is None
    assert rules.after_gap(NOW - 299, NOW - 900, NOW, WATCH) == NOW + 1


def test_after_a_gap_a_service_that_does_not_tell_since_when_is_left_alone():
    assert rules.after_gap(None, NOW - 20, NOW, WATCH) is None
    assert rules.after_gap(None, None, NOW, WATCH) is None


def test_after_a_gap_without_any_contact_before_everything_is_new():
    assert rules.after_gap(NOW - 200, None, NOW, WATCH) == NOW + 100
    assert rules.after_gap(NOW - 400, None, NOW, WATCH) is None


def test_after_a_gap_a_time_in_the_future_counts_as_now():
    assert rules.after_gap(NOW + 60, NOW - 20, NOW, WATCH) == NOW + WATCH


@given(st.integers(-600, 600), st.integers(0, 600), st.integers(1, 400))
def test_no_recovery_outlasts_watch_duration_or_has_ended_before_it_begins(ago, heard_ago, watch):
    for until in (
        rules.at_start(NOW - ago, NOW, watch),
        rules.after_gap(NOW - ago, NOW - heard_ago, NOW, watch),
    ):
        assert until is None or NOW < until <= NOW + watch
