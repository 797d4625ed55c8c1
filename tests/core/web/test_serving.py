"""The server on real sockets: what ends a connection, and who gets the next one."""

import asyncio
import ipaddress
import json
import ssl
from contextlib import suppress

import pytest

from app.core import bounded_tls
from app.core.tls import load_chain
from app.core.web import connections, serving
from app.core.web.serving import HttpServer
from bench.hostile.talk import change_keys
from tests.support.certs import Authority, server_context

pytestmark = pytest.mark.looptime(False)


async def respond(send, status=200, body=b"ok", headers=()):
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def simple(scope, receive, send):
    match scope["path"]:
        case "/refused":
            await respond(send, 429)
        case "/large":
            await respond(send, body=b"x" * 8_000_000)
        case "/close":
            await respond(send, 413, headers=[(b"connection", b"close")])
        case "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            await receive()
            await receive()  # returns when the caller has hung up
        case "/body":
            while (await receive()).get("more_body"):
                pass
            await respond(send)
        case _:
            await respond(send)


@pytest.fixture
async def serve():
    running = []

    async def start(app=simple, **limits):
        server = HttpServer("test", app, "127.0.0.1", 0, **limits)
        running.append((server, asyncio.ensure_future(server.run())))
        await asyncio.sleep(0)
        return server

    yield start
    await closed(*OPENED)
    OPENED.clear()
    for server, task in running:
        server.stop()
        await asyncio.wait_for(task, 3)


OPENED: list[asyncio.StreamWriter] = []
"""Those of the test, which end with it, whatever comes of it."""


async def connect(server, sent=b"", **more):
    reader, writer = await asyncio.open_connection(*server.address, **more)
    OPENED.append(writer)
    writer.write(sent)
    return reader, writer


async def rest(reader, seconds=5.0):
    """All that comes until the end of the connection."""
    async with asyncio.timeout(seconds):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def head(reader, seconds=5.0):
    async with asyncio.timeout(seconds):
        return await reader.readuntil(b"\r\n\r\n")


async def closed(*writers):
    for writer in writers:
        writer.close()
    for writer in writers:
        with suppress(ConnectionError):
            await writer.wait_closed()


def get(path="/", *headers):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: h", *headers, "", ""]).encode()


@pytest.fixture
def hurried(monkeypatch):
    """Seconds become tenths of them."""
    for name in ("_HEAD", "_REQUEST", "_STALLED", "_LINGER", "_PENALTY"):
        monkeypatch.setattr(connections, name, 0.2)
    monkeypatch.setattr(serving, "_TICK", 0.05)
    monkeypatch.setattr(serving, "_HANDSHAKE", 0.3)


async def test_requests_are_answered_one_after_the_other(serve):
    reader, _ = await connect(await serve(), get() + get() + get("/", "Connection: close"))
    found = await rest(reader)
    assert found.count(b"200 OK") == 3
    assert b"server:" not in found.lower(), "what serves is nobody's business"


@pytest.mark.parametrize(
    "sent",
    [
        *(b"", b"G", b"GET / HTTP/1.1\r\nHost: h\r\nX-Slow: "),
        b"POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nx",
    ],
    ids=["no head", "a byte of it", "half of it", "a byte of the body"],
)
async def test_a_head_or_body_that_does_not_come_ends_the_connection(serve, hurried, sent):
    reader, _ = await connect(await serve(), sent)
    assert await rest(reader, 2) == b""


async def test_a_second_head_that_drips_ends_the_connection_like_the_first(serve, hurried):
    reader, writer = await connect(await serve(), get())
    await head(reader)
    assert await reader.readexactly(2) == b"ok"
    dripping = asyncio.ensure_future(drip(writer))
    assert await rest(reader, 2) == b""  # or a reset, as what drips is not read any more
    dripping.cancel()


async def drip(writer):
    for each in b"GET / HTTP/1.1\r\nX-Slow: " + b"x" * 1_000:
        try:
            writer.write(bytes([each]))
            await writer.drain()
        except ConnectionError:
            return
        await asyncio.sleep(0.02)


