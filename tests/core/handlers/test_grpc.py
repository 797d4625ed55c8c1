"""grpc against real servers."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from app.core.model.endpoints import Grpc, ProbeOutcome
from tests.core.handlers.targets import OK, at, free_port, handlers, probe, ran, serving
from tests.core.kube.server import until

pytestmark = [pytest.mark.looptime(False), pytest.mark.usefixtures("collected")]

SUCCESS, FAILURE, ERROR = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.ERROR
STATUS = health_pb2.HealthCheckResponse.ServingStatus
CANARY = "s3cr3t-canary"
SETTINGS = b"\0\0\0\4" + b"\0" * 5
ASKED = b"\0\0\5\0\1\0\0\0\1" + b"\0" * 5
"""The frame that ends a request about the whole server."""


class Odd(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # its base has no types
    """Answers as a test wants."""

    def __init__(self):
        self.metadata = {}
        self.peers = set()

    async def Check(self, request, context):  # noqa: N802 - gRPC's name
        self.metadata = dict(context.invocation_metadata())
        self.peers.add(context.peer())
        match request.service:
            case "slow":
                await asyncio.sleep(30)
            case "abort":
                await context.abort(grpc.StatusCode.INTERNAL, CANARY)
            case "large":
                return health_pb2.HealthCheckResponse.FromString(
                    b"\x08\x01" + b"\x12\xa0\x8d\x06" + b"x" * 100_000
                )
            case "new":
                return health_pb2.HealthCheckResponse.FromString(b"\x08\x2a")
            case _:
                pass
        return health_pb2.HealthCheckResponse(status=STATUS.SERVING)


@asynccontextmanager
async def health_server(servicer=None, host="127.0.0.1"):
    server = grpc.aio.server()
    if servicer is not None:
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    shown = f"[{host}]" if ":" in host else host
    port = server.add_insecure_port(f"{shown}:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


@pytest.fixture
async def standard():
    """The standard implementation: its own status, and that of two services."""
    servicer = health.aio.HealthServicer()
    await servicer.set("", STATUS.SERVING)
    await servicer.set("good", STATUS.SERVING)
    await servicer.set("bad", STATUS.NOT_SERVING)
    async with health_server(servicer) as port:
        yield port


@pytest.mark.parametrize(
    ("service", "outcome", "message"),
    [
        ("", SUCCESS, "SERVING"),
        ("good", SUCCESS, "SERVING"),
        ("bad", FAILURE, "NOT_SERVING"),
        ("unknown", FAILURE, "NOT_FOUND: its health service does not know this service"),
    ],
    ids=["whole", "good", "bad", "unknown"],
)
async def test_only_serving_passes(standard, service, outcome, message, monkeypatch):
    for name in ("grpc_proxy", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")  # is not used
    found = await ran(Grpc(standard, service))
    assert (found.outcome, found.message) == (outcome, message)


async def test_a_server_without_a_health_service_is_a_failure():
    async with health_server() as port:
        found = await ran(Grpc(port))
    assert found.outcome is FAILURE
    assert found.message.startswith("UNIMPLEMENTED")


async def test_an_answer_that_does_not_come_is_a_failure_in_time():
    async with health_server(Odd()) as port:
        before = asyncio.get_running_loop().time()
        found = await ran(Grpc(port, "slow"), timeout=0.3)
        assert asyncio.get_running_loop().time() - before < 5
    assert found.outcome is FAILURE
    assert found.message == "no answer from the health service within 0.3 s"


@pytest.mark.parametrize("answer", [OK, b"", b"\x00" * 64], ids=["http", "closed", "garbage"])
async def test_what_does_not_speak_grpc_is_a_failure(answer):
    async with serving(answer) as target:
        assert (await ran(Grpc(target.port), timeout=0.5)).outcome is FAILURE


@pytest.mark.parametrize(
    ("service", "message"),
    [("abort", "INTERNAL"), ("large", "RESOURCE_EXHAUSTED"), ("new", "status 42")],
)
async def test_odd_answers_are_failures_in_words_of_ours(service, message):
    async with health_server(Odd()) as port:
        found = await ran(Grpc(port, service))
    assert (found.outcome, found.message) == (FAILURE, message)


async def test_it_names_itself_and_the_host_and_brings_no_credentials():
    odd = Odd()
    async with health_server(odd) as port:
        await ran(Grpc(port), at("localhost"))
    assert odd.metadata["user-agent"].startswith("dependency-watchdog/")
    assert "authorization" not in odd.metadata


async def test_each_run_has_a_connection_of_its_own():
    odd = Odd()
    async with health_server(odd, "::1") as port, handlers() as made:
        runs = [made.run(probe(Grpc(port)), at("::1")) for _ in range(3)]
        assert {each.outcome for each in await asyncio.gather(*runs)} == {SUCCESS}
    assert len(odd.peers) == 3


async def does_not_greet(call):
    await call.listen()


async def does_not_read(call):
    call.writer.transport.pause_reading()
    settings, ping = b"\0\0\0\4" + b"\0" * 5, b"\0\0\x08\6" + b"\0" * 13
    await call.raw(settings)
    while True:
        await call.raw(ping * 1000)


@pytest.mark.parametrize("answer", [does_not_greet, does_not_read])
async def test_a_target_keeps_no_connection_open_after_the_run(answer):
    async with serving(answer) as target:
        assert (await ran(Grpc(target.port), timeout=0.3)).outcome is FAILURE
        await until(lambda: not target.open)


def frame(kind, flags, payload, stream=1):
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


async def endless_headers(call):
    await call.reader.readuntil(ASKED)
    await call.raw(SETTINGS + frame(1, 0, b"\x88"))
    while True:
        await call.raw(frame(9, 0, b"\0\1a\x7f" + b"\0" + b"b" * 127) * 50)


async def endless_data(call):
    await call.reader.readuntil(ASKED)
    await call.raw(SETTINGS + frame(1, 4, b"\x88"))
    while True:
        await call.raw(frame(0, 0, b"x" * 1000))


async def endless_pings(call):
    await call.reader.readuntil(ASKED)
    await call.raw(SETTINGS)
    while True:
        await call.raw(frame(6, 0, b"\0" * 8, 0) * 100)


@pytest.mark.parametrize("answer", [endless_headers, endless_data, endless_pings])
async def test_a_target_that_says_too_much_has_failed_and_its_connection_ends_at_once(answer):
    async with serving(answer) as target:
        before = asyncio.get_running_loop().time()
        found = await ran(Grpc(target.port), timeout=10)
        assert asyncio.get_running_loop().time() - before < 5
        assert found.outcome is FAILURE
        assert found.message in {"RESOURCE_EXHAUSTED", "the answer is not gRPC"}
        await until(lambda: not target.open)


def headers(fields):
    """The frame of an answer of headers alone."""
    return frame(1, 5, fields)


NO_GRPC = "the answer is not gRPC"
SAID = {
    "no status": (headers(b"\x88"), NO_GRPC),
    "503 of a proxy": (headers(b"\x08\x03503"), "HTTP 503, not gRPC"),
    "a status that is no number": (headers(b"\x88\0\x0bgrpc-status\3abc"), NO_GRPC),
    "a status beyond the known": (headers(b"\x88\0\x0bgrpc-status\x0299"), "gRPC code 99"),
    "OK and no message": (headers(b"\x88\0\x0bgrpc-status\x010"), NO_GRPC),
    "reset": (frame(3, 0, b"\0\0\0\2"), "UNAVAILABLE"),
    "goaway": (frame(7, 0, b"\0" * 8, 0), "UNAVAILABLE"),
    "data before headers": (frame(0, 1, b"\0"), NO_GRPC),
}


async def answered(said):
    """What one run brings where this is said."""

    async def answer(call):
        await call.reader.readuntil(ASKED)
        await call.raw(SETTINGS + said)
        await call.listen()

    async with serving(answer) as target:
        return await ran(Grpc(target.port))


@pytest.mark.parametrize(("said", "message"), SAID.values(), ids=SAID)
async def test_an_answer_without_a_status_is_a_failure_in_words_of_ours(said, message):
    found = await answered(said)
    assert (found.outcome, found.message) == (FAILURE, message)


async def test_what_a_target_says_beside_its_status_is_in_no_log(caplog):
    message = f"%FF{CANARY}"  # no text
    said = {"content-type": "application/grpc", "grpc-status": "13", "grpc-message": message}
    fields = b"\x88" + b"".join(  # status 200
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in said.items()
    )
    assert (await answered(headers(fields))).message == "INTERNAL"
    assert CANARY not in caplog.text


async def test_a_target_that_is_not_there_and_a_name_that_fits_into_no_frame():
    found = await ran(Grpc(free_port()))
    assert (found.outcome, found.message) == (FAILURE, "no connection: Connection refused")
    found = await ran(Grpc(free_port(), "x" * 20_000))
    assert (found.outcome, found.message) == (ERROR, "the name of the service is too long")
