"""A token bucket that callers wait for, on virtual time."""

import asyncio

import pytest

from app.core.fair_queue import TokenQueue


async def takers(queue, clock, number):
    """When each of so many callers got its token, in the order in which they came."""
    began, got = clock.now(), [0.0] * number

    async def take(which):
        await queue.take()
        got[which] = clock.now() - began

    await asyncio.gather(*(take(which) for which in range(number)))
    return got


async def test_a_burst_is_let_through_and_then_one_at_a_time_in_the_order_of_arrival(clock):
    got = await takers(TokenQueue(5.0, 3, clock), clock, 6)
    assert got == pytest.approx([0, 0, 0, 0.2, 0.4, 0.6], abs=0.005)


async def test_who_gives_up_takes_no_token(clock):
    queue = TokenQueue(1.0, 1, clock)
    await queue.take()
    impatient = asyncio.ensure_future(queue.take())
    await clock.sleep(0.5)
    impatient.cancel()
    assert await takers(queue, clock, 1) == pytest.approx([0.5], abs=0.005)


async def test_it_holds_what_nobody_waits_for(clock):
    queue = TokenQueue(1.0, 4, clock)
    assert queue.holds(4)
    await queue.take()
    assert not queue.holds(4)
    assert queue.holds(3)
    waiting = asyncio.ensure_future(takers(queue, clock, 4))
    await clock.sleep(0.5)
    assert not queue.holds(0.1), "what is there belongs to who waits"
    await waiting


@pytest.mark.parametrize("rate", [0.3, 3.0, 7.0, 200.0, 1e6 / 3])
async def test_a_token_that_is_missing_by_a_rounding_error_comes_all_the_same(clock, rate):
    got = await takers(TokenQueue(rate, 2, clock), clock, 40)
    assert got == sorted(got)
    assert got[-1] == pytest.approx(38 / rate, abs=0.05 + 0.01 / rate)
