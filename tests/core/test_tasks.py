"""Supervised tasks: what each death means."""

import asyncio
import threading

import pytest

from app.core.limits import Backoff
from app.core.tasks import SharedLoopDied, in_daemon_thread, tell
from app.prober.controller import KeyQueue

pytestmark = pytest.mark.usefixtures("lines")


async def forever():
    await asyncio.Event().wait()


async def fail():
    raise ValueError("a bug")


async def end():
    return


async def test_the_death_of_a_shared_loop_has_its_cause_and_is_logged(tasks, lines):
    _ = tasks.shared(fail, "reflector")
    with pytest.raises(SharedLoopDied) as died:
        await tasks.died()
    assert isinstance(died.value.__cause__, ValueError)
    assert [line["log_level"] for line in lines] == ["critical"]


async def test_a_loop_whose_work_is_cancelled_elsewhere_has_failed(tasks, lines):
    async def awaits_what_is_cancelled():
        work = asyncio.ensure_future(forever())
        asyncio.get_running_loop().call_soon(work.cancel)
        await work

    failures: list[Exception] = []
    _ = tasks.kept(awaits_what_is_cancelled, "probe", failures.append)
    _ = tasks.shared(awaits_what_is_cancelled, "reflector")
    with pytest.raises(SharedLoopDied) as died:
        await tasks.died()
    assert "was cancelled" in str(died.value.__cause__)
    assert [str(each) for each in failures] == [str(died.value.__cause__)]


async def test_the_first_death_counts_and_later_ones_are_no_trouble(tasks):
    _ = tasks.shared(end, "first")
    _ = tasks.shared(fail, "second")
    await asyncio.sleep(1)
    with pytest.raises(SharedLoopDied, match="the first loop ended"):
        await tasks.died()


async def test_a_task_that_runs_once_and_fails_is_logged_and_ends_nothing(tasks, lines):
    await tasks.once(fail, "scale")
    assert [line["task"] for line in lines] == ["scale"]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(tasks.died(), 3600)


@pytest.mark.parametrize(
    ("well_after", "within", "starts"),
    [
        pytest.param(99, 200, [0, 1, 3, 7, 15, 31, 63, 123, 183], id="doubling to 60 s"),
        pytest.param(3, 250.5, [0, 1, 3, 7, 129], id="anew after it ran well for long"),
    ],
)
async def test_a_runner_that_fails_is_started_again_after_1_s(tasks, well_after, within, starts):
    begins: list[float] = []
    failures: list[Exception] = []
    begin = asyncio.get_running_loop().time()

    async def runner():
        begins.append(round(asyncio.get_running_loop().time() - begin, 3))
        await asyncio.sleep(121 if len(begins) > well_after else 0)
        raise ValueError("a bug")

    _ = tasks.kept(runner, "probe shoot--a", failures.append)
    await asyncio.sleep(within)
    assert begins == starts
    assert len(failures) == len(begins)


async def test_a_runner_that_returns_is_done(tasks):
    await tasks.kept(end, "probe", lambda _error: None)


async def test_stop_ends_every_task_and_the_wait_for_a_death(tasks):
    running = [tasks.shared(forever, "a"), tasks.once(forever, "b")]
    waiting = asyncio.ensure_future(tasks.died())
    await asyncio.sleep(0)
    await tasks.stop()
    assert all(each.cancelled() for each in running)
    with pytest.raises(asyncio.CancelledError):
        await waiting


# Waiting, and queues of keys.


def test_a_backoff_doubles_to_its_most_after_a_failure_and_is_at_most_half_shorter_by_chance():
    assert [Backoff().delay(n) for n in (1, 2, 3, 6, 7, 8, 10_000)] == [1, 2, 4, 32, 60, 60, 60]
    assert [Backoff().jittered(3, chance) for chance in (0.0, 1.0)] == [4, 2]
    with pytest.raises(ValueError, match="after a failure"):
        Backoff().delay(0)


async def test_a_key_waits_once_and_comes_in_order():
    queue = KeyQueue()
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [await queue.take(), await queue.take()] == ["a", "b"]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 1)


async def test_a_key_that_changes_while_it_is_worked_on_comes_again_afterwards():
    queue = KeyQueue()
    queue.add("a")
    await queue.take()
    queue.add("a")
    queue.add("b")
    assert await queue.take() == "b"
    queue.done("a")
    assert await queue.take() == "a"


async def test_who_waits_for_a_key_is_woken():
    queue = KeyQueue()
    waiting = asyncio.ensure_future(queue.take())
    await asyncio.sleep(1)
    queue.add("a")
    assert await waiting == "a"


def test_a_listener_that_fails_is_logged_and_keeps_no_other_from_hearing(lines):
    def fails(number):
        raise ValueError(number)

    heard: list[int] = []
    tell([fails, heard.append, fails], {"watch": "pods"}, 7)
    assert heard == [7]
    assert [(each["event"], each["watch"]) for each in lines] == [("a listener failed", "pods")] * 2


@pytest.mark.looptime(False)
async def test_what_hangs_in_a_daemon_thread_holds_up_neither_a_caller_that_gives_up_nor_the_exit():
    free = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await in_daemon_thread(free.wait)
    (thread,) = (each for each in threading.enumerate() if each.name.endswith("(run)"))
    assert thread.daemon
    free.set()
    thread.join()
    assert await in_daemon_thread(lambda: "found") == "found"
    with pytest.raises(ValueError, match="a bug"):
        await in_daemon_thread(lambda: int("a bug"))
