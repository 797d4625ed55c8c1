"""The HTTP client of one API server: requests, watches and WebSockets.

Every call is limited in time and bytes, counted in metrics, and raises `ClusterError`s only (`connections` translates
the errors of aiohttp, OpenSSL and msgspec).

A request goes out on a kept-alive connection if there is one. That connection may be dead without anybody having
noticed, so it gets only part of the time for the first byte of an answer; a GET without one is then sent once more on a
new connection (rules 3.2). aiohttp's own retries, which would repeat writes, are off (`bounded_http`).

An answer may be huge, slow or endless (threat T7). Its bytes are counted while they arrive, per answer and in all
undecoded answers of the process (`connections.ByteBudget`), and the time for decoding is charged to a consumer (threat
T11).
"""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

import aiohttp
import msgspec
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from app.core.bounded_http import ConnectionCut
from app.core.clock import stopwatch
from app.core.errors import (
    BadAnswer,
    ClusterError,
    LimitExceeded,
    NameUnresolved,
    Throttled,
    Unreachable,
)
from app.core.fair_queue import Consumer
from app.core.kube.connections import (
    MAX_BODY,
    MIB,
    NO_ANSWER,
    ConnectionPool,
    NotSwitched,
    RequestAttempt,
    RequestedRight,
    error_of_exception,
    error_of_status,
    http_date,
    retry_after_of,
)
from app.core.kube.decoding import envelope

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
    """Seconds for the whole call, from when its budget has admitted it and the credentials are known, with a second
    attempt; for a watch, until it is open."""
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
    keep_url: bool = False
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
        return http_date(self.dated)


_MAX_ERROR_BODY: Final = 64 * 1024
_OK: Final = frozenset({200, 201})
# A valid answer to a deletion, too: it has been accepted but not finished.
_ACCEPTED: Final = 202
# Share of the time limit that an attempt on a reused connection may take: a second attempt needs the rest.
_SHARE_OF_FIRST: Final = 0.6
# Bytes of a body from which on aiohttp sends it in pieces, instead of blocking the event loop.
_LARGE: Final = 1 << 20
# Seconds that the server has to answer the close frame of a WebSocket.
_GOODBYE: Final = 0.1
_NO_REQUEST: Final = aiohttp.RequestInfo(URL(), "", CIMultiDictProxy(CIMultiDict()), URL())
_FOREIGN: Final = (
    aiohttp.ClientError,
    OSError,  # TimeoutError is one
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
)


class _DeadConnection(Exception):
    """A reused connection gave no answer."""


