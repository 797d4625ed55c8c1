"""How old a lease is, and what it counts as (rules 3.1): instants in seconds after NOW, grace and duration 40 s."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

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


def after(*readings, back_since=NEVER, protected=False):
    """The judgements of the last of these readings, by name."""
    book = LeaseHistory()
    for each in readings:
        book = leases.learn(book, each)
    contacts = Contacts(readings[-1].sent, back_since)
    found = leases.judge_all(book, readings[-1], contacts, T, protected=protected)
    return {each.name: each for each in found}


def moving(*points, took=0.02, **more):
    """One lease through readings at (sent, renewed)."""
    return after(*(reading(s, {"n": r}, took) for s, r in points), **more)["n"]


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


def test_age_is_measured_when_the_request_was_sent_however_long_the_answer_took():
    found = moving((0, -5), (10, 9), (38.9, 9), took=4.9)
    assert found.age == pytest.approx(29.9)
    assert found.state is FRESH


def test_a_lease_without_renew_time_is_unknown_for_as_long_as_it_has_none():
    found = moving((0, None), (1000, None))
    assert (found.state, found.expires_at, found.late) == (UNKNOWN, None, False)


def test_late_knows_no_corrections():
    assert moving((0, 95), (10, 105), (60, 105)).late is False
    found = moving((0, -100), (10, -91), (11, -91))
    assert (found.late, found.state) == (True, FRESH)


def test_a_lease_that_is_gone_is_forgotten():
    assert after(reading(0, {"a": 0, "b": 0}), reading(10, {"a": 9})).keys() == {"a"}


def test_it_says_when_it_would_be_expired_if_it_did_not_move_any_more():
    assert moving((0, -5), (10, 9)).expires_at == NOW + 39
    assert moving((0, -4), (9, -4)).expires_at == NOW + 26, "also one that was not seen to move"


# Offset.

LATE_BY_62 = [(0, -60), (10, -50.5)] + [(10 * n, 10 * n - 62) for n in range(2, 12)]


@pytest.mark.parametrize(
    ("points", "offset"),
    [
        pytest.param([(0, -2), (10, 8)], 0, id="0 is inside, and the upper end is tolerable"),
        pytest.param([(0, -65), (10, -52)], 62.02, id="a clock that is behind"),
        pytest.param([(0, 55), (10, 65)], -54.98, id="a clock that is ahead"),
        pytest.param([(0, -8), (20, 2)], 18.02, id="0 is inside, the upper end is far"),
        pytest.param(
            [(0, -65), (10, -52), (20, -41), (30, -29.5)], 59.52, id="several moves intersect"
        ),
        pytest.param([(0, -2), (10, 8), (20, -80)], 100.02, id="nothing is left: the newest one"),
        pytest.param(LATE_BY_62[:-1], 60.52, id="ten intervals count"),
        pytest.param(LATE_BY_62, 62.02, id="the eleventh does not"),
    ],
)
def test_an_offset_is_the_upper_end_of_what_moves_have_shown_unless_it_may_be_0(points, offset):
    assert moving(*points).offset == pytest.approx(offset)


@pytest.mark.parametrize(
    ("renewed", "found"),
    [
        (95, {100: FRESH, 116: FRESH, 126: EXPIRED}),
        (69, {100: UNKNOWN, 114: UNKNOWN, 116: EXPIRED}),
    ],
    ids=["young", "old"],
)
def test_after_a_rest_a_lease_has_to_be_watched_but_how_far_its_clock_is_off_is_known(
    renewed, found
):
    """The node's clock is 300 s behind; the process has not looked from 10 s to 100 s."""
    book = leases.learn(LeaseHistory(), reading(0, {"n": -300.05}))
    book = replace(leases.learn(book, reading(10, {"n": -290.05})), sent=None)
    states = {}
    for sent in found:
        book = leases.learn(book, reading(sent, {"n": renewed - 300}))
        (judged,) = leases.judge_all(book, reading(sent, {}), Contacts(), T)
        states[sent] = judged.state
    assert states == found


# What a lease counts as.

