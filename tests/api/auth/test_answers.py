"""What is remembered of the seed's answers, for how long, and how much of it."""

import asyncio

import pytest

from app.api.auth.reviews import FRESH, ReviewCache
from app.core.errors import Unreachable


@pytest.fixture
def answers() -> ReviewCache[bool]:
    return ReviewCache(most=3)


def test_a_flood_of_wrong_ones_pushes_out_nothing_that_is_right(answers):
    answers.note("right", True, 0.0)
    for number in range(1_000):
        answers.note(number, False, 0.0)
    assert answers.yes("right", 1.0, FRESH)
    assert [each for each in range(1_000) if answers.denied(each, 1.0)] == [997, 998, 999]


def test_of_many_right_ones_those_are_kept_that_were_of_use_last(answers):
    for key in "abc":
        answers.note(key, True, 0.0)
    assert answers.yes("a", 1.0, FRESH)
    answers.note("d", True, 1.0)
    assert [key for key in "abcd" if answers.yes(key, 2.0, FRESH)] == ["a", "c", "d"]


class Asked:
    """Counts how often it is asked; answers after a second."""

    def __init__(self, error: Exception | None = None):
        self.times = 0
        self.error = error

    async def __call__(self) -> bool:
        self.times += 1
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error
        return True


async def test_a_failure_is_that_of_all_who_waited_and_of_nobody_after(answers):
    ask = Asked(Unreachable("away"))
    found = await asyncio.gather(
        *(answers.together("k", ask) for _ in range(5)), return_exceptions=True
    )
    assert {type(each) for each in found} == {Unreachable}
    ask.error = None
    assert await answers.together("k", ask)
    assert ask.times == 2


async def test_whoever_asked_may_go_away_and_the_next_asks_anew(answers):
    ask = Asked()
    first = asyncio.ensure_future(answers.together("k", ask))
    others = [asyncio.ensure_future(answers.together("k", ask)) for _ in range(3)]
    await asyncio.sleep(0.5)
    first.cancel()
    assert await asyncio.gather(*others) == [True] * 3
    assert ask.times == 2


async def test_whoever_waits_may_go_away_and_nobody_notices(answers):
    ask = Asked()
    first = asyncio.ensure_future(answers.together("k", ask))
    second = asyncio.ensure_future(answers.together("k", ask))
    await asyncio.sleep(0.5)
    second.cancel()
    assert await first
    assert (second.cancelled(), ask.times) == (True, 1)
