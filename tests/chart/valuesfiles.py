"""The values of the chart and their schema, as helm reads them; without helm."""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema_rs import Draft7Validator

from tests.chart.rendering import CHART, Json


@cache
def defaults() -> Json:
    """The values of the chart; read once, and nobody's to change."""
    found: Json = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


@cache
def schema() -> Json:
    """What values may be; read once, and nobody's to change."""
    found: Json = json.loads((CHART / "values.schema.json").read_text())
    return found


@cache
def _checks() -> Draft7Validator:
    return Draft7Validator(schema())  # dear to make


def nested(values: Mapping[str, Any]) -> Json:
    """Values whose keys are paths, `{"api.auth.mode": "token"}`, as helm reads them."""
    found: Json = {}
    for path, value in values.items():
        *parents, key = path.split(".")
        inner = found
        for each in parents:
            inner = inner.setdefault(each, {})
        inner[key] = value
    return found


def refused(*sections: str) -> list[tuple[str, Json]]:
    """What the chart says, and to which values, from these sections of `refused.yaml`."""
    found = yaml.safe_load((Path(__file__).parent / "refused.yaml").read_text(encoding="utf-8"))
    return [
        (sentence, nested(values))
        for section in sections
        for sentence, cases in found[section].items()
        for values in cases
    ]


def over_defaults(values: Mapping[str, Any]) -> Json:
    """What the chart sees: maps are merged, null removes a key, all else replaces."""
    return _merged(defaults(), values)


def _merged(base: Json, over: Mapping[str, Any]) -> Json:
    found = copy.deepcopy(base)
    for key, value in over.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(found.get(key), dict):
            found[key] = _merged(found[key], value)
        else:
            found[key] = value
    return found


def mistakes(values: Mapping[str, Any]) -> dict[str, str]:
    """What the schema says to these values over the defaults: messages by path."""
    found: dict[str, str] = {}
    for error in _checks().iter_errors(over_defaults(values)):
        path = "/".join(str(part) for part in error.instance_path)
        found[path] = f"{found.get(path, '')} {error.message}"
    return found


@dataclass(frozen=True, slots=True)
class Part:
    """A schema within the schema."""

    path: str
    schema: Json


def parts() -> Iterator[Part]:
    """Every schema of a value within the schema, definitions included."""
    yield from _parts("", schema())


def _parts(path: str, found: Json) -> Iterator[Part]:
    yield Part(path, found)
    for word in ("properties", "patternProperties", "definitions"):
        for name, each in found.get(word, {}).items():
            yield from _parts(f"{path}/{name}", each)
    for word in ("items", "additionalProperties"):
        if isinstance(found.get(word), dict):
            yield from _parts(f"{path}/[{word}]", found[word])


def at(path: str) -> Json:
    """The schema of a value, by the path of the value."""
    whole = found = schema()
    for name in path.split("."):
        found = resolved(whole, found)
        found = resolved(whole, found["properties"][name])
    return found


def resolved(whole: Json, found: Json) -> Json:
    """What a reference refers to."""
    while "$ref" in found:
        target = whole
        for name in found["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        found = target
    return found
