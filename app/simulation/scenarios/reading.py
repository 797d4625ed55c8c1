"""Reads the mappings of a scenario key by key into typed values; collects all mistakes of the file.

Nearly every key of a scene depends on another, and on the shoots that there are, so that it is read with what is known
so far instead of being loaded into a record as the configuration files are.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, NoReturn, TypeVar

import yaml

from app.core.config.yaml_file import FileLocation, NodeKind, describe, kind, line_of, nearest
from app.core.errors import ConfigurationError, Mistake, trimmed
from app.core.model.durations import EXAMPLE, parse_duration

V = TypeVar("V")
T = TypeVar("T")
D = TypeVar("D")
Reader = Callable[[yaml.Node], T]

MAX_WHOLE: Final = 2**31 - 1
_WHOLE: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)
_MAX_DIGITS: Final = 10
_SHOWN: Final = 60
_TRUE: Final = frozenset({"true", "yes", "on"})


def boolean(node: yaml.Node) -> bool:
    """Reads true or false, or YAML 1.1's yes, no, on and off, as Kubernetes does."""
    if kind(node) is not NodeKind.BOOLEAN:
        raise ValueError(f"must be true or false, not {describe(node)}")
    return str(node.value).lower() in _TRUE


def whole(least: int, most: int = MAX_WHOLE) -> Reader[int]:
    """Returns a reader of whole numbers from `least` to `most`."""

    def read(node: yaml.Node) -> int:
        if kind(node) is not NodeKind.NUMBER or not _WHOLE.fullmatch(node.value):
            raise ValueError(f"must be a whole number, not {describe(node)}")
        if len(node.value) > _MAX_DIGITS + 1 or not least <= int(node.value) <= most:
            raise ValueError(f"must be from {least} to {most}, not {describe(node)}")
        return int(node.value)

    return read


def fraction(*, zero: bool) -> Reader[float]:
    """Returns a reader of numbers up to 1: from 0 if `zero`, otherwise above 0."""

    def read(node: yaml.Node) -> float:
        value = _number(node)
        if not (0 <= value <= 1) or (value == 0 and not zero):
            limits = "from 0 to 1" if zero else "above 0 and at most 1"
            raise ValueError(f"must be {limits}, not {describe(node)}")
        return value

    return read


def _number(node: yaml.Node) -> float:
    text = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
    # YAML 1.1 reads 1e-1 as a string, Kubernetes as a number; here it is a number if unquoted.
    style = getattr(node, "style", None)  # only scalars have one
    plain = kind(node) is NodeKind.NUMBER or (kind(node) is NodeKind.STRING and not style)
    if plain and _NOT_FINITE.fullmatch(text):
        raise ValueError(f"must be a finite number, not {text}")
    if not plain or not _NUMBER.fullmatch(text):
        raise ValueError(f"must be a number, not {describe(node)}")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {describe(node)}")
    return value


def duration(*, zero: bool) -> Reader[float]:
    """Returns a reader of Go durations, which returns seconds: from 0 if `zero`, otherwise above 0."""

    def read(node: yaml.Node) -> float:
        if kind(node) not in {NodeKind.STRING, NodeKind.NUMBER}:
            raise ValueError(f"must be {EXAMPLE}, not {describe(node)}")
        try:
            seconds = parse_duration(node.value)
        except ValueError as error:
            raise ValueError(f"{error}, not {describe(node)}") from error
        if seconds < 0 or (seconds == 0 and not zero):
            raise ValueError(f"must be {'0s or more' if zero else 'above 0s'}, not {node.value}")
        return seconds

    return read