SILENT = [(0, -5), (10, 9)]
"""It was seen to move once, 9 s after the begin."""
PACED = [(0, -5), (5, 4), (10, 4), (15, 14), (20, 14)]
"""Readings close to each other have taught its offset to a few seconds."""
SINCE_60 = {"back_since": NOW + 60}
SLOW = {"took": 4.5}
PROTECTED = {"protected": True}
STATES: dict[str, Any] = {
    "before the expiry time": (FRESH, [*SILENT, (38.9, 9)], {}),
    "from the expiry time on": (EXPIRED, [*SILENT, (39, 9)], {}),
    "its renewTime is lost": (UNKNOWN, [(0, -5), (10, 9), (20, None)], {}),
    "a first renewTime is a renewal": (FRESH, [(0, None), (10, 9)], {}),
    "its clock is off, and it is renewed": (FRESH, [(0, -300), (10, -290.1), (20, -280)], {}),
    # after a gap
    "it has not moved since a gap": (UNKNOWN, [*SILENT, (60, 9), (89.9, 9)], SINCE_60),
    "not for as long as the expiry time": (EXPIRED, [*SILENT, (60, 9), (90, 9)], SINCE_60),
    "it has moved since a gap": (FRESH, [*SILENT, (60, 9), (70, 65)], SINCE_60),
    "it has moved across a gap": (UNKNOWN, [*SILENT, (60, 20)], SINCE_60),
    "it is not expired anyway": (FRESH, [*SILENT, (30, 9)], {"back_since": NOW + 30}),
    # not seen to move
    "it is old at first sight": (UNKNOWN, [(0, -40)], {}),
    "old, and not watched for long": (UNKNOWN, [(0, -40), (14.9, -40)], {}),
    "old, and watched long enough": (EXPIRED, [(0, -40), (15.02, -40)], {}),
    # the first reading may have hung until the storage was back: before that, no kubelet could renew
    "watched since a slow answer, not for long": (UNKNOWN, [(0, -40), (17, -40)], SLOW),
    "watched since a slow answer, long enough": (EXPIRED, [(0, -40), (19.5, -40)], SLOW),
    "young, and not expired by its own time": (FRESH, [(0, -4), (25.9, -4)], {}),
    "expired by its own time": (EXPIRED, [(0, -4), (26, -4)], {}),
    "it is far in the future": (UNKNOWN, [(0, 500)], {}),
    "in the future, and not watched for long": (UNKNOWN, [(0, 500), (14.9, 500)], {}),
    "in the future, and watched long enough": (EXPIRED, [(0, 500), (15.02, 500)], {}),
    "it is a little in the future": (UNKNOWN, [(0, 5)], {}),
    "that little is past": (FRESH, [(0, 5), (6, 5)], {}),
    "storage was away while it was watched": (UNKNOWN, [(0, -40), (60, -40)], SINCE_60),
    "storage is back, not for long": (UNKNOWN, [(0, -40), (60, -40), (89, -40)], SINCE_60),
    "storage is back for long enough": (EXPIRED, [(0, -40), (60, -40), (90, -40)], SINCE_60),
    # under protection, a lease that moved between readings far apart is no sign of life (rules 3.1)
    "it was not seen to move, however young": (UNKNOWN, [(0, -4), (9, -4)], PROTECTED),
    "moved just after the former of two readings": (UNKNOWN, [(0, -5), (31, 1)], PROTECTED),
    "the same, further apart": (UNKNOWN, [(0, -5), (600, 1)], PROTECTED),
    "the same without protection": (FRESH, [(0, -5), (31, 1)], {}),
    "moved just before the latter, by its clock": (UNKNOWN, [(0, -5), (60, 59)], PROTECTED),
    "and has not moved again": (UNKNOWN, [(0, -5), (60, 59), (65, 59)], PROTECTED),
    "and has": (FRESH, [(0, -5), (60, 59), (65, 59), (70, 69)], PROTECTED),
    "readings close to each other prove it alive": (FRESH, [(0, -5), (25, 0.5)], PROTECTED),
    "its clock is known, and it is young": (FRESH, [*PACED, (60, 59)], PROTECTED),
    "its clock is known, and it is old": (UNKNOWN, [*PACED, (60, 25)], PROTECTED),
    "it expires as ever": (EXPIRED, [(0, -5), (60, 1), (91, 1)], PROTECTED),
}


@pytest.mark.parametrize("what", STATES)
def test_what_a_lease_counts_as(what):
    state, points, options = STATES[what]
    assert moving(*points, **options).state is state


# Contacts, gaps, back since.


def contacts(*sent, took=0.0, failed_before=False):
    known = Contacts()
    for each in sent:
        at = NOW + each
        known = leases.contact(known, at, at + took, T, failed_before=failed_before)
    return known


def test_the_next_contact_comes_too_late_a_gap_after_the_last_one():
    assert contacts(0, 10).gap_at(T) == NOW + 10 + 15
    assert Contacts().gap_at(T) is None


FAILED, SLOW_ANSWER = {"failed_before": True}, {"took": 4.5}


@pytest.mark.parametrize(
    ("sent", "how", "last", "back_since"),
    [
        pytest.param((0,), {}, 0, NEVER, id="a first one"),
        pytest.param((3,), FAILED, 3, NOW + 3, id="a first one after failed probes ends a gap"),
        pytest.param((0, 15), {}, 15, NEVER, id="no further apart than the gap"),
        pytest.param((0, 15.1, 20), {}, 20, NOW + 15.1, id="a gap that the later one ends"),
        # the read that ends it may have hung until the storage was back
        pytest.param((0, 16), SLOW_ANSWER, 16, NOW + 20.5, id="a gap ends with the answer"),
        pytest.param((3,), FAILED | SLOW_ANSWER, 3, NOW + 7.5, id="that of failed probes, too"),
        pytest.param((5, 3), {}, 5, NEVER, id="an older one does not take back a newer one"),
    ],
)
def test_a_gap_between_contacts_is_ended_by_the_later_one(sent, how, last, back_since):
    assert contacts(*sent, **how) == Contacts(NOW + last, back_since)


def test_after_a_gap_ages_count_from_the_contact_that_ended_it():
    found = moving((0, -5), (10, 9), (60, 9), back_since=NOW + 60)
    assert found.age == 0
    assert found.state is UNKNOWN
    assert found.expires_at == NOW + 90


# Not yet seen to move.


def test_it_says_when_a_lease_not_seen_to_move_will_have_been_watched_long_enough():
    assert moving((0, -4)).known_at == NOW + 15.02
    assert moving((0, -4), (15.02, -4)).known_at is None
    assert moving((0, -4), (10, 6)).known_at is None
    assert moving((0, -4), back_since=NOW + 5).known_at == NOW + 20


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
