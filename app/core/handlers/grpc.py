"""The grpc handler: passes if the health service (grpc.health.v1) answers SERVING; without TLS, as in the kubelet.

It makes one call on an HTTP/2 connection of its own, in our event loop (docs/decisions/0036). gRPC's own library goes
on reading what a target floods it with, in threads that no probe can end. Here every byte is counted, and the end of a
run ends its connection.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Final, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error

from app.core.bounded_http import AGENT
from app.core.handlers.runs import CannotRun, HandlerRun, Lookup, connect, failure, success, why
from app.core.model.endpoints import Grpc, Ran
from app.core.model.names import bracketed

# Encodes and decodes the two messages of `grpc.health.v1.Health/Check`; pure.
#
# The request has one string (field 1), the answer one enum (field 1): too little to justify the library of Protocol
# Buffers.


SERVING: Final = 1
STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
"""The names of `ServingStatus`, by number."""
# Length of the prefix of a message: a compression flag and the length.
_PREFIX: Final = 5
_STRING: Final = b"\x0a"
_MOST_SHIFT: Final = 63


class Malformed(ValueError):
    """The bytes are not a valid message."""


def request(service: str) -> bytes:
    """Encodes a `HealthCheckRequest` with its prefix; an empty service stands for the whole server."""
    name = service.encode()
    message = _STRING + _varint(len(name)) + name if name else b""
    return b"\0" + len(message).to_bytes(_PREFIX - 1, "big") + message


def status(answer: bytes) -> int:
    """Returns the status in a `HealthCheckResponse` with its prefix.

    Raises:
        Malformed: it is something else, or compressed, which was not asked for.
    """
    length = int.from_bytes(answer[1:_PREFIX], "big")
    if len(answer) != _PREFIX + length or length < 0 or answer[:1] != b"\0":
        raise Malformed
    found = 0
    for number, value in _fields(answer[_PREFIX:]):
        if number == 1:  # the last one counts, as in Protocol Buffers
            found = value
    return found


def _fields(message: bytes) -> Iterator[tuple[int, int]]:
    """Yields field numbers and, for integer fields, their values."""
    at = 0
    while at < len(message):
        key, at = _read(message, at)
        value, size = 0, 0
        match key & 7:
            case 0:
                value, at = _read(message, at)
            case 1:
                size = 8
            case 2:
                size, at = _read(message, at)
            case 5:
                size = 4
            case _:
                raise Malformed
        at += size
        if at > len(message):
            raise Malformed
        yield key >> 3, value


def _read(message: bytes, at: int) -> tuple[int, int]:
    """Returns a varint and the position after it."""
    value = 0
    for shift in range(0, _MOST_SHIFT + 1, 7):
        if at >= len(message):
            raise Malformed
        byte, at = message[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that it goes on
            return value, at
    raise Malformed


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits each
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# at level debug it would log whatever a target sends
logging.getLogger("hpack").setLevel(logging.CRITICAL + 1)

_PATH: Final = "/grpc.health.v1.Health/Check"
_STREAM: Final = 1
# Maximum bytes that a target may send; a valid answer has about a hundred. As empty frames they take 12 ms.
_MOST_READ: Final = 16 * 1024
# Maximum bytes of the message; a valid one has two.
_MOST_ANSWER: Final = 4096
# Maximum bytes of a request, which fits into one frame and into the window that every server opens.
_MOST_ASKED: Final = 16_000
_HTTP_OK: Final = 200
# The names of gRPC's status codes, by number.
_CODES: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
_MEANINGS: Final = {
    "UNIMPLEMENTED": "it has no health service (grpc.health.v1)",
    "NOT_FOUND": "its health service does not know this service",
}
_NO_GRPC: Final = "the answer is not gRPC"


async def check_health(handler: Grpc, run: HandlerRun, lookup: Lookup) -> Ran:
    """Runs a grpc probe.

    Raises:
        CannotRun: the port does not exist, or the name of the service is too long.
    """
    port, message = run.port(handler.port), request(handler.service)
    if len(message) > _MOST_ASKED:
        raise CannotRun("the name of the service is too long")
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", _PATH),
        (":authority", f"{bracketed(run.address.host)}:{port}"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", AGENT),
        ("grpc-timeout", f"{run.probe.timeout * 1000:.0f}m"),
    ]
    try:
        found = await lookup.addresses(run.address.host, run)
        run.fails_if_late("no connection")
        transport, call = await connect(
            lambda: _Call(headers, message), found, port, run.probe.timeout
        )
    except OSError as problem:
        return failure(why(problem))
    run.fails_if_late("no answer from the health service")
    try:
        return await call.answer
    finally:
        transport.abort()


class _Call(asyncio.Protocol):
    """One call and its connection; `answer` is the result."""

    def __init__(self, headers: list[tuple[str, str]], message: bytes) -> None:
        self._headers, self._message = headers, message
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._read = 0
        self._body = bytearray()
        self._said: dict[bytes, bytes] = {}
        """Headers and trailers of the answer."""
        self.answer: asyncio.Future[Ran] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the request at once: a server must accept it before it has sent its own settings."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its type
        self._http.initiate_connection()
        self._http.send_headers(_STREAM, self._headers)
        self._http.send_data(_STREAM, self._message, end_stream=True)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Processes received bytes until there is an answer or the target has sent too much."""
        self._read += len(data)
        if self._read > _MOST_READ:
            self._end(failure("RESOURCE_EXHAUSTED"))
        if self.answer.done():
            return
        try:
            self._take(self._http.receive_data(data))
        except (H2Error, ValueError):  # ValueError: invalid numbers and encodings
            self._end(failure(_NO_GRPC))
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._end(failure("the connection was closed before an answer came"))

    def _send(self) -> None:
        if data := self._http.data_to_send():
            self._transport.write(data)

    def _end(self, ran: Ran) -> None:
        """Sets the result, of which only the first counts, and aborts the connection."""
        if not self.answer.done():
            self.answer.set_result(ran)
            self._transport.abort()

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case ResponseReceived(headers=said) | TrailersReceived(headers=said):
                    self._said |= dict(said or ())
                case DataReceived(data=data):
                    # the window is never extended, because it is larger than any valid answer
                    self._body += data or b""
                    if len(self._body) > _MOST_ANSWER:
                        self._end(failure("RESOURCE_EXHAUSTED"))
                case StreamEnded():
                    self._end(self._conclusion())
                case StreamReset():
                    self._end(failure("UNAVAILABLE"))
                case ConnectionTerminated(last_stream_id=last) if (last or 0) < _STREAM:
                    self._end(failure("UNAVAILABLE"))
                case _:
                    continue

    def _conclusion(self) -> Ran:
        code = self._said.get(b"grpc-status")
        if code is None:
            number = int(self._said.get(b":status", b"0"))
            return failure(_NO_GRPC if number == _HTTP_OK else f"HTTP {number}, not gRPC")
        if (number := int(code)) != 0:
            word = dict(enumerate(_CODES)).get(number, f"gRPC code {number}")
            return failure(f"{word}: {_MEANINGS[word]}" if word in _MEANINGS else word)
        found = status(bytes(self._body))
        if found == SERVING:
            return success("SERVING")
        names = dict(enumerate(STATUSES))
        return failure(names.get(found, f"status {found}"))
