"""Every error of the API as `application/problem+json` (RFC 9457), with a stable `type`.

A `WatchdogError` shows its redacted message. Of any other exception the answer shows nothing; the log has it.
"""

import json
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from app.core import redaction
from app.core.errors import (
    ClusterError,
    Conflict,
    EntryChanged,
    FeatureUnavailable,
    LeadershipLost,
    NotFound,
    NotKnownYet,
    OperationGone,
    Refused,
    RunInProgress,
    VersionChanged,
    WatchdogError,
    trimmed,
)

log = structlog.get_logger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
_URN: Final = "urn:dependency-watchdog:problem:"
_OPERATIONS: Final = "/api/v1/operations/"
_PATH: Final = 200
_MAX_ERRORS: Final = 20
# `Retry-After` in seconds while there is no leader, or the seed does not answer.
_SHORT_WAIT: Final = 5.0
_LONGEST_WAIT: Final = 3_600.0


class ProblemType(Enum):
    """The problem types, with slug, title and status; clients depend on them."""

    MALFORMED_REQUEST = ("malformed-request", "The request is malformed", 400)
    INVALID_PAGE_TOKEN = ("invalid-page-token", "The page token does not belong to this list", 400)
    UNAUTHENTICATED = ("unauthenticated", "The caller is not authenticated", 401)
    HOST_NOT_ALLOWED = ("host-not-allowed", "The Host of the request is not this machine", 403)
    CROSS_SITE = ("cross-site", "A page of another site may not write", 403)
    FORBIDDEN = ("forbidden", "The caller may not do this", 403)
    NOT_FOUND = ("not-found", "There is no such resource", 404)
    METHOD_NOT_ALLOWED = ("method-not-allowed", "The method is not allowed here", 405)
    CONFLICT = ("conflict", "A rule forbids this in the current state", 409)
    GONE = ("gone", "The operation belongs to an earlier leader", 410)
    PRECONDITION_FAILED = ("precondition-failed", "The resource has changed", 412)
    BODY_NOT_ALLOWED = ("body-not-allowed", "Such a request must not have a body", 413)
    PAYLOAD_TOO_LARGE = ("payload-too-large", "The body of the request is too large", 413)
    INVALID_PARAMETER = ("invalid-parameter", "A parameter is invalid", 422)
    TOO_MANY_REQUESTS = ("too-many-requests", "The caller sends too many requests", 429)
    HEADERS_TOO_LARGE = ("headers-too-large", "The head of the request is too large", 431)
    INTERNAL_ERROR = ("internal-error", "An unexpected error; see the log", 500)
    NOT_THE_LEADER = ("not-the-leader", "Only the leader can do this", 503)
    NOT_LISTED = ("not-listed", "The seed has not been listed yet", 503)
    LOOP_NOT_HERE = ("loop-not-here", "This loop runs in another process", 503)
    DRY_RUN = ("dry-run", "This process writes nothing", 503)
    FEATURE_OFF = ("feature-off", "The feature is off in this process", 503)
    SEED_AWAY = ("seed-away", "The seed's API server failed or refused the request", 503)

    def __init__(self, slug: str, title: str, status: int) -> None:
        self.urn = _URN + slug
        self.title = title
        self.status = status


