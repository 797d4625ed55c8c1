"""The values of flags and environment variables: the types of the settings, each with the text that is its form.

A parser raises ValueError for a wrong value; the message continues a sentence that begins with the flag: "must be …".
"""

import ipaddress
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from app.core.errors import trimmed
from app.core.model.endpoints import MAX_PORT, NAMESPACE_HOLE
from app.core.model.instants import format_duration, parse_duration
from app.core.model.keys import MAX_WHOLE, NUMBER
from app.core.model.names import bracketed, is_label, is_subdomain
from app.core.model.workloads import go_bool

N = TypeVar("N", int, float)
Scheme = Literal["http", "https"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MAX_REASON: Final = 300
_SHOWN: Final = 100
_MAX_COMPARED: Final = 100
_COUNT: Final = re.compile(r"[-+]?[0-9]{1,10}")
_PORTS: Final = {"http": 80, "https": 443}
_ORIGIN: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?/?"
)


class LogLevel(StrEnum):
    """The least severe level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """The format of log lines."""

    JSON = "json"
    CONSOLE = "console"


class AuthMode(StrEnum):
    """How callers of the API are authenticated."""

    KUBERNETES = "kubernetes"
    TOKEN = "token"  # noqa: S105 - the name of a mode, no secret
    NONE = "none"


class FileKind(StrEnum):
    """The loop that a configuration file is for."""

    PROBER = "prober"
    WEEDER = "weeder"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address of a listening socket."""

    host: str
    """An IP address; empty for all addresses of the machine."""
    port: int
    """The port; 0 for any free one."""

    @property
    def loopback(self) -> bool:
        """Whether only processes on this machine can connect."""
        return bool(self.host) and ipaddress.ip_address(self.host).is_loopback

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


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
        return f"{self.scheme}://{bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class NamespacedName:
    """The namespace and name of an object in the seed."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class AsText:
    """How the value of a flag is written: its type in help and documentation, and the parser of the text."""

    shown: str
    """Empty for a boolean."""
    parse: Callable[[str], object] = str

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def parsed(value: object) -> object:
            # Other types are defaults, and what only code passes.
            return self.parse(value) if isinstance(value, str) else value

        return core_schema.no_info_before_validator_function(parsed, handler(source))


def choice(choices: type[StrEnum]) -> AsText:
    """Returns how one of the words of `choices` is written."""
    return AsText("|".join(choices), lambda text: one_of(choices, text))


def boolean(text: str) -> bool:
    """Parses a boolean with the spellings of Go's `strconv.ParseBool`."""
    value = go_bool(text)
    if value is None:
        raise ValueError(f"must be true or false, not {quoted(text)}")
    return value


def number(text: str) -> float:
    """Parses a finite number."""
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {quoted(text)}")
    return value


def count(text: str) -> int:
    """Parses a whole number that fits into 32 bits."""
    if not _COUNT.fullmatch(text) or abs(int(text)) > MAX_WHOLE:
        raise ValueError(f"must be a whole number of at most {MAX_WHOLE}, not {quoted(text)}")
    return int(text)


def duration(text: str) -> float:
    """Parses a Go duration; returns seconds."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"{error}, not {quoted(text)}") from error


def address(text: str) -> ListenAddress:
    """Parses `HOST:PORT` with an IP address or `localhost` as host, or `:PORT`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port[:6]) > MAX_PORT:
        raise ValueError(f"must be HOST:PORT or :PORT, not {quoted(text)}")
    # `localhost` is never resolved: it always means 127.0.0.1.
    if host in {"", "localhost"}:
        return ListenAddress("127.0.0.1" if host else "", int(port))
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        found = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError as error:
        message = f"must have an IP address, localhost or nothing as host, not {quoted(host)}"
        raise ValueError(message) from error
    if bracketed != (found.version == 6):  # noqa: PLR2004 - the protocol's own number
        raise ValueError(f"must have brackets around an IPv6 address only, not {quoted(text)}")
    return ListenAddress(str(found), int(port))


def loopback_address(text: str) -> ListenAddress:
    """Parses a loopback address with its port."""
    found = address(text)
    if not found.loopback:
        raise ValueError(
            f"must be a loopback address such as 127.0.0.1:8080, not {quoted(text)}: "
            "everybody who can reach it may do everything"
        )
    return found


