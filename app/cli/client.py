"""Requests to the API and their answers: no proxy, no redirect, bounded in time and size."""

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec

from app.cli import origins
from app.cli.exits import CommandFailed, Exit, NoAnswer
from app.cli.problems import ServerRefused, refusal
from app.cli.tokens import NoToken, TokenSource
from app.cli.transports import FOLLOWED, Place, Way

_CONNECT: Final = 5.0
"""Seconds to connect: an address inside a cluster often leads nowhere from outside."""
_MAX_ANSWER: Final = 64 << 20
_MAX_PROBLEM: Final = 1 << 20
_CHUNK: Final = 1 << 16
_FEW: Final = 4
_API: Final = "/api/v1/"
EVENT_STREAM: Final = "text/event-stream"
"""The media type of a stream of events."""
_UNKNOWN: Final = "whether it was done is not known: look before you ask again"


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    path: str
    """Below `/api/v1/`, each part of it quoted."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reach:
    """What the flags say of every request."""

    tokens: TokenSource
    tls: ssl.SSLContext
    timeout: float
    """Seconds for one answer."""
    agent: str
    """What this program calls itself."""
    allow_plain_http: bool = False


class Client:
    """Asks the API."""

    def __init__(self, way: Way, reach: Reach) -> None:
        self._way, self._reach = way, reach
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=reach.tls, limit=_FEW),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers={"User-Agent": reach.agent},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def ask(self, call: Call) -> bytes:
        """The body of the answer; empty where it has none.

        Raises:
            CommandFailed: there is no answer, or it is a problem.
        """
        timeout = aiohttp.ClientTimeout(total=self._reach.timeout, sock_connect=_CONNECT)
        try:
            async with self._answered(call, timeout) as response:
                return await _whole(response, _MAX_ANSWER)
        except NoAnswer as error:
            if call.method == "GET" or not error.sent:
                raise
            raise NoAnswer(str(error), [*error.notes, _UNKNOWN]) from error

    @asynccontextmanager
    async def stream(self, call: Call, silence: float) -> AsyncIterator[aiohttp.StreamReader]:
        """A stream of events; `silence` is the longest that it may say nothing, in seconds.

        Raises:
            CommandFailed: there is no answer, or it is none; or it breaks off while it is read.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=silence)
        async with self._answered(call, timeout) as response:
            _expect_events(response)
            yield response.content

    @asynccontextmanager
    async def _answered(
        self, call: Call, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        response = await self._open(call, timeout)
        try:
            async with response:
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise await self._lost(str(response.url.origin()), error) from error

    async def _open(self, call: Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """An answer that is no problem; goes on to whoever is named by one, once for each kind."""
        followed: list[ServerRefused] = []
        while True:
            try:
                response = await self._send(call, timeout)
            except CommandFailed as error:
                raise (self._way.explained(followed[-1], error) if followed else error) from error
            if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                return response
            refused = await self._refused(response)
            kinds = {each.problem.type for each in followed}
            if refused.problem.type not in FOLLOWED - kinds:
                raise refused
            followed.append(refused)
            await self._way.follow(refused)

    async def _send(self, call: Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        place = await self._way.place()
        headers = {**call.headers, **await self._credentials(place)}
        data = None if call.body is None else msgspec.json.encode(call.body)
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            return await self._session.request(
                call.method,
                f"{place.origin}{_API}{call.path}",
                params=call.query,
                data=data,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                server_hostname=place.certificate_name,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise await self._lost(str(place.origin), error) from error

    async def _credentials(self, place: Place) -> Mapping[str, str]:
        token = await self._reach.tokens.token()
        if token is None:
            return {}
        if origins.exposes(place.origin) and not self._reach.allow_plain_http:
            message = f"the token is not sent to {place.origin}: plain http can be read on the way"
            raise CommandFailed(Exit.USAGE, message, ["use https, or give --allow-plain-http"])
        return {"Authorization": f"Bearer {token}"}

    async def _refused(self, response: aiohttp.ClientResponse) -> ServerRefused:
        async with response:
            try:
                body = await _whole(response, _MAX_PROBLEM)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise await self._lost(str(response.url.origin()), error) from error
        kind, later = response.headers.get("Content-Type", ""), response.headers.get("Retry-After")
        refused = refusal(response.status, kind, body, later)
        if response.status == HTTPStatus.UNAUTHORIZED and isinstance(self._reach.tokens, NoToken):
            refused.notes = (*refused.notes, self._reach.tokens.why)
        return refused

    async def _lost(self, origin: str, error: Exception) -> NoAnswer:
        """The error for a request without an answer; what is asked next begins anew."""
        hints = self._way.hints()
        await self._way.reset()
        match error:
            case aiohttp.ClientConnectorCertificateError():
                trouble = f"its certificate is not trusted: {error.certificate_error}"
                return NoAnswer(
                    f"{origin} is not asked: {trouble}", ["--ca-file has the CA"], sent=False
                )
            case TimeoutError():
                return NoAnswer(f"{origin} does not answer in time")
            case aiohttp.ClientConnectorError():
                trouble = f"{origin} cannot be reached: {_reason(error.os_error)}"
                return NoAnswer(trouble, hints, sent=False)
            case _:
                return NoAnswer(f"{origin} does not answer: {str(error) or type(error).__name__}")


def _reason(error: OSError) -> str:
    """Why a connection was not made, without the addresses that were tried."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)


def _expect_events(response: aiohttp.ClientResponse) -> None:
    """Returns where the answer is a stream of events.

    Raises:
        CommandFailed: it is another one, as of a proxy; asking again would bring the same.
    """
    kind = response.headers.get("Content-Type", "")
    if response.status == HTTPStatus.OK and _media_type(kind) == EVENT_STREAM:
        return
    came = f"{response.status} ({kind or 'without a Content-Type'})"
    raise CommandFailed(Exit.FAILED, f"the answer is {came}, and not a stream of events")


def _media_type(kind: str) -> str:
    return kind.partition(";")[0].strip().lower()


async def _whole(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body.

    Raises:
        CommandFailed: it is longer than any answer can be.
    """
    found = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        found += chunk
        if len(found) > most:
            raise CommandFailed(Exit.FAILED, f"the answer is longer than {most >> 20} MiB")
    return bytes(found)
