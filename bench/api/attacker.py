"""One way to harm a port, as a process of its own: `python -m bench.api.attacker KIND PORT SECONDS TOKEN`.

It prints what it sent and what it was answered, as JSON.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

import uvloop

_TARGET: Final = "127.0.0.1"
_FROM: Final = ("127.0.0.2", 0)
"""An address of its own, as an attacker has."""
_SLOW: Final = 1_000
_LINES: Final = 100
_AT_ONCE: Final = 50
"""Requests in one write of the flood."""
_BODY: Final = 10_000_000
_HEAD: Final = 100_000
_AGAIN: Final = 0.05
"""Seconds before a connection that was ended is opened again."""

Counts = Counter[str]


class Flood(asyncio.Protocol):
    """Sends requests as fast as the connection takes them, whatever is answered."""

    def __init__(self, request: bytes, counts: Counts) -> None:
        self._request, self._counts = request, counts
        self._head, self._body = b"", 0
        self._full = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        """Has its keeper open another one."""
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        """The buffers of both ends are full."""
        self._full = True

    def resume_writing(self) -> None:
        """Goes on."""
        self._full = False
        self._send()

    def _send(self) -> None:
        if self._full or self._transport.is_closing():
            return
        self._transport.write(self._request * _AT_ONCE)
        self._counts["sent"] += _AT_ONCE
        asyncio.get_running_loop().call_soon(self._send)

    def data_received(self, data: bytes) -> None:
        """Counts answers."""
        while data:
            if self._body:
                taken = min(self._body, len(data))
                self._body -= taken
                data = data[taken:]
                continue
            self._head += data
            head, end, data = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            self._head = b""
            self._answered(head)

    def _answered(self, head: bytes) -> None:
        first, *rest = head.split(b"\r\n")
        self._counts[first.split()[1].decode()] += 1
        lengths = [each for each in rest if each.lower().startswith(b"content-length:")]
        self._body = int(lengths[0].partition(b":")[2]) if lengths else 0


async def flood(port: int, token: str, counts: Counts) -> None:
    """One of a hundred connections of one caller, each as busy as it can be."""
    request = _head("GET /api/v1/shoots", token) + b"\r\n"
    loop = asyncio.get_running_loop()
    while True:
        try:
            _, protocol = await loop.create_connection(
                lambda: Flood(request, counts), _TARGET, port, local_addr=_FROM
            )
            await protocol.lost
        except OSError:
            counts["refused"] += 1
        counts["connections lost"] += 1
        await asyncio.sleep(_AGAIN)


async def slow(port: int, token: str, counts: Counts) -> None:
    """One of a thousand connections that send a byte a second."""
    request = _head("GET /api/v1/shoots", token) + b"X-Slow: " + b"x" * 1_000
    while True:
        try:
            _, writer = await asyncio.open_connection(_TARGET, port, local_addr=_FROM)
            for number in range(len(request)):
                writer.write(request[number : number + 1])
                counts["bytes"] += 1
                await writer.drain()
                await asyncio.sleep(1)
        except OSError:
            counts["connections lost"] += 1
        await asyncio.sleep(_AGAIN)


async def bodies(port: int, token: str, counts: Counts) -> None:
    """10 MB where 16 KiB are too much, one after the other."""
    head = _head("POST /api/v1/shoots/shoot--perf--0/probe", token)
    head += f"Content-Type: application/json\r\nContent-Length: {_BODY}\r\n\r\n".encode()
    await _again(port, head + b"x" * _BODY, counts)


async def chunks(port: int, token: str, counts: Counts) -> None:
    """A body without an end."""
    head = _head("POST /api/v1/shoots/shoot--perf--0/probe", token)
    head += b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    await _again(port, head + (b"1000\r\n" + b"x" * 0x1000 + b"\r\n") * 2_500, counts)


async def heads(port: int, token: str, counts: Counts) -> None:
    """Headers of 100 kB, one after the other."""
    request = _head("GET /api/v1/shoots", token) + b"X-Long: " + b"x" * _HEAD + b"\r\n\r\n"
    await _again(port, request, counts)


async def _again(port: int, request: bytes, counts: Counts) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection(_TARGET, port, local_addr=_FROM)
            writer.write(request)
            counts["sent"] += 1
            status = (await reader.readline()).split()
            counts[status[1].decode() if status else "no answer"] += 1
            writer.transport.abort()
        except OSError:
            counts["connections lost"] += 1
        await asyncio.sleep(_AGAIN)


def _head(line: str, token: str) -> bytes:
    return f"{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n".encode()


Attack = Callable[[int, str, Counts], Coroutine[Any, Any, None]]
KINDS: Final[dict[str, tuple[Attack, int]]] = {
    "slow": (slow, _SLOW),
    "bodies": (bodies, 10),
    "chunks": (chunks, 10),
    "heads": (heads, 10),
    "requests": (flood, _LINES),
}
"""What each connection does, and how many there are."""


async def run(kind: str, port: int, seconds: float, token: str) -> Counts:
    """The attack; what came of it."""
    attack, number = KINDS[kind]
    counts: Counts = Counter()
    running = [asyncio.ensure_future(attack(port, token, counts)) for _ in range(number)]
    await asyncio.sleep(seconds)
    for each in running:
        each.cancel()
    await asyncio.wait(running)
    return counts


def main() -> None:
    """Reads the arguments and runs."""
    kind, port, seconds, token = sys.argv[1:]
    os.nice(10)  # on a machine with few cores it must not take those of what it attacks
    print(json.dumps(uvloop.run(run(kind, int(port), float(seconds), token))))


if __name__ == "__main__":
    main()