def log_level(text: str) -> LogLevel:
    """Parses a log level in any case; `warn` is accepted for `warning`."""
    lowered = text.lower()
    return LogLevel(one_of(LogLevel, "warning" if lowered == "warn" else lowered))


def pattern(text: str) -> str:
    """Checks a regular expression that may contain `{namespace}`."""
    try:
        re.compile(text.replace(NAMESPACE_HOLE, re.escape("shoot--project--name")))
    except (re.error, OverflowError, RecursionError) as error:
        message = f"must be a regular expression, not {quoted(text)}: {trimmed(str(error))}"
        raise ValueError(message) from error
    return text


def file(text: str) -> Path:
    """Parses the path of a file, which need not exist."""
    if not text or "\0" in text:
        raise ValueError("must be the path of a file")
    return Path(text)


def one_of(choices: type[StrEnum], text: str) -> str:
    """Checks that `text` is one of the values of `choices`."""
    if text not in set(choices):
        raise ValueError(f"must be one of {', '.join(choices)}, not {quoted(text)}")
    return text


def named(shown: str, what: str, check: Callable[[str], bool] = is_subdomain) -> AsText:
    """Returns how a name that passes `check` is written; `what` is the name of what, for the message."""

    def parse(text: str) -> str:
        if not check(text):
            raise ValueError(f"must be {what}, not {quoted(text)}")
        return text

    return AsText(shown, parse)


def unless_empty(written: AsText) -> AsText:
    """Returns the same for a flag whose value may be empty, which is None."""
    return AsText(written.shown, lambda text: written.parse(text) if text else None)


def web_url(text: str) -> str:
    """Parses the root URL of a web server into `https://host:port`."""
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
    if not (text.isascii() and text.isprintable()) or any(mark in text for mark in " @?#\\*,"):
        return None
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    if url.scheme not in _PORTS or not url.hostname or url.path not in {"", "/"}:
        return None
    host = bracketed(url.hostname)
    own = port is not None and port != _PORTS[url.scheme]
    return f"{url.scheme}://{host}:{port}" if own else f"{url.scheme}://{host}"


def reachable_ip(text: str) -> str:
    """Parses the IP address at which other replicas reach this one."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError as error:
        raise ValueError(f"must be an IP address, not {quoted(text)}") from error
    scoped = getattr(found, "scope_id", None) is not None  # only an IPv6 address has one
    special = found.is_loopback or found.is_unspecified or found.is_link_local or found.is_multicast
    if scoped or special:
        raise ValueError(f"must be an IP address that others can reach, not {quoted(text)}")
    return str(found)


def networks(text: str) -> tuple[Network, ...]:
    """Parses comma-separated IP addresses and networks; empty text is allowed, a network of all addresses is not."""
    return tuple(_network(part.strip()) for part in text.split(",") if part.strip())


def _network(text: str) -> Network:
    try:
        found = ipaddress.ip_network(text)
    except ValueError as error:
        message = f"must be IP addresses or networks such as 10.0.0.0/8, not {quoted(text)}"
        raise ValueError(message) from error
    if found.prefixlen == 0:
        raise ValueError(f"must not cover all addresses, as {quoted(text)} does")
    return found


# What only the client's commands take.


def origin(text: str) -> Origin:
    """Parses `http://HOST:PORT` or `https://HOST:PORT`; the port defaults to that of the scheme."""
    found = _ORIGIN.fullmatch(text)
    if found is None and "@" in text:  # the text before it may contain a password: do not quote it
        raise ValueError("must be http://HOST:PORT or https://HOST:PORT, without a user or an @")
    if found is None:
        raise ValueError(f"must be http://HOST:PORT or https://HOST:PORT, not {quoted(text)}")
    scheme: Scheme = "https" if found["scheme"] == "https" else "http"
    host, port = found["host"].strip("[]").lower(), int(found["port"] or _PORTS[scheme])
    if not 0 < port <= MAX_PORT:
        raise ValueError(f"must have a port from 1 to {MAX_PORT}, not {quoted(text)}")
    if "[" in text:
        try:
            ipaddress.IPv6Address(host)
        except ValueError as error:
            message = f"must have an IPv6 address between brackets, not {quoted(text)}"
            raise ValueError(message) from error
    return Origin(scheme, host, port)


def in_namespace(kind: str) -> AsText:
    """Returns how the namespace and name of one object are written; `kind` is the word for its name."""
    shown = f"NAMESPACE/{kind}"

    def parse(text: str) -> NamespacedName:
        namespace, _, name = text.partition("/")
        if not is_label(namespace) or not is_subdomain(name):
            raise ValueError(f"must be {shown}, not {quoted(text)}")
        return NamespacedName(namespace, name)

    return AsText(shown, parse)


def local_port(text: str) -> int:
    """Parses a port to listen on; 0 is any that is free."""
    if not (text.isascii() and text.isdigit()) or len(text) > len("65535") or int(text) > MAX_PORT:
        raise ValueError(f"must be a port from 0 to {MAX_PORT}, not {quoted(text)}")
    return int(text)


def reason(text: str) -> str:
    """Checks a reason: one line of at most 300 printable characters."""
    if not text.strip() or len(text) > _MAX_REASON or not text.isprintable():
        raise ValueError(
            f"must be one line of at most {_MAX_REASON} characters that says why, not {quoted(text)}"
        )
    return text


def quoted(text: str, limit: int = _SHOWN) -> str:
    """Quotes and shortens `text` for an error message; what cannot be seen, which may be the mistake, is escaped."""
    shown = "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text[: limit + 1]
    )
    return f'"{shown if len(shown) <= limit else shown[: limit - 1] + "…"}"'


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns the element of `known` that is most similar to `word`, ignoring case; the first one of equals.

    Raises:
        ValueError: `known` is empty.
    """
    wanted = word[:_MAX_COMPARED].lower()
    return max(known, key=lambda each: SequenceMatcher(None, wanted, each.lower()).ratio())


