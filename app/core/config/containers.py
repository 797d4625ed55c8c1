"""The lists and mappings of a file: what they hold, merge keys resolved, each entry with its place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import yaml

from app.core.config.findings import Findings, Place
from app.core.config.yaml_nodes import Kind, describe, is_merge, kind, line_of, merged
from app.core.errors import trimmed

_SHOWN: Final = 60


class Entry(NamedTuple):
    """What a mapping holds under a key."""

    key: str
    """As it is written."""
    place: Place
    node: yaml.Node


@dataclass(frozen=True, slots=True)
class Naming:
    """How the keys of a mapping are told apart, and where a message says that they are."""

    base: Place
    """Of the mapping itself."""
    same: Callable[[str], str]
    """Two keys are the same one where this gives the same for both."""
    place: Callable[[str, int], Place]
    """Of a key and its line."""

    @classmethod
    def of_data(cls, base: Place) -> "Naming":
        """For keys that are the operator's own words: their case counts."""
        return cls(base, str, lambda key, line: base.key(trimmed(key, _SHOWN), line))

    @classmethod
    def of_labels(cls, base: Place) -> "Naming":
        """The same for keys that have dots of their own, written as Kubernetes does: `matchLabels[a.b/c]`."""
        return cls(base, str, lambda key, line: Place(f"{base.path}[{trimmed(key, _SHOWN)}]", line))


def mapping(node: yaml.Node) -> yaml.Node:
    """A mapping, which may be empty."""
    if kind(node) is not Kind.MAPPING:
        raise ValueError(f"must be a mapping, not {kind(node)}")
    return node


def list_of_any(node: yaml.Node) -> yaml.Node:
    """A list, which may be empty."""
    if kind(node) is not Kind.LIST:
        raise ValueError(f"must be a list, not {kind(node)}")
    return node


def filled_list(node: yaml.Node) -> yaml.Node:
    """A list with something in it."""
    if not list_of_any(node).value:
        raise ValueError("must not be empty")
    return node


def entries(node: yaml.Node, naming: Naming, findings: Findings) -> dict[str, Entry]:
    """What a mapping holds, by what makes its keys the same; what it merges never replaces its own keys."""
    found: dict[str, Entry] = {}
    merges: list[yaml.Node] = []
    for key, value in node.value:
        if is_merge(key):
            merges.append(value)
        elif kind(key) is not Kind.STRING:
            place = Place(naming.base.path, line_of(key))
            findings.mistake(place, f"a key must be a string, not {describe(key)}")
        else:
            entry = Entry(key.value, naming.place(key.value, line_of(key)), value)
            first = found.setdefault(naming.same(entry.key), entry)
            if first is not entry:
                findings.mistake(entry.place, f"is given twice, first on line {first.place.line}")
    for each in merges:
        _merge(each, found, naming, findings)
    return found


def _merge(node: yaml.Node, found: dict[str, Entry], naming: Naming, findings: Findings) -> None:
    try:
        for each in merged(node):
            for name, entry in entries(each, naming, findings).items():
                found.setdefault(name, entry)
    except ValueError as error:
        findings.mistake(naming.base.key("<<", line_of(node)), str(error))
