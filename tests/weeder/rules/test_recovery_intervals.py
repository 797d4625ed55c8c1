"""How soon a service that comes and goes is weeded for again."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.weeder import rules
from tests.weeder.rules.facts import NOW

WINDOW = 300.0


def begins(gaps, window=WINDOW):
    """When recoveries begin that are asked for so many seconds after the last began."""
    begun: list[float] = []
    now = NOW
    for gap in gaps:
        now += gap
        now += rules.recovery_wait(begun, now, window)
        begun.append(now)
    return begun


@pytest.mark.parametrize(
    ("number", "seconds"), [(0, 0), (1, 0), (2, 0), (3, 30), (4, 60), (5, 120), (5_000, 120)]
)
def test_the_first_three_begin_at_once_and_the_next_waits_30_seconds_doubling_up_to_2_minutes(
    number, seconds
):
    assert rules.recovery_wait([NOW - 1.0] * number, NOW, WINDOW) == seconds


def test_a_recovery_as_old_as_the_window_no_longer_counts():
    assert rules.recovery_wait([NOW - 300.0, NOW - 2, NOW - 1], NOW, WINDOW) == 0
    assert rules.recovery_wait([NOW - 299.9, NOW - 2, NOW - 1], NOW, WINDOW) == 30


def test_a_service_that_flaps_every_5_seconds():
    begun = [at - NOW for at in begins([5] * 8)]
    assert begun == [5, 10, 15, 50, 115, 240, 365, 400]


@given(st.lists(st.floats(0, 200), max_size=30), st.sampled_from([0.5, 10.0, 60.0, 300.0, 3600.0]))
def test_in_no_window_begin_more_than_five_and_one_for_each_two_minutes(gaps, window):
    begun = begins(gaps, window)
    for end in begun:
        within = sum(1 for each in begun if end - window < each <= end)
        assert within <= 5 + math.ceil(window / 120)
