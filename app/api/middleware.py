"""The middleware between a port and its application (threats T9, T15, T17): raw ASGI.

`app.api.application` puts the layers of each port together; what each is for is in
docs/architecture.md#one-call-of-the-api.
"""

import asyncio
import ipaddress
import itertools
import json
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.limits import SAFE
from app.api.problems import METHODS, Problem, ProblemType, no_such_method
from app.core.errors import trimmed

# Requests that a page of another site makes through a visitor's browser (threat T17). A page of a named origin may read
# (CORS); no other site may write, whatever the browser sends along.


# Values of `Sec-Fetch-Site` on requests that no other site initiated; `none` is the address bar or a bookmark.
_OWN: Final = frozenset({"same-origin", "none"})
_READS: Final = frozenset({"GET", "HEAD"})
# Request headers that a page of a named origin may send.
_ASKED_FOR: Final = "authorization, last-event-id"
# Response headers that a page of a named origin may read.
_SHOWN: Final = "etag, location, retry-after, x-request-id"
# Seconds for which a browser may cache the answer to a preflight.
_REMEMBERED: Final = "600"

Headers = Sequence[tuple[bytes, bytes]]


def values(headers: Headers, wanted: bytes) -> list[str]:
    """All values of the header `wanted` (in lower case)."""
    return [value.decode("latin-1").strip() for name, value in headers if name == wanted]


def write_refusal(headers: Headers) -> Problem | None:
    """Refuse a request with an unsafe method if a browser says that another site initiated it; None to let it pass.

    A client that is no browser sends neither `Sec-Fetch-Site` nor `Origin`, and passes.
    """
    sites = values(headers, b"sec-fetch-site")
    if any(each.lower() not in _OWN for each in sites):
        return Problem(ProblemType.CROSS_SITE, f"Sec-Fetch-Site is {sites[0]}")
    origins = values(headers, b"origin")
    if origins and not _is_own(origins, values(headers, b"host")):
        return Problem(ProblemType.CROSS_SITE, "the Origin is not the host of the request")
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
    """The request's `Origin` if it is in `named`, the origins that may read; otherwise None."""
    origins = values(headers, b"origin")
    return origins[0] if len(origins) == 1 and origins[0] in named else None


def preflight(headers: Headers, named: Collection[str]) -> Response | Problem | None:
    """Answer a CORS preflight: pages of a named origin may read; everything else is refused. None: it is none."""
    asked = values(headers, b"access-control-request-method")
    if not asked:
        return None
    if named_origin(headers, named) is None:
        return Problem(ProblemType.CROSS_SITE, "pages of this origin are not allowed")
    if asked[0] not in _READS:
        return Problem(ProblemType.CROSS_SITE, "pages of other origins may only read")
    allowed = {
        "Access-Control-Allow-Methods": "GET, HEAD",
        "Access-Control-Allow-Headers": _ASKED_FOR,
        "Access-Control-Max-Age": _REMEMBERED,
    }
    return Response(status_code=204, headers=allowed)


# The guard: checks of the head of a request, and headers that every answer carries (threats T15, T17).


log = structlog.get_logger(__name__)

MAX_HEAD: Final = 16_384
"""Most bytes of target and headers together."""

_KNOWN: Final = frozenset({*METHODS, "HEAD"})
_WITH_BODY: Final = frozenset({"POST", "PUT"})
# Ends the connection with the refusal, because the rest of the body is never read.
_CLOSE: Final = {"Connection": "close"}
# Most digits of a Content-Length; longer ones are not even converted to a number.
_DIGITS: Final = 9
# Added to every answer that does not set them itself.
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class RequestGuard:
    """Refuses requests by their head, adds security headers to answers, and hides unexpected errors behind a 500.

    Args:
        app: The application behind the guard.
        local_only: Accept only a `Host` that names this machine. Otherwise DNS rebinding (a page whose host name is
            made to resolve to 127.0.0.1) could read a loopback address.
        origins: Origins whose pages may read, such as `https://dashboard.example`.
    """

    def __init__(
        self, app: ASGIApp, *, local_only: bool = False, origins: Collection[str] = ()
    ) -> None:
        self._app = app
        self._local_only = local_only
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _OutgoingAnswer(send, self._own_headers(scope), bodiless=scope["method"] == "HEAD")
        try:
            if (early := self._early(scope)) is not None:
                await early(scope, receive, answer.send)
            else:
                # Nothing reads cookies here, but FastAPI parses them, and Python before 3.11.10 takes half a second
                # for one with 15,000 backslashes (threat T15).
                headers = [each for each in scope["headers"] if each[0] != b"cookie"]
                method = "GET" if scope["method"] == "HEAD" else scope["method"]
                await self._app(
                    {**scope, "method": method, "headers": headers}, receive, answer.send
                )
        except Exception as error:
            path = trimmed(scope["path"], 200)
            log.exception("a request failed unexpectedly", path=path, exc_info=error)
            if answer.started:
                raise
            problem = Problem(ProblemType.INTERNAL_ERROR, "see the log of this instance")
            await problem.response(path)(scope, receive, answer.send)

    def _early(self, scope: Scope) -> Response | None:
        """The answer if the head alone determines it; None to ask the application."""
        found: Response | Problem | None = self._refusal(scope)
        if found is None and scope["method"] == "OPTIONS":
            found = preflight(scope["headers"], self._origins)
        if found is None and scope["method"] not in _KNOWN:
            # Answered here, so that callers cannot create metric series with invented methods.
            found = no_such_method(scope)
        return found.response(scope["path"]) if isinstance(found, Problem) else found

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = scope["headers"]
        target = len(scope["path"]) + len(scope["query_string"])
        if target + sum(len(name) + len(value) for name, value in headers) > MAX_HEAD:
            return Problem(ProblemType.HEADERS_TOO_LARGE, f"more than {MAX_HEAD} bytes")
        if self._local_only and not _is_local(values(headers, b"host")):
            detail = "use localhost, 127.0.0.1 or [::1]: this address is for this machine only"
            return Problem(ProblemType.HOST_NOT_ALLOWED, detail)
        if b"%2f" in scope.get("raw_path", b"").lower():
            # A proxy in front may have authorised a different path than the one that routing would find here.
            return Problem(ProblemType.MALFORMED_REQUEST, "an encoded / in the path")
        if scope["method"] not in SAFE and (problem := write_refusal(headers)):
            return problem
        return _body_refusal(scope)

    def _own_headers(self, scope: Scope) -> Headers:
        """Headers for the answer to this request, those of CORS included."""
        if not self._origins or scope["method"] not in SAFE:
            return _HEADERS
        vary = (*_HEADERS, (b"vary", b"Origin"))
        origin = named_origin(scope["headers"], self._origins)
        if origin is None:
            return vary
        allowed = (b"access-control-allow-origin", origin.encode("latin-1"))
        return (*vary, allowed, (b"access-control-expose-headers", _SHOWN.encode()))


