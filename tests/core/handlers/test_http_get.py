"""httpGet against real servers: what the kubelet's own handler does with the same answers (pkg/probe/http)."""

import asyncio
import resource
import ssl

import pytest

from app.core.bounded_http import AGENT
from app.core.model.endpoints import HttpGet, ProbeOutcome, Scheme
from tests.core.handlers.targets import OK, at, handlers, probe, ran, serving
from tests.core.kube.server import Asked, is_ended, server_context, until
from tests.support.certs import Authority

pytestmark = pytest.mark.looptime(False)

SUCCESS, FAILURE, ERROR = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.ERROR
CANARY = "s3cr3t-canary"
KUBELET_READS = 10 * 1024
"""maxRespBodyLength of pkg/probe/http."""
SOON = 5.0
"""Seconds in which a run has ended that ends in time, on a busy machine, too."""


def status(code: int, *lines: str, body: bytes = b"") -> bytes:
    fields = "".join(f"{line}\r\n" for line in (*lines, f"Content-Length: {len(body)}"))
    return f"HTTP/1.1 {code} {CANARY}\r\n{fields}\r\n".encode() + body


INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
ANSWERS = {
    **{str(code): (status(code), SUCCESS, f"HTTP {code}") for code in (200, 204, 206, 299)},
    **{
        str(code): (status(code), SUCCESS, f"HTTP {code}, which is not followed")
        for code in (300, 302, 304, 305, 399)
    },
    **{
        str(code): (status(code), FAILURE, f"HTTP {code}")
        for code in (400, 401, 404, 418, 429, 499, 500, 503, 599, 600, 999)
    },
    "a switch that nobody asked for": (
        status(101, "Upgrade: x", "Connection: upgrade"),
        FAILURE,
        None,
    ),
    "what a target says": (status(500, f"X: {CANARY}", body=CANARY.encode()), FAILURE, "HTTP 500"),
    "a body that is not unpacked": (
        status(200, "Content-Encoding: gzip", body=b"no gzip"),
        SUCCESS,
        "HTTP 200",
    ),
    "a redirect to a name that cannot be decoded": (
        status(302, "Location: http://xn--/there"),
        SUCCESS,
        "HTTP 302, which is not followed",
    ),
    **{
        f"a redirect to {to}": (
            status(302, f"Location: {to}"),
            FAILURE,
            "it redirects to an invalid URL",
        )
        for to in (
            "http://[::1",
            "http://127.0.0.1:99999/",
            "ftp://127.0.0.1/",
            "//[:..a0]",
            "http://[]@",
        )
    },
    "half a body": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        ERROR,
        "HTTP 200, but its body was cut off",
    ),
    "half a chunk": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
        ERROR,
        "HTTP 200, but its body was cut off",
    ),
    "half a refusal": (
        b"HTTP/1.1 503 No\r\nContent-Length: 10\r\n\r\nhalf",
        ERROR,
        "HTTP 503, but its body was cut off",
    ),
    "a few interim answers": (INTERIM * 3 + OK, SUCCESS, "HTTP 200"),
    "many interim answers": (INTERIM * 11 + OK, FAILURE, None),
    **{
        f"no HTTP: {garbage!r}": (garbage, FAILURE, None)
        for garbage in (
            b"\x00" * 9,
            b"SSH-2.0-OpenSSH_9\r\n",
            b"HTTP/1.1 abc\r\n\r\n",
            b"HTTP/1.1 20",
        )
    },
}


@pytest.mark.parametrize(("answer", "outcome", "message"), ANSWERS.values(), ids=ANSWERS)
async def test_what_an_answer_means(answer, outcome, message):
    async with serving(answer) as target:
        found = await ran(HttpGet(target.port))
    assert found.outcome is outcome
    assert message in (found.message, None)
    assert CANARY not in found.message
    assert "SSH" not in found.message


async def test_it_asks_as_the_kubelet_asks_under_its_own_name():
    async with serving(OK) as target:
        await ran(HttpGet(target.port, path="/healthz?full=1&a=%2F"))
        (call,) = target.asked
        assert call.head.startswith("GET /healthz?full=1&a=%2F HTTP/1.1\r\n")
        assert call.headers == {
            "host": f"127.0.0.1:{target.port}",
            "user-agent": AGENT,
            "accept": "*/*",
            "connection": "close",
        }


