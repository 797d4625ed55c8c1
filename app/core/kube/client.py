"""The HTTP client of one API server: requests, watches and WebSockets.

Every call is limited in time and bytes, counted in metrics, and raises `ClusterError`s only (`failures` translates the
errors of aiohttp, OpenSSL and msgspec).

A request goes out on a kept-alive connection if there is one. That connection may be dead without anybody having
noticed, so it gets only part of the time for the first byte of an answer; a GET without one is then sent once more on a
new connection (rules 3.2). aiohttp's own retries are off (`bounded_http.asks_once`), because they would repeat writes.
"""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import aiohttp
import msgspec
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from app.core.errors import (
    ClusterError,
    LimitExceeded,
    NameUnresolved,
    Throttled,
    Unreachable,
)
from app.core.fair_queue import Consumer
from app.core.kube import failures
from app.core.kube.connections import (
    NO_ANSWER,
    ConnectionCut,
    ConnectionPool,
    NotSwitched,
    RequestAttempt,
)
from app.core.kube.responses import (
    MERGE_PATCH,
    ApiRequest,
    Decode,
    Decoding,
    Reply,
    ResponseLimits,
    ResponseReader,
    lines_of,
)

# One attempt at a request: which connection it uses, and how long the first byte of the answer may take.


# Share of the time limit that an attempt on a reused connection may take: a second attempt needs the rest.
_SHARE_OF_FIRST: Final = 0.6
_LARGE: Final = 1 << 20


class DeadConnection(Exception):
    """A reused connection gave no answer."""


@dataclass(slots=True)
class RequestProgress:
    """How far a request has come when its time is over."""

    answered: bool = False
    attempt: RequestAttempt | None = None

    @property
    def spent_on_name(self) -> bool:
        """Whether its time was spent on resolving the server's name."""
        return self.attempt is not None and self.attempt.spent_on_name


