"""The body of a request, whole, small and JSON, or no request at all (threats T9, T15): raw ASGI, after authentication.

The application is called when all of the body is there, so that nothing waits half done for the rest of it.
"""

import asyncio
import ipaddress
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog
from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.auditing import Aims, Auditing
from app.api.limits import (
    CALLER,
    PEER,
    SCRAPER,
    FairTurns,
    InTurn,
    Limiter,
    RateLimits,
    address_of,
    name_of,
)
from app.api.page.site import Browsers
from app.api.problems import METHODS, Problem, ProblemType, handle_problems, no_such_method
from app.core.errors import trimmed
from app.core.reporting.audit import AuditLog

# What pages of other sites may do through somebody's browser (threat T17): read, if they were named; never write.


_OWN: Final = frozenset({"same-origin", "none"})
"""What a browser says of requests that no other site began."""
_READS: Final = frozenset({"GET", "HEAD"})
_ASKED_FOR: Final = "authorization, if-none-match, last-event-id"
"""The headers that a page may send with a read."""
_SHOWN: Final = "etag, location, retry-after, x-request-id"
"""The headers of an answer that a page may see."""
_REMEMBERED: Final = "600"
"""Seconds for which a browser need not ask again."""

Headers = Sequence[tuple[bytes, bytes]]


def values(headers: Headers, wanted: bytes) -> list[str]:
    """All values of one header."""
    return [value.decode("latin-1").strip() for name, value in headers if name == wanted]


def write_refusal(headers: Headers) -> Problem | None:
    """Why a request that would change something is refused: a browser says that another site began it."""
    sites = values(headers, b"sec-fetch-site")
    if any(each.lower() not in _OWN for each in sites):
        return Problem(ProblemType.CROSS_SITE, f"Sec-Fetch-Site is {sites[0]}")
    origins = values(headers, b"origin")
    if origins and not _is_own(origins, values(headers, b"host")):
        return Problem(ProblemType.CROSS_SITE, "the Origin is not the host that was asked")
    return None


def _is_own(origins: Sequence[str], hosts: Sequence[str]) -> bool:
    if len(origins) != 1 or len(hosts) != 1:
        return False
    try:
        origin = urlsplit(origins[0])
    except ValueError:
        return False
    if origin.scheme not in {"http", "https"}:
        return False
    standard = ":443" if origin.scheme == "https" else ":80"
    return _authority(origin.netloc, standard) == _authority(hosts[0], standard)


def _authority(text: str, standard: str) -> str:
    return text.lower().removesuffix(standard)


def named_origin(headers: Headers, named: Collection[str]) -> str | None:
    """The origin that asks, if it is one of those that may read."""
    origins = values(headers, b"origin")
    return origins[0] if len(origins) == 1 and origins[0] in named else None