@pytest.mark.parametrize(
    ("configured", "sent"),
    [
        pytest.param({"X-A": "1", "X-B": "2"}, {"X-A": "1", "X-B": "2"}, id="they go with it"),
        pytest.param(
            {"Accept": "text/plain", "User-Agent": "me"},
            {"Accept": "text/plain", "User-Agent": "me"},
            id="and replace the defaults",
        ),
        pytest.param({"Host": "api.example.org"}, {"Host": "api.example.org"}, id="also the host"),
        pytest.param({"Accept": "", "User-Agent": ""}, {}, id="set to nothing they are not sent"),
        pytest.param(
            {"Content-Length": "5", "Transfer-Encoding": "chunked"},
            {},
            id="there is no body to have a length",
        ),
    ],
)
async def test_fields_of_the_configuration(configured, sent):
    async with serving(OK) as target:
        found = await ran(HttpGet(target.port, headers=tuple(configured.items())))
        lines = [line.split(": ") for line in target.asked[0].head.split("\r\n")[1:] if line]
    assert found.outcome is SUCCESS
    named = {name.lower() for name in configured}
    assert sorted(line for line in lines if line[0].lower() in named) == sorted(
        map(list, sent.items())
    )


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("healthz", "/healthz"),
        ("@evil.example/", "/@evil.example/"),
        ("/a#b", "/a"),
        ("/ä b", "/%C3%A4%20b"),
    ],
)
async def test_the_path_stays_a_path(path, asked):
    async with serving(OK) as target:
        await ran(HttpGet(target.port, path=path))
        assert target.paths() == [asked]


async def test_a_field_that_would_end_the_head_makes_no_request():
    async with serving(OK) as target:
        await ran(HttpGet(target.port, headers=(("X-A", "1"), ("X-A", "2"))))
        assert "X-A: 1\r\nX-A: 2\r\n" in target.asked.pop().head, "twice is sent twice"
        found = await ran(HttpGet(target.port, headers=(("X", f"a\r\nAuthorization: {CANARY}"),)))
        assert target.asked == []
    assert found.outcome is ERROR
    assert CANARY not in found.message


async def test_each_run_has_a_connection_of_its_own_and_closes_it():
    async with serving(OK) as target, handlers() as made:
        for _ in range(3):
            await made.run(probe(HttpGet(target.port)), at())
        await until(lambda: not target.open)
        assert target.connections == 3


# Ports


async def test_a_port_may_be_named_as_the_container_names_it():
    async with serving(OK) as target:
        found = await ran(HttpGet("metrics"), at("localhost", ports={"metrics": target.port}))
        assert found.outcome is SUCCESS
        assert target.asked[0].headers["host"] == f"localhost:{target.port}"
        assert (await ran(HttpGet(str(target.port)))).outcome is SUCCESS, "a number in quotes"


@pytest.mark.parametrize("port", ["metrics", "", "0", "65536", "99999999999", 0, 70000], ids=repr)
async def test_a_port_that_is_not_there_is_an_error_with_its_reason(port):
    found = await ran(HttpGet(port), at(ports={"http": 80}))
    assert found.outcome is ERROR
    assert "port" in found.message


# Redirects


def redirecting(*, to: str, code: int = 302, fields: tuple[str, ...] = ()):
    async def answer(call):
        if call.path == "/":
            await call.raw(status(code, f"Location: {to}", *fields))
        else:
            await call.raw(status(200 if call.path == "/there" else 500))

    return answer


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(("to", "outcome"), [("/there", SUCCESS), ("/elsewhere", FAILURE)])
async def test_a_redirect_to_the_same_host_is_followed(code, to, outcome):
    async with serving(redirecting(to=to, code=code)) as target:
        assert (await ran(HttpGet(target.port))).outcome is outcome
        assert target.paths() == ["/", to]


async def test_a_redirect_to_another_port_of_the_same_host_is_followed():
    async with serving(status(503)) as other:
        async with serving(redirecting(to=f"http://127.0.0.1:{other.port}/x")) as target:
            assert (await ran(HttpGet(target.port))).outcome is FAILURE
        assert other.paths() == ["/x"]


