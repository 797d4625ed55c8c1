from dataclasses import replace

import pytest

from app.core.model.weeding import Delete, PodView
from app.weeder.deletions import DeletionQueue, RetryWaits

POD = PodView("ns", "a", "uid-a", "1")
OTHER = PodView("ns", "b", "uid-b", "1")


def delete(remaining=100.0):
    return Delete("main", remaining)


@pytest.fixture
def queue():
    return DeletionQueue(RetryWaits())


def test_the_one_that_would_wait_longest_comes_first(queue):
    queue.add(POD, delete(50), 0)
    queue.add(OTHER, delete(200), 0)
    assert queue.first(0) == "b"


def test_after_a_conflict_the_same_version_is_not_asked_for_again(queue):
    queue.until_next_version(POD, 0)
    queue.add(POD, delete(), 100)
    assert queue.first(100) is None


def test_after_a_conflict_the_next_version_is_due_a_second_later(queue):
    queue.until_next_version(POD, 0)
    queue.add(replace(POD, resource_version="2"), delete(), 0.2)
    assert queue.first(0.9) is None
    assert queue.next_at() == 1.0
    assert queue.first(1.0) == "a"
    assert [queue.due("a", now) for now in (0.9, 1.0)] == [False, True]
    assert not queue.due("b", 1.0)


def test_after_failures_the_pauses_double_up_to_half_a_minute(queue):
    now, pauses = 0.0, []
    for _ in range(7):
        queue.failed(POD, now, None)
        queue.add(POD, delete(), now)
        pauses.append(queue.next_at() - now)
        now = queue.next_at()
        queue.drop("a")
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_judged_again_in_between_it_is_due_no_sooner(queue):
    queue.failed(POD, 0, 10)
    queue.add(POD, delete(), 0)
    queue.add(POD, delete(90), 5)
    assert queue.next_at() == 10


def test_another_pod_of_the_same_name_is_held_by_nothing(queue):
    queue.failed(POD, 0, 60)
    queue.add(POD, delete(), 0)
    queue.add(replace(POD, uid="uid-new"), delete(), 1)
    assert queue.first(1) == "a"


def test_what_holds_a_pod_back_holds_it_in_every_recovery():
    holds = RetryWaits()
    one, other = DeletionQueue(holds), DeletionQueue(holds)
    one.failed(POD, 0, 60)
    other.add(POD, delete(), 1)
    assert other.next_at() == 60


def test_what_held_pods_back_an_hour_ago_is_forgotten():
    holds = RetryWaits()
    queue = DeletionQueue(holds)
    old, young, new = (replace(POD, uid=uid) for uid in ("old", "young", "new"))
    queue.failed(old, 0, 60)
    queue.failed(young, 100, 60)
    queue.failed(new, 3700, 60)
    assert [holds.of(each) is not None for each in (old, young, new)] == [False, True, True]


def test_a_server_that_asks_for_hours_lets_no_other_wait_be_forgotten():
    holds = RetryWaits()
    queue = DeletionQueue(holds)
    queue.failed(POD, 0, 60)
    queue.failed(replace(POD, uid="other"), 1, 3 * 3600)
    assert holds.of(POD) is not None


def test_of_too_many_pods_that_are_held_back_the_oldest_is_forgotten():
    holds = RetryWaits()
    queue = DeletionQueue(holds)
    for number in range(10_001):
        queue.failed(replace(POD, uid=f"uid-{number}"), 0, 60)
    assert holds.of(replace(POD, uid="uid-0")) is None
    assert holds.of(replace(POD, uid="uid-10000")) is not None
