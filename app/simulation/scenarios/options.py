"""The options of an action: the values under `with`, read as the prober file's are."""

from collections.abc import Collection, Iterable

import yaml

from app.core.config.fields import Section, T
from app.core.config.findings import Findings, Place
from app.core.config.names import is_label, nearest
from app.core.config.scalars import Reader
from app.core.config.yaml_nodes import Kind, describe, kind


class Options:
    """The options that a scene gives its action; every one has a default."""

    def __init__(self, given: Section | None, zones: Collection[str], findings: Findings) -> None:
        self._given = given
        self._zones = zones
        self._findings = findings

    def value(self, key: str, read: Reader[T], default: T) -> T:
        """The value of `key`; `default` where it is absent or, with a mistake noted, wrong."""
        return default if self._given is None else self._given.value(key, read, default)

    def zone(self, key: str) -> str | None:
        """The name of a zone that some shoot has nodes in."""
        found = self.value(key, text, "")
        if found and found not in self._zones:
            message = f"names no zone of these shoots; the nearest is {nearest(found, sorted(self._zones))}"
            self._findings.mistake(self._place(key), message)
        return found or None

    def only_one_of(self, *keys: str) -> None:
        """Notes a mistake where more than one of them is given."""
        given = [key for key in keys if self._given is not None and self._given.node(key)]
        for key in given[1:]:
            self._findings.mistake(self._place(key), f"may not be given beside {given[0]}")

    def _place(self, key: str) -> Place:
        return Place(key, None) if self._given is None else self._given.place(key)


def text(node: yaml.Node) -> str:
    """A string that is not blank."""
    if kind(node) is not Kind.STRING or not node.value.strip():
        raise ValueError(f"must be text, not {describe(node)}")
    return " ".join(str(node.value).split())


def label(node: yaml.Node) -> str:
    """A short name: lower case letters, digits and -."""
    if kind(node) is not Kind.STRING or not is_label(node.value):
        raise ValueError(
            f"must be a name of lower case letters, digits and -, not {describe(node)}"
        )
    return str(node.value)


def one_of(choices: Iterable[str], what: str) -> Reader[str]:
    """One of several words."""
    known = tuple(choices)

    def read(node: yaml.Node) -> str:
        if kind(node) is not Kind.STRING:
            raise ValueError(f"must be {what}, not {describe(node)}")
        if node.value not in known:
            nearby = nearest(node.value, known)
            raise ValueError(f"must be {what}, not {describe(node)}; the nearest is {nearby}")
        return str(node.value)

    return read
