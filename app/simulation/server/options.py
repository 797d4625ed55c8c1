"""Parses the query of lists and watches, and paths; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

from app.core.errors import Invalid, trimmed
from app.simulation.deletion import DeleteOptions
from app.simulation.store import Object
from app.simulation.validation import Rejected

_NOT_OLDER: Final = "NotOlderThan"
_MOST_DIGITS: Final = 18
_MATCHES: Final = frozenset({"", "Exact", _NOT_OLDER})


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
    """Whether the watch begins with all existing objects and a bookmark (`sendInitialEvents`)."""
    match: str = ""
    """How `version` is matched (`resourceVersionMatch`)."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Reads the query of a request.

        Raises:
            Invalid: a value is none of its kind, or does not go with the others.
        """
        version = query.get("resourceVersion", "")
        timeout = query.get("timeoutSeconds", "")
        options = cls(
            labels=query.get("labelSelector", ""),
            fields=query.get("fieldSelector", ""),
            limit=_limit(query.get("limit", "")),
            continues=query.get("continue", ""),
            version=whole("resourceVersion", version) if version else None,
            watch=truth("watch", query.get("watch", "")),
            timeout=whole("timeoutSeconds", timeout) if timeout else None,
            bookmarks=truth("allowWatchBookmarks", query.get("allowWatchBookmarks", "")),
            initial_events=truth("sendInitialEvents", query.get("sendInitialEvents", "")),
            match=query.get("resourceVersionMatch", ""),
        )
        options._check_match()
        return options

    def _check_match(self) -> None:
        path, problem = "resourceVersionMatch", ""
        if self.match not in _MATCHES:
            problem = f'Unsupported value: "{self.match}"'
        elif self.initial_events and self.match != _NOT_OLDER:
            problem = "Forbidden: sendInitialEvents needs it to be NotOlderThan"
        elif self.match and self.version is None and not self.initial_events:
            problem = "Forbidden: it means nothing without resourceVersion"
        if problem:
            raise Rejected("ListOptions", "", path, problem)


def _limit(text: str) -> int:
    # A negative limit means no limit.
    return 0 if text.startswith("-") else whole("limit", text or "0")


def whole(name: str, text: str) -> int:
    """The number that a parameter of this name is to be; raises Invalid (400) where it is none."""
    found = number(text)
    if found is None:
        shown = trimmed(repr(text))
        raise Invalid(f"{name}: Invalid value: {shown}: must be a number", status=400)
    return found


def number(text: str) -> int | None:
    """The number of 63 bits that a text is, if it is one."""
    if len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def truth(name: str, text: str) -> bool:
    """Whether a parameter of this name says yes; raises Invalid (400) where it says neither yes nor no."""
    match text.lower():
        case "" | "0" | "f" | "false":
            return False
        case "1" | "t" | "true":
            return True
        case _:
            raise Invalid(f"{name}: Invalid value: {text!r}: must be true or false", status=400)


# Paths.


VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
"""The verbs of the methods that write."""
_CORE: Final = 2
_NAMED: Final = 3
_NAMESPACES: Final = "namespaces"
_CHECKED: Final = ("", "Ignore", "Strict", "Warn")


class WriteOptions(NamedTuple):
    """The query of a write other than a deletion."""

    dry_run: bool
    strict: bool
    """Whether unknown fields are refused; otherwise they are dropped."""

    @classmethod
    def parse(cls, query: Mapping[str, str], verb: str) -> Self:
        """Reads the query of a write with this verb.

        Raises:
            Rejected: a value is none of its kind.
        """
        kind, tried = f"{verb.capitalize()}Options", query.get("dryRun", "")
        checked = query.get("fieldValidation", "")
        if tried not in {"", "All"} and verb != "delete":
            problem = f'Unsupported value: ["{tried}"]: supported values: "All"'
            raise Rejected(kind, "", "dryRun", problem)
        if checked not in _CHECKED:
            known = ", ".join(f'"{each}"' for each in _CHECKED)
            problem = f'Unsupported value: "{checked}": supported values: {known}'
            raise Rejected(kind, "", "fieldValidation", problem)
        return cls(bool(tried), checked == "Strict")


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
    words = path.strip("/").split("/")
    match words:
        case ["api", version, *rest] if rest:
            return _target("", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _target(group, version, rest)
        case _:
            return None


def _target(group: str, version: str, rest: list[str]) -> RequestedObject | None:
    if not all(rest) or len(rest) > _CORE + _NAMED:
        return None
    namespace = ""
    of_namespace = rest[_CORE:] == ["status"]  # a part of the Namespace itself
    if rest[0] == _NAMESPACES and len(rest) > _CORE and not of_namespace:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > _NAMED:
        return None
    plural, name, part = (*rest, "", "")[:_NAMED]
    return RequestedObject(group, version, plural, namespace, name, part)


# The DeleteOptions of a request, from its body or, without a body, from its query.


_KIND: Final = "DeleteOptions"
_POLICIES: Final = ("Foreground", "Background", "Orphan", "nil")
_TYPES: Final[Mapping[str, type]] = {
    "preconditions": dict,
    "gracePeriodSeconds": int,
    "propagationPolicy": str,
    "orphanDependents": bool,
    "dryRun": list,
}
_PRECONDITIONS: Final[Mapping[str, type]] = {"uid": str, "resourceVersion": str}


class DeletionRequest(NamedTuple):
    """A requested deletion."""

    options: DeleteOptions
    keeps_dependents: bool | None = None
    """`orphanDependents`; it only affects the status code, as the simulation has no garbage collector."""

    def code(self, *, gone: bool) -> int:
        """Returns the HTTP status: 202 if the object is not gone yet and its dependents are to be deleted, else 200."""
        return 202 if self.keeps_dependents is False and not gone else 200


def asked_in(body: Object, query: Mapping[str, str]) -> DeletionRequest:
    """Reads the options of a deletion.

    Raises:
        Invalid: 400, they are of another kind, or one is of a wrong type; 422, one has a value that is none.
    """
    options = body or _of(query)
    kind = options.get("kind", _KIND)
    if kind != _KIND:
        raise Invalid(f'no kind "{kind}" is registered for this version', status=400)
    _check_types(options, _TYPES, "")
    preconditions = options.get("preconditions") or {}
    _check_types(preconditions, _PRECONDITIONS, "preconditions.")
    _check_values(options)
    wanted = DeleteOptions(
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        grace=options.get("gracePeriodSeconds"),
        dry_run=bool(options.get("dryRun")),
    )
    return DeletionRequest(wanted, options.get("orphanDependents"))


def _of(query: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if grace := query.get("gracePeriodSeconds"):
        found["gracePeriodSeconds"] = whole("gracePeriodSeconds", grace)
    if policy := query.get("propagationPolicy"):
        found["propagationPolicy"] = policy
    if orphan := query.get("orphanDependents"):
        found["orphanDependents"] = truth("orphanDependents", orphan)
    if dry_run := query.get("dryRun"):
        found["dryRun"] = [dry_run]
    return found


def _check_types(members: Object, types: Mapping[str, type], path: str) -> None:
    for name, expected in types.items():
        value = members.get(name)
        if value is not None and type(value) is not expected:
            raise Invalid(f"cannot read {_KIND}.{path}{name} as {expected.__name__}", status=400)


def _check_values(options: Object) -> None:
    policy, dry_run = options.get("propagationPolicy"), options.get("dryRun") or []
    if policy is not None and options.get("orphanDependents") is not None:
        problem = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        raise Rejected(_KIND, "", "propagationPolicy", problem)
    if policy not in (None, *_POLICIES):
        known = ", ".join(f'"{each}"' for each in _POLICIES)
        problem = f'Unsupported value: "{policy}": supported values: {known}'
        raise Rejected(_KIND, "", "propagationPolicy", problem)
    if dry_run not in ([], ["All"]):
        raise Rejected(_KIND, "", "dryRun", 'Unsupported value: supported values: "All"')
