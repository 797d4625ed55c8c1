"""What the restarts have saved, pod by pod."""

import pytest

from app.simulation.demo.pod_story import Count, Restart, Saving, first_with, saved, saving

TWO = [Count(0.0, 2), Count(100.0, 1), Count(110.0, 0), Count(300.0, 1), Count(330.0, 2)]


def restart(at=200.0, *, due=280.0, back=None, ready=1):
    return Restart("a", "server-x", "server", at, 195.0, due, back, ready)


@pytest.mark.parametrize(
    ("ready", "since", "at"),
    [
        (1, 200.0, 300.0),
        (2, 200.0, 330.0),
        (2, 50.0, 50.0),  # it had them then
        (1, 105.0, 105.0),
        (1, 110.0, 300.0),  # it lost the last one at that instant
        (2, 400.0, 400.0),
        (3, 0.0, None),
    ],
)
def test_the_first_instant_with_so_many_pods_counts_from_the_deletion_on(ready, since, at):
    assert first_with(TWO, ready, since) == at


def test_without_a_history_that_instant_has_not_come():
    assert first_with([], 1, 0.0) is None


def test_a_pod_is_compared_with_the_twin_that_has_as_many_ready():
    assert saved(restart(back=205.0, ready=1), TWO) == 95.0
    assert saved(restart(back=206.0, ready=2), TWO) == 124.0


def test_until_the_twin_is_there_it_is_the_start_by_the_kubelet():
    assert saved(restart(back=205.0), TWO[:3]) == 75.0


def test_nobody_knows_what_was_saved_where_neither_the_twin_nor_the_kubelet_says():
    assert saved(restart(due=None, back=205.0), TWO[:3]) is None


def test_a_pod_that_is_not_back_has_saved_nothing_yet():
    assert saved(restart(), TWO) is None


def test_a_restart_that_cost_time_counts_against_it():
    ready_at_once = [Count(0.0, 1)]
    assert saved(restart(back=206.0), ready_at_once) == -6.0


def test_what_was_saved_is_added_up_and_all_restarts_count():
    restarts = [restart(back=205.0), restart(back=206.0, ready=2), restart()]
    assert saving(restarts, lambda _: TWO) == Saving(restarts=3, seconds=219.0, most=124.0)


def test_nothing_restarted_is_nothing_saved():
    assert saving([], lambda _: TWO) == Saving()
    assert not Saving()
    assert Saving(1)
