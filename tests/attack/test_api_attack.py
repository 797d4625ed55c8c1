"""The API's port as an attacker meets it: real sockets, the whole front, nobody is served who should not be."""

import asyncio
import time
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.core.reporting.audit import AuditLog
from app.core.web.serving import HttpServer
from tests.api.facts import NAMESPACE, healthy
from tests.api.fakes import FakeOverrides, FakeShoots, application, context

pytestmark = pytest.mark.looptime(False)

PAUSE = f"/api/v1/shoots/{NAMESPACE}/pause"
GOOD = b'{"reason": "x"}'
JSON = "Content-Type: application/json"
CHUNKED = b"f\r\n" + GOOD + b"\r\n0\r\n\r\n"


class Port:
    """The API on a socket, and what it did."""

    def __init__(self):
        shoots = FakeShoots()
        shoots.add(healthy())
        self.overrides = FakeOverrides()
        self.audit = AuditLog(time.monotonic)
        given = context(shoots, overrides=self.overrides, audit=self.audit)
        app = application(given, local_only=True)
        self.lines: list[Any] = []
        self.server = HttpServer("api", app, "127.0.0.1", 0)

    async def talk(self, *parts, pause=0.0, seconds=5.0):
        """Sends bytes; returns all that comes back until the connection ends, or nothing comes for a moment."""
        reader, writer = await asyncio.open_connection(*self.server.address)
        try:
            for each in parts:
                writer.write(each)
                await asyncio.sleep(pause)
            async with asyncio.timeout(seconds):
                return await _all(reader)
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()

    @property
    def untouched(self):
        """Whether nothing was written."""
        return not self.overrides.effective(NAMESPACE).covering


async def _all(reader):
    found = b""
    try:
        while chunk := await asyncio.wait_for(reader.read(100_000), 0.5):
            found += chunk
    except (TimeoutError, ConnectionError):
        pass
    return found


@pytest.fixture
async def port():
    with capture_logs() as lines:
        found = Port()
        found.lines = lines
        serving = asyncio.ensure_future(found.server.run())
        yield found
        assert (await found.talk(request("GET /livez", "Connection: close"))).startswith(
            b"HTTP/1.1 200"
        ), "it lives on"
        found.server.stop()
        await serving
        assert not [each for each in lines if each["log_level"] in {"error", "critical"}]


def request(line, *headers, body=b""):
    head = [f"{line} HTTP/1.1", "Host: localhost", *headers]
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


def statuses(answer):
    return [int(each[:3]) for each in answer.split(b"HTTP/1.1 ")[1:]]


put = partial(request, f"PUT {PAUSE}")


async def test_a_write_as_it_should_be_is_done(port):
    assert statuses(await port.talk(put(body=GOOD))) == [200]
    assert not port.untouched


UNCLEAR = [
    # two lengths
    put("Content-Length: 5", "Transfer-Encoding: chunked", "Content-Type: application/json")
    + b"0\r\n\r\n"
    + put(body=GOOD),
    put("Content-Length: 5", "Content-Length: 6", "Content-Type: application/json") + b"12345",
    put("Transfer-Encoding: chunked, identity", "Content-Type: application/json"),
    put("Transfer-Encoding: xchunked", "Content-Type: application/json"),
    put("Transfer-Encoding : chunked", "Content-Type: application/json"),
    put("Content-Length: +15", "Content-Type: application/json") + GOOD,
    put("Content-Length: 0x0f", "Content-Type: application/json") + GOOD,
    put("Content-Length: 15\x00", "Content-Type: application/json") + GOOD,
    # bodies that are none
    request(f"PUT {PAUSE}", "Content-Type: text/plain", "Content-Length: 15") + GOOD,
    request(f"PUT {PAUSE}", "Content-Length: 15") + GOOD,
    put(body=b'{"reason": "x", "reason": "y"}'),
    put(body=b'{"reason": "x", "duration": NaN}'),
    put(body=b'{"reason": "\xff"}'),
    put(body=b"[" * 16_000),
    put(body=b'{"reason": "' + b"x" * 20_000 + b'"}'),
    # lines that some servers, and not others, take for the end of one (RFC 9112, 2.2, 5.2, 6.1 and 6.3)
    put(body=GOOD).replace(b"\r\n", b"\n"),
    put("X: y\nZ: z", body=GOOD),
    put("X: y\n\r\nZ: z", body=GOOD),
    put("X: y\n\nZ: z", body=GOOD),
    put("X: y\rZ: z", body=GOOD),
    request(f"PUT {PAUSE}", body=GOOD).replace(b" HTTP/1.1\r\n", b" HTTP/1.1\n"),
    put("X: y\r\n z", body=GOOD),
    put("X: y\r\n\tz", body=GOOD),
    put("X:\r\n y", body=GOOD),
    put("Transfer-Encoding:\r\n chunked", JSON) + CHUNKED,
    put("Transfer-Encoding: chunked\r\n ", JSON) + CHUNKED,
    put("Transfer-Encoding:\x0bchunked", JSON) + CHUNKED,
    put("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", JSON) + CHUNKED,
    put("Transfer-Encoding: chunked", "Content-Length: 30", JSON) + CHUNKED,
    put("Transfer-Encoding: chunked", JSON).replace(b"HTTP/1.1", b"HTTP/1.0") + CHUNKED,
    put("Content-Length: 15, 15", JSON) + GOOD,
    put("Content-Length: 15,", JSON) + GOOD,
    put("Content-Length: 15", "content-length: 15", JSON) + GOOD,
    put("Transfer-Encoding: chunked", JSON) + CHUNKED.removesuffix(b"\r\n") + b"\n",
    put("Transfer-Encoding: chunked", JSON) + CHUNKED.replace(b"\r\n", b"\n"),
    put("Transfer-Encoding: chunked", JSON) + CHUNKED.replace(b"f\r\n", b"f;x\ny\r\n"),
    put("Transfer-Encoding: chunked", JSON) + CHUNKED.removesuffix(b"\r\n") + b"X: y\n\r\n",
    put("Transfer-Encoding: chunked", JSON) + CHUNKED.removesuffix(b"\r\n") + b"X: y\r\n z\r\n\r\n",
    # another path than it seems
    request(f"PUT {PAUSE.replace('/pause', '%2Fpause')}", body=GOOD),
    request(f"PUT {PAUSE.replace('/pause', '%2fpause')}", body=GOOD),
    request(f"PUT {PAUSE}%00", body=GOOD),
    request(f"PUT {PAUSE.replace('shoot--', '%00shoot--')}", body=GOOD),
    request(f"PUT /api/v1/shoots/../shoots/{NAMESPACE}/pause", body=GOOD),
    request(f"PUT //{PAUSE}", body=GOOD),
    request(f"PUT {PAUSE}/", body=GOOD),
    request(f"PUT {PAUSE.upper()}", body=GOOD),
    request(f"PUT http://localhost{PAUSE}", body=GOOD),
    # another host, or site, than it seems
    put("Host: evil.example", body=GOOD),
    put("Origin: http://evil.example", body=GOOD),
    put("Sec-Fetch-Site: cross-site", body=GOOD),
    # another method than it seems
    request(f"GET {PAUSE}", "X-HTTP-Method-Override: PUT"),
    request(f"POST {PAUSE}", "X-HTTP-Method-Override: PUT", body=GOOD),
    request(f"put {PAUSE}", body=GOOD),
    request(f"CONNECT {PAUSE}"),
    # no HTTP
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"PUT " + PAUSE.encode() + b"\r\n\r\n",
    b"\r\n" * 100,
    b"\x00" * 5_000,
]


