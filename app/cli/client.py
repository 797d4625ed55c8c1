"""Requests to the API, their answers, and the bearer token.

Requests use no proxy and follow no HTTP redirect, and answers are bounded in time and size. If a standby names the
leader, or a process the peer that runs the other loop, the request goes on there, once for each of the two.
"""

import asyncio
import os
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import aiohttp
import msgspec
from yarl import URL

from app.cli import transports
from app.cli.problems import CommandFailed, Exit, NoAnswer, ServerRefused, refusal
from app.cli.transports import FOLLOWED, RequestTarget, Transport
from app.core.config.client_settings import ClientSettings
from app.core.errors import ConfigurationError, Mistake, trimmed

# The bearer token: from a file, or from the user in a kubeconfig, whose login plugins are never run (threat T1).


_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16000}")
_MAX_FILE: Final = 1 << 20
# Most parts of the kubeconfig's YAML; the operator's own may have hundreds of contexts.
_MAX_PARTS: Final = 100_000
_SHOWN: Final = 100
_MAKE_ONE: Final = (
    "give --service-account NAMESPACE/NAME, or a token: kubectl create token SERVICEACCOUNT --audience "
    "dependency-watchdog > FILE, and --token-file FILE"
)


class TokenSource(ABC):
    """A source of the bearer token."""

    @abstractmethod
    async def headers(self) -> Mapping[str, str]:
        """The headers that identify the caller; none to send no token.

        Raises:
            CommandFailed: The token cannot be read, or made.
        """

    def rejected(self) -> bool:
        """Take note that the server does not know the token (401); returns whether the next one may be another."""
        return False


def _bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True, slots=True)
class NoToken(TokenSource):
    """Sends no token, as for a demo."""

    why: str = f"no token was sent; {_MAKE_ONE}"
    """A note for the error if the server wants one."""

    async def headers(self) -> Mapping[str, str]:
        return {}


@dataclass(frozen=True, slots=True, repr=False)
class InlineToken(TokenSource):
    """A token from a kubeconfig."""

    value: str

    async def headers(self) -> Mapping[str, str]:
        return _bearer(self.value)


@dataclass(frozen=True, slots=True)
class TokenFile(TokenSource):
    """A token file, which is read again for each request, as tokens are renewed."""

    path: Path

    async def headers(self) -> Mapping[str, str]:
        return _bearer(await asyncio.to_thread(self.read))

    def read(self) -> str:
        """Read the token; blocks.

        Raises:
            CommandFailed: The file cannot be read, or holds no token.
        """
        try:
            with self.path.open("rb") as file:
                text = file.read(_MAX_FILE).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            message = f"{self.path}: the token cannot be read: {reason}"
            raise CommandFailed(Exit.USAGE, message) from error
        if not _TOKEN.fullmatch(text):
            raise CommandFailed(Exit.USAGE, f"{self.path}: holds no token")
        return text


def token_source(settings: ClientSettings) -> TokenSource:
    """The source of the token that the flags determine.

    Raises:
        CommandFailed: `--token-file` cannot be read, or holds no token.
        ConfigurationError: `--kubeconfig` has no token that can be used.
    """
    if settings.token_file is not None:
        source = TokenFile(settings.token_file)
        source.read()
        return source
    if settings.kubeconfig is None:
        return NoToken()
    try:
        return _of_kubeconfig(settings.kubeconfig, settings.context)
    except _NoUsableToken as error:
        if (
            settings.port_forward is not None
        ):  # the kubeconfig may be meant for kubectl only, and the server may want no token
            return NoToken(f"no token was sent: {error}; {_MAKE_ONE}")
        message = f"{error}; {_MAKE_ONE}"
        raise _wrong(settings.kubeconfig, message) from error


class _NoUsableToken(Exception):
    """The user of a kubeconfig has no token, or logs in through a plugin."""


def _of_kubeconfig(path: Path, context: str | None) -> TokenSource:
    config = _read(path)
    name = config.get("current-context") if context is None else context
    if not isinstance(name, str) or not name:
        raise _wrong(path, "has no current context; choose one with --context")
    chosen = _entry(path, config, "context", name)
    user = chosen.get("user")
    if not isinstance(user, str):
        raise _wrong(path, f"context {trimmed(name, _SHOWN)} names no user")
    return _of_user(path, trimmed(user, _SHOWN), _entry(path, config, "user", user))


def _of_user(path: Path, name: str, user: dict[str, Any]) -> TokenSource:
    token, file = user.get("token"), user.get("tokenFile")
    if isinstance(file, str) and file:  # kubectl, too, prefers it to the inline token
        source = TokenFile(path.parent / file)
        source.read()
        return source
    if isinstance(token, str) and _TOKEN.fullmatch(token):
        return InlineToken(token)
    for plugin in ("exec", "auth-provider"):
        if plugin in user:
            raise _NoUsableToken(
                f"user {name} logs in through a plugin ({plugin}), which is never run"
            )
    raise _NoUsableToken(f"user {name} has no token")


