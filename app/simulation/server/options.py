"""What a request asks for: the object that its path names, and its options; pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Self

import msgspec

from app.core.errors import Invalid, trimmed
from app.simulation.definitions import Rejected
from app.simulation.deletion import DeleteOptions
from app.simulation.store import Object

VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
"""The verbs of the methods that write."""
_CORE: Final = 2
_NAMED: Final = 3
_NAMESPACES: Final = "namespaces"
_MOST_DIGITS: Final = 18
_CHECKED: Final = ("", "Ignore", "Strict", "Warn")


class RequestedObject(NamedTuple):
    """The resource and object that a path names; parts that it does not name are empty."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    part: str = ""
    """The subresource."""


@lru_cache(maxsize=4_096)
def parse(path: str) -> RequestedObject | None:
    """Parses `/api/v1/…` or `/apis/GROUP/VERSION/…`; returns None for other paths."""
    match path.strip("/").split("/"):
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return None
    namespace = ""
    if not all(rest):
        return None
    of_namespace = rest[_CORE:] == ["status"]  # a part of the Namespace itself
    if rest[0] == _NAMESPACES and len(rest) > _CORE and not of_namespace:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > _NAMED:
        return None
    plural, name, part = (*rest, "", "")[:_NAMED]
    return RequestedObject(group, version, plural, namespace, name, part)


def number(text: str) -> int | None:
    """The number of 63 bits that a text is, if it is one."""
    if len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def _whole(query: Mapping[str, str], name: str) -> int | None:
    """The number that a parameter is, None where it is absent; raises Invalid (400) where it is none."""
    text = query.get(name, "")
    found = number(text)
    if text and found is None:
        shown = trimmed(repr(text))
        raise Invalid(f"{name}: Invalid value: {shown}: must be a number", status=400)
    return found


def _truth(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in {"1", "t", "true"}


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The query of a list or a watch."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    """The page size; 0 for no pages."""
    continues: str = ""
    version: int | None = None
    """The resourceVersion; None if not given."""
    watch: bool = False
    timeout: int | None = None
    """The timeout of a watch, in seconds."""
    bookmarks: bool = False
    initial_events: bool = False
    """Whether the watch begins with all existing objects and a bookmark (`sendInitialEvents`): `kubectl wait`."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Reads the query of a request; raises Invalid (400) if a value is none of its kind."""
        unlimited = query.get("limit", "").startswith("-")
        return cls(
            labels=query.get("labelSelector", ""),
            fields=query.get("fieldSelector", ""),
            limit=0 if unlimited else _whole(query, "limit") or 0,
            continues=query.get("continue", ""),
            version=_whole(query, "resourceVersion"),
            watch=_truth(query, "watch"),
            timeout=_whole(query, "timeoutSeconds"),
            bookmarks=_truth(query, "allowWatchBookmarks"),
            initial_events=_truth(query, "sendInitialEvents"),
        )


def is_strict(query: Mapping[str, str], verb: str) -> bool:
    """Returns whether a write with this verb is refused for unknown fields, which are dropped otherwise.

    Raises:
        Invalid: 400, it is only to be tried; 422, it asks for a validation that there is not.
    """
    _refuse_to_try(query.get("dryRun"))
    if (found := query.get("fieldValidation", "")) not in _CHECKED:
        supported = ", ".join(map(json.dumps, _CHECKED))
        problem = f"Unsupported value: {json.dumps(found)}: supported values: {supported}"
        raise Rejected(f"{verb.capitalize()}Options", "", "fieldValidation", problem)
    return found == "Strict"


def _refuse_to_try(given: object) -> None:
    """Raises Invalid (400) where a write is only to be tried: it must not be made then."""
    if given:
        raise Invalid("dryRun: the simulation cannot try a write", status=400)


class _Preconditions(msgspec.Struct):
    uid: str | None = None
    version: str | None = msgspec.field(default=None, name="resourceVersion")


class _DeleteOptions(msgspec.Struct):
    kind: str = "DeleteOptions"
    preconditions: _Preconditions | None = None
    grace: int | None = msgspec.field(default=None, name="gracePeriodSeconds")
    dry_run: list[str] | None = msgspec.field(default=None, name="dryRun")


def deletion(body: Object, query: Mapping[str, str]) -> DeleteOptions:
    """Reads the options of a deletion, from its body or, without a body, from its query.

    Raises:
        Invalid: 400, they are of another kind, one is of a wrong type, or the deletion is only to be tried.
    """
    given = body or {
        name: [value] if name == "dryRun" else value
        for name, value in query.items()
        if name in {"gracePeriodSeconds", "dryRun"}
    }
    try:
        found = msgspec.convert(given, _DeleteOptions, strict=bool(body))
    except msgspec.ValidationError as error:
        raise Invalid(f"cannot read DeleteOptions: {error}", status=400) from error
    if found.kind != "DeleteOptions":
        raise Invalid(f'no kind "{found.kind}" is registered for this version', status=400)
    _refuse_to_try(found.dry_run)
    wanted = found.preconditions or _Preconditions()
    return DeleteOptions(wanted.uid, wanted.version, found.grace)
