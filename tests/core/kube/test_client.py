"""What a server may do to a request, and what becomes of it."""

import asyncio
import gzip
import re
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from app.core import errors
from app.core.clock import Clock
from app.core.fair_queue import Consumer
from app.core.kube import kubeconfig
from app.core.kube.client import ApiClient, ApiRequest, ResponseLimits
from app.core.kube.connections import ByteBudget, ConnectionPool, RequestedRight
from app.core.kube.decoding import shoot_objects
from app.core.kube.kubeconfig import ClientCertificate
from app.core.metrics import Metrics
from tests.core.kube.server import AUTHORITY, Asked, is_ended, server_context, serving, until
from tests.support.certs import Authority

pytestmark = pytest.mark.looptime(False)

TOKEN = "canary-token-4711"
VERSION = {"gitVersion": "v1.35.4"}
ASKED = RequestedRight("list", "leases", "kube-node-lease")
QUICK = ResponseLimits(first_byte_reused=0.2, first_byte_new=0.5, body=1_000_000)


@asynccontextmanager
async def channel_to(
    server, *, limits=QUICK, ca=AUTHORITY, client=None, trusted=False, budget=None, consumer=None
):
    metrics = Metrics()
    pool = ConnectionPool("shoot", Clock.system(), metrics, connections=1, budget=budget)
    context = kubeconfig.client_context(ca.pem.decode(), client, consumer)
    channel = ApiClient(
        pool, server.origin, context, limits=limits, consumer=consumer, trusted=trusted
    )
    channel.metrics = metrics  # type: ignore[attr-defined]  # for the tests to look at
    try:
        yield channel
    finally:
        await pool.close()
        await asyncio.sleep(0.01)


def get(within=2.0, **more):
    return ApiRequest(ASKED, "/version", within, **more)


def counted(channel, name, **labels):
    return channel.metrics.registry.get_sample_value(name, labels)


async def ask(channel, **more):
    return await channel.call(get(**more), shoot_objects.version, TOKEN)


async def watched(channel, silence=1.0):
    """The lines of a watch, to its end."""
    async with channel.watch(get(), TOKEN, silence=silence) as lines:
        return [line async for line in lines]


async def ok(asked):
    await asked.answer(VERSION)


