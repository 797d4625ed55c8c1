"""Exit codes, the errors that carry them, and the translation of problems (RFC 9457) into such errors; pure."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from http import HTTPStatus
from typing import Final

import msgspec

from app.core.errors import WatchdogError, trimmed

# Exit codes and errors.


_LONGEST = 600


class Exit(IntEnum):
    """Exit codes of the client; scripts depend on them."""

    DONE = 0
    FAILED = 1
    """No answer, or one that cannot be understood."""
    USAGE = 2
    """A mistake in the command line, in a file that it names, or a value that the server refuses (422)."""
    REFUSED = 3
    """A rule forbids it at the moment (409), or the object is not what the caller saw (412)."""
    NOT_FOUND = 4
    """The object does not exist (404), or not any more (410)."""
    NOT_ALLOWED = 5
    """The caller is not identified (401), or has no right to do this (403)."""
    UNAVAILABLE = 6
    """Not the leader, a loop that runs elsewhere, a feature that is off (503), too many requests (429)."""
    NOT_DONE = 7
    """The scaling run of `--wait` failed, or was cancelled."""
    INTERRUPTED = 130
    """Ctrl-C: 128 + SIGINT, the convention of shells."""
    NOT_READ = 141
    """The reader of the output has closed it: 128 + SIGPIPE."""
    TERMINATED = 143
    """128 + SIGTERM."""


class CommandFailed(WatchdogError):
    """A command has failed.

    Args:
        code: The exit code.
        message: The error, in one line.
        notes: Further lines, such as each bad input, or a remedy.
        passing: Whether the same request may succeed later.
    """

    def __init__(
        self, code: Exit, message: str, notes: Iterable[str] = (), *, passing: bool = False
    ) -> None:
        self.code = code
        self.notes = tuple(trimmed(each, _LONGEST) for each in notes)
        self.passing = passing
        super().__init__(trimmed(message, _LONGEST))


class NoAnswer(CommandFailed):
    """The server cannot be reached, or does not answer in time.

    Args:
        message: The error, in one line.
        notes: Further lines.
        sent: Whether the request may have reached the server, and may have been carried out.
    """

    def __init__(self, message: str, notes: Iterable[str] = (), *, sent: bool = True) -> None:
        self.sent = sent
        super().__init__(Exit.FAILED, message, notes, passing=True)


_URN: Final = "urn:dependency-watchdog:problem:"
NOT_THE_LEADER: Final = _URN + "not-the-leader"
LOOP_NOT_HERE: Final = _URN + "loop-not-here"
_MOST_ERRORS: Final = 20

_CODES: Final[Mapping[int, Exit]] = {
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
    """One bad input of a request."""

    path: str = ""
    message: str = ""


class KnownLeader(msgspec.Struct, frozen=True):
    """The leader, as a standby names it."""

    identity: str | None = None
    address: str | None = None


class ProblemBody(msgspec.Struct, rename="camel", frozen=True):
    """The body of a problem; fields that it lacks are empty."""

    type: str = ""
    title: str = ""
    detail: str = ""
    errors: list[BadField] | None = None
    leader: KnownLeader | None = None
    peer: str | None = None
    """URL of the process that runs the loop (`loop-not-here`)."""
    operation: str | None = None
    """Path of the scaling run that is in the way (`conflict`)."""


class ServerRefused(CommandFailed):
    """The server has answered with an error."""

    def __init__(self, status: int, problem: ProblemBody, retry_after: str | None = None) -> None:
        self.status, self.problem = status, problem
        code = _CODES.get(status, Exit.FAILED)
        passing = status == HTTPStatus.TOO_MANY_REQUESTS or status >= _SERVER_SIDE
        # The API joins all errors in the detail; here each has a line of its own.
        bad = [f"{each.path}: {each.message}" for each in problem.errors or ()]
        detail = problem.detail if problem.detail != "; ".join(bad) else ""
        line = ": ".join(filter(None, (problem.title, detail)))
        notes = bad[:_MOST_ERRORS]
        if problem.operation:
            notes.append(f"see dwd operations {problem.operation.rpartition('/')[2]}")
        if retry_after and retry_after.isdigit():
            notes.append(f"try again in {retry_after}s")
        super().__init__(code, line or f"the answer is {status}", notes, passing=passing)

    @property
    def of_a_gateway(self) -> bool:
        """Whether this is the error of a proxy in front of the API, so that it is unknown what the API did."""
        return self.status >= _SERVER_SIDE and not self.problem.type


_SERVER_SIDE: Final = 500


def refusal(status: int, kind: str, body: bytes, retry_after: str | None = None) -> ServerRefused:
    """The error for an answer with this status, media type and body, which need not be a problem (a proxy's 502)."""
    if kind.partition(";")[0].strip() == "application/problem+json":
        try:
            problem = msgspec.json.decode(body, type=ProblemBody)
            return ServerRefused(status, problem, retry_after)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # reported below like any other unreadable answer
    detail = f"the answer is {status}, not one of this API"
    return ServerRefused(status, ProblemBody(detail=detail), retry_after)
