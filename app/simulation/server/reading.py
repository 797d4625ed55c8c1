"""Reads from a store: one object, or a list whose pages all show the same instant."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from app.core.errors import Expired, Invalid, NotFound
from app.core.model.names import LabelSelector, Operator, Requirement
from app.simulation.definitions import ServedResource
from app.simulation.server.options import ListOptions, RequestedObject
from app.simulation.server.rendering import field_at, served
from app.simulation.store import Object, ObjectKey, StartedList, Store, version_of

# Selectors of lists and watches.


Chooses = Callable[[Object], bool]

_KEY: Final = r"(?P<key>[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?)"
_VALUE: Final = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET: Final = re.compile(rf"{_KEY}\s+(?P<op>in|notin)\s*\((?P<values>{_VALUE}(\s*,\s*{_VALUE})*)\)")
_EQUAL: Final = re.compile(rf"{_KEY}\s*(?P<op>==|=|!=)\s*(?P<value>{_VALUE})")
_EXISTS: Final = re.compile(rf"(?P<absent>!?)\s*{_KEY}")
_COMMA: Final = re.compile(r",(?![^()]*\))")
_FIELD: Final = re.compile(r"(?P<key>[^\s!=]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=]*)")
_FIELDS: Final = ("metadata.name", "metadata.namespace")


def chooser(labels: str, fields: str, resource: ServedResource) -> Chooses:
    """What `labelSelector` and `fieldSelector` choose of a resource; empty ones choose everything.

    Raises:
        Invalid: one of them cannot be understood, or asks for a field that is not served.
    """
    selector = label_selector(labels)
    rules = [_field(term.strip(), resource) for term in fields.split(",") if term.strip()]
    return lambda obj: (
        selector.matches(obj["metadata"].get("labels") or {}) and all(rule(obj) for rule in rules)
    )


def label_selector(text: str) -> LabelSelector:
    """A `labelSelector` parameter.

    Raises:
        Invalid: it cannot be understood.
    """
    terms = _COMMA.split(text) if text.strip() else []
    return LabelSelector(tuple(_requirement(term.strip()) for term in terms))


def _requirement(term: str) -> Requirement:
    if found := _SET.fullmatch(term):
        values = frozenset(value.strip() for value in found["values"].split(","))
        operator = Operator.IN if found["op"] == "in" else Operator.NOT_IN
        return Requirement(found["key"], operator, values)
    if found := _EQUAL.fullmatch(term):
        operator = Operator.NOT_IN if found["op"] == "!=" else Operator.IN
        return Requirement(found["key"], operator, frozenset({found["value"]}))
    if found := _EXISTS.fullmatch(term):
        operator = Operator.DOES_NOT_EXIST if found["absent"] else Operator.EXISTS
        return Requirement(found["key"], operator)
    raise Invalid(f"unable to parse requirement: {term}", status=400)


def _field(term: str, resource: ServedResource) -> Chooses:
    found = _FIELD.fullmatch(term)
    if found is None or found["key"] not in (*_FIELDS, *resource.fields):
        raise Invalid(f"field label not supported: {term}", status=400)
    read, value, wanted = field_at(*found["key"].split(".")), found["value"], found["op"] != "!="
    return lambda obj: (read(served(resource, obj)) == value) is wanted


# The maximum number of lists with further pages, each of which keeps its objects in memory.
_KEPT: Final = 16
_TOKEN: Final = re.compile(r"(?P<list>[0-9]{1,18})\.(?P<first>[0-9]{1,18})")


class StoredPage(NamedTuple):
    """One page of a list."""

    items: tuple[Object, ...]
    version: int
    continues: str = ""
    """The continue token; empty for the last page."""


def page_of(obj: Object) -> StoredPage:
    """Returns one object as a list of its own."""
    return StoredPage((obj,), int(version_of(obj)))


def key_of(resource: ServedResource, target: RequestedObject) -> ObjectKey:
    """Returns the key of the object that a path names."""
    return ObjectKey(resource.kind, target.namespace, target.name)


class StoreReader:
    """Executes the reads of clients on one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._started = store.started_lists

    def page(
        self, resource: ServedResource, target: RequestedObject, options: ListOptions
    ) -> StoredPage:
        """Returns a list, or one page of it.

        Raises:
            Expired: the page after the one that is continued is no longer known.
            Invalid: a selector or a page token is none.
        """
        if options.continues:
            asked = _TOKEN.fullmatch(options.continues)
            if asked is None:
                raise Invalid("continue key is not valid", status=400)
            token, begin = asked["list"], int(asked["first"])
            snapshot = self._started.get(token)
            forgotten = self._store.forgotten(resource.kind)
            if snapshot is None or snapshot.about != target or snapshot.version < forgotten:
                raise Expired(
                    "The provided continue parameter is too old to display a consistent list result",
                    status=410,
                )
        else:
            found = self._store.list(resource.kind, target.namespace or None)
            if options.labels or options.fields:
                found = tuple(filter(chooser(options.labels, options.fields, resource), found))
            snapshot, begin = StartedList(target, resource.kind, found, self._store.version), 0
            token = str(next(self._store.list_numbers))
        end = begin + options.limit if options.limit > 0 else len(snapshot.items)
        if end >= len(snapshot.items):
            self._started.pop(token, None)
            return StoredPage(snapshot.items[begin:end], snapshot.version)
        self._started[token] = snapshot
        self._started.move_to_end(token)
        while len(self._started) > _KEPT:
            self._started.popitem(last=False)
        return StoredPage(snapshot.items[begin:end], snapshot.version, f"{token}.{end}")


def existing(store: Store, resource: ServedResource, target: RequestedObject) -> Object:
    """Returns the object that a path names.

    Raises:
        NotFound: there is none.
    """
    found = store.find(key_of(resource, target))
    if found is None:
        raise NotFound(f'{resource.title} "{target.name}" not found', status=404)
    return found
