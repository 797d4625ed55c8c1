"""Streams over real sockets: many at once, clients that vanish or do not read, and a server that stops."""

import asyncio
import socket
from dataclasses import replace

import pytest

from app.core.model.callers import Caller, Role
from app.core.web import connections
from app.core.web.serving import HttpServer
from tests.api.facts import NAMESPACE, healthy
from tests.api.fakes import FakeShoots
from tests.api.streaming.listening import Harness, parsed

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


def change(harness, shoots, message):
    shoots.add(replace(healthy(), message=message))
    harness.look(NAMESPACE)


async def until(so):
    async with asyncio.timeout(5):
        while not so():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def test_a_change_reaches_many_and_they_do_not_hold_up_the_stop_that_each_is_told(
    served, shoots
):
    harness, server, serving = served
    clients = await asyncio.gather(*(opened(server) for _ in range(MANY)))
    assert len(harness.streams) == MANY
    change(harness, shoots, "a change for all")
    async with asyncio.timeout(1):
        await asyncio.gather(*(reader.readuntil(b"a change for all") for reader, _ in clients))
    loop = asyncio.get_running_loop()
    began = loop.time()
    server.stop()
    await serving
    assert loop.time() - began < 1
    for reader, writer in clients:
        rest = await reader.read()
        assert b"event: end\n" in rest
        assert rest.endswith(b"0\r\n\r\n"), "the answer is whole"
        writer.close()
    assert len(harness.streams) == 0


async def test_a_client_that_vanishes_gives_its_place_back(served):
    harness, server, _ = served
    _, writer = await opened(server)
    writer.transport.abort()
    await until(lambda: len(harness.streams) == 0)


async def test_a_client_that_does_not_read_is_cut_off_and_the_others_hear_everything(
    served, shoots, monkeypatch
):
    monkeypatch.setattr(connections, "_STALLED", 0.5)
    harness, server, _ = served
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    deaf.setblocking(False)
    await asyncio.get_running_loop().sock_connect(deaf, server.address)
    await asyncio.get_running_loop().sock_sendall(deaf, REQUEST)
    reader, writer = await opened(server)
    await until(lambda: len(harness.streams) == 2)
    for number in range(20):  # far more than the buffers on the way
        body = f"event: x\ndata: {number}\n: {'x' * 300_000}\n\n".encode()
        harness.streams.feed.publish("shoot", NAMESPACE, body)
        async with asyncio.timeout(1):
            while not (await reader.readline()).startswith(b"data: %d\n" % number):
                pass
    await until(lambda: len(harness.streams) == 1)
    change(harness, shoots, "still there")
    async with asyncio.timeout(1):
        while b"still there" not in await reader.readline():
            pass
    deaf.close()
    writer.close()


async def test_what_comes_over_the_socket_can_be_read_by_the_rules_of_the_format(served, shoots):
    harness, server, _ = served
    reader, writer = await asyncio.open_connection(*server.address, limit=2**20)
    writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nLast-Event-ID: 1\r\nConnection: close\r\n\r\n"))
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    begun = await reader.readuntil(b"event: snapshot-end")
    change(harness, shoots, 'line\nbreak \r "quoted" \x00 \u2028 ü')
    await asyncio.sleep(0.3)
    server.stop()
    text = unchunked(begun + await reader.read()).decode()
    names = [each.name for each in parsed(text)]
    assert names == ["", "gap", *["shoot"] * 51, "snapshot-end", "shoot", "end"]
    assert parsed(text)[-2].data["message"] == 'line\nbreak \r "quoted" \x00 \u2028 ü'
    writer.close()


def unchunked(body: bytes) -> bytes:
    found = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        found += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    return found