def at_least(least: float) -> AfterValidator:
    """Creates a validator that refuses values below `least`."""

    def check(value: N) -> N:
        if value < least:
            raise ValueError(f"must be {least:g} or more, not {value:g}")
        return value

    return AfterValidator(check)


def above_zero(shown: Callable[[float], str]) -> AfterValidator:
    """Creates a validator that refuses 0 and values below; a message has them as `shown` writes them."""

    def check(value: float) -> float:
        if value <= 0:
            raise ValueError(f"must be above {shown(0)}, not {shown(value)}")
        return value

    return AfterValidator(check)


FILE: Final = AsText("FILE", file)
LOG_LEVEL: Final = AsText("|".join(LogLevel), log_level)
_ADDRESS: Final = AsText("HOST:PORT", address)
Switch = Annotated[bool, AsText("", boolean)]
Number = Annotated[float, AsText("NUMBER", number)]
PositiveNumber = Annotated[Number, above_zero("{:g}".format)]
Count = Annotated[int, AsText("COUNT", count)]
Duration = Annotated[float, AsText("DURATION", duration), above_zero(format_duration)]
BindAddress = Annotated[ListenAddress, _ADDRESS]
OptionalAddress = Annotated[ListenAddress | None, unless_empty(_ADDRESS)]
LoopbackAddress = Annotated[ListenAddress, AsText("HOST:PORT", loopback_address)]
Namespace = Annotated[str, named("NAMESPACE", "the name of a namespace", is_label)]
Domain = Annotated[str, named("DOMAIN", "a domain name such as cluster.local")]
SliceName = Annotated[str | None, unless_empty(named("NAME", "the name of an EndpointSlice"))]
Pattern = Annotated[str | None, unless_empty(AsText("REGEX", pattern))]
File = Annotated[Path, FILE]
OptionalFile = Annotated[Path | None, unless_empty(FILE)]
Level = Annotated[LogLevel, LOG_LEVEL]
Url = Annotated[str | None, unless_empty(AsText("URL", web_url))]
Origins = Annotated[tuple[str, ...], AsText("ORIGIN[,ORIGIN…]", origins)]
Networks = Annotated[tuple[Network, ...], AsText("NETWORK[,NETWORK…]", networks)]
ReachableAddress = Annotated[str | None, unless_empty(AsText("IP", reachable_ip))]