async def test_a_caller_that_does_not_read_is_given_up(serve, hurried):
    server = await serve()
    reader, _ = await connect(server, get("/large"))
    await until_gone(server)
    assert len(await rest(reader)) < 8_000_000


async def test_an_answer_that_is_read_slowly_arrives_whole(serve, hurried):
    reader, _ = await connect(await serve(), get("/large", "Connection: close"))
    got = 0
    async with asyncio.timeout(10):
        while chunk := await reader.read(400_000):
            got += len(chunk)
            await asyncio.sleep(0.01)
    assert got > 8_000_000


async def test_a_refusal_can_be_read_by_a_caller_that_is_still_sending(serve):
    start = b"POST /close HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n"
    reader, writer = await connect(await serve(), start)
    for _ in range(9):
        writer.write(b"x" * 100_000)
        await asyncio.sleep(0.01)
    assert (await rest(reader)).startswith(b"HTTP/1.1 413")


async def test_a_caller_that_goes_on_sending_for_ever_is_cut_off(serve):
    start = b"POST /close HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    _, writer = await connect(await serve(), start)
    chunk = b"2000\r\n" + b"x" * 0x2000 + b"\r\n"

    async def send_on():
        while True:
            writer.write(chunk * 10)
            await writer.drain()
            await asyncio.sleep(0)

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(send_on(), 5)


@pytest.mark.parametrize("ahead", [True, False], ids=["sent ahead", "sent then"])
async def test_after_a_refusal_a_connection_is_not_read_for_a_while(serve, hurried, ahead):
    asked = get("/refused")
    reader, writer = await connect(await serve(), asked * 2 if ahead else asked)
    await head(reader)
    began = asyncio.get_running_loop().time()
    if not ahead:
        writer.write(asked)
    await head(reader)
    assert asyncio.get_running_loop().time() - began >= 0.15


# What is no HTTP.


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 100 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET / HTTP/11\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1e3\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: x\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n",
    ],
)
async def test_garbage_is_400_as_a_problem(serve, garbage):
    reader, _ = await connect(await serve(), garbage)
    found = await rest(reader)
    start, _, body = found.partition(b"\r\n\r\n")
    assert start.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["type"] == "urn:dependency-watchdog:problem:malformed-request"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000,
        get("/", *(f"X-{number}: y" for number in range(10_000))),
        get("/", "X:" + " " * 100_000 + "y"),
    ],
    ids=["without an end", "of many lines", "of blanks"],
)
async def test_a_head_of_100_kb_is_431_as_a_problem(serve, sent):
    reader, _ = await connect(await serve(), sent)
    found = await rest(reader)
    assert found.startswith(b"HTTP/1.1 431")
    assert b"headers-too-large" in found


async def test_a_chunk_extension_without_end_ends_the_request(serve):
    start = b"POST /body HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;x="
    reader, _ = await connect(await serve(), start + b"x" * 100_000)
    assert b" 200 " not in await rest(reader)


async def test_garbage_after_a_request_that_is_being_answered_ends_the_stream(serve):
    reader, writer = await connect(await serve(), get("/stream", "Transfer-Encoding: chunked"))
    await head(reader)
    writer.write(b"garbage\r\n")
    assert (await rest(reader, 3)).endswith(b"begun\r\n")


async def test_an_upgrade_is_answered_like_any_request(serve):
    asked = get("/", "Connection: Upgrade, close", "Upgrade: websocket")
    reader, _ = await connect(await serve(), asked)
    assert (await rest(reader)).startswith(b"HTTP/1.1 200")


# Places.


async def test_a_newcomer_takes_the_place_of_the_oldest_that_waits(serve):
    server = await serve(most=3)
    lines = [await connect(server) for _ in range(3)]
    await asyncio.sleep(0.1)
    reader, _ = await connect(server, get())
    assert (await head(reader)).startswith(b"HTTP/1.1 200")
    assert await rest(lines[0][0]) == b""
    assert server.connections == 3


