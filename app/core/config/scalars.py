"""Readers of the scalars in a configuration file: each takes a YAML node and returns a plain value.

A reader raises ValueError for a wrong value; the message continues a sentence that begins with the key: "must be …".
"""

import ipaddress
import math
import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final, TypeVar

import yaml

from app.core.config.yaml_nodes import NodeKind, describe, kind
from app.core.errors import trimmed
from app.core.model.policy import OnFailure
from app.core.model.selectors import Operator

# Go's duration strings, exactly as `time.ParseDuration` reads them and `Duration.String` writes them.


EXAMPLE: Final = "a duration such as 30s or 1m40s"

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # the micro sign
    "\u03bcs": 1_000,  # the Greek letter mu; Go reads both
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = re.compile(
    r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)(?=[0-9.]|\Z)"
)
_SMALL: Final = ("ns", "\u00b5s", "ms")
_LIMIT: Final = 2**63
# Go sets no limit. No duration needs this many characters, and parsing unlimited digits would take long.
_MAX_TEXT: Final = 200


def parse_duration(text: str) -> float:
    """Parses a Go duration; returns seconds.

    Raises:
        ValueError: Go would reject `text`; the message says what is allowed.
    """
    unsigned = text[1:] if text[:1] in {"-", "+"} else text
    if unsigned == "0":
        return 0.0
    if not unsigned or len(text) > _MAX_TEXT:
        raise ValueError(f"must be {EXAMPLE}")
    nanoseconds = _sum_of_parts(unsigned)
    negative = text[0] == "-"
    if nanoseconds > _LIMIT - (not negative):
        raise ValueError("must be a duration that Go can hold (292 years)")
    return (-nanoseconds if negative else nanoseconds) / 1e9


def _sum_of_parts(text: str) -> int:
    at, total = 0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(_complaint(text))
        total += _nanoseconds(*part.groups())
        at = part.end()
    return total


def _nanoseconds(whole: str, fraction: str | None, unit: str) -> int:
    scale = _NANOSECONDS[unit]
    digits = fraction or "0"
    while int(digits or 0) > _LIMIT:  # Go ignores the digits that do not fit into 64 bits
        digits = digits[:-1]
    return int(whole or 0) * scale + int(int(digits or 0) * (scale / 10 ** len(digits)))


def _complaint(text: str) -> str:
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?", text):
        return "must be a duration with a unit, such as 30s or 1m40s"
    return f"must be {EXAMPLE} (units: h, m, s, ms, us, ns)"


def format_duration(seconds: float) -> str:
    """Formats seconds as Go does: `0s`, `1.5ms`, `1m40s`, `1h0m0s`; exact to the nanosecond up to 26 days."""
    nanoseconds = round(seconds * 1e9)
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < _NANOSECONDS["s"]:
        return sign + _below_a_second(rest)
    minutes, rest = divmod(rest, _NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    text = _decimal(rest, _NANOSECONDS["s"]) + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _below_a_second(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    unit = max((u for u in _SMALL if _NANOSECONDS[u] <= nanoseconds), key=_NANOSECONDS.__getitem__)
    return _decimal(nanoseconds, _NANOSECONDS[unit]) + unit


def _decimal(value: int, scale: int) -> str:
    whole, rest = divmod(value, scale)
    digits = f"{rest:0{len(str(scale)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)


# Names as Kubernetes validates them.


_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LETTER_FIRST: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PORT_NAME: Final = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_HEADER: Final = re.compile(r"[-A-Za-z0-9]+")
_NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_LABEL: Final = 63
_MAX_PORT_NAME: Final = 15
_MAX_SUBDOMAIN: Final = 253
_MAX_COMPARED: Final = 100


def is_label(text: str) -> bool:
    """Returns whether `text` is a DNS-1123 label, the syntax of namespaces."""
    return len(text) <= _MAX_LABEL and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Returns whether `text` is a DNS-1123 subdomain, the syntax of most names."""
    return len(text) <= _MAX_SUBDOMAIN and all(map(_LABEL.fullmatch, text.split(".")))


def is_service(text: str) -> bool:
    """Returns whether `text` is a DNS-1035 label, the syntax of Service names."""
    return len(text) <= _MAX_LABEL and _LETTER_FIRST.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Returns whether `text` is a valid label key: a name with an optional `prefix/`."""
    prefix, slash, name = text.rpartition("/")
    return bool(name) and is_label_value(name) and (not slash or is_subdomain(prefix))


def is_label_value(text: str) -> bool:
    """Returns whether `text` is a valid label value; the empty string is."""
    return not text or (len(text) <= _MAX_LABEL and _LABEL_NAME.fullmatch(text) is not None)


def is_kind(text: str) -> bool:
    """Returns whether `text` has the syntax of a kind, such as `Deployment`."""
    return len(text) <= _MAX_LABEL and _KIND.fullmatch(text) is not None


def is_api_version(text: str) -> bool:
    """Returns whether `text` is `v1` or `group/version`."""
    if text == "v1":
        return True
    group, slash, version = text.partition("/")
    return (
        bool(slash)
        and is_subdomain(group)
        and len(version) <= _MAX_LABEL
        and bool(_LETTER_FIRST.fullmatch(version))
    )


def is_port_name(text: str) -> bool:
    """Returns whether `text` is a valid name of a container port, such as `https`."""
    return len(text) <= _MAX_PORT_NAME and _PORT_NAME.fullmatch(text) is not None


def is_header(text: str) -> bool:
    """Returns whether `text` is a header name that Kubernetes accepts in `httpHeaders`."""
    return _HEADER.fullmatch(text) is not None


def is_host(text: str) -> bool:
    """Returns whether `text` is a host name, optionally with a final dot, or an IP address without brackets or zone.

    A name whose last label is numeric is rejected: resolvers would parse it as a complete or abbreviated IPv4 address.
    """
    name = text.lower().removesuffix(".")
    if not text.isascii() or not is_subdomain(name) or _NUMERIC.fullmatch(name.rpartition(".")[2]):
        return _is_address(text)
    return True


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and ipaddress.ip_address(text) is not None
    except ValueError:
        return False


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
