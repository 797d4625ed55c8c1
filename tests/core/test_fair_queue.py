"""The event loop's time, shared: one stretch at each turn of the loop, for who has taken least of late."""

import asyncio
from functools import partial

import pytest
import uvloop

from app.core import fair_queue
from app.core.fair_queue import TIME_SLICE, Consumer, FairQueue, RoundRobin


@pytest.fixture
def time(monkeypatch):
    """A stopwatch that goes on when it is told to."""

    class Time:
        now = 100.0

    monkeypatch.setattr(fair_queue, "stopwatch", lambda: Time.now)
    return Time


async def turn():
    """One turn of the loop."""
    await asyncio.sleep(0)


async def test_one_waiter_goes_on_at_each_turn_of_the_loop(time):
    queue, went_on = FairQueue(), list[str]()
    for name in "abc":
        Consumer(queue).wait(partial(went_on.append, name))
    assert went_on == []
    seen = []
    for _ in range(3):
        await turn()
        seen.append("".join(went_on))
    assert seen == ["a", "ab", "abc"]


async def test_what_was_taken_long_ago_counts_less(time):
    queue, went_on = FairQueue(), []
    before, now = Consumer(queue), Consumer(queue)
    before.charge(0.2)
    time.now += 60
    now.charge(0.01)
    now.wait(lambda: went_on.append("now"))
    before.wait(lambda: went_on.append("before"))
    await turn()
    assert went_on == ["before"]
    assert before.spent == 0.2


async def test_nobody_is_charged_for_a_time_in_which_the_process_stood_still(time):
    consumer = Consumer()
    consumer.charge(20.0)
    assert consumer.spent == 0.25


async def test_long_work_is_left_after_a_stretch_and_gone_on_with_at_the_next_turn(time):
    consumer, done = Consumer(), []

    def steps():
        for number in range(6):
            time.now += TIME_SLICE * 0.6
            done.append(number)
            yield
        return "all"

    work = asyncio.ensure_future(consumer.finish(steps()))
    await turn()
    assert done == [0, 1], "a stretch, and not more"
    await turn()
    await turn()
    assert done == [0, 1, 2, 3]
    assert await work == "all"
    assert consumer.spent == pytest.approx(6 * 0.6 * TIME_SLICE)


async def test_others_have_their_turns_between_two_stretches(time):
    order = []

    def steps(name):
        for _ in range(2):
            time.now += TIME_SLICE * 1.1
            order.append(name)
            yield

    queue = FairQueue()
    async with asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(Consumer(queue).finish(steps(name)))
    assert order == ["a", "b", "a", "b"]


async def test_what_the_work_raises_is_raised_and_what_it_took_is_charged(time):
    consumer = Consumer()

    def steps():
        time.now += 0.25
        yield
        raise ValueError("no list")

    with pytest.raises(ValueError, match="no list"):
        await consumer.finish(steps())
    assert consumer.spent == 0.25


async def test_work_that_is_given_up_is_closed_and_keeps_nobody_waiting(time):
    queue, closed, went_on = FairQueue(), [], []

    def steps():
        try:
            while True:
                time.now += TIME_SLICE
                yield
        finally:
            closed.append(True)

    work = asyncio.ensure_future(Consumer(queue).finish(steps()))
    await turn()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert closed == [True]
    Consumer(queue).wait(lambda: went_on.append("next"))
    await turn()
    await turn()
    assert went_on == ["next"]


async def test_a_waiter_that_fails_stops_nobody(time, caplog):
    queue, went_on = FairQueue(), []

    def fail():
        raise ValueError("broken")

    Consumer(queue).wait(fail)
    Consumer(queue).wait(lambda: went_on.append("next"))
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    await turn()
    await turn()
    assert went_on == ["next"]


async def test_nobody_begins_in_a_turn_that_others_have_used_up(time):
    queue, seen = FairQueue(), list[bool]()
    first, second = Consumer(queue), Consumer(queue)
    for _ in range(2):
        seen.append(second.may_begin)
        first.charge(TIME_SLICE * 0.6)
    for _ in range(3):
        seen.append(second.may_begin)
        await turn()
    assert seen == [True, True, False, False, True], "callbacks of sockets come last in a turn"


