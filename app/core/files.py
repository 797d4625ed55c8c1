"""What is made of files, and made anew as they change; while they are wrong, what was good last stays."""

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
"""Seconds between two probes."""


class Reread(Generic[C, V]):
    """The value of some files.

    Their content is read and compared, not their times: a volume of Kubernetes swaps a link far above them, and two
    writes may have the same time.

    Args:
        what: how log and answers call them.
        read: their content; blocks, and raises ConfigurationError.
        make: the value of a content; may block, and raises ConfigurationError.
    """

    def __init__(
        self, what: str, read: Callable[[], C], make: Callable[[C], V], clock: Clock
    ) -> None:
        self.what = what
        self._read, self._make, self._clock = read, make, clock
        self._content = read()
        self.value = make(self._content)
        """Of the last content that was good."""
        self.trouble: str | None = None
        """Why what is there now cannot be used; None while it can."""

    @classmethod
    async def load(
        cls, what: str, read: Callable[[], C], make: Callable[[C], V], clock: Clock
    ) -> "Reread[C, V]":
        """Reads them for the first time.

        Raises:
            ConfigurationError: they cannot be used.
        """
        return await asyncio.to_thread(cls, what, read, make, clock)

    async def run(self) -> None:
        """Looks for ever whether they have changed."""
        while True:
            await self._clock.sleep(EVERY)
            await self.check()

    async def check(self) -> None:
        """Takes over what is there now, if it differs and is good."""
        try:
            content = await asyncio.to_thread(self._read)
            if content != self._content:
                self.value = await asyncio.to_thread(self._make, content)
                self._content = content
                log.info("files were read again, as they have changed", what=self.what)
        except ConfigurationError as error:
            self._complain(str(error))
        else:
            self.trouble = None

    def _complain(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.error(
                "changed files cannot be used; what was good stays",
                what=self.what,
                error=trouble,
            )
        self.trouble = trouble


# Small files that may hold secrets: read whole, and refused where others on the machine may read them.


MAX_BYTES: Final = 1024 * 1024
"""As much as a Secret can hold."""
_OTHERS: Final = stat.S_IROTH | stat.S_IWOTH


def read_file(path: Path, *, private: bool) -> bytes:
    """The content of a file of at most 1 MiB; blocks.

    Links are followed, and the mode is that of the file which was opened.  The group may read a private file: it is how
    a Secret's volume is made readable for a process that is not root (`fsGroup`).

    Raises:
        ConfigurationError: it cannot be read, is none, is larger, or is private and others may read or write it.
    """
    try:
        with open(path, "rb", opener=_at_once) as file:
            _check(path, os.fstat(file.fileno()), private=private)
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = getattr(error, "strerror", None) or str(error)
        raise unusable(path, f"cannot be read: {reason}") from error
    if len(content) > MAX_BYTES:
        raise unusable(path, f"is larger than {MAX_BYTES} bytes")
    return content


def _at_once(path: str, flags: int) -> int:
    """Opens a pipe, too, instead of waiting for who writes to it; it is refused then."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check(path: Path, found: os.stat_result, *, private: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise unusable(path, "is not a file")
    if private and found.st_mode & _OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        raise unusable(
            path,
            f"may be read or written by others (mode {mode:04o}); 0640 is as open as it may be",
        )


def unusable(path: Path, message: str) -> ConfigurationError:
    """The error for a file that as a whole cannot be used."""
    return ConfigurationError(str(path), [Mistake(None, "", message)])
