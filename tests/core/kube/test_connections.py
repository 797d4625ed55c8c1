"""Statuses, headers and exceptions as errors of the tree; undecoded bytes: what fits, what waits, nobody for ever."""

import asyncio
from pathlib import Path
from random import Random

import pytest
import yaml

from app.core import errors
from app.core.kube import connections

ASKED = connections.RequestedRight("patch", "deployments", "ns/kcm")
ANSWERS = yaml.safe_load((Path(__file__).parent / "answers.yaml").read_text())


@pytest.mark.parametrize(("status", "kind"), ANSWERS["statuses"].items())
def test_each_status_has_its_error(status, kind):
    error = connections.error_of_status(ASKED, status)
    assert type(error).__name__ == kind
    assert error.status == status
    assert str(error).startswith("patch deployments in ns/kcm: ")


@pytest.mark.parametrize(
    ("header", "date", "seconds"), [*ANSWERS["retry after"], ("9" * 400, None, None)]
)
def test_retry_after_is_read_in_both_forms(header, date, seconds):
    assert connections.retry_after_of(header, date) == seconds


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (TimeoutError(), errors.Unreachable, "no answer in time"),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            errors.Unreachable,
            "reset by peer",
        ),
        (OSError(), errors.Unreachable, "OSError"),
        (RecursionError(), errors.LimitExceeded, "nested too deeply"),
        (errors.NotFound("x"), errors.NotFound, "x"),
    ],
)
def test_exceptions_of_libraries_become_our_own(error, kind, text):
    got = connections.error_of_exception(ASKED, error)
    assert type(got) is kind
    assert text in str(got)


# Undecoded bytes.


async def test_what_fits_does_not_wait():
    budget = connections.ByteBudget(100, 40)
    with budget.claim() as claim:
        await claim(40)
        assert budget.used == 40
    assert budget.used == 0


async def test_who_does_not_fit_waits_until_another_has_finished():
    budget = connections.ByteBudget(100, 60)
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
    budget = connections.ByteBudget(100, 60)
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
    random, budget = Random(seed), connections.ByteBudget(300, 100)

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
        connections.ByteBudget(10, 11)
