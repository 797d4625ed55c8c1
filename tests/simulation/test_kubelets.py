"""Kubelets renew in their rhythm and come back from an absence as real ones do."""

import random
from itertools import pairwise

import pytest

from app.simulation.shoot import Fleet
from app.simulation.traffic import Renewal


class Alone:
    """A fleet with an API server of one mood."""

    def __init__(self, *, seed: int = 1, duration: float = 40.0) -> None:
        self.mood = Renewal.ANSWERED
        self.renewals: list[tuple[str, float]] = []
        self.fleet = Fleet(
            random.Random(seed),
            lambda _: self.mood,
            lambda kubelet, at: self.renewals.append((kubelet.node, at)),
            duration,
        )

    def times(self, node: str = "n") -> list[float]:
        return [at for name, at in self.renewals if name == node]


def everybody(_kubelet):
    return True


@pytest.fixture
def alone() -> Alone:
    alone = Alone()
    alone.fleet.join("n", "zone-a", 0.0, phase=0.0)
    return alone


def steps(times: list[float]) -> list[float]:
    return [b - a for a, b in pairwise(times)]


@pytest.mark.parametrize("duration", [8.0, 40.0])
def test_a_kubelet_renews_every_quarter_of_the_duration_and_up_to_4_percent_later(duration):
    alone, quarter = Alone(duration=duration), duration / 4
    alone.fleet.join("n", "zone-a", 0.0, phase=0.5)
    alone.fleet.advance(360 * quarter)
    between = steps(alone.times())
    assert len(between) > 340
    assert all(quarter <= step <= 1.04 * quarter for step in between)
    assert max(between) - min(between) > 0.03 * quarter


def test_advancing_in_small_steps_or_in_one_makes_the_same_history():
    small, large = Alone(seed=7), Alone(seed=7)
    for each in (small, large):
        for number in range(5):
            each.fleet.join(f"n{number}", "zone-a", 0.0, phase=number / 5)
    for second in range(600):
        small.fleet.advance(second)
    large.fleet.advance(599)
    assert small.renewals == large.renewals


def test_a_cut_kubelet_is_back_within_17_seconds_of_the_path():
    worst = 0.0
    for tenth in range(0, 400, 3):
        alone = Alone(seed=tenth)
        alone.fleet.join("n", "zone-a", 0.0, phase=0.3)
        alone.fleet.advance(20)
        alone.fleet.cut(everybody)
        back = 120 + tenth / 10
        alone.fleet.advance(back)
        alone.fleet.mend(everybody)
        alone.fleet.advance(back + 30)
        first = next(at for at in alone.times() if at > 20.5)
        worst = max(worst, first - back)
    assert 12 < worst <= 17.1


def test_a_kubelet_that_was_refused_is_back_within_7_seconds(alone):
    alone.fleet.advance(20)
    alone.mood = Renewal.FAILED
    alone.fleet.advance(200)
    assert len(alone.times()) == 2
    alone.mood = Renewal.ANSWERED
    alone.fleet.advance(207.1)
    assert len(alone.times()) == 3


def test_one_failed_try_is_repeated_at_once(alone):
    due = alone.fleet.of("n")
    alone.fleet.advance(9.9)
    alone.mood = Renewal.FAILED
    alone.fleet.advance(10.402)
    alone.mood = Renewal.ANSWERED
    alone.fleet.advance(10.9)
    assert due.last < 10.9


def test_a_renewal_that_was_held_arrives_with_the_time_at_which_it_was_sent(alone):
    alone.fleet.advance(9)
    alone.mood = Renewal.HELD
    alone.fleet.advance(16)
    alone.mood = Renewal.ANSWERED
    alone.fleet.advance(16.5)
    assert 10 <= alone.times()[-1] <= 10.4
    assert alone.fleet.of("n").last == pytest.approx(16.25, abs=0.25)
