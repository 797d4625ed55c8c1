"""The application behind the real HTTP server, on a real socket."""

import asyncio

import pytest

from app.core.web.serving import HttpServer
from tests.api.facts import healthy
from tests.api.fakes import FakeShoots, application, context

pytestmark = pytest.mark.looptime(False)


@pytest.fixture
async def talk():
    """Sends raw bytes; returns all that comes back until the server closes."""
    shoots = FakeShoots()
    shoots.add(healthy())
    app = application(context(shoots), local_only=True)
    server = HttpServer("api", app, "127.0.0.1", 0)
    serving = asyncio.ensure_future(server.run())

    async def exchange(request):
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(request)
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer.decode()

    yield exchange
    server.stop()
    await serving


def request(line, *headers):
    lines = (f"{line} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", "")
    return "\r\n".join(lines).encode()


async def test_get_and_head_are_answered(talk):
    answer = await talk(request("GET /api/v1/shoots"))
    assert answer.startswith("HTTP/1.1 200 OK")
    assert "shoot--acme--prod" in answer
    assert "server:" not in answer.lower(), "what serves is nobody's business"
    answer = await talk(request("HEAD /api/v1/shoots"))
    assert answer.startswith("HTTP/1.1 200 OK")
    assert answer.endswith("\r\n\r\n"), "no body"


async def test_a_foreign_host_is_refused(talk):
    answer = await talk(b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert answer.startswith("HTTP/1.1 403")


async def test_a_body_is_refused_before_it_has_arrived_and_the_connection_is_closed(talk):
    endless = (
        b"POST /api/v1/shoots HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\nxxx"
    )
    assert (await talk(endless.replace(b"POST", b"GET"))).startswith("HTTP/1.1 413")


async def test_a_chunked_body_is_refused(talk):
    head = (
        b"GET /api/v1/shoots HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"
    )
    assert (await talk(head)).startswith("HTTP/1.1 413")


async def test_a_large_head_is_431(talk):
    answer = await talk(request("GET /api/v1/shoots", "X-Long: " + "x" * 20_000))
    assert answer.startswith("HTTP/1.1 431")


async def test_what_is_no_http_is_400(talk):
    assert (await talk(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")).startswith("HTTP/1.1 400")
