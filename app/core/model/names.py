"""Names as Kubernetes validates them."""

import ipaddress
import re
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
