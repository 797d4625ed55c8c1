"""Answers that are problems (RFC 9457): what to say of them, and with which exit code to end; pure."""

from http import HTTPStatus
from typing import Final

import msgspec

from app.cli.exits import CommandFailed, Exit

_URN: Final = "urn:dependency-watchdog:problem:"
NOT_THE_LEADER: Final = _URN + "not-the-leader"
LOOP_NOT_HERE: Final = _URN + "loop-not-here"
_MOST_ERRORS: Final = 20

_CODES: Final = {
    HTTPStatus.UNAUTHORIZED: Exit.NOT_ALLOWED,
    HTTPStatus.FORBIDDEN: Exit.NOT_ALLOWED,
    HTTPStatus.NOT_FOUND: Exit.NOT_FOUND,
    HTTPStatus.CONFLICT: Exit.REFUSED,
    HTTPStatus.GONE: Exit.NOT_FOUND,
    HTTPStatus.PRECONDITION_FAILED: Exit.REFUSED,
    HTTPStatus.UNPROCESSABLE_ENTITY: Exit.USAGE,
    HTTPStatus.TOO_MANY_REQUESTS: Exit.UNAVAILABLE,
    HTTPStatus.SERVICE_UNAVAILABLE: Exit.UNAVAILABLE,
}


class FieldError(msgspec.Struct, frozen=True):
    """One bad input."""

    path: str = ""
    message: str = ""


class Leader(msgspec.Struct, frozen=True):
    """Who leads."""

    identity: str | None = None
    address: str | None = None


class Problem(msgspec.Struct, rename="camel", frozen=True):
    """What the server says is wrong."""

    type: str = ""
    title: str = ""
    detail: str = ""
    errors: list[FieldError] | None = None
    leader: Leader | None = None
    peer: str | None = None
    """Where the loop is asked that runs elsewhere."""
    operation: str | None = None
    """Where the flow is that is in the way."""


class ServerRefused(CommandFailed):
    """The server has answered, and not with what was asked for."""

    def __init__(self, status: int, problem: Problem, retry_after: str | None = None) -> None:
        self.status, self.problem = status, problem
        code = _CODES.get(HTTPStatus(status), Exit.FAILED) if status in _KNOWN else Exit.FAILED
        passing = status == HTTPStatus.TOO_MANY_REQUESTS or status >= _SERVER_SIDE
        super().__init__(
            code, _line(status, problem), _notes(problem, retry_after), passing=passing
        )


_KNOWN: Final = frozenset(HTTPStatus)
_SERVER_SIDE: Final = 500


def refusal(status: int, kind: str, body: bytes, retry_after: str | None = None) -> ServerRefused:
    """The error for an answer with this status, media type and body."""
    if kind.partition(";")[0].strip() == "application/problem+json":
        try:
            problem = msgspec.json.decode(body, type=Problem)
            return ServerRefused(status, problem, retry_after)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # said below: it is no problem that can be read
    detail = f"the answer is {status}, and not one of this API"
    return ServerRefused(status, Problem(detail=detail), retry_after)


def _line(status: int, problem: Problem) -> str:
    """Title and detail in one line."""
    parts = [each for each in (problem.title, problem.detail) if each]
    return ": ".join(parts) or f"the answer is {status}"


def _notes(problem: Problem, retry_after: str | None) -> list[str]:
    found = [f"{each.path}: {each.message}" for each in (problem.errors or [])[:_MOST_ERRORS]]
    if problem.operation:
        found.append(f"see dwd operations {problem.operation.rpartition('/')[2]}")
    if retry_after and retry_after.isdigit():
        found.append(f"try again in {retry_after}s")
    return found
