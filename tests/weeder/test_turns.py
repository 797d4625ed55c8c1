import asyncio

import pytest

from app.core.runtime.clock import Clock
from app.core.runtime.tasks import Tasks
from app.weeder.turns import Turns


class Queue:
    """Who waits for turns, and what each got when."""

    def __init__(self, per_second, **more):
        self.clock = Clock.of_loop()
        self.tasks = Tasks(self.clock)
        self.turns = Turns(self.clock, per_second, **more)
        self.begun = self.clock.now()
        self.got = []
        _ = self.tasks.shared(self.turns.run, "turns")

    def ask(self, namespace, number=1):
        async def one():
            await self.turns.turn(namespace)
            self.got.append((round(self.clock.now() - self.begun, 3), namespace))

        return [self.tasks.once(one, namespace) for _ in range(number)]

    def order(self):
        return [namespace for _, namespace in self.got]

    def times(self):
        return [at for at, _ in self.got]


@pytest.fixture
async def queue():
    made = []

    def make(per_second, **more):
        made.append(Queue(per_second, **more))
        return made[-1]

    yield make
    for each in made:
        await each.tasks.stop()


async def test_as_many_as_the_rate_at_once_and_the_next_a_second_later(queue):
    q = queue(20)
    q.ask("a", 45)
    await asyncio.sleep(10)
    assert q.times() == [0.0] * 20 + [1.0] * 20 + [2.0] * 5


async def test_in_no_second_are_there_more_than_the_rate(queue):
    q = queue(7)
    for step in range(40):
        q.ask(f"n{step % 3}", 3)
        await asyncio.sleep(0.13)
    await asyncio.sleep(60)
    times = q.times()
    assert len(times) == 120
    assert all(later - first >= 1 - 1e-6 for first, later in zip(times, times[7:], strict=False))


async def test_a_rate_below_one_a_second_spreads_them(queue):
    q = queue(0.5)
    q.ask("a", 3)
    await asyncio.sleep(10)
    assert q.times() == [0.0, 2.0, 4.0]


async def test_a_rate_that_is_no_whole_number_is_kept_over_time(queue):
    q = queue(2.5)
    q.ask("a", 25)
    await asyncio.sleep(20)
    assert q.times()[-1] == pytest.approx(9.6)


async def test_a_namespace_with_hundreds_does_not_keep_the_first_of_another_waiting(queue):
    q = queue(2)
    q.ask("many", 300)
    await asyncio.sleep(1.5)
    q.ask("one")
    await asyncio.sleep(2)
    at = dict((namespace, at) for at, namespace in reversed(q.got))["one"]
    assert at == 2.0


async def test_namespaces_that_wait_are_served_in_turn(queue):
    q = queue(1)
    for name in "abc":
        q.ask(name, 2)
    await asyncio.sleep(10)
    assert q.order() == ["a", "b", "c", "a", "b", "c"]


async def test_who_was_never_served_goes_before_who_was(queue):
    q = queue(1)
    q.ask("a", 3)
    await asyncio.sleep(0.5)
    q.ask("b")
    q.ask("c")
    await asyncio.sleep(10)
    assert q.order() == ["a", "b", "c", "a", "a"]


async def test_what_comes_before_decides_first(queue):
    q = queue(1, before={"a": 2.0, "b": 1.0, "c": 1.0}.__getitem__)
    for name in "acb":
        q.ask(name)
    await asyncio.sleep(10)
    assert q.order() == ["c", "b", "a"]


async def test_who_is_cancelled_takes_no_turn(queue):
    q = queue(1)
    q.ask("a")
    waiting = q.ask("b")
    q.ask("c")
    await asyncio.sleep(0.1)
    waiting[0].cancel()
    await asyncio.sleep(10)
    assert q.got == [(0.0, "a"), (1.0, "c")]
    assert q.turns.waiting == 0


async def test_it_rests_while_nobody_waits(queue):
    q = queue(1)
    await asyncio.sleep(100)
    q.ask("a", 2)
    await asyncio.sleep(10)
    assert q.times() == [100.0, 101.0]


async def test_thousands_of_namespaces_are_not_remembered_for_ever(queue):
    q = queue(100_000)
    for number in range(5_000):
        q.ask(f"n{number}")
    await asyncio.sleep(1)
    assert len(q.turns._served) == 4096
    assert q.turns.served("n0") == float("-inf")
    assert q.turns.served("n4999") > 0