async def test_nobody_takes_the_place_of_one_that_is_being_answered(serve):
    server = await serve(most=2)
    lines = [await connect(server, get("/stream")) for _ in range(2)]
    for reader, _ in lines:
        await head(reader)
    reader, _ = await connect(server, get())
    assert await rest(reader) == b""
    assert server.connections == 2


# TLS.


@pytest.fixture
def authority():
    return Authority.create()


@pytest.fixture
def tls(authority):
    return server_context(authority.server())


@pytest.fixture
def trusting():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def test_https_is_answered_and_ends(serve, tls, trusting):
    server = await serve(tls=tls)
    reader, _ = await connect(server, get("/large", "Connection: close"), ssl=trusting)
    assert len(await rest(reader)) > 8_000_000


async def test_a_refusal_over_tls_can_be_read_by_a_caller_that_is_still_sending(
    serve, tls, trusting, hurried
):
    server = await serve(tls=tls)
    reader, _ = await connect(
        server, b"POST /close HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\nx", ssl=trusting
    )
    assert (await rest(reader)).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", get()], ids=["nothing", "hangs", "HTTP"])
async def test_what_shakes_no_hands_is_ended_and_gives_its_place_back(serve, tls, hurried, sent):
    server = await serve(tls=tls)
    reader, _ = await connect(server, sent)
    assert b"200" not in await rest(reader, 2)
    await until_gone(server)


async def test_handshakes_that_hang_keep_nobody_out(serve, tls, trusting):
    server = await serve(tls=tls, most=3)
    for _ in range(6):
        await connect(server)
    await asyncio.sleep(0.05)
    reader, _ = await connect(server, get(), ssl=trusting)
    assert (await head(reader)).startswith(b"HTTP/1.1 200")
    assert server.connections == 3


async def test_a_request_in_the_same_packet_as_the_end_of_the_handshake_is_answered(
    serve, tls, trusting
):
    reader, writer = await connect(await serve(tls=tls))
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(heard, said)
    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(said.read())
            heard.write(await asyncio.wait_for(reader.read(65_536), 3))
    client.write(get())
    writer.write(said.read())
    answer = b""
    while not answer:
        heard.write(await asyncio.wait_for(reader.read(65_536), 3))
        with suppress(ssl.SSLWantReadError):
            answer = client.read(65_536)
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("proxies", [[], [ipaddress.ip_network("127.0.0.1")]])
async def test_small_requests_over_tls_are_answered_as_long_as_they_come(
    serve, tls, trusting, monkeypatch, proxies
):
    monkeypatch.setattr(bounded_tls, "_MOST_WASTED", 1_024)
    reader, writer = await connect(await serve(tls=tls, proxies=proxies), ssl=trusting)
    for _ in range(80):  # 22 bytes of each are overhead
        writer.write(get())
        assert (await head(reader)).startswith(b"HTTP/1.1 200")
        assert await reader.readexactly(2) == b"ok"


async def test_a_caller_that_changes_its_keys_without_end_is_cut_off(serve, tls, trusting):
    server = await serve(tls=tls)
    reader, writer = await connect(server, get(), ssl=trusting)
    assert (await head(reader)).startswith(b"HTTP/1.1 200")
    line = writer.get_extra_info("ssl_object")
    with suppress(ConnectionError):
        for _ in range(60):
            for _ in range(100):
                change_keys(line)
            writer.write(b"\r\n")  # asyncio sends what is ready with it
            await writer.drain()
            await asyncio.sleep(0)
    assert b"200" not in await rest(reader)
    await until_gone(server)


async def until_gone(server):
    async with asyncio.timeout(3):
        while server.connections:  # noqa: ASYNC110 - nothing there tells us
            await asyncio.sleep(0.01)


