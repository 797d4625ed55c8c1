"""Collects what is wrong with a file, so that all of it can be said at once."""

from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from app.core.errors import ConfigurationError, Mistake
from app.core.model.policy import ConfigWarning

V = TypeVar("V")
T = TypeVar("T")


class FilePlace(NamedTuple):
    """Where something is in a file."""

    path: str
    """As in `dependentResourceInfos[1].ref.name`; empty for the file itself."""
    line: int | None

    def key(self, name: str, line: int | None = None) -> "FilePlace":
        """The place of a key within this one."""
        path = f"{self.path}.{name}" if self.path else name
        return FilePlace(path, self.line if line is None else line)


class Findings:
    """The mistakes and warnings of one file."""

    def __init__(self, source: str, *, strict: bool) -> None:
        self._source = source
        self._strict = strict
        self._mistakes: list[Mistake] = []
        self._warnings: list[ConfigWarning] = []

    def mistake(self, place: FilePlace, message: str) -> None:
        """Notes what makes the file unusable."""
        self._mistakes.append(Mistake(place.line, place.path, message))

    def attempt(self, place: FilePlace, read: Callable[[V], T], value: V) -> T | None:
        """What `read` makes of `value`; None, with its ValueError noted as a mistake, where it refuses it."""
        try:
            return read(value)
        except ValueError as error:
            self.mistake(place, str(error))
            return None

    def warn(self, place: FilePlace, message: str) -> None:
        """Notes what is accepted and deserves a look."""
        self._warnings.append(ConfigWarning(place.path, message, place.line))

    def unknown(self, place: FilePlace, message: str) -> None:
        """Notes a key that nobody reads: a mistake where the reading is strict, else a warning."""
        (self.mistake if self._strict else self.warn)(place, message)

    def refuse(self, place: FilePlace, message: str) -> NoReturn:
        """Notes a mistake after which there is nothing to read.

        Raises:
            ConfigurationError: always; it has all mistakes.
        """
        self.mistake(place, message)
        raise self._error()

    def check(self) -> None:
        """Does nothing where there is no mistake.

        Raises:
            ConfigurationError: there are mistakes; it has all of them, in the order of their lines.
        """
        if self._mistakes:
            raise self._error()

    def _error(self) -> ConfigurationError:
        return ConfigurationError(self._source, sorted(self._mistakes, key=_order))

    def warnings(self) -> tuple[ConfigWarning, ...]:
        """The warnings in the order of their lines."""
        return tuple(sorted(self._warnings, key=_order))


def _order(found: Mistake | ConfigWarning) -> tuple[int, str]:
    return (found.line or 0, found.path)
