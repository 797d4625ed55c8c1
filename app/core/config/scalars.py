"""Readers of the scalars in a configuration file: each takes a YAML node and returns a plain value.

A reader raises ValueError for a wrong value; the message continues a sentence that begins with the key: "must be …".
"""

import math
import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final, TypeVar

import yaml

from app.core.config.yaml_nodes import NodeKind, describe, kind
from app.core.errors import trimmed
from app.core.model.durations import EXAMPLE, parse_duration
from app.core.model.names import (
    is_api_version,
    is_kind,
    is_label_key,
    is_label_value,
    is_service,
    is_subdomain,
)
from app.core.model.policy import OnFailure
from app.core.model.selectors import Operator

_MAX_COMPARED: Final = 100


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns the element of `known` that is most similar to `word`, ignoring case; the first one of equals.

    Raises:
        ValueError: `known` is empty.
    """
    wanted = word[:_MAX_COMPARED].lower()
    return max(known, key=lambda each: SequenceMatcher(None, wanted, each.lower()).ratio())


T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
Reader = Callable[[yaml.Node], T]

MAX_WHOLE: Final = 2**31 - 1
_WHOLE: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)
_MAX_DIGITS: Final = 10
_SHOWN: Final = 60
_TRUE: Final = frozenset({"true", "yes", "on"})


def boolean(node: yaml.Node) -> bool:
    """Reads true or false, or YAML 1.1's yes, no, on and off, as Kubernetes does."""
    if kind(node) is not NodeKind.BOOLEAN:
        raise ValueError(f"must be true or false, not {describe(node)}")
    return str(node.value).lower() in _TRUE


def whole(least: int, most: int = MAX_WHOLE) -> Reader[int]:
    """Returns a reader of whole numbers from `least` to `most`."""

    def read(node: yaml.Node) -> int:
        if kind(node) is not NodeKind.NUMBER or not _WHOLE.fullmatch(node.value):
            raise ValueError(f"must be a whole number, not {describe(node)}")
        if len(node.value) > _MAX_DIGITS + 1 or not least <= int(node.value) <= most:
            raise ValueError(f"must be from {least} to {most}, not {describe(node)}")
        return int(node.value)

    return read


def fraction(*, zero: bool) -> Reader[float]:
    """Returns a reader of numbers up to 1: from 0 if `zero`, otherwise above 0."""

    def read(node: yaml.Node) -> float:
        value = _number(node)
        if not (0 <= value <= 1) or (value == 0 and not zero):
            limits = "from 0 to 1" if zero else "above 0 and at most 1"
            raise ValueError(f"must be {limits}, not {describe(node)}")
        return value

    return read


def _number(node: yaml.Node) -> float:
    text = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
    # YAML 1.1 reads 1e-1 as a string, Kubernetes as a number; here it is a number if unquoted.
    style = getattr(node, "style", None)  # only scalars have one
    plain = kind(node) is NodeKind.NUMBER or (kind(node) is NodeKind.STRING and not style)
    if plain and _NOT_FINITE.fullmatch(text):
        raise ValueError(f"must be a finite number, not {text}")
    if not plain or not _NUMBER.fullmatch(text):
        raise ValueError(f"must be a number, not {describe(node)}")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {describe(node)}")
    return value


def duration(*, zero: bool) -> Reader[float]:
    """Returns a reader of Go durations, which returns seconds: from 0 if `zero`, otherwise above 0."""

    def read(node: yaml.Node) -> float:
        if kind(node) not in {NodeKind.STRING, NodeKind.NUMBER}:
            raise ValueError(f"must be {EXAMPLE}, not {describe(node)}")
        try:
            seconds = parse_duration(node.value)
        except ValueError as error:
            raise ValueError(f"{error}, not {describe(node)}") from error
        if seconds < 0 or (seconds == 0 and not zero):
            raise ValueError(f"must be {'0s or more' if zero else 'above 0s'}, not {node.value}")
        return seconds

    return read


def string(node: yaml.Node) -> str:
    """Reads text that is not blank."""
    if kind(node) is not NodeKind.STRING:
        raise ValueError(f"must be a string, not {describe(node)}")
    if not node.value.strip():
        raise ValueError("must not be blank")
    return str(node.value)


def shaped(fits: Callable[[str], bool], shape: str) -> Reader[str]:
    """Returns a reader of text for which `fits` is true; `shape` describes such text in the error message."""

    def read(node: yaml.Node) -> str:
        text = string(node)
        if not fits(text):
            raise ValueError(f"must be {shape}, not {describe(node)}")
        return text

    return read


object_name: Final = shaped(
    is_subdomain, "a name as Kubernetes allows it (lower case letters, digits, - and .)"
)
api_version: Final = shaped(is_api_version, "v1 or group/version, such as apps/v1")
resource_kind: Final = shaped(is_kind, "a kind in CamelCase, such as Deployment")


def choice(choices: type[E]) -> Reader[E]:
    """Returns a reader of the values of `choices`; case matters."""
    *others, last = choices
    named = f"{', '.join(others)} or {last}"

    def read(node: yaml.Node) -> E:
        text = string(node)
        if text not in set(choices):
            raise ValueError(f"must be {named}, not {describe(node)}")
        return choices(text)

    return read


on_failure: Final = choice(OnFailure)
operator: Final = choice(Operator)


def service_name(text: str) -> str:
    """Checks the name of a Service; takes text rather than a node because it is a key of the file."""
    if not is_service(text):
        shape = "at most 63 lower case letters, digits and -, a letter first and no - last"
        raise ValueError(f"must be the name of a Service ({shape})")
    return text


def label_key(text: str) -> str:
    """Checks the key of a label; takes text because in `matchLabels` it is a key of the file."""
    if not is_label_key(text):
        example = "such as role or gardener.cloud/role"
        raise ValueError(f"must be the key of a label, {example}, not {_quoted(text)}")
    return text


def label_key_of(node: yaml.Node) -> str:
    """Reads the key of a label from `matchExpressions`."""
    return label_key(quotable(node))


def label_value(node: yaml.Node) -> str:
    """Reads the value of a label; values that YAML would not read as text must be quoted."""
    text = quotable(node)
    if not is_label_value(text):
        shape = "at most 63 letters, digits, -, _ and ., a letter or digit at both ends"
        raise ValueError(f"must be the value of a label ({shape}), not {describe(node)}")
    return text


def quotable(node: yaml.Node) -> str:
    """Reads text, which may be blank; values that YAML would not read as text must be quoted."""
    if kind(node) in {NodeKind.BOOLEAN, NodeKind.NUMBER}:
        hint = f"quote it: {_quoted(node.value)}"
        raise ValueError(f"must be a string, not {describe(node)}; {hint}")
    if kind(node) is not NodeKind.STRING:
        raise ValueError(f"must be a string, not {describe(node)}")
    return str(node.value)


def _quoted(text: str) -> str:
    return f'"{trimmed(text, _SHOWN)}"'
