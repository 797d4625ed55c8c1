"""How often in a row, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.workloads import Direction
from app.prober.rules import verdict
from app.prober.rules.verdict import NO_RESULTS
from tests.prober.rules.facts import NOW


def test_a_streak_is_reached_by_number_and_by_time():
    results = NO_RESULTS.add(Direction.UP, NOW, 5).add(Direction.UP, NOW + 5, 5)
    assert results.reached(2, 5, NOW + 5)
    assert not results.reached(3, 0, NOW + 5)
    assert not results.reached(2, 6, NOW + 5)


def test_another_direction_starts_at_1():
    results = NO_RESULTS.add(Direction.UP, NOW, 5).add(Direction.DOWN, NOW + 1, 5)
    assert (results.direction, results.count, results.first_at) == (Direction.DOWN, 1, NOW + 1)


@pytest.mark.parametrize(
    ("k", "span"), [(0, 0), (1, 0), (2, 30), (3, 60), (4, 120), (5, 240), (6, 300), (50, 300)]
)
def test_at_the_kth_protection_within_an_hour_good_probes_must_span(k, span):
    assert verdict.flapping_span([NOW + 10 * n for n in range(k)]) == span


def test_an_hour_is_counted_from_begin_to_begin():
    assert verdict.flapping_span([NOW, NOW + 3600]) == 30
    assert verdict.flapping_span([NOW, NOW + 3601]) == 0


def test_what_is_over_an_hour_ago_is_forgotten_when_another_protection_begins():
    assert verdict.began((NOW, NOW + 3600), NOW + 3601) == (NOW + 3600, NOW + 3601)


@given(st.lists(st.floats(0, 4000), min_size=1, max_size=300))
def test_the_memory_of_begins_is_bounded_by_the_hour_and_the_span_by_5_minutes(gaps):
    now = NOW
    begins: tuple[float, ...] = ()
    for gap in gaps:
        now += gap
        begins = verdict.began(begins, now)
        assert all(now - begin <= 3600 for begin in begins)
        assert 0 <= verdict.flapping_span(begins) <= 300
