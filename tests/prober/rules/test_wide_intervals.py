"""Under protection, a lease that moved between readings far apart is no sign of life (rules 3.1)."""

import pytest

from app.core.model.probing import LeaseState
from app.prober.rules import leases
from app.prober.rules.leases import Contacts, LeaseHistory, Timings
from tests.prober.rules.facts import GRACE, reading

FRESH, EXPIRED, UNKNOWN = LeaseState.FRESH, LeaseState.EXPIRED, LeaseState.UNKNOWN


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
