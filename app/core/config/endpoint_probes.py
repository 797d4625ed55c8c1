"""Parses the list `endpointProbes` of the prober file, with the limits of Kubernetes; YAML nodes in, probes out.

The defaults are those of `EndpointProbeSpec`; docs/configuration.md has them as a table.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.core.config import probe_values as values
from app.core.config.advice import slow_gate, useless_selector
from app.core.config.fields import (
    SELECTOR_KEYS,
    FileLocation,
    Findings,
    Keys,
    Section,
    read_selector,
)
from app.core.config.scalars import whole
from app.core.model.endpoints import (
    Effect,
    EndpointProbeSpec,
    Exec,
    Grpc,
    Handler,
    HttpGet,
    ProbeType,
    TcpSocket,
)
from app.core.model.policy import ProberPolicy
from app.core.model.selectors import LabelSelector

# The handler of an endpoint probe: httpGet, tcpSocket, grpc or exec.


HTTP_KEYS: Final = Keys(known=("scheme", "host", "port", "path", "httpHeaders"))
HEADER_KEYS: Final = Keys(known=("name", "value"))
TCP_KEYS: Final = Keys(known=("host", "port"))
GRPC_KEYS: Final = Keys(known=("port", "service"))
EXEC_KEYS: Final = Keys(known=("command",))

_DEFAULT_HANDLER: Final = HttpGet(port=0)
_DEFAULT_GRPC: Final = Grpc(port=0)


class HandlerChoice(NamedTuple):
    """The handler of one entry, and what the rest of the entry has to be checked against."""

    handler: Handler | None = None
    """None if missing or wrong, which is recorded as a mistake."""
    host: str | None = None
    """The host, if the handler itself names one, as in Kubernetes."""
    host_place: FileLocation | None = None
    """The place of the handler's `host`, even if its value is wrong."""
    named_port: FileLocation | None = None
    """The place of a port that is given by name."""


def read_handler(probe: Section, findings: Findings) -> HandlerChoice:
    """Reads the handler of an entry; further handlers are mistakes, and are read as well to report all of theirs."""
    given = [key for key in _HANDLERS if probe.node(key) is not None]
    if not given:
        findings.mistake(probe.base, f"needs one of {', '.join(_HANDLERS)}")
        return HandlerChoice()
    for key in given[1:]:
        message = f"is a second handler beside {given[0]}: only one may be given"
        findings.mistake(probe.place(key), message)
    read = [_read(probe, key) for key in given]
    return read[0]


def _read(probe: Section, key: str) -> HandlerChoice:
    keys, read = _HANDLERS[key]
    section = probe.section(key, keys)
    return HandlerChoice() if section is None else read(section)


def _http(section: Section) -> HandlerChoice:
    port = section.required("port", values.port)
    handler = HttpGet(
        port=port or _DEFAULT_HANDLER.port,
        scheme=section.value("scheme", values.scheme, _DEFAULT_HANDLER.scheme),
        path=section.value("path", values.path, _DEFAULT_HANDLER.path),
        headers=tuple(_headers(section)),
    )
    return _with_host(section, handler)


def _headers(section: Section) -> Iterator[tuple[str, str]]:
    for each in section.sections("httpHeaders", HEADER_KEYS, required=False):
        name = each.required("name", values.header_name)
        value = each.value("value", values.one_line, "")
        if name is not None:
            yield name, value


def _tcp(section: Section) -> HandlerChoice:
    port = section.required("port", values.port)
    return _with_host(section, TcpSocket(port or _DEFAULT_HANDLER.port))


def _with_host(section: Section, handler: HttpGet | TcpSocket) -> HandlerChoice:
    host_given, named = section.node("host") is not None, isinstance(handler.port, str)
    return HandlerChoice(
        handler,
        section.value("host", values.host, None),
        section.place("host") if host_given else None,
        section.place("port") if named else None,
    )


def _grpc(section: Section) -> HandlerChoice:
    port = section.required("port", values.port_number)
    service = section.value("service", values.one_line, _DEFAULT_GRPC.service)
    return HandlerChoice(Grpc(port or _DEFAULT_GRPC.port, service))


def _exec(section: Section) -> HandlerChoice:
    words = section.attempts("command", values.argument, required=True)
    return HandlerChoice(Exec(tuple(word for word in words if word is not None)))


_HANDLERS: Final[Mapping[str, tuple[Keys, Callable[[Section], HandlerChoice]]]] = {
    "httpGet": (HTTP_KEYS, _http),
    "tcpSocket": (TCP_KEYS, _tcp),
    "grpc": (GRPC_KEYS, _grpc),
    "exec": (EXEC_KEYS, _exec),
}
HANDLER_KEYS: Final = tuple(_HANDLERS)
"""The keys of the handlers; an entry has exactly one of them."""


PROBES_KEY: Final = "endpointProbes"
PROBE_KEYS: Final = Keys(
    known=(
        "name",
        "type",
        *HANDLER_KEYS,
        "host",
        "podSelector",
        "container",
        "initialDelaySeconds",
        "periodSeconds",
        "timeoutSeconds",
        "successThreshold",
        "failureThreshold",
        "effect",
    )
)

