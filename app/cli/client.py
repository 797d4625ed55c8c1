"""Requests to the API and their answers.

Requests use no proxy and follow no HTTP redirect, and answers are bounded in time and size. If a standby names the
leader, or a process the peer that runs the other loop, the request goes on there, once for each of the two.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Final, Literal, Self

import aiohttp
import msgspec
from yarl import URL

from app import own_version
from app.cli.problems import CommandFailed, Exit, NoAnswer, ServerRefused, refusal
from app.cli.tokens import NoToken, TokenSource
from app.cli.transports import FOLLOWED, RequestTarget, Transport, exposes

CONNECT: Final = 5.0
"""Seconds to connect; short, because addresses inside a cluster are often unreachable from outside."""
MAX_ANSWER: Final = 64 << 20
"""Most bytes of one answer."""
MAX_PROBLEM: Final = 1 << 20
"""Most bytes of an answer that is a problem."""
_CHUNK: Final = 1 << 16
_CONNECTIONS: Final = 64
"""Most connections at a time, for `dwd page`: a browser has six, and each page that is looked at keeps one."""
_API: Final = "/api/v1/"
EVENT_STREAM: Final = "text/event-stream"
"""The media type of a stream of events."""
SILENCE: Final = 45.0
"""Seconds of silence after which a stream of events counts as broken: three heartbeats of the server."""
_STREAMED: Final = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT, sock_read=SILENCE)
MAX_EVENT: Final = 8 << 20
"""Most bytes of one event; real ones are far smaller."""
_BROKEN: Final = (aiohttp.ClientError, TimeoutError, OSError)
"""What a request, or the reading of its answer, may fail with."""
_READING: Final = frozenset({"GET", "HEAD"})
UNKNOWN: Final = "it is unknown whether the change was made: check before you retry"
"""Where a request that may change something was sent, and its outcome cannot be learnt."""


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request to the API."""

    method: str
    path: str
    """Path below `/api/v1/`, with quoted parts."""
    query: Mapping[str, str | None] = field(default_factory=dict)
    """What is None is not sent."""
    body: object = None
    """Encoded as JSON; None for none."""
    headers: Mapping[str, str | None] = field(default_factory=dict)
    """What is None is not sent."""


