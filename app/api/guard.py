"""What every request passes first, and every answer last (threats T15, T17): raw ASGI, around the application."""

import ipaddress
from collections.abc import Collection
from typing import Final

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import crosssite
from app.api.middleware import MAX_BODY, has_body, too_large
from app.api.problems import METHODS, Problem, ProblemType, no_such_method
from app.core.errors import trimmed

log = structlog.get_logger(__name__)

MAX_HEAD: Final = 16_384
"""Bytes of target and headers together."""

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that change nothing."""
_KNOWN: Final = frozenset({*METHODS, "HEAD"})
_WITH_BODY: Final = frozenset({"POST", "PUT"})
_CLOSE: Final = {"Connection": "close"}
_DIGITS: Final = 9
"""Of a Content-Length that is worth reading."""
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
    """Refuses by its head what no call may be, and hides what goes wrong.

    Args:
        app: what is guarded.
        local_only: answer only a Host that is this machine: a page of elsewhere whose name was made to resolve to
            127.0.0.1 must not read what a loopback address serves.
        origins: those whose pages may read, as `https://dashboard.example`.
    """

    def __init__(
        self, app: ASGIApp, *, local_only: bool = False, origins: Collection[str] = ()
    ) -> None:
        self._app = app
        self._local_only = local_only
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, self._own_headers(scope), bodiless=scope["method"] == "HEAD")
        try:
            if (early := self._early(scope)) is not None:
                await early(scope, receive, answer.send)
            else:
                # HEAD is GET without the body.
                inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
                await self._app(inner, receive, answer.send)
        except Exception as error:
            log.exception("a request failed unexpectedly", path=_path(scope), exc_info=error)
            if answer.started:
                raise
            problem = Problem(ProblemType.INTERNAL_ERROR, "the log of this instance says more")
            await problem.response(_path(scope))(scope, receive, answer.send)

    def _early(self, scope: Scope) -> Response | None:
        """The answer that needs no application; None where it is the application's to give."""
        found: Response | Problem | None = self._refusal(scope)
        if found is None and crosssite.is_preflight(scope["method"], scope["headers"]):
            found = crosssite.preflight(scope["headers"], self._origins)
        elif found is None and scope["method"] not in _KNOWN:
            found = no_such_method(
                scope
            )  # here, so that no metric has a method of the caller's invention
        return found.response(_path(scope)) if isinstance(found, Problem) else found

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = scope["headers"]
        if _head_size(scope) > MAX_HEAD:
            return Problem(ProblemType.HEADERS_TOO_LARGE, f"more than {MAX_HEAD} bytes")
        if self._local_only and not _is_local(crosssite.values(headers, b"host")):
            detail = "use localhost, 127.0.0.1 or [::1]: this address is for this machine only"
            return Problem(ProblemType.HOST_NOT_ALLOWED, detail)
        if b"%2f" in scope.get("raw_path", b"").lower():
            # A proxy in front may have judged another path than the one that would be found here.
            return Problem(ProblemType.MALFORMED_REQUEST, "an encoded / in the path")
        if scope["method"] not in _SAFE and (problem := crosssite.write_refusal(headers)):
            return problem
        return _body_refusal(scope)

    def _own_headers(self, scope: Scope) -> crosssite.Headers:
        """What each answer to this request has, if it does not say otherwise."""
        if not self._origins or scope["method"] not in _SAFE:
            return _HEADERS
        vary = (*_HEADERS, (b"vary", b"Origin"))
        origin = crosssite.named_origin(scope["headers"], self._origins)
        return vary if origin is None else (*vary, *crosssite.reading_headers(origin))


class _Answer:
    """An answer on its way out."""

    def __init__(self, send: Send, headers: crosssite.Headers, *, bodiless: bool) -> None:
        self._send = send
        self._headers = headers
        self._bodiless = bodiless
        self.started = False
        self._ended = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            own = list(message.get("headers", ()))
            names = {name.lower() for name, _ in own}
            missing = [each for each in self._headers if each[0] not in names]
            message = {**message, "headers": [*own, *missing]}
        elif self._bodiless and message["type"] == "http.response.body":
            # It ends with its head, also where a body would go on for long, as a stream of events does.
            if self._ended:
                return
            self._ended = True
            message = {**message, "body": b"", "more_body": False}
        await self._send(message)


def _body_refusal(scope: Scope) -> Problem | None:
    """What its head says of the body: whether there may be one, how long it is, what it is."""
    if not has_body(scope):
        return None
    headers = scope["headers"]
    if scope["method"] not in _WITH_BODY:
        return Problem(ProblemType.BODY_NOT_ALLOWED, "send no body", headers=_CLOSE)
    lengths = crosssite.values(headers, b"content-length")
    if any(_exceeds(each) for each in lengths):
        return too_large()
    detail = None
    if lengths and crosssite.values(headers, b"transfer-encoding"):
        detail = "the body has two lengths: Content-Length and Transfer-Encoding"
    elif not _is_json(crosssite.values(headers, b"content-type")):
        detail = "the Content-Type of the body is not application/json"
    elif crosssite.values(headers, b"content-encoding"):
        detail = "the body is encoded; send it as it is"
    if detail is None:
        return None
    return Problem(ProblemType.MALFORMED_REQUEST, detail, headers=_CLOSE)


def _exceeds(length: str) -> bool:
    """Whether a Content-Length says more than what is read; the server has refused what is no number."""
    return len(length) > _DIGITS or int(length) > MAX_BODY


def _is_json(kinds: list[str]) -> bool:
    return len(kinds) == 1 and kinds[0].partition(";")[0].strip().lower() == "application/json"


def _path(scope: Scope) -> str:
    return trimmed(str(scope["path"]), 200)


def _head_size(scope: Scope) -> int:
    target = len(scope["path"]) + len(scope["query_string"])
    return target + sum(len(name) + len(value) for name, value in scope["headers"])


def _is_local(hosts: list[str]) -> bool:
    """Whether there is one Host, and it is `localhost` or the literal address of a loopback interface."""
    if len(hosts) != 1:
        return False
    host = hosts[0]
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