_DEFAULT_PROBE: Final = EndpointProbeSpec(name="", handler=TcpSocket(port=0))


@dataclass(frozen=True, slots=True)
class ProbeListContext:
    """What the list is judged by, beside itself."""

    allow_exec: bool
    policy: ProberPolicy
    """All else of the file."""


def read_endpoint_probes(
    top: Section, surroundings: ProbeListContext, findings: Findings
) -> tuple[EndpointProbeSpec, ...]:
    """The probes of a file; they are of use only where no mistake was noted."""
    first: dict[str, str] = {}
    probes = []
    for section in top.sections(PROBES_KEY, PROBE_KEYS, required=False):
        probe = _probe(section, surroundings, findings)
        probes.append(probe)
        place = section.place("name")
        taken = first.setdefault(probe.name, place.path)
        if probe.name and taken != place.path:
            findings.mistake(place, f"{probe.name} is named twice, first in {taken}")
        if advice := slow_gate(probe, surroundings.policy):
            findings.warn(section.place("effect"), advice)
    return tuple(probes)


def _probe(
    section: Section, surroundings: ProbeListContext, findings: Findings
) -> EndpointProbeSpec:
    """Reads one entry; wrong values are recorded as mistakes and replaced by defaults."""
    asking = read_handler(section, findings)
    host = _host(section, asking, findings)
    kind = section.value("type", values.probe_type, _DEFAULT_PROBE.type)
    _check_target(section, asking, kind, findings)
    if section.node("exec") is not None and not surroundings.allow_exec:
        findings.mistake(section.place("exec"), "needs the flag --allow-exec")
    return EndpointProbeSpec(
        name=section.required("name", values.probe_name) or "",
        handler=asking.handler or _DEFAULT_PROBE.handler,
        type=kind,
        host=host,
        pods=_pods(section, findings),
        container=section.value("container", values.container_name, None),
        initial_delay=section.value("initialDelaySeconds", whole(0), _DEFAULT_PROBE.initial_delay),
        period=section.value("periodSeconds", whole(1), _DEFAULT_PROBE.period),
        timeout=section.value("timeoutSeconds", whole(1), _DEFAULT_PROBE.timeout),
        success_threshold=_success_threshold(section, kind, findings),
        failure_threshold=section.value(
            "failureThreshold", whole(1), _DEFAULT_PROBE.failure_threshold
        ),
        effect=_effect(section, kind, findings),
    )


def _host(section: Section, asking: HandlerChoice, findings: Findings) -> str | None:
    """Returns the host, which is given either in the entry or in its handler."""
    own = section.value("host", values.host, None)
    if asking.host_place is None:
        place = section.place("host") if section.node("host") is not None else None
    else:
        place = asking.host_place
        if section.node("host") is not None:
            findings.mistake(place, "is another spelling of host: only one of the two may be given")
    if place is not None and section.node("podSelector") is not None:
        findings.mistake(place, "excludes podSelector: only one of the two may be given")
    if place is None and section.node("podSelector") is None:
        findings.mistake(section.base, "needs host or podSelector")
    return asking.host if own is None else own


def _check_target(
    section: Section, asking: HandlerChoice, kind: ProbeType, findings: Findings
) -> None:
    """Refuses settings that only apply to containers if the target is a host."""
    if section.node("podSelector") is not None:
        return
    if kind is not ProbeType.READINESS:
        message = f"needs podSelector where it is {kind}: that is about a container"
        findings.mistake(section.place("type"), message)
    if section.node("exec") is not None:
        findings.mistake(section.place("exec"), "needs podSelector: it runs inside a container")
    if asking.named_port is not None:
        message = "must be a number where there is no podSelector: only containers name their ports"
        findings.mistake(asking.named_port, message)
    if section.node("container") is not None:
        findings.mistake(
            section.place("container"), "needs podSelector, whose containers it narrows"
        )


def _pods(section: Section, findings: Findings) -> LabelSelector | None:
    if section.node("podSelector") is None:
        return None
    selected = section.section("podSelector", SELECTOR_KEYS)
    if selected is None:
        return None
    selector = read_selector(selected, findings)
    if advice := useless_selector(selector):
        findings.warn(selected.base, advice)
    return selector


def _success_threshold(section: Section, kind: ProbeType, findings: Findings) -> int:
    found = section.value("successThreshold", whole(1), _DEFAULT_PROBE.success_threshold)
    if kind is not ProbeType.READINESS and found != 1:
        message = f"must be 1 where type is {kind}, not {found}"
        findings.mistake(section.place("successThreshold"), message)
    return found


def _effect(section: Section, kind: ProbeType, findings: Findings) -> Effect:
    found = section.value("effect", values.effect, _DEFAULT_PROBE.effect)
    if found is Effect.GATE_SCALE_DOWN and kind is not ProbeType.READINESS:
        message = f"can be {found} only where type is {ProbeType.READINESS}, not {kind}"
        findings.mistake(section.place("effect"), message)
    return found
