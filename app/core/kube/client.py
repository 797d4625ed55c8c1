"""One API server: requests, streams and WebSockets, bounded in time and bytes, counted, their failures our own."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from app.core.kube import failures
from app.core.kube.responses import Answers
from app.core.kube.lines import lines_of
from app.core.kube.requests import MERGE_PATCH, Decode, Decoding, Limits, Reply, Request
from app.core.kube.sender import DeadConnection, Progress, Sender
from app.core.kube.connections import NO_ANSWER, NotSwitched, Wire
from app.core.fair_queue import Consumer

__all__ = ["MERGE_PATCH", "Channel", "Decode", "Decoding", "Limits", "Reply", "Request"]

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


class Channel:
    """One API server: where it is, and the TLS context that its connections are made with."""

    def __init__(
        self,
        wire: Wire,
        origin: str,
        context: ssl.SSLContext,
        *,
        limits: Limits | None = None,
        consumer: Consumer | None = None,
        trusted: bool = False,
    ) -> None:
        """Connects to nothing yet.

        Args:
            wire: the pools to connect through.
            origin: `https://host:port`.
            context: trusts this server's CA, and has the client certificate.
            limits: what an answer may cost.
            consumer: who is charged for the time that decoding answers takes; None: nobody.
            trusted: whether the server's own words may appear in messages: the seed's may, a shoot's may not.
        """
        self._wire, self._context = wire, context
        limits = limits or Limits()
        self._sender = Sender(wire, origin, context, limits)
        self._answers = Answers(wire, limits.body, consumer or Consumer(), trusted=trusted)

    def close(self) -> None:
        """Closes its connections; a request on its way fails."""
        self._wire.drop(self._context)

    async def call(
        self,
        request: Request,
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
        progress = Progress()
        session = self._wire.single if new_connection else self._wire.kept
        try:
            async with asyncio.timeout(request.within):
                try:
                    return await self._exchange(session, request, decode, token, progress)
                except DeadConnection as dead:
                    if request.method != "GET":
                        raise failures.of_exception(request.asked, TimeoutError()) from dead
                return await self._exchange(self._wire.single, request, decode, token, progress)
        except TimeoutError as error:
            raise self._counted(_too_slow(request, progress)) from error
        except ClusterError as error:
            self._counted(error)
            raise

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        decode: Decoding[T],
        token: str | None,
        progress: Progress,
    ) -> Reply[T]:
        code, begun = NO_ANSWER, self._wire.clock.now()
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
        self, request: Request, token: str | None, *, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a stream, and gives its lines as they come; leaving closes its connection.

        Args:
            request: what to watch; its beginning must come `within` its limit.
            token: who asks.
            silence: seconds without a byte after which the stream is given up.

        Raises:
            ClusterError: there is no stream, or it broke, or (Silent) nothing came for too long.
        """
        code, begun = NO_ANSWER, self._wire.clock.now()
        try:
            async with asyncio.timeout(request.within):
                response, _ = await self._sender.send(self._wire.single, request, token, Progress())
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
        self, request: Request, token: str | None, protocols: tuple[str, ...]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Opens a WebSocket, on a connection of its own; leaving closes it.

        Args:
            request: where; the other side must have agreed `within` its limit.
            token: who asks.
            protocols: which ones we speak, the best first.

        Raises:
            ClusterError: there is none.
        """
        code, begun = NO_ANSWER, self._wire.clock.now()
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
        self, request: Request, token: str | None, protocols: tuple[str, ...]
    ) -> aiohttp.ClientWebSocketResponse | aiohttp.ClientResponse:
        """The WebSocket, or what was answered instead, unread."""
        try:
            return await self._sender.switch(request, token, protocols)
        except NotSwitched as refused:
            return refused.response

    def _counted(self, error: ClusterError) -> ClusterError:
        match error:
            case LimitExceeded():
                self._wire.metrics.limit_hits.labels(error.limit).inc()
            case Throttled():
                self._wire.metrics.throttled.labels(self._wire.host).inc()
            case _:
                pass
        return error

    def _observe(self, request: Request, code: str, begun: float) -> None:
        number, duration = self._wire.instruments(request.method, code)
        number.inc()
        duration.observe(self._wire.clock.now() - begun)


def _cause(error: Exception) -> Exception:
    """The error without the head of the request, which aiohttp keeps in it, token and all."""
    if isinstance(error, aiohttp.ClientResponseError):
        error.request_info, error.args = _NO_REQUEST, ()
    return error


def _too_slow(request: Request, progress: Progress) -> ClusterError:
    if progress.answered:
        message = f"{request.asked}: the answer was not complete after {request.within:g} s"
        return LimitExceeded("time", message)
    if progress.spent_on_name:
        return _nameless(request)
    return Unreachable(f"{request.asked}: no answer within {request.within:g} s")


def _nameless(request: Request) -> NameUnresolved:
    return NameUnresolved(f"{request.asked}: the server's name was not resolved in time")
