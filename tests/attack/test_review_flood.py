"""Who floods the API with tokens does not keep an operator from it: real sockets, and a seed that reviews."""

import asyncio
import itertools
import json
from contextlib import asynccontextmanager

import pytest

from app.core.clock import Clock
from app.core.kube.reviews import Reviewer
from app.core.kube.seed_api import SeedApi
from app.core.metrics import Metrics
from app.core.web.serving import HttpServer
from tests.api.auth.callers import api_behind, gate_of
from tests.api.facts import healthy
from tests.api.fakes import FakeShoots
from tests.core.kube.server import FakeCredentials, serving

pytestmark = pytest.mark.looptime(False)

SHOOTS = [f"shoot--acme--{number}" for number in range(12)]
BODY = b'{"reason": "maintenance"}'
NUMBERS = itertools.count()


async def review(asked):
    """The seed knows tokens that name somebody, and lets the operator alone do anything."""
    body = json.loads(asked.body)
    if body["kind"] == "SubjectAccessReview":
        status = {"allowed": body["spec"]["user"] == "operator"}
    else:
        name, _, _ = body["spec"]["token"].partition("-")
        user = {"username": name, "uid": name}
        known = {"user": user, "audiences": ["dependency-watchdog"]} if name != "random" else {}
        status = {"authenticated": bool(known)} | known
    await asked.answer({"kind": body["kind"], "status": status}, 201)


@asynccontextmanager
async def api_of_a_seed():
    async with serving(review) as seed:
        metrics, shoots = Metrics(), FakeShoots()
        shoots.add(*(healthy(each) for each in SHOOTS))
        api = SeedApi(FakeCredentials(seed), Clock.system(), metrics)
        gate = await gate_of("--auth-mode=kubernetes", reviewer=Reviewer(api), metrics=metrics)
        server = HttpServer("api", api_behind(gate, metrics, shoots=shoots), "127.0.0.1", 0)
        running = asyncio.ensure_future(server.run())
        yield server
        server.stop()
        await running
        await api.close()


async def pause(server, address, namespace, token):
    """The status of the answer."""
    host, port = server.address
    reader, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
    head = [
        f"PUT /api/v1/shoots/{namespace}/pause HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(BODY)}",
    ]
    try:
        writer.write("\r\n".join([*head, "", ""]).encode() + BODY)
        return int((await reader.readuntil(b"\r\n\r\n"))[9:12])
    except (OSError, EOFError) as error:
        return type(error).__name__
    finally:
        writer.transport.abort()


async def attack(server, address, name):
    asking = set()
    try:
        while True:
            token = f"{name}-{next(NUMBERS)}"
            asking.add(asyncio.ensure_future(pause(server, address, SHOOTS[0], token)))
            asking = {each for each in asking if not each.done()}
            await asyncio.sleep(0.01)
    finally:
        for each in asking:
            each.cancel()
        await asyncio.wait(asking)


@pytest.mark.parametrize(
    ("attackers", "operator", "known"),
    [
        (["127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14"], "127.0.0.99", False),
        (["127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14"], "127.0.0.99", True),
        (["127.0.0.11", "127.0.0.12"], "127.0.0.11", True),
    ],
    ids=["an operator's first calls", "one who has called before", "one behind the same address"],
)
@pytest.mark.parametrize("name", ["random", "mallory"])
async def test_an_operator_pauses_twelve_shoots_beside_four_who_flood(
    attackers, operator, known, name
):
    async with api_of_a_seed() as server:
        if known:
            assert await pause(server, operator, SHOOTS[0], "operator-0") == 200
        flood = [asyncio.ensure_future(attack(server, each, name)) for each in attackers]
        await asyncio.sleep(0.5)
        found = [await pause(server, operator, each, "operator-0") for each in SHOOTS]
        for each in flood:
            each.cancel()
        await asyncio.wait(flood)
    assert found == [200] * 12
