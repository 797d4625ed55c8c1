"""Readers of the scalars of an endpoint probe, with the validation of Kubernetes: YAML nodes in, plain values out.

A reader raises ValueError as those of `scalars` do. Messages omit values that may contain a secret.
"""

import re
from typing import Final

import yaml

from app.core.config.flag_values import NAMESPACE_HOLE
from app.core.config.scalars import choice, quotable, shaped, string, whole
from app.core.config.yaml_nodes import NodeKind, describe, kind
from app.core.model.endpoints import Effect, Port, ProbeType, Scheme
from app.core.model.names import is_header, is_host, is_label, is_port_name

MAX_PORT: Final = 65535
# A sample control-plane namespace, substituted for the placeholder before a host is checked.
_NAMESPACE: Final = "shoot--project--name"
# Visible ASCII without `#`: a fragment is never sent to a server.
_PATH: Final = re.compile(r"/[!-\"$-~]*")
# Control characters that a header value must not contain; a tab is allowed.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OF_THE_CONNECTION: Final = frozenset(
    {"connection", "content-length", "te", "trailer", "transfer-encoding", "upgrade"}
)

probe_name: Final = shaped(
    is_label, "at most 63 lower case letters, digits and -, a letter or digit at both ends"
)
container_name: Final = shaped(is_label, "the name of a container")
probe_type: Final = choice(ProbeType)
effect: Final = choice(Effect)
scheme: Final = choice(Scheme)
port_number: Final = whole(1, MAX_PORT)


def port(node: yaml.Node) -> Port:
    """Reads a port: its number, or the name of a container port."""
    if kind(node) is NodeKind.NUMBER:
        return port_number(node)
    if kind(node) is not NodeKind.STRING or not is_port_name(node.value):
        shape = f"a whole number from 1 to {MAX_PORT} or the name of a container's port"
        raise ValueError(f"must be {shape}, not {describe(node)}")
    return str(node.value)


def host(node: yaml.Node) -> str:
    """Reads a host: a name, which may contain `{namespace}`, or an IP address."""
    text = string(node)
    if not is_host(text.replace(NAMESPACE_HOLE, _NAMESPACE)):
        # Text before an @ may contain a password, and a query may contain a token.
        found = "" if {"@", "?"} & {*text} else f", not {describe(node)}"
        shape = f"a host's name, in which {NAMESPACE_HOLE} may stand, or an IP address"
        raise ValueError(f"must be {shape}, without scheme, user, port, path or brackets{found}")
    return text


def path(node: yaml.Node) -> str:
    """Reads a path with an optional query; an empty one means `/`."""
    text = quotable(node) or "/"
    if not _PATH.fullmatch(text):
        shape = (
            "a path that begins with / (ASCII without spaces and #; %20 and the like for others)"
        )
        found = "" if "?" in text else f", not {describe(node)}"
        raise ValueError(f"must be {shape}{found}")
    return text


def header_name(node: yaml.Node) -> str:
    """Reads the name of a header; those that control the connection cannot be set."""
    text = quotable(node)
    if not is_header(text):
        # People sometimes write a complete header, whose value may be a secret, in place of the name.
        found = "" if ":" in text else f", not {describe(node)}"
        raise ValueError(f"must be letters, digits and -{found}")
    if text.lower() in _OF_THE_CONNECTION:
        raise ValueError(f"must not be {text}: it belongs to the connection")
    return text


def one_line(node: yaml.Node) -> str:
    """Reads text without control characters other than tabs; it may be a secret, so messages never contain it."""
    text = _unshown(node)
    if _CONTROLS.search(text):
        raise ValueError("must be one line without control characters")
    return text


def argument(node: yaml.Node) -> str:
    """Reads one argument of a command, which may have several lines; messages never contain it."""
    text = _unshown(node)
    if "\0" in text:
        raise ValueError("must not have a NUL in it")
    return text


def _unshown(node: yaml.Node) -> str:
    found = kind(node)
    if found is NodeKind.STRING:
        return str(node.value)
    hint = "; quote it" if found in {NodeKind.BOOLEAN, NodeKind.NUMBER} else ""
    raise ValueError(f"must be a string, not {found}{hint}")