class Problem(Exception):
    """Raised to end a request with a problem.

    Args:
        kind: Determines type, title and status.
        detail: What went wrong in this request; long text is cut.
        errors: `path` and `message` of each bad input.
        extra: Further members of the problem.
        headers: Headers of the answer.
    """

    def __init__(
        self,
        kind: ProblemType,
        detail: str,
        *,
        errors: Sequence[Mapping[str, str]] = (),
        extra: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.detail = trimmed(detail)
        self.errors = tuple(errors)
        self.extra = dict(extra or {})
        self.headers = dict(headers or {})
        super().__init__(self.detail)

    def response(self, path: str) -> Response:
        """The answer to a request for `path`; layers that it passes find its body in the state, as `problem`."""
        body: dict[str, Any] = {
            "type": self.kind.urn,
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "instance": trimmed(path, _PATH),
            **self.extra,
        }
        if self.errors:
            body["errors"] = list(self.errors)
        return _ProblemResponse(body, self.kind.status, self.headers)


class _ProblemResponse(Response):
    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:  # noqa: ANN401 - as in the base
        self._problem = content
        return json.dumps(content).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["problem"] = self._problem
        await super().__call__(scope, receive, send)


def foreseen(error: WatchdogError) -> Problem | None:
    """The problem for an expected error; None if no caller should ever see this one.

    Routes may raise these errors as they are: `handle_problems` has the application answer with this problem.
    """
    detail = redaction.clean(str(error))
    extra: dict[str, object] = {}
    headers: dict[str, str] = {}
    match error:
        case RunInProgress(operation=name):
            kind, extra = ProblemType.CONFLICT, {"operation": _OPERATIONS + name}
        case EntryChanged(now=now):
            kind, extra = ProblemType.CONFLICT, {"now": redaction.clean_value("now", now)}
        case VersionChanged():
            kind = ProblemType.PRECONDITION_FAILED
        case OperationGone():
            kind = ProblemType.GONE
        case FeatureUnavailable(feature=feature):
            kind, extra = ProblemType.FEATURE_OFF, {"feature": feature}
        case LeadershipLost():
            kind, headers = ProblemType.NOT_THE_LEADER, wait(_SHORT_WAIT)
        case NotKnownYet():
            kind, headers = ProblemType.NOT_LISTED, wait(_SHORT_WAIT)
        # 404 and 409 of the seed are about what the caller asked for; all else is trouble between the seed and us.
        case NotFound():
            kind = ProblemType.NOT_FOUND
        case Refused() | Conflict():
            kind = ProblemType.CONFLICT
        case ClusterError(retry_after=pause):
            kind = ProblemType.SEED_AWAY
            headers = wait(_SHORT_WAIT if pause is None else pause)
        case _:
            return None
    return Problem(kind, detail, extra=extra, headers=headers)


def wait(seconds: float) -> dict[str, str]:
    """The header `Retry-After` for this many seconds, rounded up, at least 1 s and at most an hour."""
    return {"Retry-After": str(max(1, math.ceil(min(seconds, _LONGEST_WAIT))))}


def handle_problems(app: FastAPI) -> None:
    """Have `app` answer every error with a problem."""
    for each in (Problem, WatchdogError, HTTPException, RequestValidationError):
        app.add_exception_handler(each, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    """The answer to a foreseen error, and to what the framework refuses; any other goes on to the outermost layer."""
    match error:
        case Problem():
            found = error
        case WatchdogError():
            foreseen_as = foreseen(error)
            if foreseen_as is None:
                raise error
            found = foreseen_as
            if found.kind is ProblemType.SEED_AWAY:
                # The answer tells the caller; the operator needs a line in the log, too.
                path = trimmed(request.url.path, _PATH)
                log.warning("a call failed because of the seed", path=path, error=str(error))
        case HTTPException():  # unknown path, wrong method, unreadable request
            kind, detail = _KINDS.get(error.status_code, _MALFORMED)
            headers = dict(error.headers or {})
            if kind is ProblemType.METHOD_NOT_ALLOWED:
                headers["Allow"] = _allowed(request.scope)
            found = Problem(kind, detail, headers=headers)
        case RequestValidationError():
            found = invalid(error.errors())
        case _:
            raise error
    return found.response(request.url.path)


_MALFORMED: Final = (ProblemType.MALFORMED_REQUEST, "the request cannot be read")
_KINDS: Final = {
    404: (ProblemType.NOT_FOUND, "there is nothing at this path; /docs lists all paths"),
    405: (
        ProblemType.METHOD_NOT_ALLOWED,
        "this path has other methods; the header Allow names them",
    ),
}


def no_such_method(scope: Scope) -> Problem:
    """405 for a method that no path of the application has, with those of this path; 404 if there is no such path."""
    allowed = _allowed(scope)
    if not allowed:
        return Problem(*_KINDS[404])
    return Problem(*_KINDS[405], headers={"Allow": allowed})


def _allowed(scope: Scope) -> str:
    """All methods of this path; the framework's own `Allow` has those of a single route only."""
    routes = scope["app"].routes
    found = [
        method
        for method in METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join(["GET", "HEAD", *found[1:]] if found[:1] == ["GET"] else found)


METHODS: Final = ("GET", "POST", "PUT", "DELETE")
"""Methods that routes have; each path with GET answers HEAD, too."""


def invalid(found: Sequence[Mapping[str, Any]]) -> Problem:
    """The refusal (422) of bad input: place and rule of each; the input itself is not repeated.

    Args:
        found: The mistakes as pydantic lists them; `loc` and `msg` are read.
    """
    errors = []
    for each in found[:_MAX_ERRORS]:
        # A field of the body has its bare name, others their part, as `query.limit`.
        place = each["loc"]
        if place[0] == "body" and len(place) > 1:
            place = place[1:]
        # pydantic puts the prefix before the messages of our own validators.
        message = trimmed(str(each["msg"]).removeprefix("Value error, "))
        errors.append({"path": trimmed(".".join(map(str, place)), 100), "message": message})
    detail = "; ".join(f"{each['path']}: {each['message']}" for each in errors)
    return Problem(ProblemType.INVALID_PARAMETER, detail, errors=errors)
