"""The answers of an API server: checked, read under caps, and decoded while their bytes are counted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

import aiohttp

from app.core.clock import stopwatch
from app.core.errors import BadAnswer, ClusterError, LimitExceeded, Unreachable
from app.core.fair_queue import Consumer
from app.core.kube import decoding, failures
from app.core.kube.byte_budget import MAX_BODY, MIB, Claim
from app.core.kube.connections import ConnectionPool, RequestAttempt
from app.core.kube.failures import RequestedRight

# What is asked of an API server, what its answer may cost, and what came back.


T = TypeVar("T")
Decode = Callable[[bytes | bytearray], T]
"""Makes a value of an answer."""
Decoding = Callable[[bytes | bytearray], T | Generator[None, None, T]]
"""The same, or in steps where it takes longer."""

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """What an answer may cost: seconds and bytes."""

    first_byte_reused: float = 3.0
    first_byte_new: float = 5.0
    body: int = MAX_BODY


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What to ask."""

    asked: RequestedRight
    path: str
    within: float
    """Seconds for all of it, a second attempt included; of a watch, for its beginning."""
    params: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    body: object = field(default=None, repr=False)
    """JSON data; in no message, as it may hold a token."""
    secret: bool = False
    """Whether the body holds one: the server's own words, which may repeat it, are in no message then."""
    content_type: str = JSON
    accept: str = JSON
    most: int = MAX_BODY
    """Bytes that the answer may have, where that is less than the limit of the channel."""
    again: bool = False
    """Asked again and again: its URL is kept."""


class Reply(NamedTuple, Generic[T]):
    """What came back."""

    value: T
    sent: float
    """When the request that brought it was sent."""
    received: float
    """When the last of it had arrived."""
    dated: str | None = None
    """The header `Date`."""

    @property
    def date(self) -> float | None:
        """What the server's clock said, in whole seconds; read only where somebody asks, as few do."""
        return failures.http_date(self.dated)


_MAX_ERROR_BODY: Final = 64 * 1024
_OK: Final = frozenset({200, 201})
_ACCEPTED: Final = 202
"""What a deletion may be answered with, too: it is on its way."""


class ResponseReader:
    """Reads the answers of one API server."""

    def __init__(
        self, pool: ConnectionPool, most: int, consumer: Consumer, *, trusted: bool
    ) -> None:
        """Keeps its arguments.

        Args:
            pool: has what the answers of all servers share.
            most: bytes that an answer may have.
            consumer: who is charged for the time that decoding takes.
            trusted: whether the server's own words may appear in messages.
        """
        self._clock, self._budget = pool.clock, pool.budget
        self._most, self._consumer, self._trusted = most, consumer, trusted

    async def read(
        self,
        request: ApiRequest,
        response: aiohttp.ClientResponse,
        attempt: RequestAttempt,
        decode: Decoding[T],
    ) -> Reply[T]:
        """Decodes what was asked for.

        Raises:
            ClusterError: the answer brings something else, or too much.
            msgspec.MsgspecError: it is not what it should be; UnicodeDecodeError and RecursionError say the same.
            aiohttp.ClientError: the connection broke.
            OSError: as before.
        """
        await self.check(request, response)
        with self._budget.claim() as claim:
            body = await self._body(request, response, claim)
            received = self._clock.now()
            try:
                value = await self._decoded(decode, body)
            finally:
                _let_go(body)
        return Reply(value, attempt.sent, received, response.headers.get("Date"))

    async def _decoded(self, decode: Decoding[T], body: bytearray) -> T:
        """Whatever it is, it is done in stretches that keep nobody waiting for long."""
        begun = stopwatch()
        try:
            value = decode(body)
        finally:
            self._consumer.charge(stopwatch() - begun)
        if isinstance(value, Generator):
            return await self._consumer.finish(value)
        return value

    async def check(self, request: ApiRequest, response: aiohttp.ClientResponse) -> None:
        """Looks at the head of the answer.

        Raises:
            ClusterError: what the answer is, if it does not bring what was asked for.
        """
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise BadAnswer(f"{request.asked}: the answer is compressed, which was not asked for")
        deleting = request.method == "DELETE" and response.status == _ACCEPTED
        if response.status not in _OK and not deleting:
            raise await self.refusal(request, response)

    async def refusal(self, request: ApiRequest, response: aiohttp.ClientResponse) -> ClusterError:
        """What an answer means that is a refusal."""
        body = await response.content.read(_MAX_ERROR_BODY)
        rest = bytes(body)
        while rest and len(body) < _MAX_ERROR_BODY:
            rest = await response.content.read(_MAX_ERROR_BODY)
            body += rest
        headers = response.headers
        return failures.of_status(
            request.asked,
            response.status,
            retry_after=failures.pause(headers.get("Retry-After"), headers.get("Date")),
            detail=decoding.status_message(body) if self._trusted and not request.secret else "",
        )

    async def _body(
        self, request: ApiRequest, response: aiohttp.ClientResponse, claim: Claim
    ) -> bytearray:
        most, content = min(self._most, request.most), response.content
        if (response.content_length or 0) > most:
            raise _too_long(request, most)
        body = bytearray()
        while not content.at_eof():
            chunk = await content.readany()
            if len(body) + len(chunk) > most:
                _let_go(body)
                raise _too_long(request, most)
            await claim.grow(len(chunk))
            body += chunk
        return body


def _let_go(body: bytearray) -> None:
    """Frees the bytes now: an error that refers to its frame would keep them until the next garbage collection."""
    with contextlib.suppress(BufferError):  # something still looks into them
        body.clear()


def _too_long(request: ApiRequest, most: int) -> LimitExceeded:
    return LimitExceeded("size", f"{request.asked}: more than {most} bytes")


# The lines of a watch, one for each event.


MAX_LINE: Final = 16 * MIB
"""Bytes of one watch event: etcd takes objects up to 1.5 MiB, so this is more than any real one."""


class Silent(Unreachable):
    """A watch on which nothing came for too long: its connection may be dead."""


async def lines_of(
    asked: RequestedRight, response: aiohttp.ClientResponse, silence: float
) -> AsyncIterator[bytes]:
    """The lines of a stream as they come.

    Raises:
        Silent: nothing came for `silence` seconds, or no end of a line that had begun.
        LimitExceeded: a line is too long.
    """
    loop, rest, dripping, until = asyncio.get_running_loop(), bytearray(), False, 0.0
    while True:
        if not dripping:  # more bytes of a line that had begun before give it no more time
            until = loop.time() + silence
        try:
            async with asyncio.timeout_at(until):
                chunk = await response.content.readany()
        except TimeoutError as error:
            raise Silent(f"{asked}: nothing was heard for {silence:g} s") from error
        if not chunk:
            return  # half a line at the end of a stream is none
        dripping = bool(rest) and b"\n" not in chunk
        first, *lines = chunk.split(b"\n")  # and not what came before it, which may be long
        rest += first
        for line in lines:
            if rest.strip():
                yield bytes(rest)
            rest = bytearray(line)
        if len(rest) > MAX_LINE:
            raise LimitExceeded("size", f"{asked}: an event of more than {MAX_LINE} bytes")
