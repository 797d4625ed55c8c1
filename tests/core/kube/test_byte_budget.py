"""Undecoded bytes: what fits, what waits, and that nobody waits for ever."""

import asyncio
from random import Random

import pytest

from app.core.kube.connections import ByteBudget


async def test_what_fits_does_not_wait():
    budget = ByteBudget(100, 40)
    with budget.claim() as claim:
        await claim(40)
        assert budget.used == 40
    assert budget.used == 0


async def test_who_does_not_fit_waits_until_another_has_finished():
    budget = ByteBudget(100, 60)
    order = []

    async def read(name, size, seconds):
        with budget.claim() as claim:
            await claim(size)
            order.append(name)
            await asyncio.sleep(seconds)

    await asyncio.gather(read("a", 60, 2), read("b", 60, 1), read("c", 10, 1))
    assert order == ["a", "c", "b"]
    assert budget.used == 0


async def test_one_that_is_cancelled_while_it_waits_gives_back_what_it_had():
    budget = ByteBudget(100, 60)
    with budget.claim() as first:
        await first(60)

        async def late():
            with budget.claim() as claim:
                await claim(20)
                await claim(40)

        task = asyncio.ensure_future(late())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert budget.used == 60


@pytest.mark.parametrize("seed", range(20))
async def test_answers_that_grow_beside_each_other_never_lock_each_other_out(seed):
    random, budget = Random(seed), ByteBudget(300, 100)

    async def read(size):
        with budget.claim() as claim:
            while size > 0:
                chunk = min(size, random.randint(1, 30))
                await claim(chunk)
                assert budget.used <= 300
                size -= chunk
                await asyncio.sleep(random.random())

    async with asyncio.timeout(10_000):
        await asyncio.gather(*(read(random.randint(1, 100)) for _ in range(40)))
    assert budget.used == 0


def test_the_largest_body_must_fit():
    with pytest.raises(ValueError, match="must fit"):
        ByteBudget(10, 11)
