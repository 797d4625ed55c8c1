"""Events over real sockets: which refusals mean that a right is missing, and which that a namespace is going."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from app.core.clock import Clock
from app.core.errors import Forbidden, NotFound
from app.core.kube.seed_api import SeedApi
from app.core.metrics import Metrics
from tests.core.kube.server import serving
from tests.core.kube.test_seed import FakeCredentials

pytestmark = pytest.mark.looptime(False)

GOING = "shoot--dev--going"
STAYS = "shoot--dev--stays"
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


class World:
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


@asynccontextmanager
async def api_of(world):
    async with serving(world.handle) as server:
        api = SeedApi(FakeCredentials(server), Clock.system(), Metrics(), qps=1000.0, burst=1000)
        try:
            yield api
        finally:
            await api.close()
            await asyncio.sleep(0.01)


def body(name="kube-scheduler.1", namespace=GOING):
    return {"metadata": {"name": name, "namespace": namespace}}


async def test_a_namespace_that_is_being_terminated_is_not_found_and_no_missing_right():
    world = World()
    world.refuses[GOING] = terminating
    async with api_of(world) as api:
        with pytest.raises(NotFound, match="being terminated") as caught:
            await api.create_event(GOING, body())
    assert caught.value.status == 403
    assert isinstance(caught.value.__cause__, Forbidden)


async def test_that_is_told_apart_with_the_longest_names_too():
    """An error's message is cut: what tells it apart must not be what is cut away."""
    world = World()
    world.refuses[LONGEST] = terminating
    async with api_of(world) as api:
        with pytest.raises(NotFound):
            await api.create_event(LONGEST, body(f"{'w' * 63}.66517289c5090.7", LONGEST))


async def test_any_other_403_is_a_missing_right():
    world = World()
    world.refuses[GOING] = no_right
    async with api_of(world) as api:
        with pytest.raises(Forbidden, match="cannot create resource"):
            await api.create_event(GOING, body())
