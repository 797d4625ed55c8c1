"""One API server: requests, streams and WebSockets, bounded in time and bytes, counted, their failures our own."""

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

# One attempt at a request: on which connection it goes out, and how long the first byte of an answer may take.


_SHARE_OF_FIRST: Final = 0.6
"""Of the time that there is, what a reused connection may take at most: a second attempt needs the rest."""
_LARGE: Final = 1 << 20


class DeadConnection(Exception):
    """A connection that was open before gave no answer."""


@dataclass(slots=True)
class RequestProgress:
    """How far a request has come."""

    answered: bool = False
    attempt: RequestAttempt | None = None

    @property
    def spent_on_name(self) -> bool:
        """Whether its time went into looking for the server's address."""
        return self.attempt is not None and self.attempt.spent_on_name


class RequestSender:
    """Sends requests to one API server."""

    def __init__(
        self, pool: ConnectionPool, origin: str, context: ssl.SSLContext, limits: ResponseLimits
    ) -> None:
        """Connects to nothing yet; the arguments are those of `client.ApiClient`."""
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
        """Sends it, and waits for the head of the answer.

        Raises:
            DeadConnection: the connection was open before, and is so no more.
            aiohttp.ClientError: none could be made, or it broke.
            OSError: as before, or (TimeoutError) no answer began in time.
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
        """Sends it as one for a WebSocket, and waits until the other side has agreed.

        Raises:
            NotSwitched: it has not.
            aiohttp.ClientError: no connection could be made, or it broke.
            OSError: as before, or (TimeoutError) no answer began in time.
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
        """Its parts are found once, and kept in it, where it will be asked for again."""
        known = self._urls.get(request.path)
        if known is not None:
            return known
        url = URL(self._origin + request.path)
        if request.again:
            self._urls[request.path] = url
        return url


def _payload(body: object) -> bytes | io.BytesIO:
    """JSON; a large one as a stream, which aiohttp sends in pieces instead of blocking the loop, and so warns of."""
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

_GOODBYE: Final = 0.1
"""Seconds that the other side of a WebSocket has to say that it ends, too."""
_NO_REQUEST: Final = aiohttp.RequestInfo(URL(), "", CIMultiDictProxy(CIMultiDict()), URL())
_FOREIGN: Final = (
    aiohttp.ClientError,
    OSError,  # TimeoutError is one
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
)


class ApiClient:
    """One API server: where it is, and the TLS context that its connections are made with."""

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
        """Connects to nothing yet.

        Args:
            pool: the pools to connect through.
            origin: `https://host:port`.
            context: trusts this server's CA, and has the client certificate.
            limits: what an answer may cost.
            consumer: who is charged for the time that decoding answers takes; None: nobody.
            trusted: whether the server's own words may appear in messages: the seed's may, a shoot's may not.
        """
        self._pool, self._context = pool, context
        limits = limits or ResponseLimits()
        self._sender = RequestSender(pool, origin, context, limits)
        self._answers = ResponseReader(pool, limits.body, consumer or Consumer(), trusted=trusted)

    def close(self) -> None:
        """Closes its connections; a request on its way fails."""
        self._pool.drop(self._context)

    async def call(
        self,
        request: ApiRequest,
        decode: Decoding[T],
        token: str | None,
        *,
        new_connection: bool = False,
    ) -> Reply[T]:
        """Asks, and decodes the answer.

        A GET that met a dead kept-alive connection is made once more on a new one; nothing else is ever repeated.

        Raises:
            ClusterError: what was asked for did not come.
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
            async with response:  # what is left unread at the end closes the connection
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
        """Opens a stream, and gives its lines as they come; leaving closes its connection.

        Args:
            request: what to watch; its beginning must come `within` its limit.
            token: who asks.
            silence: seconds without a byte after which the stream is given up.

        Raises:
            ClusterError: there is no stream, or it broke, or (Silent) nothing came for too long.
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
        """Opens a WebSocket, on a connection of its own; leaving closes it.

        Args:
            request: where; the other side must have agreed `within` its limit.
            token: who asks.
            protocols: which ones we speak, the best first.

        Raises:
            ClusterError: there is none.
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
        """The WebSocket, or what was answered instead, unread."""
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
    """The error without the head of the request, which aiohttp keeps in it, token and all."""
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
