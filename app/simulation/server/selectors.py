"""Which objects a list or a watch is about; pure."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from app.core.errors import Invalid
from app.core.model.selectors import LabelSelector, Operator, Requirement
from app.simulation.server.catalog import Resource
from app.simulation.server.checks import is_key, is_label
from app.simulation.server.rendering import served
from app.simulation.store import Object

Chooses = Callable[[Object], bool]

_SET: Final = re.compile(r"(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(r"(?P<key>[^\s!=]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=]*)")
_EXISTS: Final = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s!=()]+)")
_COMMA: Final = re.compile(r",(?![^()]*\))")
_FIELDS: Final = ("metadata.name", "metadata.namespace")


def chooser(labels: str, fields: str, resource: Resource) -> Chooses:
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
    found = _parsed(term)
    if found is None or not is_key(found.key) or not all(map(is_label, found.values)):
        raise Invalid(f"unable to parse requirement: {term}", status=400)
    return found


def _parsed(term: str) -> Requirement | None:
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
    return None


def _field(term: str, resource: Resource) -> Chooses:
    found = _EQUAL.fullmatch(term)
    if found is None or found["key"] not in (*_FIELDS, *resource.fields):
        raise Invalid(f"field label not supported: {term}", status=400)
    path, value, wanted = found["key"].split("."), found["value"], found["op"] != "!="
    return lambda obj: (_at(served(resource, obj), path) == value) is wanted


def _at(obj: Object, path: Sequence[str]) -> object:
    """What is there, in an object; empty where nothing is."""
    for name in path:
        obj = obj.get(name) or {}
    return obj or ""
