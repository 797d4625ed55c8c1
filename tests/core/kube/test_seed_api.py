"""What is asked before a request is sent, and before it is sent once more."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from app.core.clock import Clock
from app.core.errors import LeadershipLost, Unauthorized
from app.core.kube.client import ApiRequest, WatchSilent
from app.core.kube.failures import RequestedRight
from app.core.kube.seed_api import Budget, SeedApi
from app.core.metrics import Metrics
from tests.core.kube.server import serving
from tests.core.kube.test_seed import FakeCredentials

pytestmark = pytest.mark.looptime(False)

PATH = "/api/v1/namespaces/shoot--dev--one/pods/a"
DELETION = ApiRequest(
    RequestedRight("delete", "pods", "shoot--dev--one"), PATH, 5.0, method="DELETE"
)


class World:
    """Knows one token."""

    def __init__(self, token="t1"):  # noqa: S107 - nobody's token
        self.token = token
        self.executed = 0

    async def handle(self, asked):
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            await asked.answer({"message": "who are you?"}, 401)
            return
        self.executed += 1
        await asked.answer({"kind": "Status", "status": "Success"})


@asynccontextmanager
async def api_of(world, next_token=None):
    """We have the token `t1`; read again it is `next_token`."""
    async with serving(world.handle) as server:
        credentials = FakeCredentials(server, next_token=next_token)
        api = SeedApi(credentials, Clock.system(), Metrics())
        try:
            yield api, server
        finally:
            await api.close()
            await asyncio.sleep(0.01)


class Starting:
    """Counts how often it is asked; refuses from a number on."""

    def __init__(self, refuses_from=None):
        self.asked = 0
        self._refuses_from = refuses_from

    def __call__(self):
        self.asked += 1
        if self._refuses_from is not None and self.asked >= self._refuses_from:
            raise LeadershipLost("another instance leads")


async def delete(api, starting):
    await api.call(DELETION, lambda _: None, Budget.PACED, starting=starting)


async def test_who_starts_it_is_asked_before_it_is_sent():
    world, starting = World(), Starting()
    async with api_of(world) as (api, _):
        await delete(api, starting)
    assert (starting.asked, world.executed) == (1, 1)


async def test_what_is_refused_then_is_not_sent():
    async with api_of(World()) as (api, server):
        with pytest.raises(LeadershipLost):
            await delete(api, Starting(refuses_from=1))
        assert server.asked == []


async def test_after_a_401_it_is_asked_again_before_the_second_send():
    world, starting = World("t2"), Starting()
    async with api_of(world, "t2") as (api, server):
        await delete(api, starting)
        assert len(server.asked) == 2
    assert (starting.asked, world.executed) == (2, 1)


async def test_leadership_that_was_lost_while_a_401_came_back_ends_the_request():
    world = World("t2")
    async with api_of(world, "t2") as (api, server):
        with pytest.raises(LeadershipLost):
            await delete(api, Starting(refuses_from=2))
        assert len(server.asked) == 1
    assert world.executed == 0


async def test_a_401_to_credentials_that_are_still_the_same_is_not_asked_for_again():
    starting = Starting()
    async with api_of(World("t2")) as (api, server):
        with pytest.raises(Unauthorized):
            await delete(api, starting)
        assert len(server.asked) == 1
    assert starting.asked == 1


async def test_a_silent_watch_is_given_up():
    """Its connection may be dead without anybody having said so."""

    async def stream(asked):
        await asked.begin_stream()
        await asked.hang()

    async with serving(stream) as server, asyncio.timeout(5):
        api = SeedApi(FakeCredentials(server), Clock.system(), Metrics())
        watch = ApiRequest(RequestedRight("watch", "pods", "all namespaces"), "/api/v1/pods", 5.0)
        async with api.watch(watch, silence=0.1) as lines:
            with pytest.raises(WatchSilent):
                await anext(lines)
        await api.close()
