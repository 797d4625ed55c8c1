"""The two messages of `grpc.health.v1.Health/Check`, as bytes: pure.

A request is one string (field 1), an answer one enum (field 1): too little for the library of Protocol Buffers.
"""

from collections.abc import Iterator
from typing import Final

SERVING: Final = 1
STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
"""The words of `ServingStatus`, by number."""
_PREFIX: Final = 5
"""Bytes before a message: whether it is compressed, and how long it is."""
_STRING: Final = b"\x0a"
_MOST_SHIFT: Final = 63


class Malformed(ValueError):
    """This is no such message."""


def request(service: str) -> bytes:
    """`HealthCheckRequest`, with its prefix; the name of the whole server is empty."""
    name = service.encode()
    message = _STRING + _varint(len(name)) + name if name else b""
    return b"\0" + len(message).to_bytes(_PREFIX - 1, "big") + message


def status(answer: bytes) -> int:
    """The status in a `HealthCheckResponse` with its prefix.

    Raises:
        Malformed: it is something else, or compressed, which was not asked for.
    """
    length = int.from_bytes(answer[1:_PREFIX], "big")
    if len(answer) != _PREFIX + length or length < 0 or answer[:1] != b"\0":
        raise Malformed
    found = 0
    for number, value in _fields(answer[_PREFIX:]):
        if number == 1:  # the last one counts, as Protocol Buffers have it
            found = value
    return found


def _fields(message: bytes) -> Iterator[tuple[int, int]]:
    """The numbers of its fields, with the values of those that are numbers."""
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
    """A varint, and where it ends."""
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
