"""Loads a YAML file into a record, with all mistakes at once: where each is, what was found, and what is allowed.

The record's type says what the file may have (`core.model.keys`). YAML is composed to nodes, which keep their lines;
these become plain values under the names that the type has for its keys, of which pydantic makes the record. An error
of pydantic has a path, by which the node is found again.

The text may come from anywhere, so its depth, its size and the expansion of its aliases are limited before it is
composed. No tag ever constructs an object.
"""

import re
from collections import abc
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    TypeVar,
    assert_never,
    get_args,
    get_origin,
    get_type_hints,
)

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from app.core.config.values import nearest, quoted
from app.core.docstrings import below_fields
from app.core.errors import ConfigurationError, ConfigWarning, Mistake, trimmed
from app.core.model.keys import NUMBER, Complete, Needed, Secretive, Unquoted, WrittenAs

MAX_BYTES: Final = 1024 * 1024
"""The maximum size of a ConfigMap."""
MAX_DEPTH: Final = 20
MAX_VALUES: Final = 20_000
"""Maximum number of scalars, lists and mappings, where an alias counts as all that it stands for."""

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
Path_ = tuple[str | int, ...]
Values = dict[str, Any]
"""The plain values of a mapping."""

_SHOWN: Final = 60
_MAX_DIGITS: Final = 20
_WHOLE: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)
_TRUE: Final = frozenset({"true", "yes", "on"})
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = _TAG + "merge"


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
    _MERGE: NodeKind.STRING,
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
            return f"the string {quoted(node.value, _SHOWN)}"
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
        _check_bounds(yaml.parse(text, Loader=yaml.CSafeLoader), source)
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        of_an_anchor = " of an anchor" if error.problem == "second occurrence" else ""
        message = trimmed(f"is not YAML: {error.problem}{of_an_anchor}")
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise refused(source, message, line) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise refused(source, trimmed(f"is not YAML: {str(error).splitlines()[0]}")) from error


def compose_mapping(text: str, source: str, wanted: str) -> yaml.Node:
    """The same for a document that must be a mapping with the keys of a `wanted`.

    Raises:
        ConfigurationError: as above, or it is something else.
    """
    root = compose(text, source)
    if root is not None and kind(root) is NodeKind.MAPPING:
        return root
    found, line = ("nothing", None) if root is None else (kind(root), line_of(root))
    message = f"must be a mapping with the {wanted}'s keys, and holds {found}"
    raise refused(source, message, line)


def refused(source: str, message: str, line: int | None = None) -> ConfigurationError:
    """Returns the error for a file that is unusable as a whole."""
    return ConfigurationError(source, [Mistake(line, "", message)])


def _check_bounds(events: Iterable[yaml.Event], source: str) -> None:
    """Counts the values that a stream of parser events would become, without building them.

    Raises:
        ConfigurationError: at the first event that is over a bound.
    """
    documents = values = 0
    begun: list[tuple[str | None, int]] = []
    """The anchor of each list and mapping that is still being parsed, and the values before it."""
    sizes: dict[str | None, int] = {}
    """The values that each complete anchor stands for."""
    for event in events:
        wrong = None
        match event:
            case yaml.DocumentStartEvent():
                documents += 1
            case yaml.CollectionStartEvent():
                begun.append((event.anchor, values))
                values += 1
            case yaml.CollectionEndEvent():
                anchor, before = begun.pop()
                sizes[anchor] = values - before
            case yaml.ScalarEvent():
                values += 1
                sizes[event.anchor] = 1
            case yaml.AliasEvent():
                if any(anchor == event.anchor for anchor, _ in begun):
                    wrong = f"has an alias *{event.anchor} inside its own anchor"
                values += sizes.get(event.anchor, 1)  # an unknown one is the composer's to refuse
            case _:
                pass  # ends of documents and of the stream bring nothing
        if documents > 1:
            wrong = "has more than one document"
        elif len(begun) > MAX_DEPTH:
            wrong = f"is nested more than {MAX_DEPTH} deep"
        elif values > MAX_VALUES:
            wrong = f"stands for more than {MAX_VALUES} values"
        if wrong is not None:
            line = None if event.start_mark is None else event.start_mark.line + 1
            raise refused(source, trimmed(wrong), line)


