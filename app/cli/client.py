"""Requests to the API and their answers: no proxy, no redirect, bounded in time and size."""

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import aiohttp
import msgspec

from app.cli import transports
from app.cli.problems import CommandFailed, Exit, NoAnswer, ServerRefused, refusal
from app.cli.transports import FOLLOWED, RequestTarget, Transport
from app.core.config.client_settings import ClientSettings
from app.core.errors import ConfigurationError, Mistake, trimmed
from app.core.kube import kubeconfig

# Where the bearer token comes from: a file, or the user of a kubeconfig; a plugin of one is never run (threat T1).


_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16000}")
_MAX_FILE: Final = 1 << 20
_MAX_PARTS: Final = 100_000
"""Of the YAML of one's own kubeconfig, which may have hundreds of contexts."""
_SHOWN: Final = 100
_MAKE_ONE: Final = (
    "make a token: kubectl create token SERVICEACCOUNT --audience dependency-watchdog > FILE, and give --token-file "
    "FILE"
)


class TokenSource(Protocol):
    """Gives the token."""

    async def token(self) -> str | None:
        """The token as it is now; None where none is sent.

        Raises:
            CommandFailed: it cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoToken:
    """Nobody in particular asks."""

    why: str = f"no token was sent; {_MAKE_ONE}"
    """What to say where the server wants one."""

    async def token(self) -> str | None:
        """None."""
        return None


@dataclass(frozen=True, slots=True, repr=False)
class InlineToken:
    """A token that a kubeconfig holds."""

    value: str

    async def token(self) -> str | None:
        """The token."""
        return self.value


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file, read again for each request: tokens are renewed."""

    path: Path

    async def token(self) -> str | None:
        """What is in it."""
        return await asyncio.to_thread(self.read)

    def read(self) -> str:
        """The same.

        Raises:
            CommandFailed: it cannot be read, or holds no token.
        """
        try:
            with self.path.open("rb") as file:
                text = file.read(_MAX_FILE).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            message = f"{self.path}: the token cannot be read: {reason}"
            raise CommandFailed(Exit.USAGE, message) from error
        if not _TOKEN.fullmatch(text):
            raise CommandFailed(Exit.USAGE, f"{self.path}: holds no token")
        return text


def token_source(settings: ClientSettings) -> TokenSource:
    """Where the token comes from, by the flags.

    Raises:
        CommandFailed: there is a token file, and it holds none.
        ConfigurationError: there is a kubeconfig, and it has no token that can be used.
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
        ):  # it is there for kubectl; the server may want no token
            return NoToken(f"no token was sent: {error}; {_MAKE_ONE}")
        message = f"{error}; {_MAKE_ONE}"
        raise _wrong(settings.kubeconfig, message) from error


class _NoUsableToken(Exception):
    """The user of a kubeconfig logs in some other way."""


def _of_kubeconfig(path: Path, context: str | None) -> TokenSource:
    config = _read(path)
    name = config.get("current-context") if context is None else context
    if not isinstance(name, str) or not name:
        raise _wrong(path, "has no current context; say which by --context")
    chosen = _entry(path, config, "context", name)
    user = chosen.get("user")
    if not isinstance(user, str):
        raise _wrong(path, f"context {trimmed(name, _SHOWN)} names no user")
    return _of_user(path, trimmed(user, _SHOWN), _entry(path, config, "user", user))


def _of_user(path: Path, name: str, user: dict[str, Any]) -> TokenSource:
    token, file = user.get("token"), user.get("tokenFile")
    if isinstance(file, str) and file:  # as for kubectl, it goes before the token
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
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
        found = kubeconfig.load(content, max_bytes=_MAX_FILE, max_events=_MAX_PARTS)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from error
    except kubeconfig.YamlRefused as error:
        raise _wrong(path, f"is no kubeconfig: {error}") from error
    if not isinstance(found, dict):
        raise _wrong(path, "is no kubeconfig")
    return found


def _entry(path: Path, config: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """The context or user of this name."""
    listed = config.get(f"{kind}s")
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict) and each.get("name") == name and isinstance(each.get(kind), dict):
            found: dict[str, Any] = each[kind]
            return found
    raise _wrong(path, f"has no {kind} {trimmed(name, _SHOWN)}")


def _wrong(path: Path, message: str) -> ConfigurationError:
    return ConfigurationError(str(path), [Mistake(None, "--kubeconfig", message)])


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
class ApiCall:
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

    def __init__(self, transport: Transport, reach: Reach) -> None:
        self._transport, self._reach = transport, reach
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

    async def ask(self, call: ApiCall) -> bytes:
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
    async def stream(self, call: ApiCall, silence: float) -> AsyncIterator[aiohttp.StreamReader]:
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
        self, call: ApiCall, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        response = await self._open(call, timeout)
        try:
            async with response:
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise await self._lost(str(response.url.origin()), error) from error

    async def _open(self, call: ApiCall, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """An answer that is no problem; goes on to whoever is named by one, once for each kind."""
        followed: list[ServerRefused] = []
        while True:
            try:
                response = await self._send(call, timeout)
            except CommandFailed as error:
                raise (
                    self._transport.explained(followed[-1], error) if followed else error
                ) from error
            if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                return response
            refused = await self._refused(response)
            kinds = {each.problem.type for each in followed}
            if refused.problem.type not in FOLLOWED - kinds:
                raise refused
            followed.append(refused)
            await self._transport.follow(refused)

    async def _send(self, call: ApiCall, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        place = await self._transport.place()
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

    async def _credentials(self, place: RequestTarget) -> Mapping[str, str]:
        token = await self._reach.tokens.token()
        if token is None:
            return {}
        if transports.exposes(place.origin) and not self._reach.allow_plain_http:
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
        hints = self._transport.hints()
        await self._transport.reset()
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