def _read(path: Path) -> dict[str, Any]:
    from app.core.kube import kubeconfig  # noqa: PLC0415 - for this flag alone

    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
        found = kubeconfig.load(content, max_bytes=_MAX_FILE, max_events=_MAX_PARTS)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from error
    except kubeconfig.YamlRefused as error:
        raise _wrong(path, f"is not a kubeconfig: {error}") from error
    if not isinstance(found, dict):
        raise _wrong(path, "is not a kubeconfig")
    return found


def _entry(path: Path, config: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """The entry of this name among the contexts or users of a kubeconfig."""
    listed = config.get(f"{kind}s")
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict) and each.get("name") == name and isinstance(each.get(kind), dict):
            found: dict[str, Any] = each[kind]
            return found
    raise _wrong(path, f"has no {kind} {trimmed(name, _SHOWN)}")


def _wrong(path: Path, message: str) -> ConfigurationError:
    return ConfigurationError(str(path), [Mistake(None, "--kubeconfig", message)])


# Seconds to connect; short, because addresses inside a cluster are often unreachable from outside.
_CONNECT: Final = 5.0
MAX_ANSWER: Final = 64 << 20
"""Most bytes of one answer."""
_MAX_PROBLEM: Final = 1 << 20
_CHUNK: Final = 1 << 16
CONNECTIONS: Final = 4
"""Most connections of a command at a time."""
PAGE_CONNECTIONS: Final = 64
"""Those of `dwd page`: a browser has six, and each page that is looked at keeps one."""
_API: Final = "/api/v1/"
EVENT_STREAM: Final = "text/event-stream"
"""The media type of a stream of events."""
_UNKNOWN: Final = "it is unknown whether the change was made: check before you retry"


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request to the API."""

    method: str
    path: str
    """Path below `/api/v1/`, with quoted parts."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    """Encoded as JSON; None for none."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reach:
    """Settings of every request."""

    tokens: TokenSource
    tls: ssl.SSLContext | Literal[True]
    """What verifies servers; True: the CAs of this machine."""
    timeout: float
    """Seconds for one answer."""
    agent: str
    """The header User-Agent."""
    allow_plain_http: bool = False
    connections: int = CONNECTIONS
    """Most connections at a time."""