@pytest.mark.parametrize(
    "to", ["http://localhost:{}/there", "//localhost:{}/", "https://127.0.0.2:{}/"]
)
async def test_a_redirect_to_another_host_is_not_followed_and_passes(to):
    async with serving(status(503)) as other:
        async with serving(redirecting(to=to.format(other.port))) as target:
            found = await ran(HttpGet(target.port))
        assert other.connections == 0
    assert (found.outcome, found.message) == (SUCCESS, "HTTP 302, which is not followed")


async def test_user_and_password_in_a_redirect_are_left_out():
    async def answer(call):
        await redirecting(to=f"http://a:b@127.0.0.1:{target.port}/there")(call)

    async with serving(answer) as target:
        found = await ran(HttpGet(target.port, headers=(("Authorization", CANARY),)))
        assert target.asked[1].headers["authorization"] == CANARY
    assert found.outcome is SUCCESS


async def test_redirects_without_end_are_a_failure():
    async def answer(call):
        await call.raw(status(302, "Location: /again"))

    async with serving(answer) as target:
        found = await ran(HttpGet(target.port))
        assert len(target.asked) == 10
    assert (found.outcome, found.message) == (FAILURE, "stopped after 10 redirects")


@pytest.mark.parametrize(("absolute", "kept"), [(False, True), (True, False)])
async def test_a_host_of_ones_own_goes_with_a_relative_redirect_only(absolute, kept):
    async def answer(call):
        where = f"http://127.0.0.1:{target.port}" if absolute else ""
        await redirecting(to=f"{where}/there")(call)

    async with serving(answer) as target:
        await ran(HttpGet(target.port, headers=(("Host", "a.example"),)))
        assert (target.asked[1].headers["host"] == "a.example") is kept


async def test_what_is_secret_does_not_follow_from_https_to_http():
    headers = (("Authorization", CANARY), ("Cookie", CANARY), ("X-A", "1"))
    async with serving(OK) as plain:
        to = f"http://127.0.0.1:{plain.port}/x"
        async with serving(redirecting(to=to), tls=True) as target:
            found = await ran(HttpGet(target.port, scheme=Scheme.HTTPS, headers=headers))
            assert target.asked[0].headers["authorization"] == CANARY
        assert found.outcome is SUCCESS
        assert CANARY not in plain.asked[0].head
        assert plain.asked[0].headers["x-a"] == "1"


# Bodies


