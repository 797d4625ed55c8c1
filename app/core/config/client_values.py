"""Parsers for the flags of the client's commands: the server's URL, a Deployment, a reason; pure.

A parser raises ValueError for a wrong value; the message continues a sentence that begins with the flag: "must be …".
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, Literal

from app.core.errors import trimmed
from app.core.model.names import is_label, is_subdomain

Scheme = Literal["http", "https"]

_PORTS: Final[dict[Scheme, int]] = {"http": 80, "https": 443}
_MAX_PORT: Final = 65535
_MAX_REASON: Final = 300
_SHOWN: Final = 100
_ORIGIN: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?/?"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of a server."""

    scheme: Scheme
    host: str
    """A name or an IP address, without brackets."""
    port: int

    @property
    def loopback(self) -> bool:
        """Whether the host is this machine, so that nothing sent to it crosses a network."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Deployment:
    """The namespace and name of a Deployment of the watchdog."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The namespace and name of a ServiceAccount in the seed."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def origin(text: str) -> Origin:
    """Parses `http://HOST:PORT` or `https://HOST:PORT`; the port defaults to that of the scheme."""
    found = _ORIGIN.fullmatch(text)
    if found is None and "@" in text:  # the text before it may contain a password: do not quote it
        raise ValueError("must be http://HOST:PORT or https://HOST:PORT, without a user or an @")
    if found is None:
        raise ValueError(f"must be http://HOST:PORT or https://HOST:PORT, {_not(text)}")
    scheme: Scheme = "https" if found["scheme"] == "https" else "http"
    host, port = found["host"].strip("[]").lower(), int(found["port"] or _PORTS[scheme])
    if not 0 < port <= _MAX_PORT:
        raise ValueError(f"must have a port from 1 to {_MAX_PORT}, {_not(text)}")
    if "[" in text:
        try:
            ipaddress.IPv6Address(host)
        except ValueError as error:
            raise ValueError(f"must have an IPv6 address between brackets, {_not(text)}") from error
    return Origin(scheme, host, port)


def deployment(text: str) -> Deployment:
    """Parses `NAMESPACE/DEPLOYMENT`."""
    namespace, _, name = text.partition("/")
    if not is_label(namespace) or not is_subdomain(name):
        raise ValueError(f"must be NAMESPACE/DEPLOYMENT, {_not(text)}")
    return Deployment(namespace, name)


def service_account(text: str) -> ServiceAccount:
    """Parses `NAMESPACE/NAME`."""
    namespace, _, name = text.partition("/")
    if not is_label(namespace) or not is_subdomain(name):
        raise ValueError(f"must be NAMESPACE/NAME, {_not(text)}")
    return ServiceAccount(namespace, name)


def local_port(text: str) -> int:
    """Parses a port to listen on; 0 is any that is free."""
    if not (text.isascii() and text.isdigit()) or len(text) > len("65535") or int(text) > _MAX_PORT:
        raise ValueError(f"must be a port from 0 to {_MAX_PORT}, {_not(text)}")
    return int(text)


def reason(text: str) -> str:
    """Checks a reason: one line of at most 300 printable characters."""
    if not text.strip() or len(text) > _MAX_REASON or not text.isprintable():
        raise ValueError(
            f"must be one line of at most {_MAX_REASON} characters that says why, {_not(text)}"
        )
    return text


def _not(text: str) -> str:
    return f'not "{trimmed(text, _SHOWN)}"'
