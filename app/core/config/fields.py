"""Reads the mappings of a file key by key: typed values out, mistakes and warnings noted."""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

import yaml

from app.core.config.findings import Findings, Place
from app.core.config.names import nearest
from app.core.config.values import Reader
from app.core.config.yamlnodes import Kind, describe, is_merge, kind, line_of, merged
from app.core.errors import trimmed

T = TypeVar("T")

_SHOWN: Final = 60


class Keys(NamedTuple):
    """The keys that a mapping may have, as they are documented; they match whatever their case."""

    known: tuple[str, ...]
    obsolete: tuple[str, ...] = ()
    """Accepted with a warning, and without effect."""


class _Entry(NamedTuple):
    place: Place
    node: yaml.Node


class Section:
    """One mapping of a file; null is absent everywhere."""

    def __init__(self, node: yaml.Node, place: Place, keys: Keys, findings: Findings) -> None:
        self._place = place
        self._keys = keys
        self._findings = findings
        self._names = {name.lower(): name for name in (*keys.known, *keys.obsolete)}
        self._entries: dict[str, _Entry] = {}
        self._absorb(node)
        self._report_strangers()

    def place(self, key: str) -> Place:
        """Where `key` is, or would be."""
        entry = self._entries.get(key.lower())
        return self._place.key(key) if entry is None else entry.place

    def node(self, key: str) -> yaml.Node | None:
        """What is written at `key`; None where nothing is.

        Raises:
            KeyError: `key` is none of those that the mapping may have.
        """
        entry = self._entries.get(self._names[key.lower()].lower())
        return None if entry is None or kind(entry.node) is Kind.NULL else entry.node

    def value(self, key: str, read: Reader[T], default: T) -> T:
        """The value of `key`; `default` where it is absent or, with a mistake noted, wrong."""
        found = self._read(key, read)
        return default if found is None else found

    def required(self, key: str, read: Reader[T]) -> T | None:
        """The value of `key`; None, with a mistake noted, where it is absent or wrong."""
        if self.node(key) is None:
            self._findings.mistake(self.place(key), "is required")
        return self._read(key, read)

    def section(self, key: str, keys: Keys) -> "Section | None":
        """The mapping at `key`, which is required."""
        node = self.required(key, _mapping)
        return None if node is None else Section(node, self.place(key), keys, self._findings)

    def sections(self, key: str, keys: Keys) -> Iterator["Section"]:
        """The mappings of the list at `key`, which is required and must not be empty."""
        node = self.required(key, _filled_list)
        for index, item in enumerate([] if node is None else node.value):
            place = Place(f"{self.place(key).path}[{index}]", line_of(item))
            if kind(item) is Kind.MAPPING:
                yield Section(item, place, keys, self._findings)
            else:
                self._findings.mistake(place, f"must be a mapping, not {describe(item)}")

    def _read(self, key: str, read: Reader[T]) -> T | None:
        node = self.node(key)
        try:
            return None if node is None else read(node)
        except ValueError as error:
            self._findings.mistake(self.place(key), str(error))
            return None

    def _absorb(self, node: yaml.Node) -> None:
        """Takes the keys of `node`, then those that it merges, which never replace what is there."""
        own: dict[str, _Entry] = {}
        merges: list[yaml.Node] = []
        for key, value in node.value:
            if is_merge(key):
                merges.append(value)
            elif kind(key) is not Kind.STRING:
                place = Place(self._place.path, line_of(key))
                self._findings.mistake(place, f"a key must be a string, not {describe(key)}")
            else:
                self._take(key, value, own)
        self._entries = own | self._entries
        for each in merges:
            self._merge(each)

    def _take(self, key: yaml.Node, value: yaml.Node, own: dict[str, _Entry]) -> None:
        name = key.value.lower()
        place = self._place.key(self._names.get(name, trimmed(key.value, _SHOWN)), line_of(key))
        if name in own:
            first = own[name].place.line
            self._findings.mistake(place, f"is given twice, first on line {first}")
        else:
            own[name] = _Entry(place, value)

    def _merge(self, node: yaml.Node) -> None:
        try:
            for mapping in merged(node):
                self._absorb(mapping)
        except ValueError as error:
            self._findings.mistake(self._place.key("<<", line_of(node)), str(error))

    def _report_strangers(self) -> None:
        known = {name.lower() for name in self._keys.known}
        for name, entry in self._entries.items():
            if name in known:
                continue
            if name in self._names:
                self._findings.warn(entry.place, "is obsolete and has no effect; remove it")
            else:
                message = f"unknown key; the nearest known key is {nearest(name, self._keys.known)}"
                self._findings.unknown(entry.place, message)


def _mapping(node: yaml.Node) -> yaml.Node:
    if kind(node) is not Kind.MAPPING:
        raise ValueError(f"must be a mapping, not {describe(node)}")
    return node


def _filled_list(node: yaml.Node) -> yaml.Node:
    if kind(node) is not Kind.LIST:
        raise ValueError(f"must be a list, not {describe(node)}")
    if not node.value:
        raise ValueError("must not be empty")
    return node
