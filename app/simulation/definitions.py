"""What an API server does with an object before it stores it: defaults, pruning, validation; pure.

Of built-in kinds it knows the few limits that matter here; custom resources are as their definitions describe them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple, Self

from app.core.errors import Invalid
from app.core.model.instants import parse_duration

SIZED: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
"""Kinds of `apps/v1` that have `spec.replicas`."""
SIZES: Final = ("replicas", "size")
"""The fields of `spec` that `scale` reads and writes for other kinds."""
_COUNTS: Final = dict.fromkeys(SIZES, 0)
_OF_LEASES: Final = {"leaseDurationSeconds": 1, "leaseTransitions": 0}
_INT32: Final = 1 << 31


class Problem(NamedTuple):
    """What is wrong with a field."""

    path: str
    text: str


class Rejected(Invalid):
    """An object has wrong values: 422."""

    def __init__(self, kind: str, name: str, path: str, problem: str, *more: Problem) -> None:
        self.kind, self.name = kind, name
        self.problems = (Problem(path, problem), *more)
        super().__init__(self.titled(kind), status=422)

    def titled(self, kind: str) -> str:
        """Returns the message that calls the kind so."""
        told = ", ".join(f"{path}: {text}" for path, text in self.problems)
        told = f"[{told}]" if len(self.problems) > 1 else told
        return f'{kind} "{self.name}" is invalid: {told}'


def completed(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Returns the object with the defaults that the server fills in."""
    if kind in SIZED and "spec" in body and body["spec"].get("replicas") is None:
        return {**body, "spec": {**body["spec"], "replicas": 1}}
    return body


def validate(kind: str, name: str, body: Mapping[str, Any]) -> None:
    """Checks the numbers of replicas of an object, or the numbers of a Lease; raises Rejected if one is wrong."""
    spec = body.get("spec") or {}
    for member, least in (_OF_LEASES if kind == "Lease" else _COUNTS).items():
        if spec.get(member) is not None:
            check_count(kind, name, f"spec.{member}", spec[member], least=least)


def check_count(kind: str, name: str, path: str, value: object, *, least: int = 0) -> None:
    """Raises Rejected unless a value is a number of 32 bits, and `least` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _INT32:
        problem = f"Invalid value: {value}: must be greater than or equal to {least}"
        raise Rejected(kind, name, path, problem)


# What is served, and custom resources by their definitions.


OBJECT_VERBS: Final = ("create", "delete", "get", "list", "patch", "watch")


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource of an API server."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    parts: tuple[str, ...] = ()
    """The subresources."""
    short: str = ""
    """Short names for kubectl."""
    stored: bool = True
    """Whether objects are stored; reviews, for example, are only answered."""
    fields: tuple[str, ...] = ()
    """The supported field selectors, in addition to name and namespace."""
    verbs: tuple[str, ...] = OBJECT_VERBS

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """The name in error messages, which includes the group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


Json = Any
Schema = Mapping[str, Any]

# What a schema may say. Anything else is refused, so that no rule is silently left out.
_UNDERSTOOD: Final = frozenset(
    {
        *("type", "description", "properties", "required", "items", "default", "enum", "format"),
        *("minLength", "maxLength", "minimum", "maxItems", "x-kubernetes-validations"),
    }
)
_RULES: Final = "x-kubernetes-validations"
_EVERYWHERE: Final[Schema] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}
_HOLD: Final = re.compile(r"([0-9]+([.][0-9]+)?(ms|s|m|h))+")
_DAY: Final = 86_400.0
# The rules in CEL that the definitions have: there is no interpreter here.
_MEANING: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "self == oldSelf": lambda value, before: value == before,
    "self.trim() != ''": lambda value, _: bool(value.strip()),
    "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) <= duration('24h')": (
        lambda value, _: _HOLD.fullmatch(value) is not None and parse_duration(value) <= _DAY
    ),
}
# Beside these problems, the rules in CEL are not evaluated.
_BLOCKING: Final = re.compile(r"Required|Unsupported|Too |.* must be of type", re.DOTALL)
_TYPES: Final = {str: "string", bool: "boolean", int: "integer", list: "array", dict: "object"}
_CLOCK: Final = re.compile(r"([01]\d|2[0-3])(:[0-5]\d){2}(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Definition(ServedResource):
    """A custom resource, as its CustomResourceDefinition describes it."""

    categories: tuple[str, ...]
    columns: tuple[Mapping[str, Any], ...]
    """Those of the table that kubectl prints, as the definition has them."""
    schema: Schema

    @classmethod
    def read(cls, document: Json) -> Self:
        """Reads a CustomResourceDefinition that has one version and one short name.

        Raises:
            ValueError: its schema says something that is not understood here.
        """
        spec = document["spec"]
        names, (version,) = spec["names"], spec["versions"]
        (short,) = names["shortNames"]
        schema = version["schema"]["openAPIV3Schema"]
        for each in _all(schema):
            rules = {rule["rule"] for rule in each.get(_RULES, ())}
            strange = (each.keys() - _UNDERSTOOD) | (rules - _MEANING.keys())
            if strange or each.get("format") not in (None, "date-time"):
                raise ValueError(f"not understood in a schema: {sorted(strange) or each['format']}")
        return cls(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            parts=tuple(version["subresources"]),
            short=short,
            categories=tuple(names["categories"]),
            columns=tuple(version["additionalPrinterColumns"]),
            schema={**schema, "properties": {**_EVERYWHERE, **schema["properties"]}},
        )

    def completed(self, body: Schema) -> dict[str, Any]:
        """Returns an object with the defaults, and without unknown fields and fields that are null."""
        done: dict[str, Any] = _completed(self.schema, body, "", [])
        return done

    def unknown(self, body: Schema) -> list[str]:
        """Returns the paths of the fields that the schema does not know."""
        found: list[str] = []
        _completed(self.schema, body, "", found)
        return sorted(found)

    def problems(self, body: Schema, before: Schema | None) -> list[Problem]:
        """Returns what is wrong with an object that is new, or replaces `before`.

        If only the status was written, only that is judged.
        """
        schema, value, former, root = self.schema, body, before, ""
        if before is not None and body.get("spec") == before.get("spec"):
            if body.get("status") in (None, before.get("status")):
                return []
            root, schema = "status", self.schema["properties"]["status"]
            value, former = body["status"], before.get("status")
        found = list(_problems(schema, value, root))
        if any(_BLOCKING.match(each.text) for each in found):
            return found
        return [*found, *_broken(schema, value, former, root)]


def _all(schema: Schema) -> Iterator[Schema]:
    """Yields a schema and those of its members."""
    yield schema
    members = [*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])]
    for each in members:
        yield from _all(each)


