"""Refused watches: what is refused in passing is not believed, what goes on being refused is, until a watch is open."""

from contextlib import asynccontextmanager

import pytest

from app.core.errors import Forbidden, Unreachable
from app.core.kube.client import ApiRequest
from app.core.kube.failures import RequestedRight
from app.core.kube.reflector import RefusalWatch

REQUEST = ApiRequest(RequestedRight("list", "pods", "all namespaces"), "/api/v1/pods", 10.0)
NO = Forbidden("list pods: 403 (Forbidden)", status=403)


class Server:
    """Answers as it is told to."""

    def __init__(self):
        self.answer = None

    async def call(self, request, decode):
        if self.answer is not None:
            raise self.answer
        return "found"

    @asynccontextmanager
    async def watch(self, request, *, silence):
        if self.answer is not None:
            raise self.answer
        yield iter(())


class Asking:
    """Who asks, and what he was told."""

    def __init__(self):
        self.server = Server()
        self.told: list[str | None] = []
        self.refusals = RefusalWatch(self.server, lambda: self.told.append(self.refusals.forbidden))

    async def list(self, answer=None):
        self.server.answer = answer
        if answer is None:
            return await self.refusals.call(REQUEST, bytes)
        with pytest.raises(type(answer)):
            await self.refusals.call(REQUEST, bytes)
        return None

    async def watch(self, answer=None):
        self.server.answer = answer
        if answer is None:
            async with self.refusals.watch(REQUEST, silence=60.0):
                return
        with pytest.raises(type(answer)):
            async with self.refusals.watch(REQUEST, silence=60.0):
                pass


@pytest.fixture
def asking():
    return Asking()


async def test_two_refusals_in_a_row_are_not_believed(asking):
    for _ in range(2):
        await asking.list(NO)
    assert (asking.refusals.forbidden, asking.told) == (None, [])


async def test_the_third_in_a_row_is_believed_and_told_once(asking):
    for _ in range(5):
        await asking.list(NO)
    assert asking.told == [str(NO)]


async def test_refusals_of_lists_and_of_watches_add_up(asking):
    await asking.list(NO)
    await asking.watch(NO)
    await asking.list(NO)
    assert asking.told == [str(NO)]


async def test_refusals_with_a_watch_in_between_never_add_up(asking):
    for _ in range(3):
        await asking.list(NO)
        await asking.list(NO)
        await asking.watch()
    assert (asking.refusals.forbidden, asking.told) == (None, [])


async def test_a_list_alone_does_not_prove_that_the_watch_may_be_had(asking):
    for _ in range(3):
        await asking.watch(NO)
        assert await asking.list() == "found"
    assert asking.told == [str(NO)]


async def test_a_server_that_is_away_has_refused_nothing(asking):
    for _ in range(5):
        await asking.list(Unreachable("nobody there"))
        await asking.watch(Unreachable("nobody there"))
    assert (asking.refusals.forbidden, asking.told) == (None, [])


async def test_a_watch_that_is_open_takes_it_back_and_that_is_told(asking):
    for _ in range(3):
        await asking.list(NO)
    await asking.watch()
    assert asking.told == [str(NO), None]


async def test_after_that_it_takes_three_again(asking):
    for _ in range(3):
        await asking.list(NO)
    await asking.watch()
    for _ in range(2):
        await asking.list(NO)
    assert asking.refusals.forbidden is None
    await asking.list(NO)
    assert asking.refusals.forbidden == str(NO)
