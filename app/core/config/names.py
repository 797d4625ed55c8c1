"""Names as Kubernetes allows them, and the nearest of several; pure."""

import ipaddress
import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

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
    """Whether it is a DNS-1123 label, as namespaces are."""
    return len(text) <= _MAX_LABEL and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether it is a DNS-1123 subdomain, as most names are."""
    return len(text) <= _MAX_SUBDOMAIN and all(map(_LABEL.fullmatch, text.split(".")))


def is_service(text: str) -> bool:
    """Whether it is a DNS-1035 label, as the names of Services are."""
    return len(text) <= _MAX_LABEL and _LETTER_FIRST.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Whether it can be the key of a label: a name, after `prefix/` where it has one."""
    prefix, slash, name = text.rpartition("/")
    return bool(name) and is_label_value(name) and (not slash or is_subdomain(prefix))


def is_label_value(text: str) -> bool:
    """Whether it can be the value of a label; an empty one can."""
    return not text or (len(text) <= _MAX_LABEL and _LABEL_NAME.fullmatch(text) is not None)


def is_kind(text: str) -> bool:
    """Whether it can be the kind of a resource, as `Deployment` is."""
    return len(text) <= _MAX_LABEL and _KIND.fullmatch(text) is not None


def is_api_version(text: str) -> bool:
    """Whether it is `v1` or `group/version`."""
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
    """Whether it can be the name of a container's port, as `https` is."""
    return len(text) <= _MAX_PORT_NAME and _PORT_NAME.fullmatch(text) is not None


def is_header(text: str) -> bool:
    """Whether it can be the name of an HTTP header, as Kubernetes has them."""
    return _HEADER.fullmatch(text) is not None


def is_host(text: str) -> bool:
    """Whether it is a host's name, which may end in a dot, or an IP address without brackets or zone.

    A name whose last label is a number is none: resolvers would take it for an IPv4 address, or half of one.
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
    """The one of `known` that looks most like `word`, whatever the case; the first of several.

    Raises:
        ValueError: nothing is known.
    """
    wanted = word[:_MAX_COMPARED].lower()
    return max(known, key=lambda each: SequenceMatcher(None, wanted, each.lower()).ratio())
