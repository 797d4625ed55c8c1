"""Every error as `application/problem+json` (RFC 9457), with a stable `type`; none shows the text of an exception."""

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from app.core.errors import trimmed

MEDIA_TYPE: Final = "application/problem+json"
_URN: Final = "urn:dependency-watchdog:problem:"
_PATH: Final = 200
_MAX_ERRORS: Final = 20


class ProblemType(Enum):
    """The types, a contract: slug, title, status."""

    MALFORMED_REQUEST = ("malformed-request", "The request is malformed", 400)
    INVALID_PAGE_TOKEN = ("invalid-page-token", "The page token is not one of this list", 400)
    HOST_NOT_ALLOWED = ("host-not-allowed", "The Host of the request is not this machine", 403)
    NOT_FOUND = ("not-found", "There is no such thing", 404)
    METHOD_NOT_ALLOWED = ("method-not-allowed", "The method is not allowed here", 405)
    BODY_NOT_ALLOWED = ("body-not-allowed", "A request that reads has no body", 413)
    INVALID_PARAMETER = ("invalid-parameter", "A parameter is invalid", 422)
    HEADERS_TOO_LARGE = ("headers-too-large", "The head of the request is too large", 431)
    INTERNAL_ERROR = ("internal-error", "Something unexpected went wrong; the log has it", 500)
    NOT_THE_LEADER = ("not-the-leader", "Only the leader knows", 503)
    LOOP_NOT_HERE = ("loop-not-here", "This loop runs in another process", 503)

    def __init__(self, slug: str, title: str, status: int) -> None:
        self.urn = _URN + slug
        self.title = title
        self.status = status


class Problem(Exception):
    """Ends a request with a problem."""

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
        """`path` and `message` of each bad input."""
        self.extra = dict(extra or {})
        """Members of its own."""
        self.headers = dict(headers or {})
        super().__init__(self.detail)

    def response(self, path: str) -> Response:
        """The answer to a request for `path`."""
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
        content = json.dumps(body).encode()
        return Response(content, self.kind.status, self.headers, MEDIA_TYPE)


def handle_problems(app: FastAPI) -> None:
    """Answers every error of `app` with a problem."""
    app.add_exception_handler(Problem, _of_problem)
    app.add_exception_handler(HTTPException, _of_http_exception)
    app.add_exception_handler(RequestValidationError, _of_validation)


async def _of_problem(request: Request, error: Exception) -> Response:
    if not isinstance(error, Problem):
        raise error
    return error.response(request.url.path)


async def _of_http_exception(request: Request, error: Exception) -> Response:
    """What the framework itself refuses: paths that do not exist, methods that do not fit, bytes that make no sense."""
    if not isinstance(error, HTTPException):
        raise error
    kind, detail = _KINDS.get(error.status_code, _MALFORMED)
    return Problem(kind, detail, headers=error.headers).response(request.url.path)


_MALFORMED: Final = (ProblemType.MALFORMED_REQUEST, "the request cannot be read")
_KINDS: Final = {
    404: (ProblemType.NOT_FOUND, "there is nothing at this path; / lists what there is"),
    405: (ProblemType.METHOD_NOT_ALLOWED, "only GET and HEAD"),
}


async def _of_validation(request: Request, error: Exception) -> Response:
    """The input itself is not repeated: only where it is, and what it must be."""
    if not isinstance(error, RequestValidationError):
        raise error
    errors = [
        {"path": _place(each["loc"]), "message": trimmed(str(each["msg"]))}
        for each in error.errors()[:_MAX_ERRORS]
    ]
    detail = "; ".join(f"{each['path']}: {each['message']}" for each in errors)
    return Problem(ProblemType.INVALID_PARAMETER, detail, errors=errors).response(request.url.path)


def _place(location: Sequence[object]) -> str:
    return trimmed(".".join(str(each) for each in location), 100)
