"""Values that are loaded from files, and reloaded when these change; while they are bad, the last good one stays."""

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from app.core.clock import Clock
from app.core.errors import ConfigurationError, Mistake

log = structlog.get_logger(__name__)

C = TypeVar("C")
V = TypeVar("V")

EVERY: Final = 5.0
"""Seconds between two checks."""


class Reread(Generic[C, V]):
    """A value that is loaded from files.

    The content is compared, not the modification times: a volume of Kubernetes swaps a symbolic link far above the
    files, and two writes may have the same time.

    Args:
        what: the name of the files in log and answers.
        read: returns the content; blocks, and raises ConfigurationError.
        make: turns the content into the value; may block, and raises ConfigurationError.
        clock: times the checks.
    """

    def __init__(
        self, what: str, read: Callable[[], C], make: Callable[[C], V], clock: Clock
    ) -> None:
        self.what = what
        self._read, self._make, self._clock = read, make, clock
        self._content = read()
        self.value = make(self._content)
        """The value of the last good content."""
        self.trouble: str | None = None
        """Why the current content cannot be used; None if it can."""

    @classmethod
    async def load(
        cls, what: str, read: Callable[[], C], make: Callable[[C], V], clock: Clock
    ) -> "Reread[C, V]":
        """Loads the files for the first time.

        Raises:
            ConfigurationError: they cannot be used.
        """
        return await asyncio.to_thread(cls, what, read, make, clock)

    async def run(self) -> None:
        """Checks for changes until cancelled."""
        while True:
            await self._clock.sleep(EVERY)
            await self.check()

    async def check(self) -> None:
        """Loads the current content if it differs and is good."""
        try:
            content = await asyncio.to_thread(self._read)
            if content != self._content:
                self.value = await asyncio.to_thread(self._make, content)
                self._content = content
                log.info("changed files were read again", what=self.what)
        except ConfigurationError as error:
            self._complain(str(error))
        else:
            self.trouble = None

    def _complain(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.error(
                "changed files cannot be used; the last good ones stay in use",
                what=self.what,
                error=trouble,
            )
        self.trouble = trouble


# Small files that may hold secrets: read completely, and refused if others on the machine may read them.


MAX_BYTES: Final = 1024 * 1024
"""The maximum size of a Secret."""
_OTHERS: Final = stat.S_IROTH | stat.S_IWOTH


def read_file(path: Path, *, private: bool) -> bytes:
    """Reads a file of at most 1 MiB; blocks.

    Symbolic links are followed, and the mode is that of the opened file. The group may read a private file, because a
    Secret's volume is made readable for a non-root process that way (`fsGroup`).

    Raises:
        ConfigurationError: it cannot be read, is not a regular file, is too large, or is private but open to others.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:
            _check(path, os.fstat(file.fileno()), private=private)
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: the path contains a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise unusable(path, f"cannot be read: {reason}") from error
    if len(content) > MAX_BYTES:
        raise unusable(path, f"is larger than {MAX_BYTES} bytes")
    return content


def _at_once(path: str, flags: int) -> int:
    """Opens without blocking on a pipe that nobody writes to; it is refused later."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check(path: Path, found: os.stat_result, *, private: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise unusable(path, "is not a file")
    if private and found.st_mode & _OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        raise unusable(
            path,
            f"may be read or written by others (mode {mode:04o}); at most 0640 is allowed",
        )


def unusable(path: Path, message: str) -> ConfigurationError:
    """Returns the error for a file that cannot be used as a whole."""
    return ConfigurationError(str(path), [Mistake(None, "", message)])