class Findings:
    """The mistakes of one file."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._mistakes: list[Mistake] = []

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
        return ConfigurationError(self._source, sorted(self._mistakes))


class MappingEntry(NamedTuple):
    """One key of a mapping with its value."""

    place: FileLocation
    node: yaml.Node


def mapping(node: yaml.Node) -> yaml.Node:
    """Accepts a mapping, which may be empty."""
    if kind(node) is not NodeKind.MAPPING:
        raise ValueError(f"must be a mapping, not {kind(node)}")
    return node


def list_of_any(node: yaml.Node) -> yaml.Node:
    """Accepts a list, which may be empty."""
    if kind(node) is not NodeKind.LIST:
        raise ValueError(f"must be a list, not {kind(node)}")
    return node


def filled_list(node: yaml.Node) -> yaml.Node:
    """Accepts a list that is not empty."""
    if not list_of_any(node).value:
        raise ValueError("must not be empty")
    return node


Keys = tuple[str, ...]
"""The keys that a mapping may have; they match in any case."""


class Section:
    """One mapping of a file; null counts as absent."""

    def __init__(
        self, node: yaml.Node, place: FileLocation, keys: Keys, findings: Findings
    ) -> None:
        self.base = place
        """The place of the mapping itself."""
        self._keys = keys
        self._findings = findings
        self._names = {name.lower(): name for name in keys}
        self._entries: dict[str, MappingEntry] = {}
        for key, value in node.value:
            self._add(key, value)

    def place(self, key: str) -> FileLocation:
        """Returns the place where `key` is, or would be."""
        entry = self._entries.get(key.lower())
        return self.base.key(key) if entry is None else entry.place

    def node(self, key: str) -> yaml.Node | None:
        """Returns the node of `key`; None if it is absent.

        Raises:
            KeyError: the mapping may not have this key.
        """
        entry = self._entries.get(self._names[key.lower()].lower())
        return None if entry is None or kind(entry.node) is NodeKind.NULL else entry.node

    def value(self, key: str, read: Reader[T], default: D) -> T | D:
        """Returns the value of `key`; `default` if it is absent or, with a mistake recorded, wrong."""
        found = self._read(key, read)
        return default if found is None else found

    def required(self, key: str, read: Reader[T]) -> T | None:
        """Returns the value of `key`; None, with a mistake recorded, if it is absent or wrong."""
        if self.node(key) is None:
            self._findings.mistake(self.place(key), "is required")
        return self._read(key, read)

    def section(self, key: str, keys: Keys) -> "Section | None":
        """Returns the mapping of `key`, which is required."""
        node = self.required(key, mapping)
        return None if node is None else Section(node, self.place(key), keys, self._findings)

    def sections(self, key: str, keys: Keys, *, required: bool = True) -> Iterator["Section"]:
        """Returns the mappings in the list of `key`; if that is required it must not be empty."""
        for place, item in self.items(key, required=required):
            if kind(item) is NodeKind.MAPPING:
                yield Section(item, place, keys, self._findings)
            else:
                self._findings.mistake(place, f"must be a mapping, not {kind(item)}")

    def items(self, key: str, *, required: bool) -> Iterator[tuple[FileLocation, yaml.Node]]:
        """Yields the items in the list of `key`; if that is required it must not be empty."""
        node = self.required(key, filled_list) if required else self._read(key, list_of_any)
        path = self.place(key).path
        for index, item in enumerate([] if node is None else node.value):
            yield FileLocation(f"{path}[{index}]", line_of(item)), item

    def _read(self, key: str, read: Reader[T]) -> T | None:
        node = self.node(key)
        return None if node is None else self._findings.attempt(self.place(key), read, node)

    def _add(self, key: yaml.Node, value: yaml.Node) -> None:
        if kind(key) is not NodeKind.STRING:
            place = FileLocation(self.base.path, line_of(key))
            self._findings.mistake(place, f"a key must be a string, not {describe(key)}")
            return
        name = self._names.get(key.value.lower())
        place = self.base.key(name or trimmed(key.value, _SHOWN), line_of(key))
        entry = MappingEntry(place, value)
        first = self._entries.setdefault(key.value.lower(), entry)
        if first is not entry:
            self._findings.mistake(place, f"is given twice, first on line {first.place.line}")
        elif name is None:
            message = f"unknown key; the nearest known key is {nearest(key.value, self._keys)}"
            self._findings.mistake(place, message)