def _completed(schema: Schema, value: Json, path: str, unknown: list[str]) -> Json:
    if isinstance(value, list) and "items" in schema:
        numbered = enumerate(value)
        return [_completed(schema["items"], each, f"{path}[{n}]", unknown) for n, each in numbered]
    known = schema.get("properties")
    if known is None or not isinstance(value, Mapping):
        return value
    unknown.extend(_under(path, name) for name in value if name not in known)
    given = {name: each["default"] for name, each in known.items() if "default" in each}
    given |= {name: each for name, each in value.items() if name in known and each is not None}
    return {
        name: _completed(known[name], each, _under(path, name), unknown)
        for name, each in given.items()
    }


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _problems(schema: Schema, value: Json, path: str) -> Iterator[Problem]:
    """Yields what is wrong with a value by its schema; reasons and fields are those of a kube-apiserver."""
    found, wanted = _TYPES.get(type(value), "null"), schema.get("type")
    if isinstance(value, float):
        found = "integer" if value.is_integer() else "number"
    if "format" in schema:
        wanted = found if _is_time(value) else "date-time"
    if wanted not in (None, found):
        yield Problem(path, f"Invalid value: {json.dumps(value)}: must be of type {wanted}")
    else:
        yield from _of_value(schema, value, path)
    if value not in schema.get("enum", (value,)):
        supported = ", ".join(map(json.dumps, schema["enum"]))
        text = f"Unsupported value: {json.dumps(value)}: supported values: {supported}"
        yield Problem(path, text)


def _of_value(schema: Schema, value: Json, path: str) -> Iterator[Problem]:
    match value:
        case str():
            if len(value) < (least := schema.get("minLength", 0)):
                text = f"Invalid value: {json.dumps(value)}: should be at least {least} chars long"
                yield Problem(path, text)
            if len(value) > (most := schema.get("maxLength", len(value))):
                yield Problem(path, f"Too long: may not be more than {most} bytes")
        case int() if value < (least := schema.get("minimum", value)):
            text = f"Invalid value: {value}: should be greater than or equal to {least}"
            yield Problem(path, text)
        case list():
            if len(value) > (most := schema.get("maxItems", len(value))):
                yield Problem(path, f"Too many: {len(value)}: must have at most {most} items")
            for number, each in enumerate(value):
                yield from _problems(schema["items"], each, f"{path}[{number}]")
        case Mapping():
            for name, each in schema.get("properties", {}).items():
                if name in value:
                    yield from _problems(each, value[name], _under(path, name))
                elif name in schema.get("required", ()):
                    yield Problem(_under(path, name), "Required value")
        case _:
            return


def _broken(schema: Schema, value: Json, before: Json, path: str) -> Iterator[Problem]:
    """Yields the rules that do not hold; those about a former value are only evaluated where there is one."""
    for rule in schema.get(_RULES, ()):
        if before is None and "oldSelf" in rule["rule"]:
            continue
        shown = f"{json.dumps(value)}: " if isinstance(value, str) else ""
        try:
            holds = _MEANING[rule["rule"]](value, before)
        except ValueError:  # no duration at all
            holds = False
        if not holds:
            yield Problem(path, f"Invalid value: {shown}{rule['message']}")
    if isinstance(value, Mapping):
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                former = (before or {}).get(name)
                yield from _broken(inner, value[name], former, _under(path, name))


def _is_time(value: object) -> bool:
    day, _, clock = value.upper().partition("T") if isinstance(value, str) else ("", "", "")
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return _CLOCK.fullmatch(clock) is not None