def read_text(path: Path) -> str:
    """Reads a text file of at most 1 MiB in UTF-8.

    Raises:
        ConfigurationError: it cannot be read, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = getattr(error, "strerror", None) or str(error)
        raise refused(str(path), f"cannot be read: {reason}") from error
    if len(content) > MAX_BYTES:
        raise refused(str(path), f"is larger than {MAX_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refused(str(path), f"is not UTF-8 text (byte {error.start})") from error


# What a type says of the YAML that it is made of.


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - a type, or a tuple of one
    return TypeAdapter(form)  # expensive to make


@cache
def keys_of(form: type) -> Mapping[str, object]:
    """Returns the type of each key that a record has in a file."""
    hints = get_type_hints(form, include_extras=True)
    types = {each.name: hints[each.name] for each in fields(form)}
    return {
        FieldInfo.from_annotation(type_).alias or to_camel(name): type_
        for name, type_ in types.items()
    }


def purposes_of(form: type) -> Mapping[str, str]:
    """Returns what each key of a record is for: the docstring below its field; empty where there is none."""
    said = below_fields(form)
    named = zip(keys_of(form), fields(form), strict=True)
    return {key: said.get(each.name, "") for key, each in named}


def _annotations(kind: object) -> tuple[object, ...]:
    return getattr(kind, "__metadata__", ())


def _form(kind: object) -> object:
    """Returns the type that a value has in a file: without annotations and None, and in the form that is written."""
    for each in _annotations(kind):
        if isinstance(each, WrittenAs):
            return each.form
    if get_origin(kind) is Annotated:
        return _form(get_args(kind)[0])
    others = [each for each in get_args(kind) if each is not NoneType]
    return _form(others[0]) if NoneType in get_args(kind) and len(others) == 1 else kind


_ODD: Final = object()
"""What fits nothing: a scalar that is no value of JSON, such as `0x1f` or one with a tag."""


def _scalar(node: yaml.Node) -> object:
    text = str(node.value)
    match kind(node):
        case NodeKind.NULL:
            return None
        case NodeKind.BOOLEAN:
            return text.lower() in _TRUE
        case NodeKind.STRING:
            quoted = getattr(node, "style", None)
            return Unquoted(text) if not quoted and NUMBER.fullmatch(text) else text
        case NodeKind.NUMBER if _WHOLE.fullmatch(text):
            return int(text[:_MAX_DIGITS])  # as many as are needed to know that it is too large
        case NodeKind.NUMBER if NUMBER.fullmatch(text) or _NOT_FINITE.fullmatch(text):
            return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        case _:
            return _ODD


def mappings(values: object) -> Iterator[tuple[int, Values]]:
    """Yields the mappings in plain values that should be a list of them, each with its index."""
    for index, each in enumerate(values if isinstance(values, list) else ()):
        if isinstance(each, dict):
            yield index, each


class FileLocation(NamedTuple):
    """A place in a file."""

    path: str
    """Such as `dependentResourceInfos[1].ref.name`; empty for the file itself."""
    line: int
    node: yaml.Node | None = None
    """What is there; None if nothing is."""

    def inside(self, step: str, line: int) -> "FileLocation":
        """Returns a place within this one, such as `.name` or `[1]`."""
        return FileLocation((self.path + step).removeprefix("."), line)


class YamlFile(Generic[T]):
    """A file of the form `form`: its plain values, where each is, and the mistakes and warnings found in it."""

    def __init__(
        self,
        root: yaml.Node,
        form: type[T],
        source: str,
        *,
        strict: bool,
        secret: bool = False,
    ) -> None:
        self._form: Any = form  # Any: a type is no Hashable to mypy
        self._source, self._strict, self._secret = source, strict, secret
        self._mistakes: list[Mistake] = []
        self._warnings: list[ConfigWarning] = []
        self._places: dict[Path_, FileLocation] = {}
        self.values: Any = self._plain(root, form, (), FileLocation("", line_of(root)))

    def place(self, path: Path_) -> FileLocation:
        """Returns the place of a value, or where it would be."""
        if (found := self._places.get(path)) is not None:
            return found
        above = self.place(path[:-1])
        return above.inside(f".{path[-1]}", above.line)

    def repeated(self, found: Iterable[tuple[H, Path_]]) -> Iterator[tuple[H, Path_, Path_]]:
        """Yields identity and path of what has the identity of something before it, and the path of the first such."""
        first: dict[H, Path_] = {}
        for identity, path in found:
            if (before := first.setdefault(identity, path)) != path:
                yield identity, path, before

    def mistake(self, path: Path_, message: str) -> None:
        """Records a mistake, which makes the file unusable."""
        self._note(self.place(path), message)

    def warn(self, path: Path_, message: str) -> None:
        """Records a warning: accepted, but worth checking."""
        self._warn(self.place(path), message)

    def load(self) -> T:
        """Makes the record of the values.

        Raises:
            ConfigurationError: there are mistakes; it has all of them, in the order of their lines.
        """
        record: T | None = None
        try:
            record = _adapter(self._form).validate_python(self.values)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                self._refuse(each["loc"], each["type"], each.get("ctx", {}))
        if record is None or self._mistakes:
            raise ConfigurationError(self._source, sorted(self._mistakes, key=_order))
        return record

    def warnings(self) -> tuple[ConfigWarning, ...]:
        """Returns the warnings in the order of their lines."""
        return tuple(sorted(self._warnings, key=_order))

    def _note(self, place: FileLocation, message: str) -> None:
        self._mistakes.append(Mistake(place.line, place.path, message))

    def _warn(self, place: FileLocation, message: str) -> None:
        self._warnings.append(ConfigWarning(place.path, message, place.line))

    # Nodes to values.

    def _plain(self, node: yaml.Node, type_: object, path: Path_, place: FileLocation) -> object:
        """Returns the value of a node, and remembers its place; an error of type is left to pydantic."""
        self._places[path] = place._replace(node=node)
        form = _form(type_)
        inner = get_args(form)
        match kind(node):
            case NodeKind.MAPPING if isinstance(form, type) and is_dataclass(form):
                return self._record(node, form, path)
            case NodeKind.MAPPING if get_origin(form) is abc.Mapping:
                return self._data(node, inner[1], path)
            case NodeKind.MAPPING:
                return {}
            case NodeKind.LIST:
                each_type = inner[0] if inner else None
                return [
                    self._plain(
                        each, each_type, (*path, index), place.inside(f"[{index}]", line_of(each))
                    )
                    for index, each in enumerate(node.value)
                ]
            case _:
                return _scalar(node)

    def _record(self, node: yaml.Node, form: type, path: Path_) -> dict[str, object]:
        """Returns the values of a mapping with known keys, which match in any case; null counts as absent."""
        keys, found = keys_of(form), dict[str, object]()
        obsolete: tuple[str, ...] = getattr(form, "OBSOLETE", ())
        same: Callable[[str], str] = str if self._secret else str.lower
        names = {same(name): name for name in (*keys, *obsolete)}

        def named(key: str) -> tuple[str, str]:
            name = names.get(same(key))
            unknown = "" if self._secret else f".{trimmed(key, _SHOWN)}"
            return (same(key), unknown) if name is None else (name, f".{name}")

        for name, (place, value) in self._entries(node, self._places[path], named).items():
            if name in obsolete:
                self._warn(place, "is obsolete and has no effect; remove it")
            elif name not in keys:
                self._unknown(place, name, form)
            elif kind(value) is NodeKind.NULL:
                self._places[*path, name] = place
            else:
                found[name] = self._plain(value, keys[name], (*path, name), place)
        for name in keys:
            if name not in found and Needed() in _annotations(keys[name]):
                self.mistake((*path, name), "is required")
        return found

    def _unknown(self, place: FileLocation, key: str, form: type) -> None:
        *others, last = keys_of(form)
        message = f"unknown key; the nearest known key is {nearest(key, (*others, last))}"
        if self._secret:
            message = f"has an unknown key; the keys are {', '.join(others)} and {last}"
        is_mistake = self._strict or getattr(form, "CLOSED", False)
        (self._note if is_mistake else self._warn)(place, message)

    def _data(self, node: yaml.Node, type_: object, path: Path_) -> dict[str, object]:
        """Returns the values of a mapping whose keys are the operator's, and whose case counts."""
        # A label has dots in it: as Kubernetes writes it.
        step = ".{}" if is_dataclass(_form(type_)) else "[{}]"

        def named(key: str) -> tuple[str, str]:
            return key, step.format(trimmed(key, _SHOWN))

        return {
            name: self._plain(value, type_, (*path, name), place)
            for name, (place, value) in self._entries(node, self._places[path], named).items()
        }

    def _entries(
        self, node: yaml.Node, base: FileLocation, named: Callable[[str], tuple[str, str]]
    ) -> dict[str, tuple[FileLocation, yaml.Node]]:
        """Returns place and value of each key; merged entries (`<<`) never replace the mapping's own.

        Args:
            node: the mapping.
            base: where it is.
            named: makes of a key its name, by which it is known again, and its step in a path.
        """
        found: dict[str, tuple[FileLocation, yaml.Node]] = {}
        merges: list[tuple[FileLocation, yaml.Node]] = []
        for key, value in node.value:
            line = line_of(key)
            if key.tag == _MERGE:
                place = base.inside(".<<", line)
                if merges:
                    self._note(place, f"is given twice, first on line {merges[0][0].line}")
                merges.append((place, value))
            elif kind(key) is not NodeKind.STRING:
                message = f"a key must be a string, not {describe(key)}"
                self._note(base.inside("", line), message)
            else:
                name, step = named(key.value)
                place = base.inside(step, line)
                if name in found:
                    self._note(place, f"is given twice, first on line {found[name][0].line}")
                found.setdefault(name, (place, value))
        for place, merge in merges:
            for each in merge.value if isinstance(merge, yaml.SequenceNode) else [merge]:
                if isinstance(each, yaml.MappingNode):
                    found = self._entries(each, base, named) | found
                else:
                    message = f"must be a mapping or a list of mappings, not {describe(each)}"
                    self._note(place._replace(line=line_of(merge)), message)
        return found

    # Errors to mistakes.

    def _refuse(self, path: Path_, error: str, context: Mapping[str, Any]) -> None:
        """Records an error of pydantic as a mistake of what is at its path."""
        if path and path[-1] == "[key]":
            key = trimmed(str(path[-2]), _SHOWN)
            self.mistake(path[:-1], f'{context["error"]}, not "{key}"')
            return
        node = self.place(path).node
        cause = context.get("error", _SENTENCES[error].format(**context).replace("'", ""))
        message = str(cause)
        if error == "too_short" and node is not None:
            if any(not isinstance(it, tuple) or it[0].tag != _MERGE for it in node.value):
                return  # what is in it is wrong, which is said already
        elif self._secret:
            message += "; quote it" if error == "string_type" else ""
        elif node is not None and not isinstance(cause, Complete):
            unshown = isinstance(cause, Secretive) or error in _OF_SHAPE
            message += f", not {kind(node) if unshown else describe(node)}"
            if str(cause) == "must be a string" and kind(node) in _TAKEN_FOR_OTHERS:
                message += "; quote it" + ("" if unshown else f': "{trimmed(node.value, _SHOWN)}"')
        self.mistake(path, message)


_SENTENCES: Final = {
    "missing": "is required",
    "too_short": "must not be empty",
    "dataclass_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "tuple_type": "must be a list",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "enum": "must be {expected}",
    "value_error": "",
}
"""What is said of each error of pydantic; those of ours say it themselves."""
_OF_SHAPE: Final = frozenset({"dataclass_type", "dict_type", "tuple_type"})
_TAKEN_FOR_OTHERS: Final = frozenset({NodeKind.BOOLEAN, NodeKind.NUMBER})
"""What text becomes that is not quoted."""


def _order(found: Mistake | ConfigWarning) -> tuple[int, str]:
    return (found.line or 0, found.path)
