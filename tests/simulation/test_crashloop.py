"""The back-off is the kubelet's."""

import pytest

from app.core.model.pods import CRASH_LOOP, ContainerView, PodView
from app.simulation.running import ContainerBackoff, started_again, wait_after


def test_the_first_restart_is_at_once_and_the_waits_double_from_10_to_300_seconds():
    assert [wait_after(n) for n in range(9)] == [0, 10, 20, 40, 80, 160, 300, 300, 300]
    assert wait_after(100_000) == 300


def crashes(backoff, *, ran, times, now=0.0):
    waits = []
    for _ in range(times):
        exited = now + ran
        waits.append(backoff.due(exited) - exited)
        now = backoff.due(exited)
        backoff.restart(exited, now)
    return waits


def test_a_container_that_crashes_again_and_again_waits_as_long_as_that():
    assert crashes(ContainerBackoff(), ran=5, times=8) == [0, 10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize(("ran", "waits"), [(600, 160), (600.1, 0)])
def test_one_that_ran_for_more_than_10_minutes_begins_anew(ran, waits):
    backoff = ContainerBackoff()
    crashes(backoff, ran=5, times=5)
    assert backoff.restarted is not None
    exited = backoff.restarted + ran
    assert backoff.due(exited) == exited + waits
    backoff.restart(exited, exited + waits)
    assert backoff.restarts == (1 if waits == 0 else 6)


def pod(*containers):
    return PodView("ns", "a", "uid", "1", containers=containers)


def test_a_pod_is_started_again_when_the_back_off_from_its_exit_is_over():
    waits = ContainerView("a", CRASH_LOOP, restarts=3, last_exit=1000.0)
    longer = ContainerView("b", CRASH_LOOP, restarts=5, last_exit=990.0)
    assert started_again(pod(waits)) == 1040
    assert started_again(pod(waits, longer)) == 1150


def test_it_is_not_said_of_a_pod_that_does_not_wait_or_whose_exit_is_not_told():
    assert started_again(pod()) is None
    assert started_again(pod(ContainerView("a", None, 3, 1000.0))) is None
    assert started_again(pod(ContainerView("a", "ImagePullBackOff", 3, 1000.0))) is None
    assert started_again(pod(ContainerView("a", CRASH_LOOP, 3, None))) is None