async def test_a_certificate_that_is_loaded_later_is_shown_from_then_on(
    serve, tls, trusting, authority
):
    server = await serve(tls=tls)
    seen = []
    for _ in range(2):
        _, writer = await connect(server, ssl=trusting)
        seen.append(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        await closed(writer)
        pair = authority.server()
        load_chain(tls, pair.certificate + pair.key)
    assert seen[0] != seen[1]


# Whom a request comes from.


async def told(scope, receive, send):
    await respond(send, body=scope["client"][0].encode())


FORGED = ("X-Forwarded-For: 9.9.9.9", "X-Forwarded-Proto: https", "Forwarded: for=9.9.9.9")


@pytest.mark.parametrize("named", [(), ("10.0.0.0/8", "127.0.0.2/32")])
async def test_whom_a_caller_claims_to_be_is_not_believed(serve, named):
    server = await serve(told, proxies=map(ipaddress.ip_network, named))
    reader, _ = await connect(server, get("/", *FORGED, "Connection: close"))
    assert (await rest(reader)).endswith(b"127.0.0.1")


async def test_a_proxy_that_is_named_is_believed_whom_it_asks_for(serve):
    server = await serve(told, proxies=[ipaddress.ip_network("127.0.0.1")])
    sent = [get("/", f"X-Forwarded-For: 1.1.1.1, 9.9.9.{number}") for number in range(3)]
    reader, _ = await connect(server, b"".join(sent) + get("/", "Connection: close"))
    found = await rest(reader)
    for each in (b"9.9.9.0", b"9.9.9.1", b"9.9.9.2"):
        assert each in found
    assert b"1.1.1.1" not in found
    assert found.endswith(b"127.0.0.1")


async def test_who_is_refused_behind_a_proxy_does_not_hold_up_the_others_there(serve):
    server = await serve(proxies=[ipaddress.ip_network("127.0.0.1")])
    began = asyncio.get_running_loop().time()
    sent = get("/refused") * 3 + get("/", "Connection: close")
    reader, _ = await connect(server, sent)
    assert (await rest(reader)).count(b" 429 ") == 3
    assert asyncio.get_running_loop().time() - began < 0.5


async def test_a_proxy_may_hold_more_connections_than_one_caller(serve):
    server = await serve(proxies=[ipaddress.ip_network("127.0.0.1")])
    found = await asyncio.gather(*(connect(server, get()) for _ in range(450)))
    for reader, _ in found:
        await head(reader)
    assert server.connections == 450
    for _, writer in found:
        writer.transport.abort()


SMALL = b"40\r\n" + b"x" * 64 + b"\r\n"


@pytest.mark.parametrize(
    ("chunks", "status"),
    [(b"1\r\nx\r\n" * 8_000, b"400"), (SMALL * 4_000 + b"0\r\n\r\n", b"200")],
    ids=["crumbs", "small chunks"],
)
async def test_a_body_that_comes_in_crumbs_is_refused_and_one_in_small_chunks_is_not(
    serve, chunks, status
):
    start = b"POST /body HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    reader, _ = await connect(await serve(), start + chunks)
    assert status in await head(reader)


async def test_what_follows_a_request_in_the_same_packet_is_answered_in_order(serve):
    body = b"POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 30000\r\n\r\n" + b"x" * 30_000
    asked = (get() + body) * 5 + get("/", "Connection: close")
    reader, _ = await connect(await serve(), asked)
    assert (await rest(reader, 10)).count(b"HTTP/1.1 200") == 11


# The end.


async def never(scope, receive, send):
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("app", "sent", "within"),
    [(simple, get("/stream"), 1.0), (never, get(), 2.0), (simple, b"GET", 1.0)],
    ids=["an answer without end", "a request without answer", "half a request"],
)
async def test_nothing_holds_up_a_stop_which_is_no_defect_and_gives_the_address_back(
    *, caplog, app, sent, within
):
    server = HttpServer("test", app, "127.0.0.1", 0)
    address = server.address
    serving = asyncio.ensure_future(server.run())
    reader, writer = await connect(server, sent)
    await asyncio.sleep(0.05)
    began = asyncio.get_running_loop().time()
    server.stop()
    await serving
    assert asyncio.get_running_loop().time() - began < within
    assert (await rest(reader, 1)).count(b"HTTP/1.1 ") == (sent == get("/stream"))
    assert "Traceback" not in caplog.text
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)
    await closed(writer)
