"""Whether a service is ready, since when, and which of its changes begins a recovery."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.weeding import SliceEndpoint
from app.weeder import rules
from app.weeder.rules import Readiness, ReadinessChange
from tests.weeder.rules.facts import NOW, down, piece

WATCH = 300.0
READY, LOST, NONE = ReadinessChange.BECAME_READY, ReadinessChange.LOST, ReadinessChange.NONE


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


@pytest.mark.parametrize("since", [None, NOW - 60])
@pytest.mark.parametrize("slices", [(), (piece("a"),)])
def test_what_stays_the_same_keeps_its_time(slices, since):
    before = Readiness(rules.is_ready(slices), since)
    assert rules.next_readiness(before, slices, NOW) == (before, NONE)


@given(st.lists(st.lists(st.lists(st.booleans(), max_size=3), max_size=3), max_size=12))
def test_changes_alternate_and_tell_when_it_became_what_it_is(history):
    state, ready, since = None, False, None
    for second, slices in enumerate(history):
        views = [piece(*(SliceEndpoint(up, "a") for up in one)) for one in slices]
        state, change = rules.next_readiness(state, views, NOW + second)
        # counted, not asked for one after the other
        now_ready = sum(sum(one) for one in slices) > 0
        if now_ready != ready:
            since = NOW + second
        expected = NONE if now_ready == ready else READY if now_ready else LOST
        ready = now_ready
        assert (change, state) == (expected, Readiness(ready, since))


# Start: ready for less than watchDuration is a recovery with the remaining time.


@pytest.mark.parametrize(
    ("since", "until"),
    [
        pytest.param(NOW, NOW + WATCH, id="just now"),
        pytest.param(NOW - 299.5, NOW + 0.5, id="for less: the remaining time"),
        pytest.param(NOW - 300, None, id="for as long: left alone"),
        pytest.param(NOW - 1e9, None, id="for longer: left alone"),
        pytest.param(NOW + 3600, NOW + WATCH, id="in the future: now"),
    ],
)
def test_how_long_is_weeded_at_start_for_a_service_by_the_time_since_which_it_is_ready(
    since, until
):
    assert rules.weeds_until(since, None, NOW, WATCH) == until


# Gaps: what became ready after the last contact is a recovery.


@pytest.mark.parametrize(
    ("since", "heard", "until"),
    [
        pytest.param(NOW - 30, NOW - 20, None, id="before the last contact: none"),
        pytest.param(NOW - 15, NOW - 20, NOW + 285, id="in the gap: the remaining time"),
        pytest.param(NOW - 20, NOW - 19.3, NOW + 280, id="in the second of the contact: cut to it"),
        pytest.param(NOW - 21, NOW - 19.3, None, id="in the second before that"),
        pytest.param(NOW - 21, NOW - 20, None, id="a second before a contact at a whole second"),
        pytest.param(NOW - 300, NOW - 900, None, id="in a long gap, for as long: left alone"),
        pytest.param(NOW - 299, NOW - 900, NOW + 1, id="in a long gap, for less"),
        pytest.param(NOW + 60, NOW - 20, NOW + WATCH, id="in the future: now"),
    ],
)
def test_how_long_is_weeded_after_a_gap_for_a_service_that_is_ready(since, heard, until):
    assert rules.weeds_until(since, heard, NOW, WATCH) == until


@given(st.integers(-600, 600), st.integers(0, 600), st.integers(1, 400))
def test_no_recovery_outlasts_watch_duration_or_has_ended_before_it_begins(ago, heard_ago, watch):
    for until in (
        rules.weeds_until(NOW - ago, None, NOW, watch),
        rules.weeds_until(NOW - ago, NOW - heard_ago, NOW, watch),
    ):
        assert until is None or NOW < until <= NOW + watch