def reading_headers(origin: str) -> Headers:
    """What lets a page of this origin see the answer."""
    return (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _SHOWN.encode()),
    )


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether a browser asks what a page may ask for."""
    return method == "OPTIONS" and bool(values(headers, b"access-control-request-method"))


def preflight(headers: Headers, named: Collection[str]) -> Response | Problem:
    """What it is told: a page of a named origin may read, nobody anything else."""
    asked = values(headers, b"access-control-request-method")
    if named_origin(headers, named) is None:
        return Problem(ProblemType.CROSS_SITE, "pages of this origin are not let in")
    if asked[0] not in _READS:
        return Problem(ProblemType.CROSS_SITE, "pages of other origins may only read")
    allowed = {
        "Access-Control-Allow-Methods": "GET, HEAD",
        "Access-Control-Allow-Headers": _ASKED_FOR,
        "Access-Control-Max-Age": _REMEMBERED,
    }
    return Response(status_code=204, headers=allowed)


# What every request passes first, and every answer last (threats T15, T17): raw ASGI, around the application.


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


class RequestGuard:
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
        answer = _OutgoingAnswer(send, self._own_headers(scope), bodiless=scope["method"] == "HEAD")
        try:
            if (early := self._early(scope)) is not None:
                await early(scope, receive, answer.send)
            else:
                await self._app(_inner(scope), receive, answer.send)
        except Exception as error:
            log.exception("a request failed unexpectedly", path=_path(scope), exc_info=error)
            if answer.started:
                raise
            problem = Problem(ProblemType.INTERNAL_ERROR, "the log of this instance says more")
            await problem.response(_path(scope))(scope, receive, answer.send)

    def _early(self, scope: Scope) -> Response | None:
        """The answer that needs no application; None where it is the application's to give."""
        found: Response | Problem | None = self._refusal(scope)
        if found is None and is_preflight(scope["method"], scope["headers"]):
            found = preflight(scope["headers"], self._origins)
        elif found is None and scope["method"] not in _KNOWN:
            found = no_such_method(
                scope
            )  # here, so that no metric has a method of the caller's invention
        return found.response(_path(scope)) if isinstance(found, Problem) else found

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = scope["headers"]
        if _head_size(scope) > MAX_HEAD:
            return Problem(ProblemType.HEADERS_TOO_LARGE, f"more than {MAX_HEAD} bytes")
        if self._local_only and not _is_local(values(headers, b"host")):
            detail = "use localhost, 127.0.0.1 or [::1]: this address is for this machine only"
            return Problem(ProblemType.HOST_NOT_ALLOWED, detail)
        if b"%2f" in scope.get("raw_path", b"").lower():
            # A proxy in front may have judged another path than the one that would be found here.
            return Problem(ProblemType.MALFORMED_REQUEST, "an encoded / in the path")
        if scope["method"] not in _SAFE and (problem := write_refusal(headers)):
            return problem
        return _body_refusal(scope)

    def _own_headers(self, scope: Scope) -> Headers:
        """What each answer to this request has, if it does not say otherwise."""
        if not self._origins or scope["method"] not in _SAFE:
            return _HEADERS
        vary = (*_HEADERS, (b"vary", b"Origin"))
        origin = named_origin(scope["headers"], self._origins)
        return vary if origin is None else (*vary, *reading_headers(origin))


def _inner(scope: Scope) -> Scope:
    """What the application is asked: HEAD is GET without the body, and nobody has a use for cookies.

    FastAPI reads them all the same, and Python before 3.11.10 takes half a second for 15,000 backslashes in one.
    """
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    headers = [each for each in scope["headers"] if each[0] != b"cookie"]
    return {**scope, "method": method, "headers": headers}


class _OutgoingAnswer:
    """An answer on its way out."""

    def __init__(self, send: Send, headers: Headers, *, bodiless: bool) -> None:
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
    lengths = values(headers, b"content-length")
    if any(_exceeds(each) for each in lengths):
        return too_large()
    detail = None
    if lengths and values(headers, b"transfer-encoding"):
        detail = "the body has two lengths: Content-Length and Transfer-Encoding"
    elif not _is_json(values(headers, b"content-type")):
        detail = "the Content-Type of the body is not application/json"
    elif values(headers, b"content-encoding"):
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


MAX_BODY: Final = 16_384
"""Bytes."""
_TIME: Final = 10.0
"""Seconds from the head to the end of the body."""
"""Nobody reads what is still to come."""


class _HungUp(Exception):
    """The caller has gone before his body was whole."""


class BodyLimit:
    """Reads the body of each request, and refuses what is too long, too slow, or no JSON."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or not has_body(scope):
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(_TIME):
                body = await _whole(receive)
            _check(body)
        except _HungUp:
            return
        except TimeoutError:
            detail = f"the body did not arrive within {_TIME:.0f} s"
            problem = Problem(ProblemType.MALFORMED_REQUEST, detail, headers=_CLOSE)
        except Problem as refusal:
            problem = refusal
        else:
            await self._app(scope, _replay(body, receive), send)
            return
        await problem.response(trimmed(str(scope["path"]), 200))(scope, receive, send)


def has_body(scope: Scope) -> bool:
    """Whether the head announces one."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in scope["headers"]
    )


