"""One request to one API server: bounded in time and bytes, decoded while its bytes are counted."""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

import aiohttp
import msgspec
from yarl import URL

from app.core.errors import (
    BadAnswer,
    ClusterError,
    LimitExceeded,
    NameUnresolved,
    Throttled,
    Unreachable,
)
from app.core.kube import failures, translate
from app.core.kube.budget import MAX_BODY, Claim
from app.core.kube.failures import Asked
from app.core.kube.lines import lines_of
from app.core.kube.wire import NO_ANSWER, Attempt, Cut, NotSwitched, Wire

T = TypeVar("T")
Decode = Callable[[bytes | bytearray], T]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
_SHARE_OF_FIRST: Final = 0.6
"""Of the time that there is, what a reused connection may take at most: a second attempt needs the rest."""
_LARGE: Final = 1 << 20
_MAX_ERROR_BODY: Final = 64 * 1024
_GOODBYE: Final = 0.1
"""Seconds that the other side of a WebSocket has to say that it ends, too."""
_OK: Final = frozenset({200, 201})
_ACCEPTED: Final = 202
"""What a deletion may be answered with, too: it is on its way."""
_FOREIGN: Final = (
    aiohttp.ClientError,
    OSError,  # TimeoutError is one
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What an answer may cost: seconds and bytes."""

    first_byte_reused: float = 3.0
    first_byte_new: float = 5.0
    body: int = MAX_BODY


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask."""

    asked: Asked
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


class _DeadConnection(Exception):
    """A connection that was open before gave no answer."""


@dataclass(slots=True)
class _Progress:
    """How far a request has come."""

    answered: bool = False
    attempt: Attempt | None = None

    @property
    def spent_on_name(self) -> bool:
        """Whether its time went into looking for the server's address."""
        return self.attempt is not None and self.attempt.spent_on_name


class Channel:
    """One API server: where it is, and the TLS context that its connections are made with."""

    def __init__(
        self,
        wire: Wire,
        origin: str,
        context: ssl.SSLContext,
        *,
        limits: Limits | None = None,
        trusted: bool = False,
    ) -> None:
        """Connects to nothing yet.

        Args:
            wire: the pools to connect through.
            origin: `https://host:port`.
            context: trusts this server's CA, and has the client certificate.
            limits: what an answer may cost.
            trusted: whether the server's own words may appear in messages: the seed's may, a shoot's may not.
        """
        self._wire, self._origin, self._context = wire, origin, context
        self._limits = limits or Limits()
        self._trusted = trusted
        self._urls: dict[str, URL] = {}

    def close(self) -> None:
        """Closes its connections; a request on its way fails."""
        self._wire.drop(self._context)

    async def call(
        self,
        request: Request,
        decode: Decode[T],
        token: str | None,
        *,
        new_connection: bool = False,
    ) -> Reply[T]:
        """Asks, and decodes the answer.

        A GET that met a dead kept-alive connection is made once more on a new one; nothing else is ever repeated.

        Raises:
            ClusterError: what was asked for did not come.
        """
        progress = _Progress()
        session = self._wire.single if new_connection else self._wire.kept
        try:
            async with asyncio.timeout(request.within):
                try:
                    return await self._exchange(session, request, decode, token, progress)
                except _DeadConnection as dead:
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
        decode: Decode[T],
        token: str | None,
        progress: _Progress,
    ) -> Reply[T]:
        code, begun = NO_ANSWER, self._wire.clock.now()
        try:
            response, attempt = await self._send(session, request, token, progress)
            code, progress.answered = str(response.status), True
            async with response:  # what is left unread at the end closes the connection
                return await self._read(request, response, attempt, decode)
        except _FOREIGN as error:
            if isinstance(error, TimeoutError) and progress.spent_on_name:
                raise _nameless(request) from error
            raise failures.of_exception(request.asked, error) from error
        finally:
            self._observe(request, code, begun)

    async def _send(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        token: str | None,
        progress: _Progress,
    ) -> tuple[aiohttp.ClientResponse, Attempt]:
        limits, attempt = self._limits, None
        try:
            async with asyncio.timeout(limits.first_byte_new) as timer:
                reused = min(limits.first_byte_reused, request.within * _SHARE_OF_FIRST)
                progress.attempt = attempt = Attempt(self._wire.clock, reused, timer)
                return await self._open(session, request, token, attempt), attempt
        except (TimeoutError, Cut) as error:
            if attempt is not None and attempt.reused:
                raise _DeadConnection from error
            raise

    async def _open(
        self, session: aiohttp.ClientSession, request: Request, token: str | None, attempt: Attempt
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

    def _url(self, request: Request) -> URL:
        """Its parts are found once, and kept in it, where it will be asked for again."""
        known = self._urls.get(request.path)
        if known is not None:
            return known
        url = URL(self._origin + request.path)
        if request.again:
            self._urls[request.path] = url
        return url

    async def _read(
        self,
        request: Request,
        response: aiohttp.ClientResponse,
        attempt: Attempt,
        decode: Decode[T],
    ) -> Reply[T]:
        await self._check(request, response)
        with self._wire.budget.claim() as claim:
            body = await self._body(request, response, claim)
            received = self._wire.clock.now()
            try:
                value = decode(body)
            finally:
                _let_go(body)
        return Reply(value, attempt.sent, received, response.headers.get("Date"))

    async def _check(self, request: Request, response: aiohttp.ClientResponse) -> None:
        """Raises what an answer is that does not bring what was asked for."""
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise BadAnswer(f"{request.asked}: the answer is compressed, which was not asked for")
        deleting = request.method == "DELETE" and response.status == _ACCEPTED
        if response.status not in _OK and not deleting:
            raise await self._refusal(request, response)

    async def _refusal(self, request: Request, response: aiohttp.ClientResponse) -> ClusterError:
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
            detail=translate.status_message(body) if self._trusted and not request.secret else "",
        )

    async def _body(
        self, request: Request, response: aiohttp.ClientResponse, claim: Claim
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
            await claim.grow(len(chunk))
            body += chunk
        return body

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
                response, _ = await self._send(self._wire.single, request, token, _Progress())
            code = str(response.status)
            async with response:
                async with asyncio.timeout(request.within):
                    await self._check(request, response)
                self._observe(request, code, begun)
                yield lines_of(request.asked, response, silence)
        except _FOREIGN as error:
            if code == NO_ANSWER:
                self._observe(request, code, begun)
            raise self._counted(failures.of_exception(request.asked, error)) from error
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
                opened = await self._switch(request, token, protocols)
                code = "101"
            except NotSwitched as refused:
                code = str(refused.response.status)
                async with refused.response, asyncio.timeout(request.within):
                    raise await self._refusal(request, refused.response) from refused
            finally:
                self._observe(request, code, begun)
        except _FOREIGN as error:
            raise self._counted(failures.of_exception(request.asked, error)) from error
        except ClusterError as error:
            self._counted(error)
            raise
        try:
            yield opened
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await opened.close()

    async def _switch(
        self, request: Request, token: str | None, protocols: tuple[str, ...]
    ) -> aiohttp.ClientWebSocketResponse:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with asyncio.timeout(request.within) as timer:
            Attempt(self._wire.clock, request.within, timer).begin()
            return await self._wire.switched.ws_connect(
                self._url(request),
                protocols=protocols,
                headers=headers,
                ssl=self._context,
                compress=0,
                max_msg_size=request.most,
            )

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


def _payload(body: object) -> bytes | io.BytesIO:
    """JSON; a large one as a stream, which aiohttp sends in pieces instead of blocking the loop, and so warns of."""
    encoded = msgspec.json.encode(body)
    return encoded if len(encoded) <= _LARGE else io.BytesIO(encoded)


def _let_go(body: bytearray) -> None:
    """Frees the bytes now: an error that refers to its frame would keep them until the next garbage collection."""
    with contextlib.suppress(BufferError):  # something still looks into them
        body.clear()


def _too_long(request: Request, most: int) -> LimitExceeded:
    return LimitExceeded("size", f"{request.asked}: more than {most} bytes")


def _too_slow(request: Request, progress: _Progress) -> ClusterError:
    if progress.answered:
        message = f"{request.asked}: the answer was not complete after {request.within:g} s"
        return LimitExceeded("time", message)
    if progress.spent_on_name:
        return _nameless(request)
    return Unreachable(f"{request.asked}: no answer within {request.within:g} s")


def _nameless(request: Request) -> NameUnresolved:
    return NameUnresolved(f"{request.asked}: the server's name was not resolved in time")
