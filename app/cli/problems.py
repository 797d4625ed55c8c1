"""Answers that are problems (RFC 9457): what to say of them, and with which exit code to end; pure."""

from collections.abc import Iterable
from enum import IntEnum
from http import HTTPStatus
from typing import Final

import msgspec

from app.core.errors import WatchdogError, trimmed

# How a command ends: codes that a script can use, and the errors that carry them.


_LONGEST = 600


class Exit(IntEnum):
    """The exit codes, a contract."""

    DONE = 0
    FAILED = 1
    """No answer, or none that makes sense."""
    USAGE = 2
    """The command line, a file that it names, or a value that the server does not take."""
    REFUSED = 3
    """A rule forbids it, as things are (409), or they are not what the caller saw (412)."""
    NOT_FOUND = 4
    """There is no such thing (404), or no longer (410)."""
    NOT_ALLOWED = 5
    """Who calls is unknown (401), or may not (403)."""
    UNAVAILABLE = 6
    """Not the leader, a loop that runs elsewhere, a feature that is off, too many calls (429, 503)."""
    NOT_DONE = 7
    """The scaling run that was waited for failed, or was cancelled."""
    INTERRUPTED = 130
    """Ctrl-C: 128 + SIGINT, as shells have it."""
    NOT_READ = 141
    """Nobody reads the output any more: 128 + SIGPIPE."""
    TERMINATED = 143
    """128 + SIGTERM."""


class CommandFailed(WatchdogError):
    """A command that was not done.

    Args:
        code: with what the program ends.
        message: what to say, one line.
        notes: more lines: each bad input, what to do about it.
        passing: trying again may help.
    """

    def __init__(
        self, code: Exit, message: str, notes: Iterable[str] = (), *, passing: bool = False
    ) -> None:
        self.code = code
        self.notes = tuple(trimmed(each, _LONGEST) for each in notes)
        self.passing = passing
        super().__init__(trimmed(message, _LONGEST))


class NoAnswer(CommandFailed):
    """A server that cannot be reached, or does not answer in time.

    Args:
        message: what to say.
        notes: more lines.
        sent: the request may have been sent.
    """

    def __init__(self, message: str, notes: Iterable[str] = (), *, sent: bool = True) -> None:
        self.sent = sent
        super().__init__(Exit.FAILED, message, notes, passing=True)


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


class BadField(msgspec.Struct, frozen=True):
    """One bad input."""

    path: str = ""
    message: str = ""


class KnownLeader(msgspec.Struct, frozen=True):
    """Who leads."""

    identity: str | None = None
    address: str | None = None


class ProblemBody(msgspec.Struct, rename="camel", frozen=True):
    """What the server says is wrong."""

    type: str = ""
    title: str = ""
    detail: str = ""
    errors: list[BadField] | None = None
    leader: KnownLeader | None = None
    peer: str | None = None
    """Where the loop is asked that runs elsewhere."""
    operation: str | None = None
    """Where the scaling run is that is in the way."""


class ServerRefused(CommandFailed):
    """The server has answered, and not with what was asked for."""

    def __init__(self, status: int, problem: ProblemBody, retry_after: str | None = None) -> None:
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
            problem = msgspec.json.decode(body, type=ProblemBody)
            return ServerRefused(status, problem, retry_after)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # said below: it is no problem that can be read
    detail = f"the answer is {status}, and not one of this API"
    return ServerRefused(status, ProblemBody(detail=detail), retry_after)


def _line(status: int, problem: ProblemBody) -> str:
    """Title and detail in one line."""
    parts = [each for each in (problem.title, problem.detail) if each]
    return ": ".join(parts) or f"the answer is {status}"


def _notes(problem: ProblemBody, retry_after: str | None) -> list[str]:
    found = [f"{each.path}: {each.message}" for each in (problem.errors or [])[:_MOST_ERRORS]]
    if problem.operation:
        found.append(f"see dwd operations {problem.operation.rpartition('/')[2]}")
    if retry_after and retry_after.isdigit():
        found.append(f"try again in {retry_after}s")
    return found