class _OutgoingAnswer:
    """Passes an answer on with additional headers and, for HEAD, without its body."""

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
            # The answer ends here even if the body would go on, as a stream of events does.
            if self._ended:
                return
            self._ended = True
            message = {**message, "body": b"", "more_body": False}
        await self._send(message)


def _body_refusal(scope: Scope) -> Problem | None:
    """Refuse a body by its headers: not allowed for the method, too long, ambiguous in length, encoded, not JSON."""
    if not has_body(scope):
        return None
    headers = scope["headers"]
    if scope["method"] not in _KNOWN:
        problem = no_such_method(scope)
        problem.headers |= _CLOSE
        return problem
    if scope["method"] not in _WITH_BODY:
        return Problem(ProblemType.BODY_NOT_ALLOWED, "send no body", headers=_CLOSE)
    lengths = values(headers, b"content-length")
    # The HTTP server has already refused a length that is not a number.
    if any(len(each) > _DIGITS or int(each) > MAX_BODY for each in lengths):
        return too_large()
    kinds = [each.partition(";")[0].strip().lower() for each in values(headers, b"content-type")]
    detail = None
    if lengths and values(headers, b"transfer-encoding"):
        detail = "the body has two lengths: Content-Length and Transfer-Encoding"
    elif kinds != ["application/json"]:
        detail = "the Content-Type of the body is not application/json"
    elif values(headers, b"content-encoding"):
        detail = "the body is encoded; send it unencoded"
    if detail is None:
        return None
    return Problem(ProblemType.MALFORMED_REQUEST, detail, headers=_CLOSE)


def _is_local(hosts: list[str]) -> bool:
    """Whether there is exactly one Host, which is `localhost` or a literal loopback address."""
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
    try:
        return name.lower() == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


MAX_BODY: Final = 16_384
"""Most bytes of a request body."""
# Levels of JSON; our own bodies have two.
_DEEPEST: Final = 64
# Seconds within which the body must arrive after the head.
_TIME: Final = 10.0


class _HungUp(Exception):
    """The caller closed the connection before the body was complete."""


class BodyLimit:
    """Reads each request body completely before it calls the application; refuses one too long, too slow, or no JSON.

    So no route waits for a slow body while it holds something (threats T9, T15). What a body says is the `body` in the
    state of the request; an empty one says nothing.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not has_body(scope):
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(_TIME):
                body = await _whole(receive)
            if body:
                scope.setdefault("state", {})["body"] = _parsed(body)
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
        await problem.response(scope["path"])(scope, receive, send)


def has_body(scope: Scope) -> bool:
    """Whether the head of a request announces a body."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in scope["headers"]
    )


def too_large() -> Problem:
    """The refusal (413) of a body over `MAX_BODY`."""
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


def _parsed(body: bytes) -> object:
    """Accept JSON that every parser understands alike: no duplicate keys, for example, and no great depth.

    Raises:
        Problem: The body is something else.
    """

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("the same key twice")
        return found

    try:
        # msgspec is stricter than the standard library about UTF-8, numbers and surrogates, but takes duplicate keys.
        msgspec.json.decode(body)
        found: object = json.loads(body, object_pairs_hook=without_duplicates)
        _check_depth(found)
    except (ValueError, msgspec.MsgspecError) as error:
        detail = "the body is not JSON, or has the same key twice"
        raise Problem(ProblemType.MALFORMED_REQUEST, detail) from error
    except RecursionError as error:
        detail = f"the body is nested more than {_DEEPEST} levels deep"
        raise Problem(ProblemType.MALFORMED_REQUEST, detail) from error
    return found


def _check_depth(found: object) -> None:
    """Raise RecursionError for more than `_DEEPEST` levels: what parsers take depends on the version of Python."""
    level = [found]
    for _ in range(_DEEPEST):
        objects = (each.values() for each in level if isinstance(each, dict))
        lists = (each for each in level if isinstance(each, list))
        level = list(itertools.chain(*objects, *lists))
    if any(isinstance(each, dict | list) for each in level):
        raise RecursionError


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that replays the body that was read, then passes on the server's messages (a disconnect)."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return left.pop() if left else await receive()

    return replayed
