"""What ends a recovery from outside: leadership lost, a clean stop, a kill; and recoveries that fail unexpectedly."""

import asyncio
from typing import Any

import pytest

from app.core.model.weeding import End, RecoveryStatus
from app.simulation.traffic import Trouble
from tests.support.doubles import SetLeadership
from tests.support.weeding import API, DELETE, NAMESPACE, SCHEDULER, THREE

pytestmark = pytest.mark.usefixtures("lines")


@pytest.fixture
async def slow(lab):
    """One deletion a second."""
    return lab.control_plane(leadership=SetLeadership(), deletions_a_second=1.0)


async def test_when_leadership_is_lost_in_mid_recovery_nothing_is_sent_any_more(slow):
    await slow.recover(*THREE, settle=0.5)
    slow.environment.leadership.become(leading=False)
    await slow.run(100)
    assert len(slow.seed.sent) == 1
    assert slow.recovery().end is End.NOT_LEADER
    assert slow.recovery().queued == 2
    assert slow.seed.open_watches == 0


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told yet"])
async def test_a_deletion_that_waits_to_be_sent_when_leadership_is_lost_is_not(harness, told):
    """A process that stood still has lost it before anybody could be told."""
    harness.delay_deletions(2)
    await harness.recover(SCHEDULER)
    if told:
        harness.leadership.become(leading=False)
    else:
        harness.leadership.run_out()
    await harness.run(10)
    assert harness.seed.sent == []


async def test_a_clean_stop_finishes_what_was_sent_and_sends_nothing_more(slow):
    trouble = slow.world.faults.seed_trouble(Trouble(latency=3.0, verbs=DELETE))
    await slow.recover(*THREE, settle=0.2)
    begun = slow.now
    await slow.stop()
    assert slow.now - begun == pytest.approx(2.8, abs=0.4)
    assert len(slow.names()) == 1
    assert [each.result for each in slow.recovery().deletions] == ["deleted"]
    assert slow.recovery().end is End.STOPPED
    assert slow.reasons()[-2:] == ["PodWeeded", "WeedingEnded"]
    trouble.lift()
    await slow.run(60)
    assert len(slow.seed.sent) == 1


async def test_a_clean_stop_waits_for_deletions_of_recoveries_long_replaced(harness, monkeypatch):
    """A service that comes and goes many times a second pushes them out of what is remembered."""
    monkeypatch.setattr("app.weeder.recovery._PAST", 1)
    monkeypatch.setattr("app.weeder.rules._FREE", 100)
    trouble = harness.world.faults.seed_trouble(Trouble(latency=4.0, verbs=DELETE))
    await harness.recover(SCHEDULER, settle=0.2)
    assert len(harness.seed.sent) == 1
    for _ in range(8):
        _ = harness.weeder.registry.begin(API, "Asked", 60.0)
        await harness.run(0.01)
    await harness.weeder.stop()
    assert harness.told("PodWeeded"), "it has been answered"
    trouble.lift()


async def test_of_a_recovery_that_is_over_only_what_the_api_shows_is_kept(harness):
    """Thousands of them are remembered."""
    shown: list[Any] = []
    for _ in range(3):
        await harness.recover(SCHEDULER, settle=20)
        shown.insert(0, harness.recoveries()[0])
    registry = harness.weeder.registry
    past = registry._services[API].past
    assert isinstance(past[0], RecoveryStatus)
    assert len(past[0].deletions) == 1
    oldest, newest = registry.recoveries(API)[-1], registry.recoveries(API)[0]
    assert (oldest.id, oldest.end, oldest.deletions) == (1, End.LOST, shown[-1].deletions)
    assert newest == shown[0]


async def test_after_a_clean_stop_nothing_begins(harness):
    await harness.weeder.stop()
    await harness.recover(*THREE)
    assert harness.recoveries() == ()
    assert harness.seed.sent == []


async def test_a_stop_leaves_no_task_and_no_watch(harness):
    before = len(asyncio.all_tasks())
    await harness.recover(*THREE, settle=0.2)
    await harness.stop()
    assert harness.seed.open_watches == 0
    assert len(asyncio.all_tasks()) < before


