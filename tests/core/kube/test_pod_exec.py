"""The way to a container against a server whose every byte the test decides; real ones: tests/contract/test_exec.py."""

import asyncio
import base64
import contextlib
import hashlib
from contextlib import asynccontextmanager
from unittest.mock import AsyncMock

import aiohttp
import pytest

from app.core.errors import BadAnswer, ClusterError, LimitExceeded, Unreachable
from app.core.kube import pods
from app.core.kube.client import ApiRequest
from app.core.kube.connections import RequestedRight
from app.core.kube.pods import ContainerExec
from tests.core.kube.server import Asked, api_at, serving, until

pytestmark = pytest.mark.looptime(False)

TOKEN = "s3cr3t-canary"
WELL = b"\x03" + b'{"status":"Success"}'


@asynccontextmanager
async def execs_at(server):
    async with api_at(server, TOKEN) as api:
        yield ContainerExec(api), api.metrics


def message(data, opcode=2, *, rsv=0):
    length = bytes([len(data)]) if len(data) < 126 else b"\x7f" + len(data).to_bytes(8, "big")
    return bytes([0x80 | rsv | opcode]) + length + data


async def agree(asked, *messages, protocol="v5.channel.k8s.io", extra=""):
    key = asked.headers["sec-websocket-key"].encode()
    accept = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()  # noqa: S324 - RFC 6455
    head = (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {base64.b64encode(accept).decode()}\r\n"
        f"Sec-WebSocket-Protocol: {protocol}\r\n{extra}\r\n"
    )
    await asked.raw(head.encode() + b"".join(messages))
    await asked.hang()


def agreeing(*messages, **more):
    async def handler(asked):
        await agree(asked, *messages, **more)

    return handler


async def frames(execs, *command):
    async with execs.open("ns", "pod", "main", command or ("true",)) as opened:
        return [tuple(frame) async for frame in opened]


async def outcome(handler, *command):
    async with serving(handler) as server, execs_at(server) as (execs, _):
        return await frames(execs, *command)


CLOSE = message(b"\x03\xe8", 8)


async def test_it_asks_for_the_upgrade_with_the_command_word_by_word():
    async with (
        serving(agreeing(message(WELL), CLOSE)) as server,
        execs_at(server) as (execs, metrics),
    ):
        await frames(execs, "/bin/sh", "-c", "a b&command=c#d+%41")
        (asked,) = server.asked
    assert metrics.requests.labels("seed", "GET", "101")._value.get() == 1
    assert (asked.method, asked.path) == ("GET", "/api/v1/namespaces/ns/pods/pod/exec")
    assert asked.query == {
        "container": "main",
        "command": "a b&command=c#d+%41",  # the last of three
        "stdout": "true",
        "stderr": "true",
    }
    assert asked.headers["sec-websocket-protocol"] == "v5.channel.k8s.io,v4.channel.k8s.io"
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert "sec-websocket-extensions" not in asked.headers


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_frames_come_as_they_are(protocol):
    said = message(b"\x01"), message(b"\x01out"), message(b"", 9), message(WELL), CLOSE
    assert await outcome(agreeing(*said, protocol=protocol)) == [
        (1, b""),
        (1, b"out"),
        (3, WELL[1:]),
    ]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ([message(b"\x01text", 1)], BadAnswer),
        ([message(b"")], BadAnswer),
        ([message(b"\x01" + b"x" * (pods.MOST_MESSAGE + 1))], LimitExceeded),
        ([message(b"\x01x", rsv=0x40)], Unreachable),
        ([b"\xff\xff\xff"], Unreachable),
        ([message(b"", 9)], Unreachable),  # whose answer cannot be sent any more
        ([message(b"\x01" + b"x" * 30_000)] * 5, LimitExceeded),
        ([message(b"\x01")] * 2_000, LimitExceeded),
    ],
    ids=["text", "empty", "large", "compressed", "garbage", "ping", "much", "many"],
)
async def test_what_is_no_stream_of_frames_is_refused(said, error, monkeypatch):
    monkeypatch.setattr(pods, "MOST_OUTPUT", 2_000 * 60)
    lost = AsyncMock(side_effect=aiohttp.ClientConnectionResetError)
    monkeypatch.setattr(aiohttp.ClientWebSocketResponse, "pong", lost)
    with pytest.raises(error, match=r"^create pods/exec in ns/pod: ") as caught:
        await outcome(agreeing(*said))
    assert getattr(caught.value, "limit", "size") == "size"


@pytest.mark.parametrize("protocol", ["channel.k8s.io", "base64.channel.k8s.io", ""])
async def test_a_protocol_that_does_not_tell_the_exit_code_is_refused(protocol):
    with pytest.raises(BadAnswer, match="no protocol"):
        await outcome(agreeing(message(WELL), protocol=protocol))


async def test_a_refusal_whose_words_never_end_ends():
    async def handler(asked):
        await asked.raw(b"HTTP/1.1 500 X\r\n\r\n")
        while True:
            await asked.raw(b"x" * 65536)
            await asyncio.sleep(0.001)

    with pytest.raises(ClusterError, match="500"):
        await outcome(handler)


async def test_an_answer_that_does_not_come_ends(monkeypatch):
    monkeypatch.setattr(pods, "WITHIN", 0.2)
    with pytest.raises(Unreachable):
        await outcome(Asked.hang)


async def endless(asked):
    agreed = asyncio.ensure_future(agree(asked))
    await asyncio.sleep(0.02)
    try:
        while True:
            await asked.raw(message(b"\x01x") * 100)
            await asyncio.sleep(0.001)
    finally:
        agreed.cancel()


@pytest.mark.parametrize("how", ["its time is over", "it has heard enough"])
async def test_leaving_closes_the_connection_though_the_other_side_goes_on(how):
    async def one(execs):
        async with execs.open("ns", "pod", "main", ("yes",)) as opened:
            await anext(opened)

    async with serving(endless) as server, execs_at(server) as (execs, _):
        if how == "it has heard enough":
            await one(execs)
        else:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await frames(execs)
        loop = asyncio.get_running_loop()
        left = loop.time()
        await until(lambda: not server.open)
        assert loop.time() - left < 3


async def test_leaving_ends_the_connection_though_somebody_keeps_the_stream():
    """What nobody holds any more is closed by the collector, some time or other; this must not wait for it."""

    async def deaf(asked):
        with contextlib.suppress(EOFError):
            await agree(asked)
        await asked.reader.read()  # whatever is said: it ends when the connection has
        raise EOFError

    request = ApiRequest(RequestedRight("create", "pods/exec", "ns/pod"), "/exec", 10.0)
    async with serving(deaf) as server, api_at(server) as api:
        async with api.socket(request, pods.PROTOCOLS) as kept:
            assert server.open == 1
        await until(lambda: not server.open, within=1)
        assert kept.closed
