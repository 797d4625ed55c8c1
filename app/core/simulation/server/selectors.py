"""Which objects a list or a watch is about; pure."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from app.core.errors import Invalid
from app.core.simulation.store import Object

Chooses = Callable[[Object], bool]

_SET: Final = re.compile(r"(?P<key>\S+)\s+(?P<op>in|notin)\s+\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(r"(?P<key>[^\s!=]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=]*)")
_EXISTS: Final = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s!=()]+)")
_COMMA: Final = re.compile(r",(?![^()]*\))")
_FIELDS: Final = {"metadata.name": "name", "metadata.namespace": "namespace"}


def chooser(labels: str, fields: str) -> Chooses:
    """What `labelSelector` and `fieldSelector` choose; empty ones choose everything.

    Raises:
        Invalid: one of them cannot be understood, or asks for a field that is not served.
    """
    rules = [_label(term.strip()) for term in _COMMA.split(labels) if term.strip()]
    rules += [_field(term.strip()) for term in fields.split(",") if term.strip()]
    return lambda obj: all(rule(obj) for rule in rules)


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def _label(term: str) -> Chooses:
    if found := _SET.fullmatch(term):
        values = {value.strip() for value in found["values"].split(",")}
        return _one_of(found["key"], values, wanted=found["op"] == "in")
    if found := _EQUAL.fullmatch(term):
        return _one_of(found["key"], {found["value"]}, wanted=found["op"] != "!=")
    if found := _EXISTS.fullmatch(term):
        key, wanted = found["key"], not found["absent"]
        return lambda obj: (key in _labels(obj)) is wanted
    raise Invalid(f"unable to parse requirement: {term}", status=400)


def _one_of(key: str, values: set[str], *, wanted: bool) -> Chooses:
    """An object without the label is in no set: chosen by `notin` and `!=`."""
    return lambda obj: (_labels(obj).get(key) in values) is wanted


def _field(term: str) -> Chooses:
    found = _EQUAL.fullmatch(term)
    if found is None or found["key"] not in _FIELDS:
        raise Invalid(f"field label not supported: {term}", status=400)
    member, value, wanted = _FIELDS[found["key"]], found["value"], found["op"] != "!="
    return lambda obj: (obj["metadata"].get(member, "") == value) is wanted