async def test_a_process_that_stood_still_beyond_the_end_of_a_recovery_sends_nothing(
    harness, monkeypatch
):
    """Stopped and continued: what was about to be sent is stale, whichever timer comes first."""
    waits = harness.hold_deletions()
    await harness.recover(SCHEDULER)
    later = harness.now + 400
    with monkeypatch.context() as patch:
        patch.setattr(harness.environment.clock, "now", lambda: later)
        with pytest.raises(Exception, match="ended"):
            waits[0]()
    assert harness.recovery().end is None


async def break_once(harness, monkeypatch, times=1):
    """The watch of pods fails in a way that nobody foresaw."""
    broken: list[float] = []
    original = harness.seed.watch_pods

    def fail(*args):
        if len(broken) < times:
            broken.append(harness.now)
            raise RuntimeError("a bug")
        return original(*args)

    monkeypatch.setattr(harness.seed, "watch_pods", fail)
    return broken


async def test_a_recovery_that_fails_is_counted_shown_and_started_again(
    harness, monkeypatch, lines
):
    await break_once(harness, monkeypatch)
    await harness.recover(SCHEDULER, settle=0.5)
    assert "RuntimeError" in harness.status().failing
    assert harness.count("dwd_runner_failures_total", loop="weeder") == 1
    assert ["RuntimeError" in each.message for each in harness.told("RunnerFailed")] == [True]
    (told,) = [line for line in lines if line["log_level"] == "error"]
    assert isinstance(told["exc_info"], RuntimeError), "with its traceback"
    await harness.run(1)
    assert len(harness.names()) == 1
    assert harness.status().failing is None


async def test_one_that_fails_until_its_time_is_over_ends(harness, monkeypatch):
    await break_once(harness, monkeypatch, times=100)
    await harness.recover(SCHEDULER, settle=400)
    assert harness.recovery().end is End.COMPLETED
    assert harness.status().failing is None


async def test_one_that_fails_can_be_ended_while_it_waits(harness, monkeypatch):
    broken = await break_once(harness, monkeypatch, times=100)
    await harness.recover(SCHEDULER, settle=20)
    _ = await harness.lose()
    number = len(broken)
    await harness.run(4)
    assert harness.recovery().end is End.LOST
    assert len(broken) == number


async def test_a_timeout_that_is_none_of_its_own_is_a_failure_and_not_its_end(harness, monkeypatch):
    failed: list[float] = []
    original = harness.seed.watch_pods

    def watch_pods(*args):
        watch = original(*args)
        run = watch.run

        async def time_out():
            if not failed:
                failed.append(harness.now)
                raise TimeoutError("of a library")
            await run()

        monkeypatch.setattr(watch, "run", time_out)
        return watch

    monkeypatch.setattr(harness.seed, "watch_pods", watch_pods)
    await harness.recover(SCHEDULER)
    await harness.run(2)
    assert failed
    assert harness.recovery().end is None
    assert len(harness.names()) == 1


async def test_a_deletion_that_fails_unexpectedly_fails_its_recovery_which_starts_again(
    harness, monkeypatch
):
    broken: list[str] = []
    original = harness.seed.delete_pod

    async def fail_once(namespace, name, **more):
        if not broken:
            broken.append(name)
            raise RuntimeError("a bug")
        await original(namespace, name, **more)

    monkeypatch.setattr(harness.seed, "delete_pod", fail_once)
    await harness.recover(SCHEDULER, settle=0.3)
    assert "RuntimeError" in harness.status().failing
    assert harness.count("dwd_runner_failures_total", loop="weeder") == 1
    await harness.run(10)
    assert len(harness.names()) == 1
    assert harness.count("dwd_weeder_recoveries_total", service=API.service) == 1, "the same one"


async def test_pods_that_went_while_it_was_down_are_not_asked_for(slow):
    """Nobody tells of them any more: they were there before, and are not in the new list."""
    await slow.recover(*THREE, settle=0.5)
    recovery = slow.weeder.registry.running(API)
    assert recovery.status().queued == 2
    recovery._crash = RuntimeError("a bug")
    await slow.until(lambda: slow.told("RunnerFailed"))
    for pod in slow.waiting():
        slow.world.delete_pod(NAMESPACE, pod.name)
    await slow.run(30)
    assert len(slow.told("RunnerFailed")) == 1
    assert recovery.status().queued == 0
    assert len(slow.seed.sent) == 1
