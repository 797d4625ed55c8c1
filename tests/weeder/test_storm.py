"""A small storm; the whole one is `python -m bench.weeding.storm`."""

from dataclasses import replace

import pytest

from bench.weeding.storm import Outcome, Storm, most_in_a_second, run, violations


@pytest.mark.parametrize("together", [True, False], ids=["in step", "each at its time"])
def test_in_a_storm_nothing_is_deleted_twice_too_fast_or_without_need(together):
    storm = Storm(namespaces=25, pods=6, minutes=1.0, together=together)
    outcome = run(storm)
    assert violations(outcome, storm) == []
    assert len(outcome.first_after) == 25


@pytest.mark.parametrize(
    "wrong",
    [
        {"most_in_a_second": 21},
        {"twice": 1},
        {"not_waiting": 1},
        {"first_after": [25.1]},
        {"never": 1},
        {"deletions": 0},
        {"most_watches": 301},
        {"watches_left": 1},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_each_thing_that_may_not_be_is_named(wrong):
    right = Outcome(deletions=1, first_after=[1.0])
    assert violations(right, Storm()) == []
    assert len(violations(replace(right, **wrong), Storm())) == 1


def test_the_most_in_any_second_is_found():
    assert most_in_a_second([0.0, 0.5, 0.9, 1.0, 1.6, 9.0]) == 3
