"""Requests to an API server, and its answers: checked, read under caps, and decoded.

An answer may be huge, slow or endless (threat T7). Its bytes are counted while they arrive, per answer and in all
undecoded answers of the process (`byte_budget`), and the time for decoding is charged to a consumer (threat T11).
"""

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

# Requests, the limits of their answers, and replies.


T = TypeVar("T")
Decode = Callable[[bytes | bytearray], T]
"""Decodes the body of an answer into a value."""
Decoding = Callable[[bytes | bytearray], T | Generator[None, None, T]]
"""As `Decode`, or as a generator of steps if decoding takes long (`Consumer.finish`)."""

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """How long the first byte of an answer may take, in seconds, and how many bytes the body may have."""

    first_byte_reused: float = 3.0
    first_byte_new: float = 5.0
    body: int = MAX_BODY


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request to an API server."""

    asked: RequestedRight
    path: str
    within: float
    """Seconds for the whole call, including a second attempt; for a watch, until it is open."""
    params: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    body: object = field(default=None, repr=False)
    """JSON data; never part of a message or repr, because it may hold a token."""
    secret: bool = False
    """Whether the body holds a secret; if so, messages do not quote the server, which might repeat it."""
    content_type: str = JSON
    accept: str = JSON
    most: int = MAX_BODY
    """Maximum size of the body in bytes, if that is less than `ResponseLimits.body`."""
    again: bool = False
    """Whether the same request will be sent again and again, so that its parsed URL is worth keeping."""


class Reply(NamedTuple, Generic[T]):
    """The decoded value of an answer, and when it was obtained."""

    value: T
    sent: float
    """When the request was sent."""
    received: float
    """When the last byte had arrived."""
    dated: str | None = None
    """The `Date` header."""

    @property
    def date(self) -> float | None:
        """The server's clock in whole seconds; parsed only on demand, because few callers need it."""
        return failures.http_date(self.dated)


_MAX_ERROR_BODY: Final = 64 * 1024
_OK: Final = frozenset({200, 201})
# A valid answer to a deletion, too: it has been accepted but not finished.
_ACCEPTED: Final = 202


class ResponseReader:
    """Checks, reads and decodes the answers of one API server."""

    def __init__(
        self, pool: ConnectionPool, most: int, consumer: Consumer, *, trusted: bool
    ) -> None:
        """Creates the reader of one server's answers.

        Args:
            pool: the clock, and the byte budget that all servers share.
            most: maximum size of a body in bytes.
            consumer: charged for the event-loop time that decoding takes.
            trusted: whether messages may quote the server.
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
        """Reads and decodes the body.

        Raises:
            ClusterError: the server refused the request, or sent too much.
            msgspec.MsgspecError: the body cannot be decoded; also UnicodeDecodeError and RecursionError.
            aiohttp.ClientError: the connection broke.
            OSError: as above.
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
        """Decodes in stretches that block the event loop only briefly."""
        if not self._consumer.may_begin:
            await self._consumer.turn()
        begun = stopwatch()
        try:
            value = decode(body)
        finally:
            self._consumer.charge(stopwatch() - begun)
        if isinstance(value, Generator):
            return await self._consumer.finish(value)
        return value

    async def check(self, request: ApiRequest, response: aiohttp.ClientResponse) -> None:
        """Checks status and headers.

        Raises:
            ClusterError: the server refused the request, or compressed its answer.
        """
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise BadAnswer(
                f"{request.asked}: the answer is compressed, although that was not requested"
            )
        deleting = request.method == "DELETE" and response.status == _ACCEPTED
        if response.status not in _OK and not deleting:
            raise await self.refusal(request, response)

    async def refusal(self, request: ApiRequest, response: aiohttp.ClientResponse) -> ClusterError:
        """Reads a refusal (up to 64 KiB of it) and returns the error that it means."""
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
    """Frees the bytes now, not at the next garbage collection.

    The traceback of an error refers to the frame that holds them.
    """
    with contextlib.suppress(BufferError):  # a memoryview of them still exists
        body.clear()


def _too_long(request: ApiRequest, most: int) -> LimitExceeded:
    return LimitExceeded("size", f"{request.asked}: more than {most} bytes")


# The lines of a watch: one event each.


MAX_LINE: Final = 16 * MIB
"""Maximum bytes of one watch event. etcd accepts objects up to 1.5 MiB, so this exceeds every real one."""


class WatchSilent(Unreachable):
    """A watch was silent for too long: its connection may be dead."""


async def lines_of(
    asked: RequestedRight, response: aiohttp.ClientResponse, silence: float
) -> AsyncIterator[bytes]:
    """Yields the lines of a stream as they arrive.

    Args:
        asked: names the request in messages.
        response: the stream.
        silence: seconds without a byte, or between the first byte of a line and its end, after which it is abandoned.

    Raises:
        WatchSilent: no byte arrived for `silence` seconds, or a line that had begun was not completed.
        LimitExceeded: a line is too long.
    """
    loop, rest, dripping, until = asyncio.get_running_loop(), bytearray(), False, 0.0
    while True:
        if not dripping:  # a slow drip of bytes must not extend the time for one line
            until = loop.time() + silence
        try:
            async with asyncio.timeout_at(until):
                chunk = await response.content.readany()
        except TimeoutError as error:
            raise WatchSilent(f"{asked}: no data for {silence:g} s") from error
        if not chunk:
            return  # an incomplete last line is dropped
        dripping = bool(rest) and b"\n" not in chunk
        # splits only the new chunk: what came before it may be long
        first, *lines = chunk.split(b"\n")
        rest += first
        for line in lines:
            if rest.strip():
                yield bytes(rest)
            rest = bytearray(line)
        if len(rest) > MAX_LINE:
            raise LimitExceeded("size", f"{asked}: an event of more than {MAX_LINE} bytes")
