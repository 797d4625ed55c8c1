"""How a command ends: codes that a script can use, and the errors that carry them."""

from collections.abc import Iterable
from enum import IntEnum

from app.core.errors import WatchdogError, trimmed

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
    """The flow that was waited for failed, or was cancelled."""
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