async def test_requests_share_one_connection_and_say_who_asks(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")  # is not used
    async with serving(ok) as server, channel_to(server) as channel:
        for _ in range(3):
            assert (await ask(channel)).value == "v1.35.4"
        assert server.connections == 1
        headers = server.asked[0].headers
        assert headers["authorization"] == f"Bearer {TOKEN}"
        assert headers["accept-encoding"] == "identity"
        assert headers["user-agent"].startswith("dependency-watchdog/")
        assert "cookie" not in headers
    assert (
        counted(channel, "rest_client_requests_total", host="shoot", method="GET", code="200") == 3
    )


async def test_a_server_that_makes_up_statuses_makes_no_series_with_them():
    made_up = iter([299, 306, 418, 499, 598, 777, 999])

    async def answers(asked):
        await asked.answer(VERSION, next(made_up))

    async with serving(answers) as server, channel_to(server) as channel:
        for _ in range(7):
            with pytest.raises(errors.ClusterError):
                await ask(channel)
    labels = {"host": "shoot", "method": "GET"}
    found = {
        sample.labels["code"]: sample.value
        for family in channel.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "rest_client_requests_total" and labels.items() <= sample.labels.items()
    }
    assert found == {"other": 6, "418": 1}


async def test_instants_of_a_reply_enclose_the_answer():
    async def late(asked):
        await asyncio.sleep(0.05)
        await asked.answer(VERSION, headers={"Date": "Sat, 21 Nov 2026 19:00:00 GMT"})

    async with serving(late) as server, channel_to(server) as channel:
        reply = await ask(channel)
        assert reply.received - reply.sent >= 0.05
        assert reply.date == 1795287600.0


async def test_a_cookie_is_never_given_back():
    async def cookies(asked):
        await asked.answer(VERSION, headers={"Set-Cookie": "a=b"})

    async with serving(cookies) as server:
        # no jar keeps an address's cookies
        named = SimpleNamespace(origin=f"https://localhost:{server.port}")
        async with channel_to(named) as channel:
            await ask(channel)
            await ask(channel)
        assert "cookie" not in server.asked[1].headers


def says(data, **headers):
    async def answer(asked):
        await asked.answer(
            data, headers={name.replace("_", "-"): headers[name] for name in headers}
        )

    return answer


async def away(asked):
    await asked.answer(b"", 302, {"Location": f"/stolen?{asked.headers['authorization']}"})


async def no(asked):
    await asked.answer({"message": "planted " + asked.headers["authorization"]}, 403)


async def ill(asked):
    await asked.answer({"message": "etcd is\nslow\x1b[31m"}, 503)


async def cut(asked):
    await asked.raw(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"gitVersion"')
    await asked.cut()


PAGE, BOMB = b"<html><script>planted</script></html>", gzip.compress(b"0" * 10_000_000)
REFUSED = "list leases in kube-node-lease: 403 (Forbidden)"
EXPLAINED = "503 (ServerFault): etcd is slow [31m"
FAILURES: dict[str, Any] = {
    "a redirect, which is not followed": (away, {}, errors.BadAnswer, "redirect"),
    "a page, which is not quoted": (says(PAGE), {}, errors.BadAnswer, "decoded"),
    "a bomb": (says(BOMB, Content_Encoding="gzip"), {}, errors.BadAnswer, "compressed"),
    "half an answer": (cut, {}, (errors.BadAnswer, errors.Unreachable), None),
    "a refusal of a shoot, which is not quoted": (
        no,
        {},
        errors.Forbidden,
        f"^{re.escape(REFUSED)}$",
    ),
    "one of the seed, which is": (ill, {"trusted": True}, errors.ServerFault, re.escape(EXPLAINED)),
    "another authority": (ok, {"ca": Authority.create()}, errors.CertificateUntrusted, None),
    **{
        f"no version: {body!r}": (says(body), {}, errors.BadAnswer, None)
        for body in (
            b"",
            b"null",
            b"[]",
            b'"x"',
            b"{",
            b"{}",
            b'{"gitVersion": 3}',
            b'{"gitVersion": "\xff"}',
        )
    },
}


@pytest.mark.parametrize(("handler", "given", "kind", "says"), FAILURES.values(), ids=FAILURES)
async def test_what_is_no_answer_is_an_error_that_says_why_and_shows_no_secret(
    handler, given, kind, says
):
    async with serving(handler) as server, channel_to(server, **given) as channel:
        with pytest.raises(kind, match=says) as caught:
            await ask(channel)
        assert server.paths() in (["/version"], [])
    assert "planted" not in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert TOKEN not in repr(caught.value.__cause__)


async def endless(asked):
    await asked.begin_stream()
    while True:
        await asked.chunk(b" " * 10_000)


async def announces_too_much(asked):
    await asked.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    await asked.hang()


async def trickles(asked):
    await asked.begin_stream()
    while True:
        await asked.chunk(b" ")
        await asyncio.sleep(0.01)


async def in_crumbs(asked):
    await asked.begin_stream()
    while True:
        await asked.raw(b"1\r\n \r\n" * 1000)


async def in_records_of_one_byte(asked):
    await asked.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        for _ in range(500):
            asked.writer.write(b" ")
        await asked.writer.drain()
        await asyncio.sleep(0)  # the other end runs in the same loop


async def deep(asked):
    await asked.answer(b'{"x":' + b"[" * 450_000 + b"]" * 450_000 + b"}")
    raise EOFError


@pytest.mark.parametrize(
    ("handler", "limit", "within"),
    [
        (deep, "depth", 2.0),
        (endless, "size", 2.0),
        (announces_too_much, "size", 2.0),
        (trickles, "time", 0.3),
        (in_crumbs, "crumbs", 2.0),
        (in_records_of_one_byte, "crumbs", 2.0),
    ],
)
async def test_an_answer_beyond_a_limit_is_cut_off_and_counted_and_its_connection_closed(
    handler, limit, within
):
    async with serving(handler) as server, channel_to(server) as channel:
        with pytest.raises(errors.LimitExceeded) as caught:
            await ask(channel, within=within)
        assert caught.value.limit == limit
        assert str(ASKED) in str(caught.value)
        await until(lambda: not server.open)
    assert counted(channel, "dwd_response_limit_hits_total", limit=limit) == 1


async def is_not_read_to_its_end(asked):
    if asked.connection == 1:
        await asked.raw(b"HTTP/1.1 404 X\r\nContent-Length: 200000\r\n\r\n" + b"x" * 70_000)
        await asked.hang()
    await asked.answer(VERSION)


async def is_given_up_in_its_midst(asked):
    if asked.connection == 1:
        await asked.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        await asked.hang()
    await asked.answer(VERSION)


@pytest.mark.parametrize("handler", [is_not_read_to_its_end, is_given_up_in_its_midst])
async def test_where_an_answer_is_left_over_or_due_the_next_question_is_asked_elsewhere(handler):
    async with serving(handler) as server, channel_to(server) as channel:
        with suppress(TimeoutError, errors.ClusterError):
            async with asyncio.timeout(0.2):
                await ask(channel)
        await asyncio.sleep(0.2)
        assert (await ask(channel)).value == "v1.35.4"
        assert server.connections == 2


async def test_what_decoding_takes_is_charged():
    def steps(_body):
        yield
        return "done"

    consumer = Consumer()
    async with serving(ok) as server, channel_to(server, consumer=consumer) as channel:
        reply = await channel.call(get(), steps, None)
    assert reply.value == "done"
    assert consumer.spent > 0


async def test_a_silent_server_costs_its_time_limit_once():
    async with serving(Asked.hang) as server, channel_to(server) as channel:
        with pytest.raises(errors.Unreachable):
            await ask(channel)
        assert len(server.asked) == 1  # the connection was new: that was the second chance already
    assert (
        counted(channel, "rest_client_requests_total", host="shoot", method="GET", code="<error>")
        == 1
    )


async def second_turn_is_swallowed(asked):
    if asked.connection == 1 and asked.turn == 2:
        await asked.hang()
    await asked.answer(VERSION)


async def second_turn_is_cut(asked):
    if asked.connection == 1 and asked.turn == 2:
        await asked.cut()
    await asked.answer(VERSION)


@pytest.mark.parametrize("handler", [second_turn_is_swallowed, second_turn_is_cut])
async def test_a_dead_kept_alive_connection_is_no_failure(handler):
    async with serving(handler) as server, channel_to(server) as channel:
        await ask(channel)
        before, begun = asyncio.get_running_loop().time(), Clock.system().now()
        reply = await ask(channel)
        assert reply.value == "v1.35.4"
        assert asyncio.get_running_loop().time() - before < 0.45
        assert server.connections == 2
        if handler is second_turn_is_swallowed:
            assert reply.sent - begun >= 0.19, "when the attempt was sent that was answered"


async def test_an_attempt_on_a_kept_connection_leaves_time_for_a_second_one():
    """However long it may take by itself: an attempt of endpoint mode has 5 s in all."""
    async with (
        serving(second_turn_is_swallowed) as server,
        channel_to(server, limits=ResponseLimits()) as channel,
    ):
        await ask(channel)
        assert (await ask(channel, within=0.5)).value == "v1.35.4"


async def test_the_second_attempt_stays_within_the_time_of_both():
    async def swallowed_from_then_on(asked):
        if len_asked() > 1:
            await asked.hang()
        await asked.answer(VERSION)

    async with serving(swallowed_from_then_on) as server, channel_to(server) as channel:
        len_asked = lambda: len(server.asked)  # noqa: E731 - the server is known only now
        await ask(channel)
        before = asyncio.get_running_loop().time()
        with pytest.raises(errors.Unreachable):
            await ask(channel, within=0.4)
        assert asyncio.get_running_loop().time() - before < 0.6


@pytest.mark.parametrize("method", ["PATCH", "PUT", "POST", "DELETE"])
@pytest.mark.parametrize("handler", [second_turn_is_swallowed, second_turn_is_cut])
async def test_a_request_that_changes_something_is_never_repeated(handler, method):
    async with serving(handler) as server, channel_to(server) as channel:
        await ask(channel)
        with pytest.raises(errors.Unreachable):
            await channel.call(get(method=method, body={}), shoot_objects.version, TOKEN)
        assert len(server.asked) == 2


@pytest.mark.parametrize("new", [False, True], ids=["kept", "single"])
async def test_a_server_that_does_not_end_a_connection_does_not_keep_it_open(new):
    async def deaf(asked):
        asked.writer.transport.pause_reading()
        writers.append(asked.writer)
        await asyncio.Event().wait()

    writers: list[asyncio.StreamWriter] = []
    async with serving(deaf) as server, channel_to(server) as channel:
        with pytest.raises(errors.Unreachable):
            await channel.call(get(0.3), shoot_objects.version, TOKEN, new_connection=new)
        await until(lambda: is_ended(writers[0]))


async def called(channel):
    await ask(channel)


async def switched(channel):
    async with channel.socket(get(), TOKEN, ("v5.channel.k8s.io",)):
        pass


def raw(data):
    async def answer(asked):
        await asked.raw(data)
        await asked.cut()

    return answer


BROKEN = {
    "no HTTP": raw(b"what\r\n\r\n"),
    "a length that is none": raw(b"HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n"),
    "a chunk that is none": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
    "half an answer": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
    "no answer": raw(b""),
    "another protocol": raw(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: wrong\r\n\r\n"
    ),
    "a switch to something else": raw(
        b"HTTP/1.1 101 X\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n"
    ),
    "a refusal": no,
    "a redirect": away,
}


def everything_in(error):
    """The error, all that it came from, and what these keep."""
    seen, found = [error], []
    while seen:
        each = seen.pop()
        found.append(repr((each, each.args, vars(each))))
        response = getattr(each, "response", None)
        found.append(repr(None if response is None else response.request_info))
        seen += [more for more in (each.__cause__, each.__context__) if more is not None]
    return found


@pytest.mark.parametrize("way", [called, watched, switched])
@pytest.mark.parametrize("handler", BROKEN.values(), ids=BROKEN)
async def test_no_error_and_nothing_that_it_came_from_has_the_token(handler, way):
    async with serving(handler) as server, channel_to(server) as channel:
        with pytest.raises(errors.ClusterError) as caught:
            await way(channel)
        assert "/stolen" not in str(server.paths()), "no redirect is followed"
    assert [each for each in everything_in(caught.value) if TOKEN in each] == []


@pytest.mark.parametrize("way", [called, watched, switched])
async def test_a_server_whose_certificate_is_for_another_name_is_not_asked(way):
    context = server_context(AUTHORITY.server(["elsewhere.example"]))
    async with serving(ok, context) as server, channel_to(server) as channel:
        with pytest.raises(errors.CertificateUntrusted, match=r"not valid for '127\.0\.0\.1'"):
            await way(channel)
        assert server.asked == []


@pytest.mark.parametrize("way", [called, watched, switched])
async def test_a_429_brings_its_pause_and_is_counted(way):
    async def busy(asked):
        await asked.answer(b"", 429, {"Retry-After": "7"})

    async with serving(busy) as server, channel_to(server) as channel:
        with pytest.raises(errors.Throttled) as caught:
            await way(channel)
    assert caught.value.retry_after == 7.0
    assert counted(channel, "dwd_throttled_requests_total", host="shoot") == 1
    labels = {"host": "shoot", "method": "GET", "code": "429"}
    assert counted(channel, "rest_client_requests_total", **labels) == 1


@pytest.mark.parametrize(
    ("listens", "says"), [(False, r"Connect call failed|refused"), (True, None)]
)
async def test_where_nobody_listens_or_plain_http_is_spoken_it_is_unreachable(listens, says):
    async def plain(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(plain, "127.0.0.1", 0)
    where = SimpleNamespace(origin=f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    if not listens:
        listener.close()
    async with channel_to(where) as channel:
        with pytest.raises(errors.Unreachable, match=says):
            await ask(channel)
    listener.close()


async def test_a_client_certificate_is_shown_without_a_file():
    pair = AUTHORITY.client("dwd")
    client = ClientCertificate(pair.certificate, pair.key)
    context = server_context(clients=AUTHORITY)
    async with serving(ok, context) as server, channel_to(server, client=client) as channel:
        assert (await ask(channel)).value == "v1.35.4"


async def test_closing_a_channel_closes_its_connections_only():
    async with serving(ok) as server, channel_to(server) as one, channel_to(server) as other:
        await ask(one)
        await ask(other)
        one.close()
        await asyncio.sleep(0.05)
        assert server.open == 1
        await ask(other)
        assert server.connections == 2


async def test_bodies_that_do_not_fit_wait_for_those_that_are_being_read():
    release = asyncio.Event()

    async def large(asked):
        await asked.begin_stream()
        await asked.chunk(b" " * 60_000)
        await release.wait()
        await asked.chunk(b" " * 30_000 + b'{"gitVersion":"v1"}')
        await asked.end_stream()

    budget = ByteBudget(total=120_000, largest=100_000)
    async with (
        serving(large) as server,
        channel_to(server, budget=budget) as one,
        channel_to(server, budget=budget) as other,
    ):
        both = asyncio.gather(ask(one), ask(other))
        await until(lambda: budget.used >= 60_000)
        await asyncio.sleep(0.1)
        assert budget.used <= 120_000 - 30_000, "the second was not let in whole"
        release.set()
        assert [reply.value for reply in await both] == ["v1", "v1"]
        assert budget.used == 0