class ApiClient:
    """The client of one API server, at one origin and with one TLS context."""

    def __init__(
        self,
        pool: ConnectionPool,
        origin: str,
        context: ssl.SSLContext,
        *,
        limits: ResponseLimits | None = None,
        consumer: Consumer | None = None,
        trusted: bool = False,
    ) -> None:
        """Opens no connection yet.

        Args:
            pool: the connection pools.
            origin: `https://host:port`.
            context: trusts this server's CA and holds the client certificate; identifies the server in the pools.
            limits: how many bytes and seconds an answer may take.
            consumer: charged for the event-loop time that decoding takes (threat T11); None charges nobody.
            trusted: whether messages may quote the server: the seed is trusted, a shoot is not.
        """
        self._pool, self._clock = pool, pool.clock
        self._origin, self._context, self._trusted = origin, context, trusted
        self._limits, self._consumer = limits or ResponseLimits(), consumer or Consumer()
        self._urls: dict[str, URL] = {}

    def close(self) -> None:
        """Closes its connections; requests in flight fail."""
        self._pool.drop(self._context)

    async def call(
        self,
        request: ApiRequest,
        decode: Decoding[T],
        token: str | None,
        *,
        new_connection: bool = False,
    ) -> Reply[T]:
        """Sends the request and decodes the answer.

        A GET that met a dead kept-alive connection is sent once more on a new connection. Nothing else is ever
        repeated.

        Args:
            request: what to ask.
            decode: turns the body into the value.
            token: the bearer token; None sends none.
            new_connection: use a connection of its own, closed afterwards.

        Raises:
            ClusterError: the request failed, or the answer was not what was asked for.
        """
        attempt = RequestAttempt(self._clock)
        session = self._pool.single if new_connection else self._pool.kept
        try:
            async with asyncio.timeout(request.within):
                try:
                    return await self._exchange(session, request, decode, token, attempt)
                except _DeadConnection as dead:
                    if request.method != "GET":
                        raise error_of_exception(request.asked, TimeoutError()) from dead
                return await self._exchange(self._pool.single, request, decode, token, attempt)
        except TimeoutError as error:
            raise self.counted(_too_slow(request, attempt)) from error
        except ClusterError as error:
            self.counted(error)
            raise

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        request: ApiRequest,
        decode: Decoding[T],
        token: str | None,
        attempt: RequestAttempt,
    ) -> Reply[T]:
        code, begun = NO_ANSWER, self._clock.now()
        try:
            response = await self._send(session, request, token, attempt)
            code, attempt.answered = str(response.status), True
            async with response:  # leaving a body unread closes the connection
                await self._check(request, response)
                with self._pool.budget.claim() as grow:
                    body = await self._body(request, response, grow)
                    received = self._clock.now()
                    try:
                        value = await self._decoded(decode, body)
                    finally:
                        _let_go(body)
                return Reply(value, attempt.sent, received, response.headers.get("Date"))
        except _FOREIGN as error:
            if isinstance(error, TimeoutError) and attempt.spent_on_name:
                raise _nameless(request) from error
            raise error_of_exception(request.asked, error) from _cause(error)
        finally:
            self._observe(request, code, begun)

    async def _send(
        self,
        session: aiohttp.ClientSession,
        request: ApiRequest,
        token: str | None,
        attempt: RequestAttempt,
    ) -> aiohttp.ClientResponse:
        """Sends the request and waits for the head of the answer.

        Raises:
            _DeadConnection: the request went out on a reused connection that turned out to be dead.
            aiohttp.ClientError: no connection could be made, or it broke.
            OSError: as above; TimeoutError: no answer began in time.
        """
        headers, body = {"Accept": request.accept}, None
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if request.body is not None:
            headers["Content-Type"] = request.content_type
            encoded = msgspec.json.encode(request.body)
            body = encoded if len(encoded) <= _LARGE else io.BytesIO(encoded)
        limits = self._limits
        try:
            async with asyncio.timeout(limits.first_byte_new) as timer:
                reused = min(limits.first_byte_reused, request.within * _SHARE_OF_FIRST)
                attempt.begin(timer, reused)
                return await session.request(
                    request.method,
                    self._url(request),
                    params=request.params or None,
                    data=body,
                    headers=headers,
                    ssl=self._context,
                    allow_redirects=False,
                )
        except (TimeoutError, ConnectionCut) as error:
            if attempt.reused:
                raise _DeadConnection from error
            raise

    def _url(self, request: ApiRequest) -> URL:
        """Returns the URL of the request; parses it only once if it is to be kept (`keep_url`)."""
        known = self._urls.get(request.path)
        if known is not None:
            return known
        url = URL(self._origin + request.path)
        if request.keep_url:
            self._urls[request.path] = url
        return url

    async def _check(self, request: ApiRequest, response: aiohttp.ClientResponse) -> None:
        """Raises a `ClusterError` if the server refused the request, or compressed its answer."""
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise BadAnswer(
                f"{request.asked}: the answer is compressed, although that was not requested"
            )
        deleting = request.method == "DELETE" and response.status == _ACCEPTED
        if response.status not in _OK and not deleting:
            raise await self._refusal(request, response)

    async def _refusal(self, request: ApiRequest, response: aiohttp.ClientResponse) -> ClusterError:
        """Reads a refusal (up to 64 KiB of it) and returns the error that it means."""
        body = await response.content.read(_MAX_ERROR_BODY)
        rest = bytes(body)
        while rest and len(body) < _MAX_ERROR_BODY:
            rest = await response.content.read(_MAX_ERROR_BODY)
            body += rest
        headers = response.headers
        return error_of_status(
            request.asked,
            response.status,
            retry_after=retry_after_of(headers.get("Retry-After"), headers.get("Date")),
            detail=envelope.status_message(body) if self._trusted and not request.secret else "",
        )

    async def _body(
        self,
        request: ApiRequest,
        response: aiohttp.ClientResponse,
        grow: Callable[[int], Awaitable[None]],
    ) -> bytearray:
        most, content = min(self._limits.body, request.most), response.content
        if (response.content_length or 0) > most:
            raise _too_long(request, most)
        body = bytearray()
        while not content.at_eof():
            chunk = await content.readany()
            if len(body) + len(chunk) > most:
                _let_go(body)
                raise _too_long(request, most)
            await grow(len(chunk))
            body += chunk
        return body

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

    @asynccontextmanager
    async def watch(
        self, request: ApiRequest, token: str | None, *, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a watch and yields its lines as they arrive; closes the connection on exit.

        Args:
            request: what to watch; the stream must begin `within` its limit.
            token: the bearer token; None sends none.
            silence: seconds without a byte after which the stream is abandoned.

        Raises:
            ClusterError: the stream could not be opened or broke; WatchSilent: nothing came for `silence` seconds.
        """
        code, begun = NO_ANSWER, self._clock.now()
        with self._translating(request):
            try:
                async with asyncio.timeout(request.within):
                    attempt = RequestAttempt(self._clock)
                    response = await self._send(self._pool.single, request, token, attempt)
                code = str(response.status)
            finally:
                self._observe(request, code, begun)
            async with response:
                async with asyncio.timeout(request.within):
                    await self._check(request, response)
                yield lines_of(request.asked, response, silence)

    @asynccontextmanager
    async def socket(
        self, request: ApiRequest, token: str | None, protocols: tuple[str, ...]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Opens a WebSocket on a connection of its own; closes it on exit.

        Args:
            request: where; the server must have accepted `within` its limit.
            token: the bearer token; None sends none.
            protocols: the subprotocols that we speak, the preferred one first.

        Raises:
            ClusterError: the server did not open it, or the connection broke.
        """
        code, begun = NO_ANSWER, self._clock.now()
        opened: aiohttp.ClientWebSocketResponse | aiohttp.ClientResponse
        with self._translating(request):
            try:
                async with asyncio.timeout(request.within) as timer:
                    RequestAttempt(self._clock).begin(timer, request.within)
                    opened = await self._pool.switched.ws_connect(
                        self._url(request),
                        protocols=protocols,
                        headers={} if token is None else {"Authorization": f"Bearer {token}"},
                        ssl=self._context,
                        compress=0,
                        max_msg_size=request.most,
                    )
                code = "101"
            except NotSwitched as answered:
                opened, code = answered.response, str(answered.response.status)
            finally:
                self._observe(request, code, begun)
            if isinstance(opened, aiohttp.ClientResponse):
                async with opened, asyncio.timeout(request.within):
                    raise await self._refusal(request, opened)
        try:
            yield opened
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await opened.close()

    @contextmanager
    def _translating(self, request: ApiRequest) -> Iterator[None]:
        """Raises what libraries raise as a `ClusterError`, and counts it."""
        try:
            yield
        except _FOREIGN as error:
            raise self.counted(error_of_exception(request.asked, error)) from _cause(error)
        except ClusterError as error:
            self.counted(error)
            raise

    def counted(self, error: ClusterError) -> ClusterError:
        """Counts the limit that was exceeded, or the pause that was asked for; returns the error."""
        match error:
            case LimitExceeded():
                self._pool.metrics.limit_hits.labels(error.limit).inc()
            case Throttled():
                self._pool.metrics.throttled.labels(self._pool.host).inc()
            case _:
                pass
        return error

    def _observe(self, request: ApiRequest, code: str, begun: float) -> None:
        self._pool.observe(request.method, code, self._clock.now() - begun)


def _let_go(body: bytearray) -> None:
    """Frees the bytes now, not at the next garbage collection.

    The traceback of an error refers to the frame that holds them.
    """
    with contextlib.suppress(BufferError):  # a memoryview of them still exists
        body.clear()


def _too_long(request: ApiRequest, most: int) -> LimitExceeded:
    return LimitExceeded("size", f"{request.asked}: more than {most} bytes")


def _cause(error: Exception) -> Exception:
    """Removes the request head, which includes the token, from an error of aiohttp."""
    if isinstance(error, aiohttp.ClientResponseError):
        error.request_info, error.args = _NO_REQUEST, ()
    return error


def _too_slow(request: ApiRequest, attempt: RequestAttempt) -> ClusterError:
    if attempt.answered:
        message = f"{request.asked}: the answer was not complete after {request.within:g} s"
        return LimitExceeded("time", message)
    if attempt.spent_on_name:
        return _nameless(request)
    return Unreachable(f"{request.asked}: no answer within {request.within:g} s")


def _nameless(request: ApiRequest) -> NameUnresolved:
    return NameUnresolved(f"{request.asked}: the server's name was not resolved in time")


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
