"""A caller of the API that costs little itself: one kept connection, one request after the other."""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any, Final, Self

_WITHIN: Final = 30.0
_SETTLED_WITHIN: Final = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: bytes
    seconds: float
    """From the first byte sent to the last one received."""

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever this call is answered with
        """The body, read."""
        return json.loads(self.body)


class Line:
    """One connection of one caller."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
    ) -> None:
        self._reader, self._writer, self._token = reader, writer, token

    @classmethod
    async def to(cls, port: int, token: str) -> Self:
        """Connects."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**20), token)

    async def get(self, path: str) -> Answer:
        """Reads one thing."""
        return await self.ask("GET", path)

    async def ask(self, method: str, path: str, body: object = None) -> Answer:
        """One call, whatever it is answered with.

        Raises:
            OSError, TimeoutError: it was not.
        """
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._token}\r\n"
        if text:
            head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        began = time.perf_counter()
        async with asyncio.timeout(_WITHIN):
            self._writer.write(head.encode() + b"\r\n" + text)
            status, found = await self._answer()
        return Answer(status, found, time.perf_counter() - began)

    async def _answer(self) -> tuple[int, bytes]:
        try:
            first, *rest = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            lengths = [each for each in rest if each.lower().startswith(b"content-length:")]
            length = int(lengths[0].partition(b":")[2]) if lengths else 0
            return int(first.split()[1]), await self._reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the connection ended before its answer") from error

    def close(self) -> None:
        """Ends the connection."""
        self._writer.close()


async def connected(port: int, token: str) -> Line:
    """A connection to a process that may only be starting."""
    while True:
        try:
            return await Line.to(port, token)
        except OSError:
            await asyncio.sleep(0.2)


async def settled(port: int, token: str, shoots: int) -> None:
    """Returns when so many shoots are healthy.

    Raises:
        TimeoutError: they are not within two minutes.
    """
    async with asyncio.timeout(_SETTLED_WITHIN):
        line = await connected(port, token)
        while True:
            answer = await line.get("/api/v1/status")
            counts = answer.json["counts"] if answer.status == 200 else None
            if counts is not None and counts["Healthy"] == shoots:
                break
            await asyncio.sleep(1.0)
    line.close()
