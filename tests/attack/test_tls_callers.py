"""Callers of our HTTPS server do not hold the event loop: by handshakes, by records, by changes of keys (threat T18).

What many callers send arrives while the loop is away, so that all of it is there in the same turn.
"""

import asyncio
import socket
import ssl
import time
from contextlib import suppress

import pytest

from app.core.clock import Clock
from app.core.tls import load_tls, server_context
from app.core.web.serving import HttpServer
from bench.hostile.servers import offer_only
from bench.hostile.talk import change_keys, renegotiate
from tests.attack.test_no_input_holds_the_loop import MIB, called, request
from tests.attack.watchdog import on_uvloop, watched
from tests.core.kube.server import SERVER_PAIR
from tests.core.test_tls_files import rsa_pair
from tests.core.web.test_serving import simple

pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

GREETED = b"HTTP/1.1 200"


class TlsLine:
    """A client that decides on each of its records.

    It offers the group that the server agrees on, so that its first words cost the server a signature.
    """

    def __init__(self, address, group: bytes = b"P-256", version=ssl.TLSVersion.TLSv1_3) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = version
        offer_only(context, group)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing)
        self.line = socket.create_connection(address)
        self.line.settimeout(5.0)

    def hello(self) -> "TlsLine":
        """Has its first words ready, and does not send them."""
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self

    def has_ready(self, data: bytes) -> "TlsLine":
        """Has this ready beside TLS."""
        self.outgoing.write(data)
        return self

    def shake_hands(self) -> "TlsLine":
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.send()
                self.hear()
            else:
                return self

    def hear(self) -> None:
        if not (heard := self.line.recv(MIB)):
            raise ConnectionResetError
        self.incoming.write(heard)

    def send(self) -> None:
        self.line.sendall(self.outgoing.read())

    def read(self) -> bytes:
        """What the server says next."""
        while True:
            try:
                return self.tls.read(MIB)
            except ssl.SSLWantReadError:
                self.hear()

    def end(self) -> None:
        self.line.close()


def of_records(line: TlsLine, number: int = 100_000) -> TlsLine:
    """Has a head in records of one byte ready."""
    for byte in b"GET / HTTP/1.1\r\nX: ".ljust(number, b"x"):
        line.tls.write(bytes([byte]))
    return line


def of_keys(line: TlsLine, number: int = 20_000) -> TlsLine:
    """Has changes of keys ready."""
    for _ in range(number):
        change_keys(line.tls)
    return line


def of_an_end(line: TlsLine, number: int = 20_000) -> TlsLine:
    """Has a last request ready, and changes of keys that the server finds when it ends the connection."""
    line.tls.write(request("GET /livez", "Connection: close"))
    return of_keys(line, number)


def says(words):
    """Sends all that is taken of what `words` has ready, and goes."""

    def say(address) -> None:
        line = words(TlsLine(address).shake_hands())
        with suppress(OSError):
            line.send()
        line.end()

    return say


def handshakes(address) -> None:
    for _ in range(50):
        TlsLine(address).shake_hands().end()


def handshakes_of(group: bytes):
    def shake(address) -> None:
        for _ in range(5):
            line = TlsLine(address, group)
            try:
                line.shake_hands()
            finally:
                line.end()

    return shake


def plain(data: bytes):
    """No TLS, or what only looks like it."""

    def say(address) -> None:
        with socket.create_connection(address) as line:
            line.settimeout(1.0)
            with suppress(OSError):
                line.sendall(data)
                while line.recv(MIB):
                    pass

    return say


def renegotiations(address) -> None:
    line = TlsLine(address, version=ssl.TLSVersion.TLSv1_2).shake_hands()
    for _ in range(50):
        renegotiate(line.tls)
        line.send()
    line.end()


HELLO = b"\x16\x03\x01"
TLS_CALLERS = {
    "records of one byte": says(of_records),
    "changes of keys": says(of_keys),
    "changes of keys behind a last request": says(of_an_end),
    "handshakes": handshakes,
    "handshakes with a large group": handshakes_of(b"ffdhe8192"),
    "handshakes with another curve": handshakes_of(b"secp521r1"),
    "renegotiations": renegotiations,
    "no TLS": plain(b"\x00" * MIB),
    "HTTP": plain(request("GET /") * 1_000),
    "a hello without end": plain((HELLO + b"\x40\x00\x01\x01\x00\x00" + b"x" * 16_380) * 60),
    "a hello in records of one byte": plain((HELLO + b"\x00\x01\x01") + (HELLO + b"\x00\x01\x00") * 200_000),
    "empty records": plain((HELLO + b"\x00\x00") * 200_000),
    "changes of ciphers": plain(b"\x14\x03\x03\x00\x01\x01" * 150_000),
}  # fmt: skip