class RequestSender:
    """Sends requests to one API server."""

    def __init__(
        self, pool: ConnectionPool, origin: str, context: ssl.SSLContext, limits: ResponseLimits
    ) -> None:
        """Opens no connection yet; the arguments are those of `ApiClient`."""
        self._pool, self._origin, self._context = pool, origin, context
        self._limits = limits
        self._urls: dict[str, URL] = {}

    async def send(
        self,
        session: aiohttp.ClientSession,
        request: ApiRequest,
        token: str | None,
        progress: RequestProgress,
    ) -> tuple[aiohttp.ClientResponse, RequestAttempt]:
        """Sends the request and waits for the head of the answer.

        Raises:
            DeadConnection: the request went out on a reused connection that turned out to be dead.
            aiohttp.ClientError: no connection could be made, or it broke.
            OSError: as above; TimeoutError: no answer began in time.
        """
        limits, attempt = self._limits, None
        try:
            async with asyncio.timeout(limits.first_byte_new) as timer:
                reused = min(limits.first_byte_reused, request.within * _SHARE_OF_FIRST)
                progress.attempt = attempt = RequestAttempt(self._pool.clock, reused, timer)
                return await self._open(session, request, token, attempt), attempt
        except (TimeoutError, ConnectionCut) as error:
            if attempt is not None and attempt.reused:
                raise DeadConnection from error
            raise

    async def _open(
        self,
        session: aiohttp.ClientSession,
        request: ApiRequest,
        token: str | None,
        attempt: RequestAttempt,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": request.accept}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        attempt.begin()
        return await session.request(
            request.method,
            self._url(request),
            params=request.params or None,
            data=None if request.body is None else _payload(request.body),
            headers=headers,
            ssl=self._context,
            allow_redirects=False,
        )

    async def switch(
        self, request: ApiRequest, token: str | None, protocols: tuple[str, ...]
    ) -> aiohttp.ClientWebSocketResponse:
        """Sends the request as a WebSocket handshake and waits until the server has accepted it.

        Raises:
            NotSwitched: the server answered with something else.
            aiohttp.ClientError: no connection could be made, or it broke.
            OSError: as above; TimeoutError: no answer began in time.
        """
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with asyncio.timeout(request.within) as timer:
            RequestAttempt(self._pool.clock, request.within, timer).begin()
            return await self._pool.switched.ws_connect(
                self._url(request),
                protocols=protocols,
                headers=headers,
                ssl=self._context,
                compress=0,
                max_msg_size=request.most,
            )

    def _url(self, request: ApiRequest) -> URL:
        """Returns the URL of the request; parses it only once if it is requested `again`."""
        known = self._urls.get(request.path)
        if known is not None:
            return known
        url = URL(self._origin + request.path)
        if request.again:
            self._urls[request.path] = url
        return url


def _payload(body: object) -> bytes | io.BytesIO:
    """Encodes the body as JSON; a large one as a stream, which aiohttp sends in pieces instead of blocking the loop."""
    encoded = msgspec.json.encode(body)
    return encoded if len(encoded) <= _LARGE else io.BytesIO(encoded)


__all__ = [
    "MERGE_PATCH",
    "ApiClient",
    "ApiRequest",
    "Decode",
    "Decoding",
    "Reply",
    "ResponseLimits",
]

T = TypeVar("T")

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
        self._pool, self._context = pool, context
        limits = limits or ResponseLimits()
        self._sender = RequestSender(pool, origin, context, limits)
        self._answers = ResponseReader(pool, limits.body, consumer or Consumer(), trusted=trusted)

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
        progress = RequestProgress()
        session = self._pool.single if new_connection else self._pool.kept
        try:
            async with asyncio.timeout(request.within):
                try:
                    return await self._exchange(session, request, decode, token, progress)
                except DeadConnection as dead:
                    if request.method != "GET":
                        raise failures.of_exception(request.asked, TimeoutError()) from dead
                return await self._exchange(self._pool.single, request, decode, token, progress)
        except TimeoutError as error:
            raise self._counted(_too_slow(request, progress)) from error
        except ClusterError as error:
            self._counted(error)
            raise

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        request: ApiRequest,
        decode: Decoding[T],
        token: str | None,
        progress: RequestProgress,
    ) -> Reply[T]:
        code, begun = NO_ANSWER, self._pool.clock.now()
        try:
            response, attempt = await self._sender.send(session, request, token, progress)
            code, progress.answered = str(response.status), True
            async with response:  # leaving a body unread closes the connection
                return await self._answers.read(request, response, attempt, decode)
        except _FOREIGN as error:
            if isinstance(error, TimeoutError) and progress.spent_on_name:
                raise _nameless(request) from error
            raise failures.of_exception(request.asked, error) from _cause(error)
        finally:
            self._observe(request, code, begun)

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
        code, begun = NO_ANSWER, self._pool.clock.now()
        try:
            async with asyncio.timeout(request.within):
                response, _ = await self._sender.send(
                    self._pool.single, request, token, RequestProgress()
                )
            code = str(response.status)
            async with response:
                async with asyncio.timeout(request.within):
                    await self._answers.check(request, response)
                self._observe(request, code, begun)
                yield lines_of(request.asked, response, silence)
        except _FOREIGN as error:
            if code == NO_ANSWER:
                self._observe(request, code, begun)
            raise self._counted(failures.of_exception(request.asked, error)) from _cause(error)
        except ClusterError as error:
            self._counted(error)
            raise

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
        code, begun = NO_ANSWER, self._pool.clock.now()
        try:
            try:
                opened = await self._switched(request, token, protocols)
                code = str(opened.status) if isinstance(opened, aiohttp.ClientResponse) else "101"
            finally:
                self._observe(request, code, begun)
            if isinstance(opened, aiohttp.ClientResponse):
                async with opened, asyncio.timeout(request.within):
                    raise await self._answers.refusal(request, opened)
        except _FOREIGN as error:
            raise self._counted(failures.of_exception(request.asked, error)) from _cause(error)
        except ClusterError as error:
            self._counted(error)
            raise
        try:
            yield opened
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await opened.close()

    async def _switched(
        self, request: ApiRequest, token: str | None, protocols: tuple[str, ...]
    ) -> aiohttp.ClientWebSocketResponse | aiohttp.ClientResponse:
        """Returns the WebSocket, or the unread response that the server sent instead."""
        try:
            return await self._sender.switch(request, token, protocols)
        except NotSwitched as refused:
            return refused.response

    def _counted(self, error: ClusterError) -> ClusterError:
        match error:
            case LimitExceeded():
                self._pool.metrics.limit_hits.labels(error.limit).inc()
            case Throttled():
                self._pool.metrics.throttled.labels(self._pool.host).inc()
            case _:
                pass
        return error

    def _observe(self, request: ApiRequest, code: str, begun: float) -> None:
        number, duration = self._pool.instruments(request.method, code)
        number.inc()
        duration.observe(self._pool.clock.now() - begun)


def _cause(error: Exception) -> Exception:
    """Removes the request head, which includes the token, from an error of aiohttp."""
    if isinstance(error, aiohttp.ClientResponseError):
        error.request_info, error.args = _NO_REQUEST, ()
    return error


def _too_slow(request: ApiRequest, progress: RequestProgress) -> ClusterError:
    if progress.answered:
        message = f"{request.asked}: the answer was not complete after {request.within:g} s"
        return LimitExceeded("time", message)
    if progress.spent_on_name:
        return _nameless(request)
    return Unreachable(f"{request.asked}: no answer within {request.within:g} s")


def _nameless(request: ApiRequest) -> NameUnresolved:
    return NameUnresolved(f"{request.asked}: the server's name was not resolved in time")