class Client:
    """Sends requests to the API; an asynchronous context manager, which closes the connections."""

    def __init__(self, transport: Transport, reach: Reach) -> None:
        self.transport = transport
        self._reach = reach
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=reach.tls, limit=reach.connections),
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

    async def ask(self, call: ApiCall) -> bytes:
        """Send a request and return the body of the answer, which may be empty.

        Raises:
            CommandFailed: There is no answer, or it is an error. The notes say so if a write may have been carried out.
        """
        timeout = aiohttp.ClientTimeout(total=self._reach.timeout, sock_connect=_CONNECT)
        try:
            async with self._answered(call, timeout) as response:
                return await whole(response, MAX_ANSWER)
        except NoAnswer as error:
            raise self._perhaps_done(call, error) from error

    @staticmethod
    def _perhaps_done(call: ApiCall, error: NoAnswer) -> NoAnswer:
        """Adds a note if the request may have changed something."""
        if call.method in {"GET", "HEAD"} or not error.sent:
            return error
        return NoAnswer(str(error), [*error.notes, _UNKNOWN])

    @asynccontextmanager
    async def answered(
        self, call: ApiCall, silence: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and hand on its answer, of whatever media type, while it is still being received.

        Args:
            call: The request.
            silence: Seconds without any data after which a stream of events counts as broken; any other answer has to
                be complete within the time that `Reach` gives it.

        Raises:
            CommandFailed: There is no answer, it is an error, or it breaks off while it is read.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=silence)
        try:
            async with (
                asyncio.timeout(self._reach.timeout) as limit,
                self._answered(call, timeout) as response,
            ):
                if _media_type(response.headers.get("Content-Type", "")) == EVENT_STREAM:
                    limit.reschedule(None)
                yield response
        except TimeoutError as error:
            raise self._perhaps_done(call, NoAnswer("the API does not answer in time")) from error
        except NoAnswer as error:
            raise self._perhaps_done(call, error) from error

    @asynccontextmanager
    async def stream(self, call: ApiCall, silence: float) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a stream of events.

        Args:
            call: The request.
            silence: Seconds without any data after which the stream counts as broken.

        Raises:
            CommandFailed: There is no answer, it is not a stream, or it breaks off while it is read.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=silence)
        async with self._answered(call, timeout) as response:
            _expect_events(response)
            yield response.content

    async def exchange(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send one request to where the transport leads, with the token; returns the answer, whatever it is.

        Unlike `ask` it follows no problem, and leaves the transport as it is: others may use it at the same time.

        Args:
            method: The method.
            target: Path and query on the server, as they are sent.
            headers: Further headers.
            body: The body; None to send none.
            timeout: Of the answer.

        Raises:
            CommandFailed: There is no answer, or no token.
        """
        renewed = False
        while True:
            place = await self.transport.place()
            try:
                response = await self._session.request(
                    method,
                    URL(f"{place.origin}{target}", encoded=True),
                    data=body,
                    headers={**headers, **await self._credentials(place)},
                    timeout=timeout,
                    allow_redirects=False,
                    server_hostname=place.certificate_name,
                )
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise self._unanswered(str(place.origin), error) from error
            unknown = response.status == HTTPStatus.UNAUTHORIZED
            if not unknown or renewed or not self._reach.tokens.rejected():
                return response
            renewed = True
            response.release()

    async def refused(
        self, method: str, target: str, headers: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> ServerRefused | None:
        """Send one request as `exchange` does, and return the refusal in its answer; None if it was a success."""
        response = await self.exchange(method, target, headers, None, timeout)
        if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            response.release()
            return None
        return await self._refused(response)

    @asynccontextmanager
    async def _answered(
        self, call: ApiCall, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        response = await self._open(call, timeout)
        try:
            async with response:
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise await self._lost(str(response.url.origin()), error) from error

    async def _open(self, call: ApiCall, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Send a request until the answer is a success; follows each kind of `FOLLOWED` problem once."""
        target = str(URL(f"{_API}{call.path}").extend_query(call.query))
        headers, body = call.headers, None
        if call.body is not None:
            headers, body = (
                {**headers, "Content-Type": "application/json"},
                msgspec.json.encode(call.body),
            )
        followed: list[ServerRefused] = []
        while True:
            try:
                response = await self.exchange(call.method, target, headers, body, timeout)
            except CommandFailed as error:
                if isinstance(error, NoAnswer):
                    await self.transport.reset()  # the server may have moved
                if not followed:
                    raise
                raise self.transport.explained(followed[-1], error) from error
            if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                return response
            refused = await self._refused(response)
            kinds = {each.problem.type for each in followed}
            if refused.problem.type not in FOLLOWED - kinds:
                raise refused
            followed.append(refused)
            await self.transport.follow(refused)

    async def _credentials(self, place: RequestTarget) -> Mapping[str, str]:
        found = await self._reach.tokens.headers()
        if not found:
            return {}
        if transports.exposes(place.origin) and not self._reach.allow_plain_http:
            message = f"the token is not sent to {place.origin}: plain http is not encrypted"
            raise CommandFailed(Exit.USAGE, message, ["use https, or give --allow-plain-http"])
        return found

    async def _refused(self, response: aiohttp.ClientResponse) -> ServerRefused:
        async with response:
            try:
                body = await whole(response, _MAX_PROBLEM)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise await self._lost(str(response.url.origin()), error) from error
        kind, later = response.headers.get("Content-Type", ""), response.headers.get("Retry-After")
        refused = refusal(response.status, kind, body, later)
        if response.status == HTTPStatus.UNAUTHORIZED and isinstance(self._reach.tokens, NoToken):
            refused.notes = (*refused.notes, self._reach.tokens.why)
        return refused

    async def _lost(self, origin: str, error: Exception) -> NoAnswer:
        """The error for a request without an answer; resets the transport, as the server may have moved."""
        found = self._unanswered(origin, error)
        await self.transport.reset()
        return found

    def _unanswered(self, origin: str, error: Exception) -> NoAnswer:
        """The error for a request without an answer."""
        hints = self.transport.hints()
        match error:
            case aiohttp.ClientConnectorCertificateError():
                trouble = f"its certificate is not trusted: {error.certificate_error}"
                return NoAnswer(
                    f"{origin} is not called: {trouble}", ["give its CA with --ca-file"], sent=False
                )
            case TimeoutError():
                return NoAnswer(f"{origin} does not answer in time")
            case aiohttp.ClientConnectorError():
                trouble = f"{origin} cannot be reached: {_reason(error.os_error)}"
                return NoAnswer(trouble, hints, sent=False)
            case _:
                return NoAnswer(f"{origin} does not answer: {str(error) or type(error).__name__}")


def _reason(error: OSError) -> str:
    """Why a connection failed, without the list of addresses that aiohttp puts into its message."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)


def _expect_events(response: aiohttp.ClientResponse) -> None:
    """Require that the answer is a stream of events.

    Raises:
        CommandFailed: It is something else, such as a page of a proxy; a retry would not help.
    """
    kind = response.headers.get("Content-Type", "")
    if response.status == HTTPStatus.OK and _media_type(kind) == EVENT_STREAM:
        return
    came = f"{response.status} ({kind or 'without a Content-Type'})"
    raise CommandFailed(Exit.FAILED, f"the answer is {came}, not a stream of events")


def _media_type(kind: str) -> str:
    return kind.partition(";")[0].strip().lower()


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
