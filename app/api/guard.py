"""What every request passes first, and every answer last (threats T15, T17): raw ASGI, around the application."""

import ipaddress
from collections.abc import Iterable
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import Problem, ProblemType
from app.core.errors import trimmed

log = structlog.get_logger(__name__)

MAX_HEAD: Final = 16_384
"""Bytes of target and headers together."""

_METHODS: Final = frozenset({"GET", "HEAD"})
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""Given to each answer that does not have them in its own words."""


class Guard:
    """Refuses what is not a plain read, and hides what goes wrong.

    Args:
        app: what is guarded.
        local_only: answer only a Host that is this machine: a page of elsewhere whose name was made to resolve to
            127.0.0.1 must not read what a loopback address serves.
    """

    def __init__(self, app: ASGIApp, *, local_only: bool = False) -> None:
        self._app = app
        self._local_only = local_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, bodiless=scope["method"] == "HEAD")
        try:
            if (problem := self._refusal(scope)) is not None:
                await problem.response(_path(scope))(scope, receive, answer.send)
            else:
                # HEAD is GET without the body.
                await self._app({**scope, "method": "GET"}, receive, answer.send)
        except Exception as error:
            log.exception("a request failed unexpectedly", path=_path(scope), exc_info=error)
            if answer.started:
                raise
            problem = Problem(ProblemType.INTERNAL_ERROR, "the log of this instance says more")
            await problem.response(_path(scope))(scope, receive, answer.send)

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = scope["headers"]
        if scope["method"] not in _METHODS:
            allow = {"Allow": "GET, HEAD"}
            return Problem(ProblemType.METHOD_NOT_ALLOWED, "only GET and HEAD", headers=allow)
        if _head_size(scope) > MAX_HEAD:
            return Problem(ProblemType.HEADERS_TOO_LARGE, f"more than {MAX_HEAD} bytes")
        if _has_body(headers):
            close = {"Connection": "close"}
            return Problem(ProblemType.BODY_NOT_ALLOWED, "send no body", headers=close)
        if self._local_only and not _is_local(_all(headers, b"host")):
            detail = "use localhost, 127.0.0.1 or [::1]: this address is for this machine only"
            return Problem(ProblemType.HOST_NOT_ALLOWED, detail)
        return None


class _Answer:
    """An answer on its way out."""

    def __init__(self, send: Send, *, bodiless: bool) -> None:
        self._send = send
        self._bodiless = bodiless
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            own = list(message.get("headers", ()))
            names = {name.lower() for name, _ in own}
            missing = [each for each in _HEADERS if each[0] not in names]
            message = {**message, "headers": [*own, *missing]}
        elif self._bodiless and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)


def _path(scope: Scope) -> str:
    return trimmed(str(scope["path"]), 200)


def _head_size(scope: Scope) -> int:
    target = len(scope["path"]) + len(scope["query_string"])
    return target + sum(len(name) + len(value) for name, value in scope["headers"])


def _has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in headers
    )


def _all(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]


def _is_local(hosts: list[str]) -> bool:
    """Whether there is one Host, and it is `localhost` or the literal address of a loopback interface."""
    if len(hosts) != 1:
        return False
    host = hosts[0].strip()
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        name, _, port = host.partition(":")
    if port and not (port.isascii() and port.isdigit()):
        return False
    return name.lower() == "localhost" or _is_loopback(name)


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
