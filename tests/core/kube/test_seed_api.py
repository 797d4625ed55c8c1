"""What is asked before a request is sent, and before it is sent once more; what refusals of Events mean."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace

import pytest

from app.core.errors import BadAnswer, Forbidden, LeadershipLost, NotFound, Unauthorized
from app.core.kube.client import ApiRequest, WatchSilent
from app.core.kube.connections import RequestedRight
from app.core.kube.seed_api import Budget
from tests.core.kube.server import api_of

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


async def watch(api):
    async with api.watch(replace(DELETION, method="GET"), silence=1.0) as lines:
        return [line async for line in lines]


async def command(api):
    async with api.socket(replace(DELETION, method="GET"), ("v5.channel.k8s.io",)):
        pass


@pytest.mark.parametrize("way", [watch, command])
async def test_watches_and_commands_are_begun_again_with_the_token_that_is_read_after_a_401(way):
    world = World("t2")
    async with api_of(world.handle, "t2") as (api, server):
        with suppress(BadAnswer):  # it knows no WebSockets
            await way(api)
        assert len(server.asked) == 2
    assert world.executed == 1


@pytest.mark.parametrize("budget", [Budget.LEASE, Budget.PACED, None], ids=str)
async def test_what_has_a_budget_of_its_own_waits_for_no_other(budget):
    """Nothing is left of the normal budget; None: commands in containers."""
    async with api_of(World().handle, qps=0.001, burst=1) as (api, server):
        await api.call(DELETION, lambda _: None)
        async with asyncio.timeout(1):
            if budget is None:
                with suppress(BadAnswer):
                    await command(api)
            else:
                await api.call(DELETION, lambda _: None, budget)
        assert len(server.asked) == 2


async def test_who_starts_it_is_asked_before_it_is_sent():
    world, starting = World(), Starting()
    async with api_of(world.handle) as (api, _):
        await delete(api, starting)
    assert (starting.asked, world.executed) == (1, 1)


async def test_what_is_refused_then_is_not_sent():
    async with api_of(World().handle) as (api, server):
        with pytest.raises(LeadershipLost):
            await delete(api, Starting(refuses_from=1))
        assert server.asked == []


async def test_after_a_401_it_is_asked_again_before_the_second_send():
    world, starting = World("t2"), Starting()
    async with api_of(world.handle, "t2") as (api, server):
        await delete(api, starting)
        assert len(server.asked) == 2
    assert (starting.asked, world.executed) == (2, 1)


async def test_leadership_that_was_lost_while_a_401_came_back_ends_the_request():
    world = World("t2")
    async with api_of(world.handle, "t2") as (api, server):
        with pytest.raises(LeadershipLost):
            await delete(api, Starting(refuses_from=2))
        assert len(server.asked) == 1
    assert world.executed == 0


async def test_a_401_to_credentials_that_are_still_the_same_is_not_asked_for_again():
    starting = Starting()
    async with api_of(World("t2").handle) as (api, server):
        with pytest.raises(Unauthorized):
            await delete(api, starting)
        assert len(server.asked) == 1
    assert starting.asked == 1


async def test_a_silent_watch_is_given_up():
    """Its connection may be dead without anybody having said so."""

    async def stream(asked):
        await asked.begin_stream()
        await asked.hang()

    async with api_of(stream) as (api, _), asyncio.timeout(5):
        watch = ApiRequest(RequestedRight("watch", "pods", "all namespaces"), "/api/v1/pods", 5.0)
        async with api.watch(watch, silence=0.1) as lines:
            with pytest.raises(WatchSilent):
                await anext(lines)


# Events: which refusals mean that a right is missing, and which that a namespace is going.

GOING = "shoot--dev--going"
LONGEST = f"shoot--{'x' * 56}"
"""A namespace's name has 63 characters at most."""


def refusal(code, message, reason="Forbidden"):
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def terminating(name, namespace):
    """As a real API server puts it."""
    return refusal(
        403,
        f'events.events.k8s.io "{name}" is forbidden: unable to create new content in namespace '
        f"{namespace} because it is being terminated",
    )


def no_right(name, namespace):
    return refusal(
        403,
        f'events.events.k8s.io is forbidden: User "dwd" cannot create resource "events" in API '
        f'group "events.k8s.io" in the namespace "{namespace}"',
    )


class Events:
    """A seed that takes Events, but for those of some namespaces."""

    def __init__(self):
        self.refuses = {}
        """What it says to Events of a namespace, by its name."""
        self.taken = []

    async def handle(self, asked):
        namespace, body = asked.path.split("/")[5], json.loads(asked.body)
        name = body["metadata"]["name"]
        if namespace in self.refuses:
            status = self.refuses[namespace](name, namespace)
            await asked.answer(status, status["code"])
            return
        self.taken.append((namespace, body))
        await asked.answer(body, 201)


def body(name="kube-scheduler.1", namespace=GOING):
    return {"metadata": {"name": name, "namespace": namespace}}


async def test_a_namespace_that_is_being_terminated_is_not_found_and_no_missing_right():
    world = Events()
    world.refuses[GOING] = terminating
    async with api_of(world.handle) as (api, _):
        with pytest.raises(NotFound, match="being terminated") as caught:
            await api.create_event(GOING, body())
    assert caught.value.status == 403
    assert isinstance(caught.value.__cause__, Forbidden)


async def test_that_is_told_apart_with_the_longest_names_too():
    """An error's message is cut: what tells it apart must not be what is cut away."""
    world = Events()
    world.refuses[LONGEST] = terminating
    async with api_of(world.handle) as (api, _):
        with pytest.raises(NotFound):
            await api.create_event(LONGEST, body(f"{'w' * 63}.66517289c5090.7", LONGEST))


async def test_any_other_403_is_a_missing_right():
    world = Events()
    world.refuses[GOING] = no_right
    async with api_of(world.handle) as (api, _):
        with pytest.raises(Forbidden, match="cannot create resource"):
            await api.create_event(GOING, body())
