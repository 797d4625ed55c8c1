"""Who is next, where every request keeps the event loop for a while."""

import asyncio

import pytest

from app.api.limits import RequestQueue, SerializedRequests


class Time:
    """The loop's virtual time, and what work adds to it."""

    def __init__(self):
        self.worked = 0.0

    def __call__(self):
        return asyncio.get_running_loop().time() + self.worked


class Pages:
    """An application whose work takes time of the loop."""

    def __init__(self, time):
        self.time = time
        self.order = []
        self.cost = 0.01
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, scope, receive, send):
        self.order.append(scope["who"])
        self.time.worked += self.cost
        if scope["path"] == "/fails":
            raise ValueError("as the test says")
        if scope["path"] == "/waits":
            await self.gate.wait()
        await send("answer")


@pytest.fixture
async def pages():
    return Pages(Time())


@pytest.fixture
async def turns(pages):
    return SerializedRequests(pages, turns=RequestQueue(pages.time), who=lambda scope: scope["who"])


def call(app, who, path="/page"):
    async def send(message):
        assert message == "answer"

    return asyncio.ensure_future(app({"type": "http", "path": path, "who": who}, None, send))


async def test_callers_take_turns_however_many_requests_each_has(turns, pages):
    calls = [call(turns, who) for who in "aaaaaa"] + [call(turns, "b"), call(turns, "c")]
    await asyncio.gather(*calls)
    assert "".join(pages.order) == "aabcaaaa"


async def test_each_has_the_loop_alone_and_leaves_it_to_others_for_as_long(turns, pages):
    calls = [call(turns, who) for who in "abc"]
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number, each in enumerate(calls):
        await each
        assert len(pages.order) == number + 1
        assert loop.time() - began == pytest.approx(number * 0.01, abs=1e-6)


async def test_a_rest_does_not_last_for_ever(turns, pages):
    pages.cost = 60.0
    await call(turns, "a")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await call(turns, "a")
    assert loop.time() - began == pytest.approx(0.25)


async def test_after_a_rest_nobody_waits(turns):
    await call(turns, "a")
    await asyncio.sleep(1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await call(turns, "a")
    assert loop.time() == began


async def test_who_waits_for_something_else_does_not_keep_the_turn(turns, pages):
    pages.gate.clear()
    waiting = [call(turns, "a", "/waits") for _ in range(20)]
    await asyncio.sleep(1)
    await asyncio.wait_for(call(turns, "b"), 1)
    assert pages.order[-1] == "b"
    pages.gate.set()
    await asyncio.gather(*waiting)


async def test_work_that_fails_gives_the_turn_on(turns):
    failing = call(turns, "a", "/fails")
    after = call(turns, "a")
    with pytest.raises(ValueError, match="as the test says"):
        await failing
    await asyncio.wait_for(after, 1)


async def test_who_is_given_up_while_waiting_gives_the_turn_on(turns, pages):
    pages.gate.clear()
    calls = [call(turns, "a") for _ in range(4)]
    await asyncio.sleep(0)
    for each in calls[1:3]:
        each.cancel()
    await asyncio.wait_for(calls[3], 1)
    assert len(pages.order) == 2


async def test_who_is_given_up_in_the_middle_hears_of_it_where_he_waits(turns, pages):
    pages.gate.clear()
    waiting = call(turns, "a", "/waits")
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(call(turns, "a"), 1)


async def test_who_is_given_up_at_the_very_moment_of_his_turn_gives_it_on(pages):
    turns = RequestQueue(pages.time)
    await turns.wait("a")
    second, third = (asyncio.ensure_future(turns.wait(who)) for who in "bc")
    await asyncio.sleep(0)
    turns._taken = False
    turns.give()
    second.cancel()
    await asyncio.wait_for(third, 1)


async def test_health_does_not_wait(pages):
    blocked = RequestQueue(pages.time)
    await blocked.wait("a")
    app = SerializedRequests(pages, turns=blocked, who=lambda scope: scope["who"])
    await asyncio.wait_for(call(app, "a", "/livez"), 1)
