"""How an endpoint probe asks: httpGet, tcpSocket, grpc or exec; nodes in, handlers out."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from app.core.config import probe_values as values
from app.core.config.fields import Keys, Section
from app.core.config.findings import Findings, Place
from app.core.model.endpoints import Exec, Grpc, Handler, HttpGet, TcpSocket

HTTP_KEYS: Final = Keys(known=("scheme", "host", "port", "path", "httpHeaders"))
HEADER_KEYS: Final = Keys(known=("name", "value"))
TCP_KEYS: Final = Keys(known=("host", "port"))
GRPC_KEYS: Final = Keys(known=("port", "service"))
EXEC_KEYS: Final = Keys(known=("command",))

_DEFAULT: Final = HttpGet(port=0)
_DEFAULT_GRPC: Final = Grpc(port=0)


class Asking(NamedTuple):
    """What one entry says of how to ask."""

    handler: Handler | None = None
    """None where it is missing or wrong, which is noted."""
    host: str | None = None
    """Who is asked, where the handler says it, as in Kubernetes."""
    host_place: Place | None = None
    """Where it says so, even if it is wrong."""
    named_port: Place | None = None
    """Where a port is given by its name."""


def read_handler(probe: Section, findings: Findings) -> Asking:
    """The one handler of an entry; further ones are refused, and read for what else is wrong with them."""
    given = [key for key in _HANDLERS if probe.node(key) is not None]
    if not given:
        findings.mistake(probe.base, f"needs one of {', '.join(_HANDLERS)}: how is it asked?")
        return Asking()
    for key in given[1:]:
        message = f"is a second handler beside {given[0]}: only one may be given"
        findings.mistake(probe.place(key), message)
    read = [_read(probe, key) for key in given]
    return read[0]


def _read(probe: Section, key: str) -> Asking:
    keys, read = _HANDLERS[key]
    section = probe.section(key, keys)
    return Asking() if section is None else read(section)


def _http(section: Section) -> Asking:
    port = section.required("port", values.port)
    handler = HttpGet(
        port=port or _DEFAULT.port,
        scheme=section.value("scheme", values.scheme, _DEFAULT.scheme),
        path=section.value("path", values.path, _DEFAULT.path),
        headers=tuple(_headers(section)),
    )
    return _with_host(section, handler)


def _headers(section: Section) -> Iterator[tuple[str, str]]:
    for each in section.sections("httpHeaders", HEADER_KEYS, required=False):
        name = each.required("name", values.header_name)
        value = each.value("value", values.one_line, "")
        if name is not None:
            yield name, value


def _tcp(section: Section) -> Asking:
    port = section.required("port", values.port)
    return _with_host(section, TcpSocket(port or _DEFAULT.port))


def _with_host(section: Section, handler: HttpGet | TcpSocket) -> Asking:
    host_given, named = section.node("host") is not None, isinstance(handler.port, str)
    return Asking(
        handler,
        section.value("host", values.host, None),
        section.place("host") if host_given else None,
        section.place("port") if named else None,
    )


def _grpc(section: Section) -> Asking:
    port = section.required("port", values.port_number)
    service = section.value("service", values.one_line, _DEFAULT_GRPC.service)
    return Asking(Grpc(port or _DEFAULT_GRPC.port, service))


def _exec(section: Section) -> Asking:
    words = section.attempts("command", values.argument, required=True)
    return Asking(Exec(tuple(word for word in words if word is not None)))


_HANDLERS: Final[Mapping[str, tuple[Keys, Callable[[Section], Asking]]]] = {
    "httpGet": (HTTP_KEYS, _http),
    "tcpSocket": (TCP_KEYS, _tcp),
    "grpc": (GRPC_KEYS, _grpc),
    "exec": (EXEC_KEYS, _exec),
}
HANDLER_KEYS: Final = tuple(_HANDLERS)
"""The keys of which an entry has exactly one."""
