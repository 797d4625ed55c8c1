"""Reads the mappings of a file key by key into typed values; collects all mistakes of the file, and its warnings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn, TypeVar

import yaml

from app.core.config.scalars import Reader, label_key, label_key_of, label_value, nearest, operator
from app.core.config.yaml_nodes import NodeKind, describe, is_merge, kind, line_of, merged
from app.core.errors import ConfigurationError, Mistake, trimmed
from app.core.model.policy import ConfigWarning
from app.core.model.selectors import LabelSelector, Operator, Requirement

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


# The lists and mappings of a file: what they hold, merge keys resolved, each entry with its place.


_SHOWN: Final = 60


class MappingEntry(NamedTuple):
    """One key of a mapping with its value."""

    key: str
    """As written in the file."""
    place: FileLocation
    node: yaml.Node


@dataclass(frozen=True, slots=True)
class Naming:
    """How the keys of a mapping are compared, and how messages locate them."""

    base: FileLocation
    """The place of the mapping itself."""
    same: Callable[[str], str]
    """Two keys are equal if this returns the same for both."""
    place: Callable[[str, int], FileLocation]
    """Returns the place of a key, given its line."""

    @classmethod
    def of_data(cls, base: FileLocation) -> "Naming":
        """Creates the naming for keys chosen by the operator, which are case-sensitive."""
        return cls(base, str, lambda key, line: base.key(trimmed(key, _SHOWN), line))

    @classmethod
    def of_labels(cls, base: FileLocation) -> "Naming":
        """Creates the naming for label keys, which contain dots, in the style of Kubernetes: `matchLabels[a.b/c]`."""
        return cls(
            base, str, lambda key, line: FileLocation(f"{base.path}[{trimmed(key, _SHOWN)}]", line)
        )


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


def entries(node: yaml.Node, naming: Naming, findings: Findings) -> dict[str, MappingEntry]:
    """Returns the entries of a mapping by normalized key; merged entries (`<<`) never replace its own."""
    found: dict[str, MappingEntry] = {}
    merges: list[yaml.Node] = []
    for key, value in node.value:
        if is_merge(key):
            merges.append(value)
        elif kind(key) is not NodeKind.STRING:
            place = FileLocation(naming.base.path, line_of(key))
            findings.mistake(place, f"a key must be a string, not {describe(key)}")
        else:
            entry = MappingEntry(key.value, naming.place(key.value, line_of(key)), value)
            first = found.setdefault(naming.same(entry.key), entry)
            if first is not entry:
                findings.mistake(entry.place, f"is given twice, first on line {first.place.line}")
    for each in merges:
        _merge(each, found, naming, findings)
    return found


def _merge(
    node: yaml.Node, found: dict[str, MappingEntry], naming: Naming, findings: Findings
) -> None:
    try:
        for each in merged(node):
            for name, entry in entries(each, naming, findings).items():
                found.setdefault(name, entry)
    except ValueError as error:
        findings.mistake(naming.base.key("<<", line_of(node)), str(error))


D = TypeVar("D")


class Keys(NamedTuple):
    """The keys that a mapping may have, as documented; they match in any case."""

    known: tuple[str, ...]
    obsolete: tuple[str, ...] = ()
    """Keys that are accepted with a warning and have no effect."""
    closed: bool = False
    """Whether an unknown key is a mistake even if reading is not strict."""


class Section:
    """One mapping of a file; null counts as absent."""

    def __init__(
        self, node: yaml.Node, place: FileLocation, keys: Keys, findings: Findings
    ) -> None:
        self.base = place
        """The place of the mapping itself."""
        self._keys = keys
        self._findings = findings
        self._names = {name.lower(): name for name in (*keys.known, *keys.obsolete)}
        naming = Naming(place, str.lower, self._place_of)
        self._entries = entries(node, naming, findings)
        self._report_strangers()

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

    def attempts(self, key: str, read: Reader[T], *, required: bool) -> list[T | None]:
        """Returns `read` of each item in the list of `key`; None, with a mistake recorded, for each that it refuses."""
        items = self.items(key, required=required)
        return [self._findings.attempt(place, read, node) for place, node in items]

    def _read(self, key: str, read: Reader[T]) -> T | None:
        node = self.node(key)
        return None if node is None else self._findings.attempt(self.place(key), read, node)

    def _place_of(self, key: str, line: int) -> FileLocation:
        return self.base.key(self._names.get(key.lower(), trimmed(key, _SHOWN)), line)

    def _report_strangers(self) -> None:
        known = {name.lower() for name in self._keys.known}
        for name, entry in self._entries.items():
            if name in known:
                continue
            if name in self._names:
                self._findings.warn(entry.place, "is obsolete and has no effect; remove it")
            else:
                message = f"unknown key; the nearest known key is {nearest(name, self._keys.known)}"
                note = self._findings.mistake if self._keys.closed else self._findings.unknown
                note(entry.place, message)


def top_section(root: yaml.Node | None, keys: Keys, whose: str, findings: Findings) -> Section:
    """Returns the mapping that a file consists of; messages use `whose` to say which keys it has.

    Raises:
        ConfigurationError: the file is something else.
    """
    if root is None or kind(root) is not NodeKind.MAPPING:
        found = "nothing" if root is None else kind(root)
        place = FileLocation("", None if root is None else line_of(root))
        findings.refuse(place, f"must be a mapping with the {whose}'s keys, and holds {found}")
    return Section(root, FileLocation("", line_of(root)), keys, findings)


# LabelSelectors in a file, refused where Kubernetes would refuse them: nodes in, selectors out. A matching
# label is read as the requirement In with one value: the two mean the same.

SELECTOR_KEYS: Final = Keys(known=("matchLabels", "matchExpressions"), closed=True)
REQUIREMENT_KEYS: Final = Keys(known=("key", "operator", "values"), closed=True)
"""Unknown keys are always mistakes here: without them, more pods would match than intended."""


def read_selector(section: Section, findings: Findings) -> LabelSelector:
    """Returns the selector that a section with `SELECTOR_KEYS` describes; wrong parts are recorded and left out."""
    return LabelSelector((*_labels(section, findings), *_expressions(section, findings)))


def _labels(section: Section, findings: Findings) -> Iterator[Requirement]:
    node = section.value("matchLabels", mapping, None)
    naming = Naming.of_labels(section.place("matchLabels"))
    found = {} if node is None else entries(node, naming, findings)
    for text, entry in found.items():
        key = findings.attempt(entry.place, label_key, text)
        value = findings.attempt(entry.place, label_value, entry.node)
        if key is not None and value is not None:
            yield Requirement(key, Operator.IN, frozenset({value}))


def _expressions(section: Section, findings: Findings) -> Iterator[Requirement]:
    for each in section.sections("matchExpressions", REQUIREMENT_KEYS, required=False):
        key = each.required("key", label_key_of)
        compares = each.required("operator", operator)
        read = each.attempts("values", label_value, required=False)
        if compares is None:
            continue
        _check_count(each, compares, len(read), findings)
        if key is not None:
            values = frozenset(value for value in read if value is not None)
            yield Requirement(key, compares, values)


def _check_count(section: Section, compares: Operator, count: int, findings: Findings) -> None:
    needed = compares in (Operator.IN, Operator.NOT_IN)
    node = section.node("values")
    if node is not None and kind(node) is not NodeKind.LIST:
        return  # which is a mistake already
    if needed and not count:
        message = f"must have at least one value with the operator {compares}"
        findings.mistake(section.place("values"), message)
    if not needed and count:
        message = f"must be absent or empty with the operator {compares}"
        findings.mistake(section.place("values"), message)
