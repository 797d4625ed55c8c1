"""What a request asks for: the object that its path names, and its options; pure."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final, NamedTuple, Self, TypeVar

import msgspec

from app.core.errors import Invalid
from app.simulation.store import DeleteOptions, Object

T = TypeVar("T")

VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
"""The verbs of the methods that write."""
_CORE: Final = 2
_NAMED: Final = 3
_NAMESPACES: Final = "namespaces"


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
    if rest[0] == _NAMESPACES and len(rest) > _CORE:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > _NAMED:
        return None
    plural, name, part = (*rest, "", "")[:_NAMED]
    return RequestedObject(group, version, plural, namespace, name, part)


Number = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class ListOptions(msgspec.Struct, frozen=True):
    """The query of a list or a watch."""

    labels: str = msgspec.field(default="", name="labelSelector")
    fields: str = msgspec.field(default="", name="fieldSelector")
    limit: Number = 0
    """The page size; 0, or less, for no pages."""
    continues: str = msgspec.field(default="", name="continue")
    version: Number | None = msgspec.field(default=None, name="resourceVersion")
    """The resourceVersion; None if not given."""
    watch: bool = False
    timeout: Number | None = msgspec.field(default=None, name="timeoutSeconds")
    """The timeout of a watch, in seconds."""
    bookmarks: bool = msgspec.field(default=False, name="allowWatchBookmarks")
    initial_events: bool = msgspec.field(default=False, name="sendInitialEvents")
    """Whether the watch begins with all existing objects and a bookmark: `kubectl wait`."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Reads the query of a request; raises Invalid (400) if a value is none of its kind."""
        return _read(cls, {name: value for name, value in query.items() if value}, strict=False)


def _read(kind: type[T], given: Object, *, strict: bool) -> T:
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise Invalid(f"cannot read {kind.__name__}: {error}", status=400) from error


def is_strict(query: Mapping[str, str]) -> bool:
    """Returns whether a write is refused for unknown fields, which are dropped otherwise.

    Raises:
        Invalid: 400, it is only to be tried.
    """
    _refuse_to_try(query.get("dryRun"))
    return query.get("fieldValidation") == "Strict"


def _refuse_to_try(given: object) -> None:
    """Raises Invalid (400) where a write is only to be tried: it must not be made then."""
    if given:
        raise Invalid("dryRun: the simulation cannot try a write", status=400)


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
    found = _read(DeleteOptions, given, strict=bool(body))
    if found.kind != "DeleteOptions":
        raise Invalid(f'no kind "{found.kind}" is registered for this version', status=400)
    _refuse_to_try(found.dry_run)
    return found