@dataclass(slots=True, repr=False)
class Client:
    """Sends requests to the API; an asynchronous context manager, which ends connections and child processes."""

    transport: Transport
    """The way to the API."""
    tokens: TokenSource
    """What identifies the caller."""
    tls: ssl.SSLContext | Literal[True]
    """What verifies servers; True: the CAs of this machine."""
    _: KW_ONLY
    timeout: float
    """Seconds for one answer."""
    allow_plain_http: bool = False
    """Send the token over plain http to other machines, too."""
    has_written: bool = field(default=False, init=False)
    """Whether the server has carried out a request that may change something."""
    unanswered: bool = field(default=False, init=False)
    """Whether such a request was sent, and its answer has not begun: where the command is ended now, nobody knows."""
    # Made here, as to look up the version blocks.
    _agent: str = field(default_factory=lambda: f"dwd/{own_version()}", init=False)
    _session: aiohttp.ClientSession = field(init=False)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self.tls, limit=_CONNECTIONS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers={"User-Agent": self._agent},
            timeout=aiohttp.ClientTimeout(total=self.timeout, sock_connect=CONNECT),
            middlewares=(_write_once,),
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._session.close()
        finally:
            await self.transport.reset()

    async def ask(self, call: ApiCall) -> bytes:
        """Send a request and return the body of the answer, which may be empty.

        Raises:
            CommandFailed: There is no answer, or it is an error. The notes say so if a write may have been carried out.
        """
        async with self._answered(call) as response:
            return await whole(response, MAX_ANSWER)

    @asynccontextmanager
    async def answered(self, call: ApiCall) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and hand on its answer, of whatever media type, while it is still being received.

        A stream of events may last for ever, and counts as broken after `SILENCE`. Any other answer has to be complete
        within the time for one answer after it has begun.

        Raises:
            CommandFailed: There is no answer, it is an error, or it breaks off while it is read.
        """
        async with self._answered(call, _STREAMED) as response:
            streams = response.content_type == EVENT_STREAM
            async with asyncio.timeout(None if streams else self.timeout):
                yield response

    @asynccontextmanager
    async def stream(self, call: ApiCall) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a stream of events, which counts as broken after `SILENCE`.

        Raises:
            CommandFailed: There is no answer, it is not a stream (such as a page of a proxy, which a retry would get
                again), or it breaks off while it is read.
        """
        async with self.answered(call) as response:
            if response.status != HTTPStatus.OK or response.content_type != EVENT_STREAM:
                kind = response.headers.get("Content-Type") or "without a Content-Type"
                came = f"{response.status} ({kind})"
                raise CommandFailed(Exit.FAILED, f"the answer is {came}, not a stream of events")
            yield response.content

    async def exchange(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> aiohttp.ClientResponse:
        """Send one request to where the transport leads, with the token; returns the answer, whatever it is.

        Unlike `ask` it follows no problem, and leaves the transport as it is: others may use it at the same time.

        Args:
            method: The method.
            target: Path and query on the server, as they are sent.
            headers: Further headers.
            body: The body; None to send none.
            timeout: Of the answer; by default all of it has to be there within the time for one.

        Raises:
            CommandFailed: There is no answer, or no token.
        """
        renewed = False
        while True:
            place = await self.transport.place()
            try:
                credentials = await self._credentials(place)
                self.unanswered = method not in _READING
                # The start of kubectl and a login are no part of the time for an answer.
                async with asyncio.timeout(self.timeout):
                    response = await self._session.request(
                        method,
                        URL(f"{place.origin}{target}", encoded=True),
                        data=body,
                        headers={**headers, **credentials},
                        timeout=timeout or self._session.timeout,
                        allow_redirects=False,
                        server_hostname=place.certificate_name,
                    )
            except _BROKEN as error:
                self.unanswered = False
                raise self._unanswered(str(place.origin), error) from error
            self.unanswered = False
            unknown = response.status == HTTPStatus.UNAUTHORIZED
            if not unknown or renewed or not self.tokens.rejected():
                return response
            renewed = True
            response.release()

    async def refused(self, target: str) -> ServerRefused | None:
        """Ask for this path and query below `/api/v1/` as `exchange` does; returns the refusal, None for a success."""
        response = await self.exchange("GET", f"{_API}{target}", {})
        if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            response.release()
            return None
        return await self._refused(response)

    @asynccontextmanager
    async def _answered(
        self, call: ApiCall, timeout: aiohttp.ClientTimeout | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request, sent until it is a success; follows each kind of `FOLLOWED` problem once."""
        target = str(URL(f"{_API}{call.path}").extend_query(_given(call.query)))
        headers, body = _given(call.headers), None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            body = msgspec.json.encode(call.body)
        followed: list[ServerRefused] = []
        try:
            while True:
                try:
                    response = await self.exchange(call.method, target, headers, body, timeout)
                except CommandFailed as error:
                    if isinstance(error, NoAnswer):
                        await self.transport.reset()  # the server may have moved
                    if not followed:
                        raise
                    explained = self.transport.explained(followed[-1], error)
                    if isinstance(error, NoAnswer) and error.sent:
                        note_perhaps_done(call, explained)
                    raise explained from error
                if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                    self.has_written |= call.method not in _READING
                    break
                refused = await self._refused(response)
                if refused.problem.type not in FOLLOWED - {each.problem.type for each in followed}:
                    if refused.of_a_gateway:
                        note_perhaps_done(call, refused)
                    raise refused
                followed.append(refused)
                await self.transport.follow(refused)
            async with self._reading(response):
                yield response
        except NoAnswer as error:
            if error.sent:
                note_perhaps_done(call, error)
            raise

    async def _credentials(self, place: RequestTarget) -> Mapping[str, str]:
        found = await self.tokens.headers()
        if found and exposes(place.origin) and not self.allow_plain_http:
            message = f"the token is not sent to {place.origin}: plain http is not encrypted"
            raise CommandFailed(Exit.USAGE, message, ["use https, or give --allow-plain-http"])
        return found

    async def _refused(self, response: aiohttp.ClientResponse) -> ServerRefused:
        async with self._reading(response), asyncio.timeout(self.timeout):
            body = await whole(response, MAX_PROBLEM)
        kind, later = response.headers.get("Content-Type", ""), response.headers.get("Retry-After")
        refused = refusal(response.status, kind, body, later)
        if response.status == HTTPStatus.UNAUTHORIZED and isinstance(self.tokens, NoToken):
            refused.notes = (*refused.notes, self.tokens.why)
        return refused

    @asynccontextmanager
    async def _reading(self, response: aiohttp.ClientResponse) -> AsyncIterator[None]:
        """Reads an answer; one that breaks off is none, and resets the transport, as the server may have moved."""
        try:
            async with response:
                yield
        except _BROKEN as error:
            found = self._unanswered(str(response.url.origin()), error)
            await self.transport.reset()
            raise found from error

    def _unanswered(self, origin: str, error: Exception) -> NoAnswer:
        """The error for a request without an answer."""
        match error:
            case aiohttp.ClientConnectorCertificateError():
                trouble = f"its certificate is not trusted: {error.certificate_error}"
                return NoAnswer(
                    f"{origin} is not called: {trouble}", ["give its CA with --ca-file"], sent=False
                )
            case TimeoutError():
                return NoAnswer(f"{origin} does not answer in time")
            case aiohttp.ClientConnectorError():
                # Without the list of addresses that aiohttp puts into its message.
                failure, number = error.os_error, error.os_error.errno or 0
                reason = os.strerror(number) if number > 0 else failure.strerror or str(failure)
                if isinstance(failure, ssl.SSLError):  # whose number is none of the system's
                    reason = f"TLS fails: {failure.reason or failure}"
                trouble = f"{origin} cannot be reached: {reason}"
                return NoAnswer(trouble, self.transport.hints(), sent=False)
            case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError():
                return NoAnswer(f"{origin} does not answer: the connection broke off")
            case _:
                return NoAnswer(f"{origin} does not answer: {str(error) or type(error).__name__}")


async def _write_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware without which aiohttp would repeat a PUT or DELETE after its own errors for a cut connection."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method in _READING or isinstance(error, aiohttp.ClientConnectorError):
            raise
        raise aiohttp.ClientConnectionError(type(error).__name__) from error


def _given(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def note_perhaps_done(call: ApiCall, error: CommandFailed) -> None:
    """Adds the note that a request which was sent may have changed something, if it is one that does."""
    if call.method not in _READING:
        error.notes = (*error.notes, UNKNOWN)


async def whole(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Read a body of at most `most` bytes.

    Raises:
        CommandFailed: It is longer.
    """
    found = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        found += chunk
        if len(found) > most:
            raise CommandFailed(Exit.FAILED, f"the answer is longer than {most >> 20} MiB")
    return bytes(found)


async def lines_of(stream: aiohttp.StreamReader) -> AsyncGenerator[bytes]:
    """Split a stream of events into lines without their ends; an incomplete last line is dropped.

    Raises:
        CommandFailed: A line is longer than `MAX_EVENT`.
    """
    rest = bytearray()
    async for chunk in stream.iter_any():
        rest += chunk
        *complete, tail = rest.split(b"\n")
        rest = bytearray(tail)
        if len(rest) > MAX_EVENT:
            raise CommandFailed(Exit.FAILED, f"a line is longer than {MAX_EVENT >> 20} MiB")
        for line in complete:
            yield bytes(line).removesuffix(b"\r")
