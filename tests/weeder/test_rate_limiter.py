import asyncio

import pytest

from app.core.clock import Clock
from app.core.tasks import Tasks
from app.weeder.deletions import FairRateLimiter


class Queue:
    """Who waits for turns, and what each got when."""

    def __init__(self, per_second, **more):
        self.clock = Clock.of_loop()
        self.tasks = Tasks(self.clock)
        self.turns = FairRateLimiter(self.clock, per_second, **more)
        self.begun = self.clock.now()
        self.got = []

    def ask(self, namespace, number=1):
        async def one():
            await self.turns.wait(namespace)
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
    for number in range(45):
        q.ask(f"n{number}")
    await asyncio.sleep(10)
    assert q.times() == [0.0] * 20 + [1.0] * 20 + [2.0] * 5


async def test_one_namespace_alone_has_the_whole_rate_one_turn_at_a_time(queue):
    q = queue(20)
    q.ask("a", 45)
    await asyncio.sleep(10)
    within = [0.025 * number for number in range(20)]
    assert q.times() == pytest.approx([second + at for second in range(3) for at in within][:45])


async def test_who_comes_a_little_earlier_does_not_have_it_all(queue):
    q = queue(20)
    q.ask("early", 100)
    await asyncio.sleep(0.1)
    for number in range(15):
        q.ask(f"n{number}")
    await asyncio.sleep(0.1)
    assert {f"n{number}" for number in range(15)} < set(q.order())
    assert len(q.got) == 20


async def test_a_turn_that_is_given_back_is_somebody_elses(queue):
    q = queue(1)
    await q.turns.wait("a")
    q.ask("b")
    await asyncio.sleep(0.25)
    q.turns.returned("a")
    await asyncio.sleep(0.25)
    assert q.got == [(0.25, "b")]
    assert q.turns.served("a") == float("-inf")


async def test_a_turn_that_is_given_back_late_makes_no_more_of_them(queue):
    q = queue(1)
    await q.turns.wait("a")
    await asyncio.sleep(5)
    q.ask("b", 3)
    await asyncio.sleep(0.1)
    q.turns.returned("a")
    await asyncio.sleep(10)
    assert q.times() == [5.0, 6.0, 7.0]


async def test_who_gives_a_turn_back_has_the_place_that_it_had(queue):
    q = queue(1)
    await q.turns.wait("a")
    first = q.turns.served("a")
    await asyncio.sleep(3)
    await q.turns.wait("a")
    q.turns.returned("a")
    assert q.turns.served("a") == first


async def test_a_turn_that_comes_as_its_waiter_is_cancelled_is_not_lost(queue):
    q = queue(1)
    waiter = asyncio.ensure_future(q.turns.wait("a"))
    while q.turns.served("a") < 0:  # noqa: ASYNC110 - the very turn of the loop, between two steps
        await asyncio.sleep(0)
    waiter.cancel()
    q.ask("b")
    await asyncio.sleep(0.5)
    assert waiter.cancelled()
    assert q.got == [(0.0, "b")]


async def test_who_is_cancelled_right_before_its_turn_harms_nobody(queue):
    q = queue(1)
    q.ask("a")
    leaves = [asyncio.ensure_future(q.turns.wait("b")), asyncio.ensure_future(q.turns.wait("b"))]
    q.ask("c")
    await asyncio.sleep(0.5)
    for each in leaves:
        asyncio.get_running_loop().call_at(asyncio.get_running_loop().time() + 0.5, each.cancel)
    await asyncio.sleep(5)
    assert q.got == [(0.0, "a"), (1.0, "c")]


async def test_in_no_second_are_there_more_than_the_rate(queue):
    q = queue(7)
    for step in range(40):
        q.ask(f"n{step % 3}", 3)
        await asyncio.sleep(0.13)
    await asyncio.sleep(60)
    times = q.times()
    assert len(times) == 120
    assert all(later - first >= 1 - 1e-6 for first, later in zip(times, times[7:], strict=False))


@pytest.mark.parametrize(("per_second", "number", "last"), [(0.5, 3, 4.0), (2.5, 25, 9.6)])
async def test_a_rate_that_is_no_whole_number_is_kept_over_time(queue, per_second, number, last):
    q = queue(per_second)
    q.ask("a", number)
    await asyncio.sleep(20)
    assert q.times()[-1] == pytest.approx(last)


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


async def test_who_has_rested_sooner_is_served_sooner_although_it_asks_later(queue):
    q = queue(20)
    await q.turns.wait("b")
    await asyncio.sleep(0.01)
    q.ask("a", 2)
    await asyncio.sleep(0.001)
    q.ask("b")
    await asyncio.sleep(1)
    assert q.got == [(0.01, "a"), (0.025, "b"), (0.035, "a")]


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
    assert q.turns.waiting("b") == 0


async def test_an_instant_before_a_turn_is_free_again_there_are_no_more_than_there_will_be():
    """Instants are rounded: what is due within a microsecond is due, once."""
    shown = 0.0
    turns = FairRateLimiter(Clock(1_800_000_000.0, lambda: shown), 20)
    waiters = [asyncio.ensure_future(turns.wait(f"n{number}")) for number in range(100)]
    await asyncio.sleep(0.5)
    assert sum(each.done() for each in waiters) == 20
    shown = 1.0 - 5e-7
    turns.give()
    await asyncio.sleep(0.001)
    assert sum(each.done() for each in waiters) == 40
    for each in waiters:
        each.cancel()


async def test_namespaces_are_not_remembered_for_ever(queue, monkeypatch):
    monkeypatch.setattr("app.weeder.deletions._NAMESPACES", 40)
    q = queue(100_000)
    for number in range(50):
        q.ask(f"n{number}")
    await asyncio.sleep(1)
    assert len(q.turns._served) == 40
    assert q.turns.served("n0") == float("-inf")
    assert q.turns.served("n49") > 0
