"""Endpoint probes with the kubelet's semantics: configuration, targets and results."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Final, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from app.core.model import keys
from app.core.model.names import is_header, is_host, is_label, is_port_name


class ProbeType(StrEnum):
    """The type of a probe, as in Kubernetes."""

    STARTUP = "Startup"
    """Until it has passed once, the other probes of its target wait."""
    READINESS = "Readiness"
    LIVENESS = "Liveness"


class Effect(StrEnum):
    """What a result causes."""

    OBSERVE = "Observe"
    """Nothing: the result is only reported."""
    GATE_SCALE_DOWN = "GateScaleDown"
    """While all targets of the probe fail, no scale-down starts."""


class Scheme(StrEnum):
    """The scheme of an HTTP probe."""

    HTTP = "HTTP"
    HTTPS = "HTTPS"


NAMESPACE_HOLE: Final = "{namespace}"
"""The placeholder for the control-plane namespace in a host, and in the patterns of servers."""
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


def _refused(message: str, text: str, secret_signs: str) -> ValueError:
    """Returns the mistake; what was found is kept back if a sign in it says that it may be a secret."""
    return keys.Complete(message) if {*secret_signs} & {*text} else ValueError(message)


def _port(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= MAX_PORT:
            raise ValueError(f"must be from 1 to {MAX_PORT}")
        return value
    if isinstance(value, str) and is_port_name(value):
        return value
    raise ValueError(
        f"must be a whole number from 1 to {MAX_PORT} or the name of a container's port"
    )


def _host(text: str) -> str:
    if not is_host(text.replace(NAMESPACE_HOLE, _NAMESPACE)):
        shape = f"a host's name, in which {NAMESPACE_HOLE} may stand, or an IP address"
        # Text before an @ may contain a password, and a query may contain a token.
        raise _refused(f"must be {shape}, without scheme, user, port, path or brackets", text, "@?")
    return text


def _path(text: str) -> str:
    if not _PATH.fullmatch(text or "/"):
        shape = (
            "a path that begins with / (ASCII without spaces and #; %20 and the like for others)"
        )
        raise _refused(f"must be {shape}", text, "?")
    return text or "/"


def _header_name(text: str) -> str:
    if not is_header(text):
        # People sometimes write a complete header, whose value may be a secret, in place of the name.
        raise _refused("must be letters, digits and -", text, ":")
    if text.lower() in _OF_THE_CONNECTION:
        raise keys.Complete(f"must not be {text}: it belongs to the connection")
    return text


def _one_line(text: str) -> str:
    if _CONTROLS.search(text):
        raise keys.Complete("must be one line without control characters")
    return text


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise keys.Complete("must not have a NUL in it")
    return text


Port = int | str
"""1 to 65535, or the name of a port of the container."""
AnyPort = Annotated[Port, BeforeValidator(_port)]
PortNumber = Annotated[int, Strict(), keys.whole(1, MAX_PORT)]
Host = Annotated[keys.Text, AfterValidator(_host)]
OneLine = Annotated[str, keys.Secret(), AfterValidator(_one_line)]
"""Text without control characters other than tabs, which may be a secret."""
Argument = Annotated[str, keys.Secret(), AfterValidator(_without_nul)]
"""One argument of a command, which may have several lines and be a secret."""
_Given = Annotated[Host | None, Field(exclude=True)]
"""What a file may have; None in a policy, which has it elsewhere."""


@dataclass(frozen=True, slots=True)
class HttpHeader:
    """A header of an HTTP probe."""

    __pydantic_config__: ClassVar = keys.KEYS

    name: Annotated[str, AfterValidator(_header_name)]
    """Its name."""
    value: Annotated[OneLine, Field(description="Always `[redacted]`, as it may be a secret.")] = ""
    """Its value."""


Header = Annotated[
    tuple[str, str],
    keys.WrittenAs(HttpHeader, lambda it: (it.name, it.value), lambda it: HttpHeader(*it)),
]


@dataclass(frozen=True, slots=True)
class HttpGet:
    """Passes with an answer of 2xx or 3xx."""

    __pydantic_config__: ClassVar = keys.KEYS

    port: AnyPort
    """By its number, or where there is a `podSelector` by the name that the container gives it."""
    scheme: Scheme = Scheme.HTTP
    """The certificate is not verified with HTTPS, as the kubelet does not."""
    path: Annotated[str, AfterValidator(_path)] = "/"
    """What is asked for, with a query where there is one."""
    headers: Annotated[tuple[Header, ...], Field(alias="httpHeaders")] = ()
    """`name` and `value` of each header, as in Kubernetes; those of the connection itself, such as Content-Length,
    cannot be set."""
    host: _Given = None
    """Another spelling of the probe's `host`."""


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """Passes when a connection is made."""

    __pydantic_config__: ClassVar = keys.KEYS

    port: AnyPort
    """As `httpGet.port`."""
    host: _Given = None
    """Another spelling of the probe's `host`."""


@dataclass(frozen=True, slots=True)
class Grpc:
    """Passes when the standard health service answers SERVING."""

    __pydantic_config__: ClassVar = keys.KEYS

    port: PortNumber
    """By its number."""
    service: OneLine = ""
    """The service whose health is asked for; without it that of the whole server."""


@dataclass(frozen=True, slots=True)
class Exec:
    """Passes with exit code 0; runs inside the container, without a shell."""

    __pydantic_config__: ClassVar = keys.KEYS

    command: Annotated[tuple[Argument, ...], Field(min_length=1)]
    """The program and its arguments; no shell unless it names one."""


Handler = HttpGet | TcpSocket | Grpc | Exec