@pytest.fixture
def tls(tmp_path):
    """Gives the context of a server, as the program makes it."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    async def make(pair=SERVER_PAIR):
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        key.chmod(0o600)
        return server_context(await load_tls(certificate, key, Clock.system()))

    return make


GROUPS = [list(TLS_CALLERS)[start : start + 5] for start in range(0, len(TLS_CALLERS), 5)]


@pytest.mark.parametrize("names", GROUPS, ids=[f"{names[0]}…" for names in GROUPS])
def test_no_caller_holds_the_loop_by_tls(names, tls):
    def attack(address) -> None:
        for name in names:
            with suppress(OSError):
                TLS_CALLERS[name](address)

    async def attacked():
        return await called(attack, await tls())

    assert not on_uvloop(attacked())


class Stand:
    """An HTTPS server on this loop, and its callers in threads."""

    def __init__(self, context) -> None:
        self.server = HttpServer("api", simple, "127.0.0.1", 0, tls=context)
        self._serving = asyncio.ensure_future(self.server.run())

    async def callers(self, number, make=lambda line: line.shake_hands()):
        """As many that are connected; `make` has ready what they are going to say."""
        address = self.server.address
        made = await asyncio.to_thread(lambda: [make(TlsLine(address)) for _ in range(number)])
        await asyncio.sleep(0.1)
        return made

    async def hears(self, callers):
        """What held the loop when all that these have ready was there at once."""
        loop = asyncio.get_running_loop()
        with watched() as dog:
            sending = loop.run_in_executor(None, lambda: [self._say(each) for each in callers])
            time.sleep(0.3)  # noqa: ASYNC251 - the loop is away meanwhile
            await sending
            await self._quiet()
        return dog.too_long

    @staticmethod
    async def _quiet() -> None:
        """Until the loop has had next to nothing to do for 0.3 s, as all that was said is heard."""
        for _ in range(10):
            worked = time.thread_time()
            await asyncio.sleep(0.3)
            if (
                time.thread_time() - worked < 0.03
            ):  # beside that, the watchdog looks a thousand times a second
                return

    @staticmethod
    def _say(caller):
        caller.line.setblocking(False)  # as much as is taken at once
        with suppress(OSError):
            caller.line.send(caller.outgoing.read())
        caller.line.settimeout(5.0)

    async def asked(self):
        """What another caller is answered, and after how many seconds."""
        begun = time.monotonic()

        def ask():
            line = TlsLine(self.server.address).shake_hands()
            line.tls.write(request("GET /"))
            line.send()
            found = line.read()
            line.end()
            return found

        return await asyncio.to_thread(ask), time.monotonic() - begun

    async def stop(self, callers):
        for each in callers:
            each.end()
        self.server.stop()
        await self._serving


@pytest.mark.parametrize(("number", "bits"), [(30, 4096), (200, 2048)])
def test_hands_that_are_to_be_shaken_in_the_same_turn_do_not_hold_the_loop(tls, number, bits):
    async def run():
        stand = Stand(await tls(rsa_pair(bits)))
        callers = await stand.callers(number, TlsLine.hello)
        too_long = await stand.hears(callers)
        await asyncio.to_thread(lambda: [each.shake_hands() for each in callers])
        await stand.stop(callers)
        return too_long

    assert not on_uvloop(run())


async def beside(tls, number, speak):
    """What held the loop while so many callers speak, what another one is answered, and after how many seconds."""
    stand = Stand(await tls())
    callers = await stand.callers(number, speak)
    too_long = await stand.hears(callers)
    answer, seconds = await stand.asked()
    await stand.stop(callers)
    return too_long, answer, seconds


@pytest.mark.parametrize("words", [of_keys, of_records, of_an_end])
@pytest.mark.parametrize("number", [1, 30])
def test_what_connected_callers_send_in_the_same_turn_does_not_hold_the_loop(tls, number, words):
    def speak(line):
        return words(line.shake_hands(), 5_000)

    too_long, answer, _ = on_uvloop(beside(tls, number, speak))
    assert not too_long
    assert answer.startswith(GREETED)


@pytest.mark.parametrize("sent", [b"", HELLO, HELLO + b"\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_handshakes_that_stall_hold_neither_the_loop_nor_anybody_up(tls, sent):
    stalled = beside(tls, 200, lambda line: line.has_ready(sent))
    too_long, answer, seconds = on_uvloop(stalled)
    assert not too_long
    assert answer.startswith(GREETED)
    assert seconds < 1.0
