"""Parsers for the values of flags and environment variables: text in, plain values out.

A parser raises ValueError for a wrong value; the message continues a sentence that begins with the flag: "must be …".
"""

import ipaddress
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BeforeValidator

from app.core.errors import trimmed
from app.core.model.durations import format_duration, parse_duration
from app.core.model.endpoints import NAMESPACE_HOLE
from app.core.model.names import is_label, is_subdomain

N = TypeVar("N", int, float)

_MAX_PORT: Final = 65535
_MAX_COUNT: Final = 2**31 - 1
_SHOWN: Final = 60
_COUNT: Final = re.compile(r"[-+]?[0-9]{1,10}")
_NUMBER: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_TRUE: Final = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "False", "FALSE"})


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
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class FlagType:
    """The type of a flag as shown in help and documentation; empty for booleans."""

    as_: str


@dataclass(frozen=True, slots=True)
class ShownDefault:
    """The default of a flag as shown in help and documentation, if it depends on the environment."""

    as_: str


def boolean(text: str) -> bool:
    """Parses a boolean with the spellings of Go's `strconv.ParseBool`."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"must be true or false, not {quoted(text)}")


def number(text: str) -> float:
    """Parses a finite number."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {quoted(text)}")
    return value


def count(text: str) -> int:
    """Parses a whole number that fits into 32 bits."""
    if not _COUNT.fullmatch(text) or abs(int(text)) > _MAX_COUNT:
        raise ValueError(f"must be a whole number of at most {_MAX_COUNT}, not {quoted(text)}")
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
    if not colon or not port.isascii() or not port.isdigit() or int(port[:6]) > _MAX_PORT:
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


def pattern(text: str) -> str | None:
    """Checks a regular expression that may contain `{namespace}`; returns None for empty text."""
    if not text:
        return None
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


def _namespace(text: str) -> str:
    if not is_label(text):
        raise ValueError(f"must be the name of a namespace, not {quoted(text)}")
    return text


def _domain(text: str) -> str:
    if not is_subdomain(text):
        raise ValueError(f"must be a domain name such as cluster.local, not {quoted(text)}")
    return text


def quoted(text: str) -> str:
    """Quotes and shortens `text` for an error message."""
    return f'"{trimmed(text, _SHOWN)}"'


def of_text(parse: Callable[[str], object]) -> BeforeValidator:
    """Creates a validator that parses text; other types, which only code passes, are left unchanged."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def at_least(least: float) -> AfterValidator:
    """Creates a validator that refuses values below `least`."""

    def check(value: N) -> N:
        if value < least:
            raise ValueError(f"must be {least:g} or more, not {value:g}")
        return value

    return AfterValidator(check)


def above_zero(value: float) -> float:
    """Refuses values that are 0 or negative."""
    if value <= 0:
        raise ValueError(f"must be above 0, not {value:g}")
    return value


def lasting(value: float) -> float:
    """Refuses durations that are 0 or negative."""
    if value <= 0:
        raise ValueError(f"must be above 0s, not {format_duration(value)}")
    return value


Switch = Annotated[bool, of_text(boolean), FlagType("")]
Number = Annotated[float, of_text(number), FlagType("NUMBER")]
Count = Annotated[int, of_text(count), FlagType("COUNT")]
Duration = Annotated[float, of_text(duration), AfterValidator(lasting), FlagType("DURATION")]
BindAddress = Annotated[ListenAddress, of_text(address), FlagType("HOST:PORT")]
LoopbackAddress = Annotated[ListenAddress, of_text(loopback_address), FlagType("HOST:PORT")]
Namespace = Annotated[str, of_text(_namespace), FlagType("NAMESPACE")]
Domain = Annotated[str, of_text(_domain), FlagType("DOMAIN")]
Pattern = Annotated[str | None, of_text(pattern), FlagType("REGEX")]
File = Annotated[Path, of_text(file), FlagType("FILE")]
OptionalFile = Annotated[
    Path | None, of_text(lambda text: file(text) if text else None), FlagType("FILE")
]
Level = Annotated[LogLevel, of_text(log_level), FlagType("debug|info|warning|error")]
Format = Annotated[
    LogFormat, of_text(lambda text: one_of(LogFormat, text)), FlagType("json|console")
]
ConfigKind = Annotated[
    FileKind | None, of_text(lambda text: one_of(FileKind, text)), FlagType("prober|weeder")
]
