"""How much a caller may ask for, and that others are served meanwhile."""

import asyncio

import pytest

from app.api.health import PATHS
from app.api.limits import Allowance, Limiter, RateLimits, address_of, name_of, share_of
from app.core.model.callers import Caller

SMALL = Allowance(rate=2, burst=3, at_once=2)


class Work:
    """An application that takes as long as the test says."""

    def __init__(self):
        self.begun = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, scope, receive, send):
        self.begun += 1
        await self.go_on.wait()
        if scope["path"] == "/fails":
            raise ValueError("as the test says")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def work():
    return Work()


@pytest.fixture
def limits(work, time):
    return RateLimits(work, limiter=Limiter(SMALL, time), who=name_of)


def scope(who="alice", path="/api/v1/shoots", method="GET"):
    return {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [],
        "client": ("10.0.0.7", 5000),
        "state": {"caller": Caller(who)} if who else {},
    }


async def call(app, *args):
    sent = []

    async def send(message):
        sent.append(message)

    await app(scope(*args), None, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers


async def statuses(app, number, *args):
    return [(await call(app, *args))[0] for _ in range(number)]


async def test_more_than_a_burst_is_429_and_says_when_to_come_back(limits, work):
    assert await statuses(limits, 4) == [200, 200, 200, 429]
    _, headers = await call(limits)
    assert headers["retry-after"] == "1"
    assert headers["content-type"] == "application/problem+json"
    assert work.begun == 3


async def test_time_lets_a_caller_go_on_at_his_pace(limits, time):
    await statuses(limits, 4)
    time.now += 1
    assert await statuses(limits, 3) == [200, 200, 429]


async def test_others_are_served_while_one_is_refused(limits):
    await statuses(limits, 10, "alice")
    assert await statuses(limits, 3, "bob") == [200, 200, 200]
    assert await statuses(limits, 3, None) == [200, 200, 200]


async def test_a_caller_cannot_take_the_name_of_an_address():
    assert name_of(scope("10.0.0.7")) != name_of(scope(None))
    assert name_of(scope(None)) == address_of(scope(None)) == "10.0.0.7"


@pytest.mark.parametrize("path", PATHS)
async def test_health_is_never_refused(limits, path):
    await statuses(limits, 10)
    assert await statuses(limits, 50, "alice", path) == [200] * 50


async def test_more_at_the_same_time_are_429_until_one_has_ended(limits, work):
    work.go_on.clear()
    waiting = [asyncio.ensure_future(call(limits)) for _ in range(2)]
    await asyncio.sleep(0)
    assert (await call(limits))[0] == 429
    work.go_on.set()
    assert [(await each)[0] for each in waiting] == [200, 200]


async def test_reads_that_wait_leave_a_caller_its_writes(work, time):
    limits = RateLimits(work, limiter=Limiter(SMALL, time), who=share_of)
    work.go_on.clear()
    waiting = [asyncio.ensure_future(call(limits)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await statuses(limits, 2) == [429, 429]
    write = asyncio.ensure_future(call(limits, "alice", "/api/v1/shoots", "PUT"))
    await asyncio.sleep(0)
    work.go_on.set()
    assert (await write)[0] == 200
    await asyncio.gather(*waiting)


async def test_work_that_fails_or_is_given_up_is_no_longer_counted(limits, work, time):
    for _ in range(5):
        time.now += 10
        with pytest.raises(ValueError, match="as the test says"):
            await call(limits, "alice", "/fails")
    work.go_on.clear()
    for _ in range(5):
        time.now += 10
        given_up = asyncio.ensure_future(call(limits))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
    work.go_on.set()
    assert (await call(limits))[0] == 200


async def test_answers_without_an_end_do_not_use_up_what_may_be_in_work(limits, work, time):
    work.go_on.clear()
    streams = []
    for _ in range(5):
        time.now += 1
        streams.append(asyncio.ensure_future(call(limits, "alice", "/api/v1/events")))
        await asyncio.sleep(0)
    assert work.begun == 5
    time.now += 10
    another = asyncio.ensure_future(call(limits))
    await asyncio.sleep(0)
    assert work.begun == 6
    work.go_on.set()
    await asyncio.gather(another, *streams)


async def test_memory_is_bounded_whatever_names_there_are(time):
    limiter = Limiter(SMALL, time)
    for number in range(10_000):
        limiter.take(f"caller {number}")
    assert len(limiter) == 4_096
