"""What share of the event loop's time the probes of one shoot may take."""

from hypothesis import given
from hypothesis import strategies as st

from app.prober.rules.schedule import LONGEST_REST, SAVED, SHARE, TimeBalance
from tests.prober.rules.facts import NOW

FULL = TimeBalance(NOW)


def test_whoever_takes_less_than_was_saved_up_never_rests():
    assert FULL.after(SAVED, NOW).rests_until == NOW


def test_what_was_taken_beyond_that_is_earned_first():
    assert FULL.after(SAVED + 0.5, NOW).rests_until == NOW + 0.5 / SHARE


def test_a_twentieth_of_the_time_may_be_taken_for_ever():
    balance = FULL.after(SAVED, NOW)
    for second in range(1, 1000):
        balance = balance.after(SHARE, NOW + second)
        assert balance.rests_until <= NOW + second + 1e-6


def test_no_more_is_saved_up_than_a_minute_of_quiet_earns():
    assert FULL.after(0.0, NOW + 3600).seconds == SAVED == SHARE * 60


def test_the_longest_rest_is_five_minutes_whatever_was_taken():
    assert FULL.after(10_000.0, NOW).rests_until == NOW + LONGEST_REST == NOW + 300


def test_it_is_restored_when_half_of_what_can_be_saved_up_is_there():
    short = FULL.after(SAVED, NOW)
    assert not short.restored
    assert not short.after(0.0, NOW + 29).restored
    assert short.after(0.0, NOW + 31).restored


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 100)), min_size=1))
def test_over_time_no_more_than_the_share_is_taken_but_for_what_was_saved_and_the_longest_rest(
    probes,
):
    balance, now, taken = FULL, NOW, 0.0
    for spent, wait in probes:
        now = max(now, balance.rests_until) + wait
        most = min(spent, LONGEST_REST * SHARE)
        balance = balance.after(most, now)
        taken += most
    until = max(now, balance.rests_until)
    assert taken <= SAVED + (until - NOW) * SHARE + 1e-6