async def test_what_a_thread_took_leaves_the_turn_to_others(time):
    consumer = Consumer()
    consumer.charge(0.1, beside=True)
    assert consumer.may_begin
    assert consumer.spent == 0.1


async def test_each_stretch_between_two_waits_is_charged_and_takes_its_turn(time):
    queue, order = FairQueue(), list[str]()

    async def work(name):
        for _ in range(2):
            order.append(name)
            time.now += TIME_SLICE * 1.1
            await asyncio.sleep(0)
        return name

    consumers = [Consumer(queue) for _ in range(3)]
    running = [
        asyncio.ensure_future(consumer.run(work(name)))
        for consumer, name in zip(consumers, "abc", strict=True)
    ]
    await turn()
    assert order == ["a"], "the turn is used up"
    assert await asyncio.gather(*running) == ["a", "b", "c"]
    assert sorted(order) == ["a", "a", "b", "b", "c", "c"]
    assert [each.spent for each in consumers] == [pytest.approx(2.2 * TIME_SLICE)] * 3


async def test_work_that_waits_for_its_turn_learns_that_it_is_cancelled(time):
    queue, learnt = FairQueue(), []

    asked = asyncio.Event()

    async def work():
        try:
            await asked.wait()
        except asyncio.CancelledError:
            learnt.append(True)
            raise

    running = asyncio.ensure_future(Consumer(queue).run(work()))
    await turn()
    Consumer(queue).charge(TIME_SLICE)
    asked.set()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert learnt == [True]


async def test_what_the_awaited_work_raises_is_raised(time):
    async def work():
        await asyncio.sleep(0)
        raise ValueError("no page")

    with pytest.raises(ValueError, match="no page"):
        await Consumer().run(work())


# Turns.


class Turns(RoundRobin):
    """One turn at a time, until it is given back; the first few come a twentieth of a millisecond late."""

    def __init__(self, moments=0):
        super().__init__()
        self.moments, self.busy, self.order = moments, False, list[str]()

    def missing(self):
        self.moments -= 1
        return 0.00005 if self.moments >= 0 else None if self.busy else 0.0

    def given(self, key, /):
        self.busy = True
        self.order.append(key)

    def returned(self, key, /):
        self.busy = False
        self.give()

    async def take(self, key, part="", *, within=None):
        await self.wait(key, part, within=within)
        self.order[-1] += part
        self.returned(key)


async def test_turns_go_round_the_keys_and_within_a_key_round_its_parts():
    turns = Turns()
    turns.busy = True
    waiting = [asyncio.ensure_future(turns.take(*each)) for each in ("a1", "a1", "a2", "b1", "c1")]
    await turn()
    assert (turns.waiting("a", "1"), turns.waiting("b", "1"), turns.waiting("b")) == (2, 1, 0)
    turns.returned("")
    await asyncio.gather(*waiting)
    assert turns.order == ["a1", "b1", "c1", "a2", "a1"]


async def test_a_waiter_that_gives_up_or_is_cancelled_costs_no_turn():
    turns = Turns()
    turns.busy = True
    late = asyncio.ensure_future(turns.take("a", within=1.0))
    cancelled, last = (asyncio.ensure_future(turns.take(each)) for each in "bc")
    await asyncio.sleep(2)
    with pytest.raises(TimeoutError):
        await late
    cancelled.cancel()
    turns.returned("")
    await last
    assert turns.order == ["c"]
    assert not turns._waiting


async def test_a_turn_that_comes_as_its_waiter_is_cancelled_goes_to_the_next():
    turns = Turns()
    turns.busy = True
    first, second = (asyncio.ensure_future(turns.take(each)) for each in "ab")
    await turn()
    turns.returned("")
    first.cancel()  # it has been given the turn, and has not run since
    await second
    assert turns.order == ["a", "b"]


@pytest.mark.looptime(False)
def test_turns_that_are_due_at_once_are_given_on_the_loop_of_the_program():
    """`call_at` of uvloop has another kind of handle for an instant that has almost come."""

    async def both():
        turns = Turns(moments=3)
        await asyncio.gather(turns.take("a"), turns.take("b"))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as run:
        run.run(both())
