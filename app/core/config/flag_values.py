"""What the values of flags and environment variables may be: text in, plain values out.

Each parser raises ValueError with the end of a sentence that begins with the flag: "must be …".
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

from app.core.config.scalars import format_duration, is_label, is_subdomain, parse_duration
from app.core.errors import trimmed

N = TypeVar("N", int, float)

NAMESPACE_HOLE: Final = "{namespace}"
"""What stands for the control-plane namespace in `--shoot-server-pattern`."""

_MAX_PORT: Final = 65535
_MAX_COUNT: Final = 2**31 - 1
_SHOWN: Final = 60
_COUNT: Final = re.compile(r"[-+]?[0-9]{1,10}")
_NUMBER: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_TRUE: Final = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "False", "FALSE"})


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How it is logged."""

    JSON = "json"
    CONSOLE = "console"


class AuthMode(StrEnum):
    """How the callers of the API are told apart."""

    KUBERNETES = "kubernetes"
    TOKEN = "token"  # noqa: S105 - the name of a mode, no secret
    NONE = "none"


class FileKind(StrEnum):
    """Which program a configuration file is for."""

    PROBER = "prober"
    WEEDER = "weeder"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen."""

    host: str
    """An IP address; empty = every address of the machine."""
    port: int
    """0 = one that is free."""

    @property
    def loopback(self) -> bool:
        """Whether only programs of this machine can reach it."""
        return bool(self.host) and ipaddress.ip_address(self.host).is_loopback

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class FlagType:
    """How help and documentation name the type of a flag; empty for a boolean."""

    as_: str


@dataclass(frozen=True, slots=True)
class ShownDefault:
    """How help and documentation name a default that is not the same everywhere."""

    as_: str


def boolean(text: str) -> bool:
    """As Go's ParseBool."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"must be true or false, not {quoted(text)}")


def number(text: str) -> float:
    """A finite number."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {quoted(text)}")
    return value


def count(text: str) -> int:
    """A whole number that a 32-bit one can hold."""
    if not _COUNT.fullmatch(text) or abs(int(text)) > _MAX_COUNT:
        raise ValueError(f"must be a whole number of at most {_MAX_COUNT}, not {quoted(text)}")
    return int(text)


def duration(text: str) -> float:
    """A Go duration string, in seconds."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"{error}, not {quoted(text)}") from error


def address(text: str) -> ListenAddress:
    """`host:port` with an IP address or `localhost` as host, or `:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port[:6]) > _MAX_PORT:
        raise ValueError(f"must be HOST:PORT or :PORT, not {quoted(text)}")
    if host in {"", "localhost"}:  # the name is not looked up: what it means is settled
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
    """The same, on this machine only."""
    found = address(text)
    if not found.loopback:
        raise ValueError(
            f"must be a loopback address such as 127.0.0.1:8080, not {quoted(text)}: "
            "everybody who can reach it may do everything"
        )
    return found


def log_level(text: str) -> LogLevel:
    """A level, whatever its case."""
    lowered = text.lower()
    return LogLevel(one_of(LogLevel, "warning" if lowered == "warn" else lowered))


def pattern(text: str) -> str | None:
    """A regular expression that compiles once `{namespace}` is a namespace; empty = none."""
    if not text:
        return None
    try:
        re.compile(text.replace(NAMESPACE_HOLE, re.escape("shoot--project--name")))
    except (re.error, OverflowError, RecursionError) as error:
        message = f"must be a regular expression, not {quoted(text)}: {trimmed(str(error))}"
        raise ValueError(message) from error
    return text


def file(text: str) -> Path:
    """A path."""
    if not text or "\0" in text:
        raise ValueError("must be the path of a file")
    return Path(text)


def one_of(choices: type[StrEnum], text: str) -> str:
    """One of the values of `choices`."""
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
    """`text` as a message shows it."""
    return f'"{trimmed(text, _SHOWN)}"'


def of_text(parse: Callable[[str], object]) -> BeforeValidator:
    """Parses text and leaves values that a program passes as they are."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def at_least(least: float) -> AfterValidator:
    """Refuses what is less."""

    def check(value: N) -> N:
        if value < least:
            raise ValueError(f"must be {least:g} or more, not {value:g}")
        return value

    return AfterValidator(check)


def above_zero(value: float) -> float:
    """Refuses 0 and less."""
    if value <= 0:
        raise ValueError(f"must be above 0, not {value:g}")
    return value


def lasting(value: float) -> float:
    """Refuses a duration of 0 or less."""
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