def too_large() -> Problem:
    """The refusal of a body that is longer than what is read."""
    return Problem(ProblemType.PAYLOAD_TOO_LARGE, f"more than {MAX_BODY} bytes", headers=_CLOSE)


async def _whole(receive: Receive) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise _HungUp
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise too_large()
        more = message.get("more_body", False)
    return bytes(body)


def _check(body: bytes) -> None:
    """Returns where `body` is JSON that every reader understands alike, or empty.

    Raises:
        Problem: it is not.
    """
    if not body:
        return
    try:
        msgspec.json.decode(body)  # stricter than the standard library: UTF-8, numbers, surrogates
        json.loads(body, object_pairs_hook=_without_duplicates)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        detail = "the body is not JSON, or has the same key twice"
        raise Problem(ProblemType.MALFORMED_REQUEST, detail) from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the same key twice")
    return found


def _replay(body: bytes, receive: Receive) -> Receive:
    """`receive` of a request whose body has been read; after it, what the server says of the connection."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


# What stands between the port and the API, from the outside in.
#
#     auditing        a record of each attempt to change something, with the answer that the caller saw
#     guard           what can be refused by the head alone; the headers of each answer; nothing unexpected is shown
#     limits          so many requests of one address
#     browsers        static files for everybody, and problems as pages for browsers (`app.api.page`)
#     authentication  who calls (`app.api.auth`); what follows is for callers who are known
#     limits          so many requests of one caller
#     bodies          small, in time, JSON
#     turns           one request at a time keeps the event loop, callers in turn
#
# Health passes all of it.


Middleware = Callable[[ASGIApp], ASGIApp]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiMiddleware:
    """What is to be known of the port of the API."""

    now: Callable[[], float]
    """The instant that it is, as `Clock.now`."""
    audit: AuditLog
    authentication: Middleware
    """Refuses who is nobody, and notes the `Caller` of everybody else in the state of the request."""
    local_only: bool
    """It is a loopback address: answer only a Host that is this machine."""
    origins: frozenset[str] = frozenset()
    """Whose pages may read, as `https://dashboard.example`."""

    def put_before(self, app: FastAPI) -> FastAPI:
        """Puts all of it around `app`, once its routes are complete."""
        handle_problems(app)
        # What is added last stands outside.
        app.add_middleware(InTurn, turns=FairTurns(self.now), who=name_of)
        app.add_middleware(BodyLimit)
        app.add_middleware(RateLimits, limiter=Limiter(CALLER, self.now), who=name_of)
        app.add_middleware(self.authentication)
        app.add_middleware(Browsers)
        app.add_middleware(RateLimits, limiter=Limiter(PEER, self.now), who=address_of)
        app.add_middleware(RequestGuard, local_only=self.local_only, origins=self.origins)
        app.add_middleware(
            Auditing, audit=self.audit, aims=Aims(app), exists=app.state.context.has_shoot
        )
        return app


def put_before_health(app: FastAPI, *, local_only: bool = False) -> FastAPI:
    """For the port that answers whatever else goes on."""
    handle_problems(app)
    app.add_middleware(RequestGuard, local_only=local_only)
    return app


def put_before_metrics(
    app: FastAPI,
    now: Callable[[], float],
    scraping: Middleware = lambda app: app,
    *,
    local_only: bool = False,
) -> FastAPI:
    """For the port of the metrics: a scrape keeps the event loop for as long as a page does."""
    handle_problems(app)
    app.add_middleware(InTurn, turns=FairTurns(now), who=address_of)
    app.add_middleware(scraping)
    app.add_middleware(RateLimits, limiter=Limiter(SCRAPER, now), who=address_of)
    app.add_middleware(RequestGuard, local_only=local_only)
    return app
