"""Answers that cost more than they say: read in stretches, or refused."""

import asyncio

import aiohttp
import pytest

from app.core import bounded_http
from app.core.bounded_http import ExcessiveFraming, bounded_readers
from app.core.fair_queue import TIME_SLICE
from tests.core.test_bounded_tls import Pair

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def chunks(data, size, extension=b""):
    parts = (data[start : start + size] for start in range(0, len(data), size))
    return b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts)


class Wire(asyncio.Transport):
    """A transport that only notes what is done to it."""

    def __init__(self, tls=None):
        super().__init__({"ssl_object": tls})
        self.reading, self.open = True, True

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def is_closing(self):
        return not self.open

    def close(self):
        self.open = False

    abort = close

    def write(self, data):
        raise AssertionError("nothing is written")


class Line:
    """One connection, and its far end."""

    def __init__(self, tls=None):
        self.wire, self.reader = Wire(tls), bounded_readers()()
        self.reader.connection_made(self.wire)

    def ask(self):
        self.reader.set_response_params(
            auto_decompress=False, read_bufsize=bounded_http.READ_AHEAD, read_until_eof=True
        )
        return self

    def say(self, data):
        """As a transport does: 256 KiB at once at most."""
        for start in range(0, len(data), 1 << 18):
            self.reader.data_received(data[start : start + (1 << 18)])
        return self

    async def may_speak(self):
        """Returns when it is listened to."""
        for _ in range(1000):
            if self.wire.reading:
                return
            await asyncio.sleep(0)
        raise AssertionError("nobody listens any more")

    async def answer(self):
        message, payload = await self.reader.read()
        body = b""
        while part := await payload.readany():
            body += part
        return message.code, body


@pytest.fixture
async def line():
    return Line().ask()


@pytest.fixture
def time(monkeypatch):
    """A stopwatch by which each look at it takes a third of a stretch."""
    now = [100.0]

    def stopwatch():
        now[0] += TIME_SLICE / 3
        return now[0]

    monkeypatch.setattr(bounded_http, "stopwatch", stopwatch)
    return now


async def test_a_long_answer_is_read_to_its_end(line):
    body = bytes(range(256)) * 8192
    line.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
    answer = asyncio.ensure_future(line.answer())
    for start in range(0, len(body), 1 << 18):
        await line.may_speak()
        line.say(body[start : start + (1 << 18)])
    assert await answer == (200, body)


async def test_what_one_stretch_cannot_parse_waits_for_a_turn_and_nothing_more_is_read(line, time):
    line.say(CHUNKED + chunks(b"x" * 60_000, 1000) + END)
    _, payload = await line.reader.read()
    assert not payload.is_eof()
    assert not line.wire.reading
    for _ in range(10):
        await asyncio.sleep(0)
    assert payload.is_eof()
    assert line.wire.reading
    assert await payload.read() == b"x" * 60_000


async def test_what_it_took_is_charged(line, time):
    line.say(OK)
    assert line.reader._consumer.spent > TIME_SLICE / 3


@pytest.mark.parametrize(("number", "size"), [(4096, 63), (100_000, 64), (4000, 1), (3, 100_000)])
async def test_chunks_that_are_few_or_large_enough_are_read(line, number, size):
    answer = asyncio.ensure_future(line.answer())
    whole = CHUNKED + chunks(b"x" * (number * size), size) + END
    for start in range(0, len(whole), 1 << 16):
        await line.may_speak()
        line.say(whole[start : start + (1 << 16)])
    assert await answer == (200, b"x" * (number * size))


CRUMBS = {
    "chunks of one byte": chunks(b"x" * 8000, 1),
    "chunks of 63 bytes": chunks(b"x" * 63 * 8000, 63),
    "long extensions": chunks(b"x" * 40, 1, b";name=" + b"x" * 1000),
    "an extension without end": b"1;name=" + b"x" * 60_000,
    "sizes with many digits": b"0" * 60_000,
    "trailers without end": END[:3] + b"Trailer: x\r\n" * 5000,
}


