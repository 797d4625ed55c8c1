"""TLS that comes in crumbs, or is expensive: opened in stretches, refused, or never agreed on."""

import asyncio
import ssl
from contextlib import suppress

import pytest

from app.core import bounded_tls
from app.core.bounded_tls import BoundedContext, BoundedTls, agree_cheaply
from app.core.fair_queue import TIME_SLICE, Consumer
from bench.hostile.servers import offer_only
from bench.hostile.talk import change_keys
from tests.core.kube.server import AUTHORITY, server_context
from tests.support.certs import Authority

TICK = TIME_SLICE / 40


@pytest.fixture
def time(monkeypatch):
    """A stopwatch by which each look at it takes a moment."""

    class Time:
        now = 100.0

    def stopwatch():
        Time.now += TICK
        return Time.now

    monkeypatch.setattr(bounded_tls, "stopwatch", stopwatch)
    return Time


class Pair:
    """Both ends of a connection, in memory; the event loop is us."""

    def __init__(self, server=None, client=None):
        self.client = client or BoundedContext()
        self.client.load_verify_locations(cadata=AUTHORITY.pem.decode())
        self.to_client, self.to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.far = (server or server_context()).wrap_bio(
            self.to_server, self.to_client, server_side=True
        )
        self.near = self.client.wrap_bio(
            self.to_client, self.to_server, server_hostname="127.0.0.1"
        )
        self.interrupted = self.wasteful = 0
        self.near.interrupted, self.near.wasteful = self._interrupt, self._waste

    def _interrupt(self):
        self.interrupted += 1

    def _waste(self):
        self.wasteful += 1

    def shake_hands(self):
        for _ in range(4):
            for end in (self.near, self.far):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        return self

    def read(self):
        """Everything that can be read now, as uvloop reads it."""
        found: list[bytes] = []
        try:
            while self.to_client.pending or self.near.pending():
                found.append(bytes(self.near.read(1 << 18)))
        except ssl.SSLWantReadError:
            pass
        return b"".join(found)


@pytest.fixture
def pair(time):
    return Pair().shake_hands()


def test_any_certificate_of_a_bundle_is_an_anchor_as_for_kubectl(time):
    of_another = Authority.create("another").server(["127.0.0.1"])
    client = BoundedContext()
    client.load_verify_locations(cadata=of_another.certificate.decode())
    pair = Pair(server_context(of_another), client).shake_hands()
    pair.far.write(b"x")
    assert pair.read() == b"x"


def test_more_than_a_stretch_can_open_is_left_for_later(pair):
    for _ in range(64 * 500):
        pair.far.write(b"x")
    first = pair.read()
    assert pair.interrupted == 1
    assert 0 < len(first) < 64 * 500
    pair.near.end_slice()
    assert pair.read().startswith(b"x")


def test_everything_is_read_in_the_end_and_in_order(pair):
    said = b"".join(b"%06d" % number for number in range(40_000))
    for start in range(0, len(said), 1200):
        pair.far.write(said[start : start + 1200])
    heard = b""
    for _ in range(100):
        heard += pair.read()
        pair.near.end_slice()
    assert heard == said
    assert not pair.wasteful


@pytest.mark.parametrize(
    ("times", "send"), [(10_000, lambda far: far.write(b"x")), (6000, change_keys)]
)
def test_floods_of_tiny_records_and_changes_of_keys_are_wasteful(pair, times, send):
    for _ in range(times):
        send(pair.far)
    for _ in range(20):
        pair.read()
        pair.near.end_slice()
    assert pair.wasteful


def test_answers_in_the_records_of_a_go_server_are_not_wasteful(pair):
    for _ in range(3000):
        pair.far.write(b"x" * 1200)
    for _ in range(100):
        pair.read()
        pair.near.end_slice()
    assert not pair.wasteful


def test_what_it_took_is_charged(pair):
    before = pair.client.consumer.spent
    pair.far.write(b"x" * 100)
    pair.read()
    pair.near.end_slice()
    assert pair.client.consumer.spent >= before + TICK


def test_handshakes_are_charged_too(time):
    consumer = Consumer()
    Pair(client=BoundedContext(consumer)).shake_hands()
    assert consumer.spent > 0


def test_what_came_before_the_end_can_still_be_read(pair):
    pair.far.write(b"last words" * 1000)
    assert pair.near.rest() == b"last words" * 1000
    assert pair.near.rest() == b""


def test_the_end_is_not_waited_for_where_more_has_come_than_a_slice(pair):
    for _ in range(1000):
        change_keys(pair.far)
    before = pair.to_client.pending
    pair.near.unwrap()
    assert before - pair.to_client.pending <= bounded_tls._SLICE
    assert pair.to_client.pending


def test_the_end_is_waited_for_where_nothing_has_come(pair):
    with pytest.raises(ssl.SSLWantReadError):
        pair.near.unwrap()


async def test_a_turn_that_is_not_used_at_once_is_lost(pair):
    pair.near.grant()
    for _ in range(3):
        await asyncio.sleep(0)
    pair.client.consumer.charge(TIME_SLICE)  # others have used up this turn
    pair.far.write(b"x")
    assert pair.read() == b""
    assert pair.interrupted == 1
    pair.near.grant()
    assert pair.read() == b"x"


@pytest.mark.looptime(False)
async def test_one_caller_shakes_hands_in_each_turn():
    consumer, done = Consumer(), []

    async def accept(number):
        hello, heard, said = ssl.MemoryBIO(), ssl.MemoryBIO(), ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
                ssl.MemoryBIO(), hello, server_hostname="a"
            ).do_handshake()
        wrapped = server_context().wrap_bio(heard, said, server_side=True)
        assert not await BoundedTls(wrapped, hello, heard, said, consumer).advance()
        assert said.pending
        done.append(number)

    accepting = [asyncio.ensure_future(accept(number)) for number in range(10)]
    most = 0
    while len(done) < 10:
        before = len(done)
        await asyncio.sleep(0)
        most = max(most, len(done) - before)
    await asyncio.gather(*accepting)
    assert most == 1
    assert consumer.spent > 0


def cheap():
    context = BoundedContext()
    agree_cheaply(context)
    return context


def test_keys_are_not_agreed_on_in_a_group_that_takes_long(time):
    server = server_context()
    offer_only(server, b"ffdhe8192")
    with pytest.raises(ssl.SSLError, match=r"(?i)no.*shared|group|share"):
        Pair(server=server, client=cheap()).shake_hands()


def test_a_group_that_takes_long_is_agreed_on_where_nobody_minds(time):
    server = server_context()
    offer_only(server, b"ffdhe2048")
    assert Pair(server=server).shake_hands().near.version() == "TLSv1.3"


def test_no_cipher_has_a_group_of_the_servers_own_making():
    names = [each["name"] for each in cheap().get_ciphers()]
    assert names
    assert not [name for name in names if name.startswith(("DHE-", "ADH-"))]


def test_nobody_is_followed_into_another_handshake():
    assert BoundedContext().options & ssl.OP_NO_RENEGOTIATION


def test_certificates_and_names_are_checked():
    context = BoundedContext()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
