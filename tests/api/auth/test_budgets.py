"""Whose review is sent next, and that nobody uses up what somebody else needs."""

import asyncio
from contextlib import suppress

import pytest

from app.api.auth.reviews import MOST_WAITING, PATIENCE, FairBudget, Reputation
from app.api.limits import Allowance
from app.core.clock import Clock
from app.core.errors import Throttled

SMALL = Allowance(rate=5, burst=5, at_once=2)


class Seed:
    """What is asked of it takes a while."""

    def __init__(self, share=SMALL, takes=0.01):
        self.budget = FairBudget(share, Clock.of_loop().now)
        self.takes = takes
        self.asked = []
        self.most = self._now = 0

    async def ask(self, who, part=""):
        """Seconds that it waited for its turn; raises Throttled."""
        loop = asyncio.get_running_loop()
        came = loop.time()
        async with self.budget.turn(who, part):
            waited = loop.time() - came
            self.asked.append((loop.time(), who))
            self._now += 1
            self.most = max(self.most, self._now)
            try:
                await asyncio.sleep(self.takes)
            finally:
                self._now -= 1
        return waited

    async def flood(self, who, rate, seconds, part=""):
        """Asks so often a second, whatever comes of it."""
        asking = set()
        for _ in range(int(rate * seconds)):
            asking.add(asyncio.ensure_future(self._in_vain(who, part)))
            await asyncio.sleep(1 / rate)
        await asyncio.wait(asking)

    async def _in_vain(self, who, part=""):
        with suppress(Throttled):
            await self.ask(who, part)


@pytest.fixture
async def seed():
    return Seed()


async def test_more_than_a_burst_waits_for_its_time_and_is_done(seed):
    waited = await asyncio.gather(*(seed.ask("a") for _ in range(10)))
    assert waited == pytest.approx([0, 0, 0.01, 0.01, 0.02, 0.2, 0.4, 0.6, 0.8, 1.0], abs=0.02)


async def test_no_flood_makes_more_of_a_second_or_of_a_moment(seed):
    await asyncio.gather(*(seed.flood(f"{n}", rate=100, seconds=10) for n in range(4)))
    began, ended = seed.asked[0][0], seed.asked[-1][0]
    assert len(seed.asked) == pytest.approx(SMALL.burst + SMALL.rate * (ended - began), abs=1)
    assert seed.most == SMALL.at_once


async def test_whoever_asks_for_little_waits_for_one_round_of_those_who_ask_for_much(seed):
    flood = asyncio.gather(*(seed.flood(f"{n}", rate=100, seconds=20) for n in range(4)))
    await asyncio.sleep(5)
    for _ in range(12):
        assert await seed.ask("operator") <= 5 / SMALL.rate
    await flood


async def test_of_two_behind_one_address_neither_waits_for_the_flood_of_the_other(seed):
    flood = asyncio.ensure_future(seed.flood("address", rate=100, seconds=8, part="a"))
    await asyncio.sleep(2)
    assert await seed.ask("address", "b") <= 0.5
    await flood


async def test_nobody_waits_for_longer_than_three_seconds(seed):
    flood = asyncio.gather(*(seed.flood(f"{n}", rate=50, seconds=8) for n in range(40)))
    await asyncio.sleep(2)
    came = asyncio.get_running_loop().time()
    with pytest.raises(Throttled, match="too many token and access reviews"):
        await seed.ask("one of too many")
    assert asyncio.get_running_loop().time() - came == PATIENCE == 3.0
    await flood


async def test_of_one_who_has_too_many_that_wait_no_more_are_taken(seed):
    waiting = [asyncio.ensure_future(seed._in_vain("a")) for _ in range(int(SMALL.at_once) + 20)]
    await asyncio.sleep(0)
    with pytest.raises(Throttled, match="of one caller or address"):
        await seed.ask("a")
    assert MOST_WAITING == 20
    assert await seed.ask("b") <= 0.5
    await asyncio.wait(waiting)


async def test_who_goes_away_while_waiting_takes_nobodys_turn(seed):
    seed.takes = 1.0
    gone = [asyncio.ensure_future(seed.ask("a")) for _ in range(12)]
    await asyncio.sleep(0.5)
    for each in gone:
        each.cancel()
    await asyncio.wait(gone)
    assert await seed.ask("b") == 0
    assert len(seed.asked) == 3
    assert not seed.budget._waiting


async def test_a_turn_that_comes_as_its_owner_goes_away_is_the_next_ones(seed):
    seed.takes = 1.0
    first = [asyncio.ensure_future(seed.ask("a")) for _ in range(2)]
    await asyncio.sleep(0.1)
    going, staying = (asyncio.ensure_future(seed.ask(who)) for who in "bc")
    await asyncio.sleep(0.1)
    first[0].cancel()  # `going` has its turn in this very step
    await asyncio.sleep(0)
    going.cancel()
    await asyncio.wait([going])
    assert await staying < 0.2
    await asyncio.wait(first)
    assert await asyncio.wait_for(seed.ask("d"), 2) == 0


def test_all_budgets_together_are_twenty_a_second_and_ten_in_flight():
    shares = [each.value for each in Reputation]
    assert sum(each.rate for each in shares) == 20
    assert sum(each.at_once for each in shares) == 10
