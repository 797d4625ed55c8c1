"""Parses YAML text to nodes with line numbers, and classifies scalars; no tag ever constructs an object.

The text may come from anywhere, so its depth, its size and the expansion of its aliases are limited before it is
composed.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

import yaml

from app.core.errors import ConfigurationError, Mistake, trimmed

MAX_DEPTH: Final = 20
MAX_VALUES: Final = 20_000
"""Maximum number of scalars, lists and mappings, where an alias counts as all that it stands for."""

_TAG: Final = "tag:yaml.org,2002:"
_SHOWN: Final = 60


class NodeKind(StrEnum):
    """The type of a node."""

    NULL = "null"
    BOOLEAN = "a boolean"
    NUMBER = "a number"
    STRING = "a string"
    LIST = "a list"
    MAPPING = "a mapping"
    TAGGED = "something else"
    """With a tag outside YAML's core schema."""


_KINDS: Final = {
    _TAG + "null": NodeKind.NULL,
    _TAG + "bool": NodeKind.BOOLEAN,
    _TAG + "int": NodeKind.NUMBER,
    _TAG + "float": NodeKind.NUMBER,
    _TAG + "str": NodeKind.STRING,
    _TAG + "timestamp": NodeKind.STRING,  # JSON, which Kubernetes reads YAML as, has no times
    _TAG + "value": NodeKind.STRING,
    _TAG + "merge": NodeKind.STRING,
    _TAG + "seq": NodeKind.LIST,
    _TAG + "map": NodeKind.MAPPING,
}
_SHAPES: Final = {NodeKind.LIST: yaml.SequenceNode, NodeKind.MAPPING: yaml.MappingNode}


def kind(node: yaml.Node) -> NodeKind:
    """Returns the type of `node`; a tag that does not fit its shape makes it `TAGGED`."""
    found = _KINDS.get(node.tag, NodeKind.TAGGED)
    return found if isinstance(node, _SHAPES.get(found, yaml.ScalarNode)) else NodeKind.TAGGED


def describe(node: yaml.Node) -> str:
    """Describes `node` for a message; a scalar with its value."""
    found = kind(node)
    match found:
        case NodeKind.NULL | NodeKind.LIST | NodeKind.MAPPING:
            return found.value
        case NodeKind.BOOLEAN | NodeKind.NUMBER:
            return f"{found.value.replace('a ', 'the ')} {trimmed(node.value, _SHOWN)}"
        case NodeKind.STRING:
            return f'the string "{trimmed(node.value, _SHOWN)}"'
        case NodeKind.TAGGED:
            return f"a value tagged {trimmed(str(node.tag), _SHOWN)}"
    assert_never(found)


def line_of(node: yaml.Node) -> int:
    """Returns the line at which `node` begins, counted from 1."""
    return int(node.start_mark.line) + 1


def compose(text: str, source: str) -> yaml.Node | None:
    """Parses the only document in `text`; returns None if it is empty.

    Raises:
        ConfigurationError: it is not YAML, has several documents, is too deep, or expands to too much.
    """
    try:
        _Bounds(source).check(yaml.parse(text, Loader=yaml.CSafeLoader))
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise _refused(source, line, f"is not YAML: {error.problem}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise _refused(source, None, f"is not YAML: {str(error).splitlines()[0]}") from error


def _refused(source: str, line: int | None, message: str) -> ConfigurationError:
    return ConfigurationError(source, [Mistake(line, "", trimmed(message))])


class _Open(NamedTuple):
    """A list or mapping that is still being parsed."""

    anchor: str | None
    before: int
    """Number of values counted before it."""


class _Bounds:
    """Counts the values that a stream of parser events would become, without building them."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._documents = 0
        self._values = 0
        self._open: list[_Open] = []
        self._sizes: dict[str, int] = {}
        """Number of values that each complete anchor stands for."""

    def check(self, events: Iterable[yaml.Event]) -> None:
        """Raises ConfigurationError at the first event that is over a bound."""
        for event in events:
            self._count(event)
            if self._documents > 1:
                raise self._refuse(event, "has more than one document")
            if len(self._open) > MAX_DEPTH:
                raise self._refuse(event, f"is nested more than {MAX_DEPTH} deep")
            if self._values > MAX_VALUES:
                raise self._refuse(event, f"stands for more than {MAX_VALUES} values")

    def _count(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
            case yaml.CollectionStartEvent():
                self._open.append(_Open(event.anchor, self._values))
                self._values += 1
            case yaml.CollectionEndEvent():
                begun = self._open.pop()
                self._name(begun.anchor, self._values - begun.before)
            case yaml.ScalarEvent():
                self._values += 1
                self._name(event.anchor, 1)
            case yaml.AliasEvent():
                self._values += self._size(event)
            case _:
                pass  # ends of documents and of the stream bring nothing

    def _name(self, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._sizes[anchor] = size

    def _size(self, alias: yaml.AliasEvent) -> int:
        if any(each.anchor == alias.anchor for each in self._open):
            raise self._refuse(alias, f"has an alias *{alias.anchor} inside its own anchor")
        return self._sizes.get(alias.anchor or "", 1)  # an unknown one is the composer's to refuse

    def _refuse(self, event: yaml.Event, message: str) -> ConfigurationError:
        line = None if event.start_mark is None else event.start_mark.line + 1
        return _refused(self._source, line, message)


def is_merge(key: yaml.Node) -> bool:
    """Returns whether a key is YAML's merge key, `<<`."""
    return key.tag == _TAG + "merge"


def merged(node: yaml.Node) -> Iterator[yaml.MappingNode]:
    """Yields the mappings that a merge key refers to, the one with the highest precedence first.

    Raises:
        ValueError: the value is neither a mapping nor a list of mappings.
    """
    for each in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        if not isinstance(each, yaml.MappingNode):
            message = f"must be a mapping or a list of mappings, not {describe(each)}"
            raise ValueError(message)  # noqa: TRY004 - it is the file's value that is wrong, as everywhere here
        yield each