async def test_of_a_long_body_the_beginning_is_read_and_then_the_connection_is_left():
    sent = 0

    async def answer(call):
        nonlocal sent
        await call.raw(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await call.raw(b"x" * 65536)
            sent += 65536

    async with serving(answer) as target:
        assert (await ran(HttpGet(target.port))).outcome is SUCCESS
        await until(lambda: not target.open)
    assert sent < 16 << 20  # what fits into the buffers of the sockets


async def test_a_body_that_drips_ends_in_time_and_is_an_error():
    async def answer(call):
        await call.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            await call.raw(b"x")
            await asyncio.sleep(0.01)

    async with serving(answer) as target:
        before = asyncio.get_running_loop().time()
        found = await ran(HttpGet(target.port), timeout=0.3)
        assert asyncio.get_running_loop().time() - before < SOON
    assert (found.outcome, found.message) == (
        ERROR,
        "HTTP 200, but its body did not come within 0.3 s",
    )


@pytest.mark.parametrize(("sent", "within", "outcome"), [(0, 10, SUCCESS), (-1, 1, ERROR)])
async def test_of_a_body_as_much_is_waited_for_as_the_kubelet_reads(sent, within, outcome):
    async def answer(call):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        await call.raw(head + b"x" * (KUBELET_READS + sent))
        await call.hang()

    async with serving(answer) as target:
        assert (await ran(HttpGet(target.port), timeout=within)).outcome is outcome


# What is no answer


async def early(call):
    del call  # the connection is closed


async def drips(call):
    await call.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        await call.raw(b"X: y\r\n" if call.path == "/lines" else b"X")
        await asyncio.sleep(0.005)


async def floods(call):
    await call.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        await call.raw(b"X: y\r\n" * 1000 if call.path == "/lines" else b"X" * 10000)


async def interim(call):
    while True:
        await call.raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


@pytest.mark.parametrize("path", ["/lines", "/one"])
@pytest.mark.parametrize("answer", [Asked.hang, early, drips, floods, interim])
async def test_what_brings_no_answer_in_time_is_a_failure(answer, path):
    async with serving(answer) as target:
        before = asyncio.get_running_loop().time()
        found = await ran(HttpGet(target.port, path=path), timeout=0.3)
        assert asyncio.get_running_loop().time() - before < SOON
    assert found.outcome is FAILURE


async def test_a_target_that_closes_without_an_answer_is_asked_once():
    async with serving(early) as target:
        await ran(HttpGet(target.port))
        assert target.connections == 1


async def test_floods_of_heads_stay_within_bounds_of_memory():
    async with serving(floods) as target, handlers() as made:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        runs = [made.run(probe(HttpGet(target.port, path="/lines"), 0.5), at()) for _ in range(50)]
        found = await asyncio.gather(*runs)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert {each.outcome for each in found} == {FAILURE}
    assert grown < 100 * 1024  # KiB, with the server's own buffers


# TLS


NOBODY = Authority.create("nobody")


@pytest.mark.parametrize(
    ("context", "outcome"),
    [
        pytest.param(server_context(NOBODY.server()), SUCCESS, id="unknown authority"),
        pytest.param(server_context(NOBODY.server(("elsewhere",))), SUCCESS, id="other name"),
        pytest.param(server_context(NOBODY.server(expired=True)), SUCCESS, id="expired"),
        pytest.param(server_context(clients=NOBODY), FAILURE, id="one that asks for ours"),
    ],
)
async def test_certificates_prove_nothing_as_with_the_kubelet_and_none_is_shown(context, outcome):
    async with serving(OK, tls=context) as target:
        assert (await ran(HttpGet(target.port, scheme=Scheme.HTTPS))).outcome is outcome


@pytest.mark.parametrize(("tls", "scheme"), [(True, Scheme.HTTP), (False, Scheme.HTTPS)])
async def test_tls_and_none_do_not_understand_each_other(tls, scheme):
    async with serving(OK, tls=tls) as target:
        assert (await ran(HttpGet(target.port, scheme=scheme), timeout=0.5)).outcome is FAILURE


async def test_a_handshake_that_never_ends_is_a_failure():
    async def swallow(reader, writer):
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    found = await ran(HttpGet(port, scheme=Scheme.HTTPS), timeout=0.3)
    listener.close()
    assert (found.outcome, found.message) == (FAILURE, "no answer within 0.3 s")
    await asyncio.sleep(0.05)


async def deaf(call):
    """Answers, and does not even hear that the other side ends the connection."""
    call.writer.transport.pause_reading()
    if call.path == "/":
        await call.raw(OK)
    await asyncio.Event().wait()


@pytest.mark.parametrize(("path", "outcome"), [("/", SUCCESS), ("/silent", FAILURE)])
async def test_a_target_that_ends_no_tls_connection_keeps_none_open(path, outcome):
    async with serving(deaf, tls=True) as target, handlers() as made:
        found = await made.run(probe(HttpGet(target.port, Scheme.HTTPS, path), 0.5), at())
        assert found.outcome is outcome
        await until(lambda: is_ended(target.asked[0].writer))


def speaking(version):
    """A server of this version of TLS only."""
    context = server_context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("version", "outcome"),
    [
        (ssl.TLSVersion.TLSv1_1, FAILURE),
        (ssl.TLSVersion.TLSv1_2, SUCCESS),
        (ssl.TLSVersion.TLSv1_3, SUCCESS),
    ],
    ids=lambda each: each.name,
)
async def test_tls_is_1_2_or_newer_whatever_openssl_allows(version, outcome):
    async with serving(OK, tls=speaking(version)) as target, handlers() as made:
        made._http._context.set_ciphers("DEFAULT:@SECLEVEL=0")
        found = await made.run(probe(HttpGet(target.port, scheme=Scheme.HTTPS)), at())
    assert found.outcome is outcome


# Addresses


async def test_an_ipv6_address_is_put_into_brackets():
    async with serving(OK, host="::1") as target:
        assert (await ran(HttpGet(target.port), at("::1"))).outcome is SUCCESS
        assert target.asked[0].headers["host"] == f"[::1]:{target.port}"
