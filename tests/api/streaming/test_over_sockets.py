"""Streams over real sockets: many at once, and a server that stops."""

import asyncio
from dataclasses import replace

import pytest

from app.core.model.callers import Caller, Role
from app.core.web.serving import HttpServer
from tests.api.facts import NAMESPACE, healthy
from tests.api.fakes import FakeShoots
from tests.api.streaming.listening import Harness

pytestmark = pytest.mark.looptime(False)

CALLER = Caller("tester", Role.ADMIN)
MANY = 20
REQUEST = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def shoots():
    found = FakeShoots()
    found.add(*(healthy(f"shoot--{number}") for number in range(50)), healthy())
    return found


@pytest.fixture
async def served(shoots):
    """The application behind its server, on a real socket."""
    harness = Harness.create(shoots=shoots, most_each=MANY)

    async def identified(scope, receive, send):
        scope["state"]["caller"] = CALLER
        await harness.app(scope, receive, send)

    server = HttpServer("api", identified, "127.0.0.1", 0)
    serving = asyncio.ensure_future(server.run())
    yield harness, server, serving
    server.stop()
    await serving
    server.close()
    await harness.tasks.stop()


async def opened(server):
    """A stream that has begun."""
    reader, writer = await asyncio.open_connection(*server.address, limit=2**20)
    writer.write(REQUEST)
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readuntil(b"retry: ")
    return reader, writer


async def test_a_change_reaches_many_and_they_do_not_hold_up_the_stop_that_each_is_told(
    served, shoots
):
    harness, server, serving = served
    clients = await asyncio.gather(*(opened(server) for _ in range(MANY)))
    assert len(harness.streams) == MANY
    shoots.add(replace(healthy(), message="a change for all"))
    harness.look(NAMESPACE)
    async with asyncio.timeout(1):
        await asyncio.gather(*(reader.readuntil(b"a change for all") for reader, _ in clients))
    loop = asyncio.get_running_loop()
    began = loop.time()
    harness.streams.stop()
    server.stop()
    await serving
    assert loop.time() - began < 1
    for reader, writer in clients:
        rest = await reader.read()
        assert b"event: end\n" in rest
        assert rest.endswith(b"0\r\n\r\n"), "the answer is whole"
        writer.close()
    assert len(harness.streams) == 0