async def test_nothing_is_done_for_what_is_not_clearly_asked_for(port):
    answers = await asyncio.gather(*(port.talk(each) for each in UNCLEAR))
    found = {sent: statuses(answer) for sent, answer in zip(UNCLEAR, answers, strict=True)}
    refused = {sent for sent, said in found.items() if all(400 <= each < 500 for each in said)}
    assert not found.keys() - refused
    assert port.untouched


def split(sent):
    """One byte each."""
    return [sent[n : n + 1] for n in range(len(sent))]


@pytest.mark.parametrize(
    "sent",
    [
        put("X: y\nZ: z", body=GOOD),
        put("X: y\r\n z", body=GOOD),
        put("Content-Length: 15, 15", JSON),
        put("Transfer-Encoding: chunked", JSON) + CHUNKED.removesuffix(b"\r\n") + b"\n",
    ],
    ids=["bare LF", "fold", "lengths", "bare LF at the end"],
)
async def test_what_is_ambiguous_is_refused_however_it_is_split(port, sent):
    assert statuses(await port.talk(*split(sent), pause=0.0)) == [400]
    assert port.untouched


async def test_chunks_and_their_trailers_are_read_however_they_are_split(port):
    sent = put("Transfer-Encoding: Chunked", JSON) + CHUNKED.removesuffix(b"\r\n") + b"X: y\r\n\r\n"
    assert statuses(await port.talk(*split(sent), request("GET /livez"))) == [200, 200]
    assert not port.untouched


async def test_what_follows_an_ambiguous_request_is_not_read(port):
    smuggled = put(body=GOOD)
    for outer in ["X: y\nZ: z", "Content-Length: 0, 0", "X: y\r\n z"]:
        assert statuses(await port.talk(request("GET /livez", outer) + smuggled)) == [400]
    behind = await port.talk(request("GET /livez") + request("GET /livez", "X: y\nZ: z") + smuggled)
    assert statuses(behind) == [200, 400]
    assert port.untouched


async def test_a_body_is_not_the_next_request(port):
    inner = put(body=GOOD)
    outer = request("GET /api/v1/status", f"Content-Length: {len(inner)}") + inner
    assert statuses(await port.talk(outer)) == [413]
    assert port.untouched


async def test_a_refused_body_is_not_the_next_request(port):
    inner = put(body=GOOD)
    start = put("Content-Type: text/plain", f"Content-Length: {len(inner)}")
    assert statuses(await port.talk(start + inner)) == [400]
    assert port.untouched


async def test_bodies_that_never_arrive_keep_no_write_out(port):
    """Neither by what a caller may have in work, nor by the connections of its address."""
    held = put("Content-Type: application/json", "Content-Length: 15") + b"{"
    lines = [await asyncio.open_connection(*port.server.address) for _ in range(300)]
    for _, writer in lines:
        writer.write(held)
    await asyncio.sleep(0.5)
    assert statuses(await port.talk(put("Connection: close", body=GOOD))) == [200]
    assert port.server.connections <= 256
    for _, writer in lines:
        writer.transport.abort()


async def test_an_attack_leaves_a_record_and_no_secret(port):
    canary = "eyJhbGciOiJSUzI1NiJ9.s3cr3t-canary.signature"
    await port.talk(put(f"Authorization: Bearer {canary}", "Sec-Fetch-Site: cross-site", body=GOOD))
    (found,) = port.audit.entries()
    assert found.attempt.problem == "urn:dependency-watchdog:problem:cross-site"
    assert "s3cr3t" not in repr(found) + repr(port.lines)
