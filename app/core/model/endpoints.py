"""Endpoint probes with the kubelet's semantics: configuration, targets and results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from app.core.model.selectors import LabelSelector


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


Port = int | str
"""1 to 65535, or the name of a port of the container."""


@dataclass(frozen=True, slots=True)
class HttpGet:
    """Passes on an answer of 2xx or 3xx."""

    port: Port
    scheme: Scheme = Scheme.HTTP
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """Passes if a connection can be made."""

    port: Port


@dataclass(frozen=True, slots=True)
class Grpc:
    """Passes if the standard health service answers SERVING."""

    port: int
    service: str = ""


@dataclass(frozen=True, slots=True)
class Exec:
    """Passes on exit code 0; runs inside the container, without a shell."""

    command: tuple[str, ...]


Handler = HttpGet | TcpSocket | Grpc | Exec


@dataclass(frozen=True, slots=True)
class EndpointProbeSpec:
    """One entry of `endpointProbes`; times in seconds, as in Kubernetes."""

    name: str
    handler: Handler
    type: ProbeType = ProbeType.READINESS
    host: str | None = None
    """The host to probe, which may contain `{namespace}`; None if the targets are containers."""
    pods: LabelSelector | None = None
    """Selects the pods whose containers are probed, in the control-plane namespace; None if the target is a host."""
    container: str | None = None
    """The name of the only container to probe in these pods; None for each container."""
    initial_delay: int = 0
    period: int = 10
    timeout: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    effect: Effect = Effect.OBSERVE

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
