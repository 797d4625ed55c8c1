"""tcpSocket against real sockets."""

import asyncio
import socket

import pytest

from app.core import name_lookup
from app.core.model.endpoints import ProbeOutcome, TcpSocket
from app.core.name_lookup import IpAddress
from tests.core.handlers.targets import at, free_port, handlers, probe, ran, serving
from tests.core.kube.server import Asked, until

pytestmark = pytest.mark.looptime(False)

SUCCESS, FAILURE, ERROR = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.ERROR
NOBODY = tuple(IpAddress(socket.AF_INET, text) for text in ("127.0.0.1", "127.0.0.2"))


@pytest.fixture
def swallowing():
    """A port whose queue of connections is full: packets to it are dropped."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        held = [socket.socket() for _ in range(4)]
        for each in held:
            each.setblocking(False)
            each.connect_ex(address)
        yield address[1]
        for each in held:
            each.close()


async def test_a_connection_is_enough_and_is_closed_without_a_word():
    heard = asyncio.get_running_loop().create_future()

    async def serve(reader, writer):
        heard.set_result(await reader.read())
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    found = await ran(TcpSocket(listener.sockets[0].getsockname()[1]))
    assert (found.outcome, found.message) == (SUCCESS, "connected")
    assert await heard == b""
    listener.close()


async def test_a_refused_connection_is_a_failure():
    found = await ran(TcpSocket(free_port()))
    assert (found.outcome, found.message) == (FAILURE, "no connection: Connection refused")


async def test_a_connection_that_does_not_come_is_a_failure_in_time(swallowing):
    before = asyncio.get_running_loop().time()
    found = await ran(TcpSocket(swallowing), timeout=0.3)
    assert asyncio.get_running_loop().time() - before < 5
    assert (found.outcome, found.message) == (FAILURE, "no connection within 0.3 s")


async def test_a_name_that_has_no_address_is_a_failure():
    found = await ran(TcpSocket(80), at("no-such-name.invalid"))
    assert (found.outcome, found.message) == (FAILURE, "the name cannot be resolved")


async def test_the_second_address_of_a_name_is_tried_when_the_first_refuses(monkeypatch):
    monkeypatch.setattr(name_lookup, "look_up", lambda _: NOBODY)
    async with serving(Asked.hang, host="127.0.0.2") as target:
        assert (await ran(TcpSocket(target.port), at("two.example"))).outcome is SUCCESS


async def test_the_first_address_may_not_take_the_time_of_the_second(monkeypatch, swallowing):
    monkeypatch.setattr(name_lookup, "look_up", lambda _: NOBODY)

    async def serve(reader, writer):
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.2", swallowing)
    found = await ran(TcpSocket(swallowing), at("two.example"), timeout=4)
    assert found.outcome is SUCCESS
    listener.close()
    await asyncio.sleep(0.05)


async def test_no_socket_stays_open_whatever_happens(swallowing):
    async with serving(Asked.hang) as target, handlers() as made:
        for port in (target.port, free_port(), swallowing):
            await made.run(probe(TcpSocket(port), 0.2), at())
        await until(lambda: not target.open)
