"""The arithmetic of the bench."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.perf.figures import Buckets, mean, most_within, quantile

SAMPLES = st.lists(st.floats(0, 1e6), min_size=1)
SHARES = st.floats(0, 1)


@given(SAMPLES, SHARES)
def test_a_quantile_is_a_sample_at_or_below_which_at_least_its_share_lie(samples, share):
    found = quantile(samples, share)
    assert found in samples
    assert sum(each <= found for each in samples) >= share * len(samples) - 1e-6


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 2), (0.51, 3), (0.99, 4), (1.0, 4)])
def test_a_quantile_is_never_made_up_between_two_samples(share, value):
    assert quantile([4, 2, 1, 3], share) == value


def test_of_nothing_there_is_no_quantile_and_no_mean():
    assert math.isnan(quantile([], 0.5))
    assert math.isnan(mean([]))
    assert math.isnan(Buckets({}).quantile(0.5))
    assert math.isnan(Buckets({0.1: 0.0, math.inf: 0.0}).most())


def histogram(*numbers):
    return Buckets(dict(zip((0.1, 0.2, 0.4, math.inf), numbers, strict=True)))


def test_what_was_observed_before_does_not_count():
    since = histogram(3, 5, 9, 9).since(histogram(3, 4, 5, 5))
    assert since == histogram(0, 1, 4, 4)
    assert since.total == 4


@pytest.mark.parametrize(("share", "value"), [(0.25, 0.1), (0.5, 0.15), (0.75, 0.2), (0.99, 0.392)])
def test_the_quantile_of_a_histogram_lies_within_its_bucket(share, value):
    assert histogram(1, 3, 4, 4).quantile(share) == pytest.approx(value)


def test_a_quantile_above_the_last_finite_bound_is_infinite_and_not_that_bound():
    assert histogram(1, 1, 1, 2).quantile(0.99) == math.inf
    assert histogram(1, 1, 1, 2).most() == math.inf


def test_the_most_that_was_observed_is_the_bound_of_the_highest_bucket_with_any():
    assert histogram(1, 3, 3, 3).most() == 0.2


def test_instants_just_a_stretch_apart_do_not_share_it():
    assert most_within([0.0, 0.5, 0.999, 1.0, 1.2], 1.0) == 4
    assert most_within([0.0, 1.0, 2.0], 1.0) == 1
    assert most_within([], 1.0) == 0
