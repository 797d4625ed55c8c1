"""Names, labels and label selectors, as Kubernetes validates and compares them."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

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


def bracketed(host: str) -> str:
    """Returns a host as it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and ipaddress.ip_address(text) is not None
    except ValueError:
        return False


class Operator(StrEnum):
    """How a requirement compares a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(NamedTuple):
    """One condition on one label; an entry of `matchLabels` becomes a requirement with In and a single value."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Returns whether these labels fulfil the requirement; as in Kubernetes, a missing label fulfils NotIn."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels
            case _:
                assert_never(self.operator)

    def __str__(self) -> str:
        """The requirement in the syntax of the `labelSelector` query parameter."""
        values = ",".join(sorted(self.values))
        match self.operator:
            case Operator.IN if len(self.values) == 1:
                return f"{self.key}={values}"
            case Operator.IN:
                return f"{self.key} in ({values})"
            case Operator.NOT_IN:
                return f"{self.key} notin ({values})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case _:
                assert_never(self.operator)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements; without any requirement it matches every object."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(each.matches(labels) for each in self.requirements)

    def __str__(self) -> str:
        """The `labelSelector` parameter; empty for the one that matches everything."""
        return ",".join(str(each) for each in self.requirements)
