"""Collects the mistakes in a file, so that all of them are reported at once."""

from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from app.core.errors import ConfigurationError, Mistake
from app.core.model.policy import ConfigWarning

V = TypeVar("V")
T = TypeVar("T")


class FileLocation(NamedTuple):
    """A place in a file."""

    path: str
    """Such as `dependentResourceInfos[1].ref.name`; empty for the file itself."""
    line: int | None

    def key(self, name: str, line: int | None = None) -> "FileLocation":
        """Returns the place of a key within this one."""
        path = f"{self.path}.{name}" if self.path else name
        return FileLocation(path, self.line if line is None else line)


class Findings:
    """The mistakes and warnings of one file."""

    def __init__(self, source: str, *, strict: bool) -> None:
        self._source = source
        self._strict = strict
        self._mistakes: list[Mistake] = []
        self._warnings: list[ConfigWarning] = []

    def mistake(self, place: FileLocation, message: str) -> None:
        """Records a mistake, which makes the file unusable."""
        self._mistakes.append(Mistake(place.line, place.path, message))

    def attempt(self, place: FileLocation, read: Callable[[V], T], value: V) -> T | None:
        """Returns `read(value)`; if that raises ValueError, records it as a mistake and returns None."""
        try:
            return read(value)
        except ValueError as error:
            self.mistake(place, str(error))
            return None

    def warn(self, place: FileLocation, message: str) -> None:
        """Records a warning: accepted, but worth checking."""
        self._warnings.append(ConfigWarning(place.path, message, place.line))

    def unknown(self, place: FileLocation, message: str) -> None:
        """Records an unknown key: a mistake if reading is strict, otherwise a warning."""
        (self.mistake if self._strict else self.warn)(place, message)

    def refuse(self, place: FileLocation, message: str) -> NoReturn:
        """Records a mistake that ends the reading.

        Raises:
            ConfigurationError: always, with all mistakes.
        """
        self.mistake(place, message)
        raise self._error()

    def check(self) -> None:
        """Raises an error if there are mistakes.

        Raises:
            ConfigurationError: there are mistakes; it has all of them, in the order of their lines.
        """
        if self._mistakes:
            raise self._error()

    def _error(self) -> ConfigurationError:
        return ConfigurationError(self._source, sorted(self._mistakes, key=_order))

    def warnings(self) -> tuple[ConfigWarning, ...]:
        """Returns the warnings in the order of their lines."""
        return tuple(sorted(self._warnings, key=_order))


def _order(found: Mistake | ConfigWarning) -> tuple[int, str]:
    return (found.line or 0, found.path)
