"""What is remembered of the seed's answers, for how long, and how much of it."""

import asyncio

import pytest

from app.api.auth.reviews import FRESH, FRESH_NO, STALE, ReviewCache
from app.core.errors import Unreachable


@pytest.fixture
def answers() -> ReviewCache[bool]:
    return ReviewCache(most=3)


def test_a_yes_counts_for_a_minute_and_five_while_nobody_can_be_asked(answers):
    answers.note("k", True, 100.0)
    assert (FRESH, STALE) == (60.0, 300.0)
    assert answers.yes("k", 159.9, FRESH)
    assert answers.yes("k", 160.0, FRESH) is None
    assert answers.yes("k", 399.9, STALE)
    assert answers.yes("k", 400.0, STALE) is None


def test_a_no_counts_for_ten_seconds_and_never_longer(answers):
    answers.note("k", False, 100.0)
    assert FRESH_NO == 10.0
    assert answers.denied("k", 109.9)
    assert not answers.denied("k", 110.0)
    assert (answers.yes("k", 100.0, FRESH), answers.yes("k", 100.0, STALE)) == (None, None)


@pytest.mark.parametrize("last", [True, False])
def test_the_last_answer_replaces_the_one_before(answers, last):
    answers.note("k", not last, 0.0)
    answers.note("k", last, 1.0)
    assert (answers.yes("k", 1.0, FRESH) is not None, answers.denied("k", 1.0)) == (last, not last)
    assert (answers.yes("k", 1.0, STALE) is not None) is last


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


def test_nothing_is_left_when_all_is_forgotten(answers):
    answers.note("yes", True, 0.0)
    answers.note("no", False, 0.0)
    answers.clear()
    assert (answers.yes("yes", 0.0, STALE), answers.denied("no", 0.0)) == (None, False)


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


async def test_many_who_want_to_know_the_same_ask_once(answers):
    ask = Asked()
    found = await asyncio.gather(*(answers.together("k", ask) for _ in range(100)))
    assert (set(found), ask.times) == ({True}, 1)


async def test_others_are_asked_about_at_the_same_time(answers):
    ask = Asked()
    start = asyncio.get_running_loop().time()
    await asyncio.gather(answers.together("a", ask), answers.together("b", ask))
    assert ask.times == 2
    assert asyncio.get_running_loop().time() - start < 1.5


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
