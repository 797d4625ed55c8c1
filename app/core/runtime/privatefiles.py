"""Small files that may hold secrets: read whole, and refused where others on the machine may read them."""

import os
import stat
from pathlib import Path
from typing import Final

from app.core.errors import ConfigurationError, Mistake

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
