"""Parsers for the flags of the REST API, which raise ValueError as those of `flag_values` do; and its exposure."""

import ipaddress
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import SplitResult, urlsplit

from app.core.config.flag_values import (
    AuthMode,
    FlagType,
    ListenAddress,
    address,
    of_text,
    one_of,
    quoted,
)
from app.core.model.names import is_subdomain

_SCHEMES: Final = ("http", "https")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def web_url(text: str) -> str | None:
    """Parses the root URL of a web server into `https://host:port`; returns None for empty text."""
    if not text:
        return None
    if (found := _root(text)) is None:
        # The part before an @ may contain a password, which must not reach the log.
        given = "one with a user" if "@" in text else quoted(text)
        raise ValueError(f"must be http:// or https:// with a host and no path, not {given}")
    return found


def origins(text: str) -> tuple[str, ...]:
    """Parses comma-separated origins into the form that browsers send; empty text is allowed."""
    found = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        origin = _root(each)
        if origin is None or each.endswith("/"):
            message = f"must be origins such as https://dashboard.example.org, not {quoted(each)}"
            raise ValueError(message)
        found.append(origin)
    return tuple(dict.fromkeys(found))


def _root(text: str) -> str | None:
    """Normalizes scheme, host and port as browsers do; returns None if a part is missing or there are others."""
    if not (text.isascii() and text.isprintable()) or " " in text:
        return None
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    if url.scheme not in _SCHEMES or not url.hostname or _has_more(text, url):
        return None
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    own = port is not None and port != _DEFAULT_PORTS[url.scheme]
    return f"{url.scheme}://{host}:{port}" if own else f"{url.scheme}://{host}"


def _has_more(text: str, url: SplitResult) -> bool:
    return "@" in url.netloc or url.path not in {"", "/"} or any(mark in text for mark in "?#\\*,")


def reachable_ip(text: str) -> str | None:
    """Parses the IP address at which other replicas reach this one; returns None for empty text."""
    if not text:
        return None
    try:
        found = ipaddress.ip_address(text)
    except ValueError as error:
        raise ValueError(f"must be an IP address, not {quoted(text)}") from error
    scoped = getattr(found, "scope_id", None) is not None  # only an IPv6 address has one
    special = found.is_loopback or found.is_unspecified or found.is_link_local or found.is_multicast
    if scoped or special:
        raise ValueError(f"must be an IP address that others can reach, not {quoted(text)}")
    return str(found)


def networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Parses comma-separated IP addresses and networks; empty text is allowed, a network of all addresses is not."""
    return tuple(_network(part.strip()) for part in text.split(",") if part.strip())


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        found = ipaddress.ip_network(text)
    except ValueError as error:
        message = f"must be IP addresses or networks such as 10.0.0.0/8, not {quoted(text)}"
        raise ValueError(message) from error
    if found.prefixlen == 0:
        raise ValueError(f"must not cover all addresses, as {quoted(text)} does")
    return found


def object_name(text: str) -> str | None:
    """Parses the name of an EndpointSlice; returns None for empty text."""
    if text and not is_subdomain(text):
        raise ValueError(f"must be the name of an EndpointSlice, not {quoted(text)}")
    return text or None


OptionalAddress = Annotated[
    ListenAddress | None,
    of_text(lambda text: address(text) if text else None),
    FlagType("HOST:PORT"),
]
Mode = Annotated[
    AuthMode, of_text(lambda text: one_of(AuthMode, text)), FlagType("kubernetes|token|none")
]
Url = Annotated[str | None, of_text(web_url), FlagType("URL")]
Origins = Annotated[tuple[str, ...], of_text(origins), FlagType("ORIGIN[,ORIGIN…]")]
Networks = Annotated[
    tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...],
    of_text(networks),
    FlagType("NETWORK[,NETWORK…]"),
]
ReachableAddress = Annotated[str | None, of_text(reachable_ip), FlagType("IP")]
SliceName = Annotated[str | None, of_text(object_name), FlagType("NAME")]


# Where the REST API listens depends on how callers are authenticated and whether tokens are encrypted in transit.
#
# --auth-mode           and                        --api-bind-addr given    not given
# none                                             there, if loopback       127.0.0.1:8080
# token or kubernetes   TLS, or --allow-plain-http there                    :8080
# token or kubernetes   neither                    a mistake                127.0.0.1:8080, the feature `api` is off
#
# The mistake is one on loopback, too: pods may share a network namespace, as with `hostNetwork` or a mesh's sidecar.


EVERYWHERE: Final = ListenAddress("", 8080)
HERE_ONLY: Final = ListenAddress("127.0.0.1", 8080)
FEATURE: Final = "api"
_OFF: Final = (
    f"the API is on {HERE_ONLY} only: there is neither --tls-cert-file with --tls-private-key-file "
    "nor --allow-plain-http"
)


@dataclass(frozen=True, slots=True)
class Exposure:
    """Where and how the API is served."""

    mode: AuthMode
    address: ListenAddress
    tls: bool = False
    off: str | None = None
    """Why the API listens on loopback only although callers are authenticated; None if that is not the case."""


def exposure(
    mode: AuthMode, *, tls: bool, plain_http: bool, given: ListenAddress | None
) -> Exposure:
    """Decides where the API is served; `given` is the value of `--api-bind-addr`, None if it is not set.

    Raises:
        ValueError: everybody would be admin on a reachable address, or tokens would be sent unencrypted.
    """
    check_mode(mode, given)
    check_transport(mode, tls=tls, plain_http=plain_http, given=given)
    if mode is AuthMode.NONE:
        return Exposure(mode, given or HERE_ONLY, tls)
    if tls or plain_http:
        return Exposure(mode, given or EVERYWHERE, tls)
    return Exposure(mode, HERE_ONLY, off=_OFF)


def check_mode(mode: AuthMode, given: ListenAddress | None) -> None:
    """Checks that `--auth-mode=none`, which makes every caller an admin, is combined with loopback only.

    Raises:
        ValueError: the address `given` is reachable from other machines.
    """
    if mode is AuthMode.NONE and given is not None and not given.loopback:
        raise ValueError(
            f"must be kubernetes or token, not none, as --api-bind-addr={given} is no loopback address"
        )


def check_transport(
    mode: AuthMode, *, tls: bool, plain_http: bool, given: ListenAddress | None
) -> None:
    """Checks that tokens are not sent unencrypted unless `--allow-plain-http` permits it.

    Raises:
        ValueError: they would be, on the address `given`.
    """
    if mode is AuthMode.NONE or tls or plain_http or given is None:
        return
    raise ValueError(
        f"is required for --api-bind-addr={given} where there is no --tls-cert-file: with "
        f"--auth-mode={mode} tokens are sent there; without --api-bind-addr the API is on {HERE_ONLY} only"
    )