@pytest.mark.parametrize("body", CRUMBS.values(), ids=CRUMBS)
async def test_an_answer_that_comes_in_crumbs_is_refused(line, body):
    answer = asyncio.ensure_future(line.answer())
    for start in range(0, len(body := CHUNKED + body), 1 << 14):
        line.say(body[start : start + (1 << 14)])
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not line.wire.open
    with pytest.raises(
        (ExcessiveFraming, aiohttp.http.HttpProcessingError)
    ):  # the latter is aiohttp's own
        await answer


async def test_a_few_interim_answers_are_passed_over(line):
    line.say(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10 + OK)
    codes = [(await line.reader.read())[0].code for _ in range(11)]
    assert codes == [103] * 10 + [200]


async def test_interim_answers_without_end_are_refused(line):
    line.say(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 11 + OK)
    for _ in range(10):
        await line.reader.read()
    with pytest.raises(ExcessiveFraming):
        await line.reader.read()
    assert not line.wire.open


async def test_what_comes_before_anything_was_asked_for_ends_the_connection():
    assert not Line().say(OK).wire.open


async def test_what_comes_after_the_answer_ends_the_connection_and_spoils_no_answer(line):
    line.say(OK + OK)
    assert await line.answer() == (200, b"{}")
    assert not line.wire.open


async def test_what_comes_between_two_requests_ends_the_connection(line):
    assert await line.say(OK).answer() == (200, b"{}")
    line.say(OK)
    assert not line.wire.open
    assert not line.reader.is_connected()


async def test_a_second_request_has_its_own_answer(line):
    big = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 5000) for n in range(20))
    for _ in range(3):
        assert await line.say(big + b"Content-Length: 2\r\n\r\n{}").answer() == (200, b"{}")
        line.ask()
    assert line.wire.open


async def test_an_answer_that_had_come_before_the_connection_ended_is_whole(line, time):
    line.say(CHUNKED + chunks(b"x" * 60_000, 1000) + END)
    line.wire.open = False
    line.reader.connection_lost(None)
    assert await line.answer() == (200, b"x" * 60_000)


async def test_what_had_come_by_tls_before_the_connection_ended_is_whole():
    """All others had used up the turn in which it came, and the end with it."""
    pair = Pair().shake_hands()
    line = Line(pair.near).ask()
    pair.far.write(CHUNKED + chunks(b"x" * 60_000, 1000) + END)
    line.wire.open = False
    line.reader.connection_lost(None)
    assert await line.answer() == (200, b"x" * 60_000)


async def test_the_end_in_the_midst_of_an_answer_is_an_error(line, time):
    line.say(CHUNKED + chunks(b"x" * 60_000, 1000))
    line.wire.open = False
    line.reader.connection_lost(None)
    with pytest.raises(aiohttp.ClientPayloadError):
        await line.answer()


async def test_what_was_given_up_is_not_parsed_any_more(line, time):
    line.say(CHUNKED + chunks(b"x" * 60_000, 1000) + END)
    _, payload = await line.reader.read()
    line.reader.close()
    line.reader.connection_lost(None)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not line.wire.open
    assert payload.total_bytes < 60_000


async def test_an_answer_that_is_no_http_ends_the_connection_at_once(line):
    line.say(b"\x00" * 100)
    with pytest.raises(aiohttp.http.HttpProcessingError):
        await line.reader.read()
    assert not line.wire.open


async def test_bytes_of_another_protocol_keep_their_order(line, time):
    """They come with the head of the answer, in several slices, and somebody reads them later."""
    said = b"".join(b"%08d" % number for number in range(5000))
    line.say(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + said
    )
    assert (await line.reader.read())[0].code == 101
    for _ in range(20):
        await asyncio.sleep(0)

    class Parser:
        heard = b""

        def feed_data(self, data):
            self.heard += data
            return False, b""

    parser = Parser()
    line.reader.set_parser(parser, None)
    for _ in range(20):
        await asyncio.sleep(0)
    assert parser.heard == said
