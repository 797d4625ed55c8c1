"""How old a lease is, and what it counts as (rules 3.1): instants in seconds after NOW, grace and duration 40 s."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.probing import LeaseState
from app.core.model.shoots import LeaseReading, LeaseView
from app.prober.rules import leases
from app.prober.rules.leases import NEVER, Contacts, LeaseHistory, Timings
from tests.prober.rules.facts import GRACE, NOW, reading

T = Timings(GRACE)
FRESH, EXPIRED, UNKNOWN = LeaseState.FRESH, LeaseState.EXPIRED, LeaseState.UNKNOWN


def after(*readings, back_since=NEVER):
    """The judgements of the last of these readings, by name."""
    book = LeaseHistory()
    for each in readings:
        book = leases.learn(book, each)
    found = leases.judge_all(book, readings[-1], Contacts(readings[-1].sent, back_since), T)
    return {each.name: each for each in found}


def moving(*points, took=0.02, back_since=NEVER):
    """One lease through readings at (sent, renewed)."""
    return after(*(reading(s, {"n": r}, took) for s, r in points), back_since=back_since)["n"]


# The table of constants.


def test_the_constants_at_40_seconds_are_those_of_the_table():
    assert (T.expiry, T.gap, T.contact_every, T.contact_from) == (30, 15, 10, 12)
    assert T.watched_long_enough(40) == 15
    assert leases.offset_tolerance(40) == 11


def test_watched_long_enough_is_at_most_the_expiry_time():
    assert Timings(12).watched_long_enough(40) == 9


@pytest.mark.parametrize(
    ("given_seconds", "counts_as"),
    [(None, 40), (0, 40), (-1, 40), (121, 40), (1, 1), (120, 120), (20, 20)],
)
def test_a_duration_that_is_missing_or_outside_1_to_120_counts_as_40(given_seconds, counts_as):
    assert leases.lease_duration(given_seconds) == counts_as


# Age and expiry.


def test_a_lease_is_expired_from_the_expiry_time_on():
    assert moving((0, -5), (10, 9), (38.9, 9)).state is FRESH
    assert moving((0, -5), (10, 9), (39, 9)).state is EXPIRED


def test_age_is_measured_when_the_request_was_sent_however_long_the_answer_took():
    found = moving((0, -5), (10, 9), (38.9, 9), took=4.9)
    assert found.age == pytest.approx(29.9)
    assert found.state is FRESH


def test_a_lease_without_renew_time_is_unknown_for_as_long_as_it_has_none():
    found = moving((0, None), (1000, None))
    assert (found.state, found.expires_at, found.late) == (UNKNOWN, None, False)


def test_a_lease_that_loses_its_renew_time_is_unknown():
    assert moving((0, -5), (10, 9), (20, None)).state is UNKNOWN


def test_a_first_renew_time_counts_as_a_renewal():
    assert moving((0, None), (10, 9)).state is FRESH


def test_late_knows_no_corrections():
    assert moving((0, 95), (10, 105), (60, 105)).late is False
    found = moving((0, -100), (10, -91), (11, -91))
    assert (found.late, found.state) == (True, FRESH)


def test_a_lease_that_is_gone_is_forgotten():
    assert after(reading(0, {"a": 0, "b": 0}), reading(10, {"a": 9})).keys() == {"a"}


def test_it_says_when_it_would_be_expired_if_it_did_not_move_any_more():
    assert moving((0, -5), (10, 9)).expires_at == NOW + 39


# Offset.


def test_no_offset_is_learnt_where_0_is_inside_and_the_upper_end_within_the_tolerance():
    assert moving((0, -2), (10, 8)).offset == 0


def test_a_clock_that_is_behind_is_corrected_by_the_upper_end():
    found = moving((0, -65), (10, -52))  # between 52 and 62.02 s behind
    assert found.offset == pytest.approx(62.02)


def test_a_clock_that_is_ahead_is_corrected_too():
    found = moving((0, 55), (10, 65))
    assert found.offset == pytest.approx(-54.98)


def test_an_upper_end_beyond_the_tolerance_is_the_offset_although_0_is_inside():
    assert moving((0, -8), (20, 2)).offset == pytest.approx(18.02)


def test_the_intervals_of_several_moves_are_intersected():
    found = moving((0, -65), (10, -52), (20, -41), (30, -29.5))
    assert found.offset == pytest.approx(59.52)


def test_only_the_last_ten_intervals_count():
    points = [(0, -60), (10, -50.5)] + [(10 * n, 10 * n - 62) for n in range(2, 12)]
    assert moving(*points).offset == pytest.approx(62.02)
    assert moving(*points[:-1]).offset == pytest.approx(60.52)


def test_if_nothing_is_left_the_newest_interval_begins_anew():
    found = moving((0, -2), (10, 8), (20, -80))
    assert found.offset == pytest.approx(100.02)


def test_a_clock_that_is_off_does_not_make_a_renewed_lease_expired():
    assert moving((0, -300), (10, -290.1), (20, -280)).state is FRESH


# Contacts, gaps, back since.


def contacts(*sent, took=0.0, failed_before=False):
    known = Contacts()
    for each in sent:
        at = NOW + each
        known = leases.contact(known, at, at + took, T, failed_before=failed_before)
    return known


def test_contacts_no_further_apart_than_the_gap_are_none():
    assert contacts(0, 15).back_since == NEVER


def test_contacts_further_apart_are_a_gap_that_the_later_one_ends():
    assert contacts(0, 15.1, 20) == Contacts(NOW + 20, NOW + 15.1)


def test_a_gap_ends_when_the_read_that_ends_it_is_answered():
    """It may have hung until the storage was back."""
    assert contacts(0, 16, took=4.5) == Contacts(NOW + 16, NOW + 20.5)
    assert contacts(3, took=4.5, failed_before=True).back_since == NOW + 7.5


def test_a_first_contact_is_no_gap():
    assert contacts(0).back_since == NEVER


def test_a_first_contact_after_failed_probes_is_the_end_of_a_gap():
    assert contacts(3, failed_before=True).back_since == NOW + 3


def test_an_older_contact_does_not_take_back_a_newer_one():
    assert contacts(5, 3).last == NOW + 5


def test_after_a_gap_ages_count_from_the_contact_that_ended_it():
    found = moving((0, -5), (10, 9), (60, 9), back_since=NOW + 60)
    assert found.age == 0
    assert found.state is UNKNOWN
    assert found.expires_at == NOW + 90


def test_after_a_gap_a_lease_that_does_not_move_expires_an_expiry_time_later():
    points = [(0, -5), (10, 9), (60, 9)]
    assert moving(*points, (89.9, 9), back_since=NOW + 60).state is UNKNOWN
    assert moving(*points, (90, 9), back_since=NOW + 60).state is EXPIRED


def test_after_a_gap_a_lease_that_moves_is_fresh():
    assert moving((0, -5), (10, 9), (60, 9), (70, 65), back_since=NOW + 60).state is FRESH


def test_a_lease_that_is_not_expired_anyway_is_fresh_after_a_gap():
    assert moving((0, -5), (10, 9), (30, 9), back_since=NOW + 30).state is FRESH


def test_a_move_across_the_gap_does_not_count_as_one_since():
    found = moving((0, -5), (10, 9), (60, 20), back_since=NOW + 60)
    assert found.state is UNKNOWN


# Not yet seen to move.


def test_a_lease_not_seen_to_move_that_would_be_expired_is_unknown_until_watched_long_enough():
    assert moving((0, -40)).state is UNKNOWN
    assert moving((0, -40), (14.9, -40)).state is UNKNOWN
    assert moving((0, -40), (15.02, -40)).state is EXPIRED
    assert moving((0, -40)).expires_at == NOW + 15.02


def test_a_lease_is_watched_from_when_the_first_reading_was_answered():
    """It may have hung until the storage was back: before that, no kubelet could renew."""
    assert moving((0, -40), (17, -40), took=4.5).state is UNKNOWN
    assert moving((0, -40), (19.5, -40), took=4.5).state is EXPIRED


def test_a_lease_not_seen_to_move_that_is_young_is_fresh():
    found = moving((0, -4), (9, -4))
    assert (found.state, found.expires_at) == (FRESH, NOW + 26)


def test_a_lease_not_seen_to_move_expires_at_its_own_time_once_watched_long_enough():
    assert moving((0, -4), (25.9, -4)).state is FRESH
    assert moving((0, -4), (26, -4)).state is EXPIRED


def test_a_lease_in_the_future_that_was_not_seen_to_move_is_unknown_then_expired():
    assert moving((0, 500)).state is UNKNOWN
    assert moving((0, 500), (14.9, 500)).state is UNKNOWN
    assert moving((0, 500), (15.02, 500)).state is EXPIRED


def test_a_lease_a_little_in_the_future_is_unknown_until_it_is_past():
    assert moving((0, 5)).state is UNKNOWN
    assert moving((0, 5), (6, 5)).state is FRESH


def test_it_says_when_a_lease_not_seen_to_move_will_have_been_watched_long_enough():
    assert moving((0, -4)).known_at == NOW + 15.02
    assert moving((0, -4), (15.02, -4)).known_at is None
    assert moving((0, -4), (10, 6)).known_at is None
    assert moving((0, -4), back_since=NOW + 5).known_at == NOW + 20


def test_storage_that_was_away_does_not_count_as_watching():
    points = [(0, -40), (60, -40)]
    assert moving(*points, back_since=NOW + 60).state is UNKNOWN
    assert moving(*points, (89, -40), back_since=NOW + 60).state is UNKNOWN
    assert moving(*points, (90, -40), back_since=NOW + 60).state is EXPIRED


# Properties.

OFFSETS = st.floats(-600, 600)


@st.composite
def renewing(draw):
    """(readings, renewals): looks up to 30 s apart at a kubelet that renews every 10 to 10.4 s."""
    gaps = draw(st.lists(st.floats(1, 30), min_size=1, max_size=12))
    sents = [sum(gaps[:n]) for n in range(len(gaps) + 1)]
    renewals = [-draw(st.floats(0, 10.4))]
    periods = draw(st.lists(st.floats(10, 10.4), min_size=40, max_size=40))
    for period in periods:
        renewals.append(renewals[-1] + period)
    return sents, renewals


@given(renewing(), OFFSETS, st.floats(0, 2))
def test_the_offset_never_makes_a_renewed_lease_expired(world, offset, took):
    sents, renewals = world
    book = LeaseHistory()
    for sent in sents:
        newest = max(r for r in renewals if r <= sent)
        lease = LeaseView("n", NOW + newest + offset, 40)
        seen = LeaseReading((lease,), NOW + sent, NOW + sent + took)
        book = leases.learn(book, seen)
        (found,) = leases.judge_all(book, seen, Contacts(NOW + sent), T)
        assert found.state is not EXPIRED


@given(renewing(), OFFSETS, st.floats(1, 300))
def test_a_kubelet_that_stops_is_expired_at_the_latest_when_its_age_and_all_slack_say_so(
    world, offset, later
):
    sents, renewals = world
    book = LeaseHistory()
    stopped = max(r for r in renewals if r <= sents[-1])
    found = None
    for sent in [*sents, sents[-1] + later]:
        newest = min(stopped, max(r for r in renewals if r <= sent))
        lease = LeaseView("n", NOW + newest + offset, 40)
        seen = LeaseReading((lease,), NOW + sent, NOW + sent)
        book = leases.learn(book, seen)
        (found,) = leases.judge_all(book, seen, Contacts(seen.sent), T)
    assert found is not None
    widest = max(b - a for a, b in pairwise(sents))
    if later > 2 * T.expiry + widest:
        assert found.state is EXPIRED


@given(
    st.lists(st.tuples(st.floats(0.1, 60), st.none() | st.floats(-1000, 1000)), min_size=1),
    st.floats(0, 5),
    st.none() | st.floats(-100, 500),
)
def test_expired_means_older_than_the_expiry_time_or_watched_and_never_moved(points, took, back):
    at, book, back_since = 0.0, LeaseHistory(), NEVER if back is None else NOW + back
    for step, renewed in points:
        at += step
        seen = reading(at, {"n": renewed}, took)
        book = leases.learn(book, seen)
        (found,) = leases.judge_all(book, seen, Contacts(seen.sent, back_since), T)
        track = book.tracks["n"]
        if found.state is EXPIRED and track.moved_from is not None:
            assert found.age is not None
            assert found.age >= T.expiry - 1e-6
        if found.state is EXPIRED and track.moved_from is None:
            assert seen.sent - track.first_seen >= T.watched_long_enough(40) - 1e-6
        if renewed is None:
            assert found.state is UNKNOWN
        if found.expires_at is not None:
            assert (seen.sent >= found.expires_at) == (found.state is EXPIRED)


# Under protection, a lease that moved between readings far apart is no sign of life (rules 3.1).


def judged(*points, protected=True):
    """One lease through readings at (sent, renewed), seconds."""
    book, seen = LeaseHistory(), reading(0, {})
    for sent, renewed in points:
        seen = reading(sent, {"n": renewed}, 0.02)
        book = leases.learn(book, seen)
    (found,) = leases.judge_all(
        book, seen, Contacts(seen.sent), Timings(GRACE), protected=protected
    )
    return found.state


@pytest.mark.parametrize("apart", [31, 60, 600])
def test_one_that_moved_just_after_the_former_of_two_readings_far_apart_is_unknown(apart):
    assert judged((0, -5), (apart, 1)) is UNKNOWN
    assert judged((0, -5), (apart, 1), protected=False) is FRESH


def test_one_that_moved_just_before_the_latter_is_unknown_too_as_its_clock_may_be_ahead():
    assert judged((0, -5), (60, 59)) is UNKNOWN


def test_it_is_fresh_as_soon_as_it_was_seen_to_move_between_readings_that_are_close():
    assert judged((0, -5), (60, 59), (65, 59)) is UNKNOWN
    assert judged((0, -5), (60, 59), (65, 59), (70, 69)) is FRESH


@pytest.mark.parametrize("apart", [1, 5, 10, 25])
def test_readings_that_are_closer_than_the_expiry_time_prove_it_alive(apart):
    assert judged((0, -5), (apart, 0.5)) is FRESH


def test_what_is_known_of_its_clock_holds_on_across_a_gap():
    """Readings close to each other have taught its offset to a few seconds: then its age is what it is."""
    known = [(0, -5), (5, 4), (10, 4), (15, 14), (20, 14)]
    assert judged(*known, (60, 59)) is FRESH
    assert judged(*known, (60, 25)) is not FRESH


def test_it_expires_as_ever():
    assert judged((0, -5), (60, 1), (91, 1)) is EXPIRED