@dataclass(frozen=True, slots=True)
class EndpointProbeSpec:
    """An endpoint probe; one of its four handlers has a value, and one of `host` and `podSelector`."""

    __pydantic_config__: ClassVar = keys.KEYS

    name: Annotated[
        keys.Text,
        keys.checked(
            is_label, "at most 63 lower case letters, digits and -, a letter or digit at both ends"
        ),
    ]
    """What it is called in the API, metrics and log; no two have the same."""
    type: ProbeType = ProbeType.READINESS
    """What it is for, as in Kubernetes; until a Startup probe has passed, the other probes of its container wait.
    Startup and Liveness need `podSelector`."""
    http_get: HttpGet | None = None
    """Asks by HTTP or HTTPS: 2xx and 3xx pass."""
    tcp_socket: TcpSocket | None = None
    """Makes a connection, which is enough."""
    grpc: Grpc | None = None
    """Asks the standard health service: SERVING passes."""
    exec: Exec | None = None
    """Runs a command inside the container, through the API server of the seed: exit code 0 passes; needs `podSelector`
    and the flag `--allow-exec`."""
    host: Host | None = None
    """Who is asked; `{namespace}` becomes the control-plane namespace. `httpGet.host` and `tcpSocket.host` are other
    spellings, as in Kubernetes."""
    pods: Annotated[keys.Selector | None, Field(alias="podSelector")] = None
    """Or which pods of the control-plane namespace: each container of them is a target of its own, at the IP of its
    pod. A LabelSelector, as in the weeder file."""
    container: keys.ContainerName | None = None
    """Only the container of this name."""
    initial_delay: Annotated[keys.CountOrZero, Field(alias="initialDelaySeconds")] = 0
    """The wait from the start of the container, or of the probing of a host."""
    period: Annotated[keys.Count, Field(alias="periodSeconds")] = 10
    """The pause between two runs."""
    timeout: Annotated[keys.Count, Field(alias="timeoutSeconds")] = 1
    """How long a run may take."""
    success_threshold: keys.Count = 1
    """Successes in a row that make a success; 1 for Startup and Liveness."""
    failure_threshold: keys.Count = 3
    """Failures in a row that make a failure."""
    effect: Effect = Effect.OBSERVE
    """`GateScaleDown`: while all targets of the probe fail, no scale-down starts. Only for type Readiness."""

    @property
    def handler(self) -> Handler:
        """The one that it has; LookupError if there is none."""
        for each in (self.http_get, self.tcp_socket, self.grpc, self.exec):
            if each is not None:
                return each
        raise LookupError(f"the endpoint probe {self.name} has no handler")

    @property
    def gates(self) -> bool:
        """Whether it can keep a scale-down from starting."""
        return self.effect is Effect.GATE_SCALE_DOWN


class ProbeOutcome(StrEnum):
    """How one run of a probe ended."""

    SUCCESS = "Success"
    FAILURE = "Failure"
    ERROR = "Error"
    """The probe could not be run, which says nothing about its target."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of one run."""

    outcome: ProbeOutcome
    message: str
    """One trimmed line for operators; contains no passwords, and at most a few characters of an answer."""


class ProbedContainer(NamedTuple):
    """What probes need to know of one container."""

    name: str
    id: str = ""
    """`containerID`; empty until the container is created."""
    running: bool = False
    started_at: float | None = None
    """`state.running.startedAt`, an instant."""
    ports: Mapping[str, int] = {}
    """The named ports."""


@dataclass(frozen=True, slots=True)
class ProbedPod:
    """What probes of containers need to know of a pod."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    ip: str = ""
    phase: str = ""
    """Pending, Running, Succeeded, Failed or Unknown."""
    deleting: bool = False
    containers: tuple[ProbedContainer, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether all its containers have terminated for good."""
        return self.phase in {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class TargetAddress:
    """The target of one run of a probe."""

    namespace: str
    """The control-plane namespace."""
    host: str
    """A name, or an IP address without brackets; for a container the pod IP."""
    pod: str = ""
    """The name of the pod; empty if the target is a host."""
    container: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    """The container's named ports."""


class CachedResult(StrEnum):
    """A result in the results cache."""

    SUCCESS = "Success"
    FAILURE = "Failure"
    UNKNOWN = "Unknown"


class Waiting(StrEnum):
    """Why a worker lets a period pass without a run."""

    NO_POD = "NoPod"
    """Nothing is known of its pod."""
    NOT_CREATED = "NotCreated"
    """Its container has no id yet."""
    HELD = "Held"
    """Its container has failed a Liveness or Startup probe: the worker waits for the next container."""
    NOT_RUNNING = "NotRunning"
    INITIAL_DELAY = "InitialDelay"
    STARTED = "Started"
    """It is a Startup probe that has passed."""
    STARTUP = "Startup"
    """A Startup probe of its container has not passed yet."""
    NO_ADDRESS = "NoAddress"
    """Its pod has no IP yet."""


class GateReason(StrEnum):
    """Why a gate is closed or open."""

    FAILING = "Failing"
    """Every target has a counted Failure: the only reason to be closed."""
    PASSING = "Passing"
    """At least one target is well."""
    NO_TARGET = "NoTarget"
    NO_RESULT = "NoResult"
    """No target is known to be well, and some have no counted result, or none for three periods."""
    TARGETS_UNKNOWN = "TargetsUnknown"
    """It is not known which pods there are: their watch has not listed them, or is stale."""

    @property
    def blind(self) -> bool:
        """Whether the gate is open only because too little is known."""
        return self not in {GateReason.FAILING, GateReason.PASSING}
