"""Endpoint probes with the kubelet's semantics: what is configured, what a run brings, what counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from app.core.model.selectors import LabelSelector


class ProbeType(StrEnum):
    """What a probe is for, as Kubernetes has it."""

    STARTUP = "Startup"
    """Until it passes once, the other probes of its target wait."""
    READINESS = "Readiness"
    LIVENESS = "Liveness"


class Effect(StrEnum):
    """What a result leads to."""

    OBSERVE = "Observe"
    """It is reported, and that is all."""
    GATE_SCALE_DOWN = "GateScaleDown"
    """While all targets of the probe fail, no scale-down starts."""


class Scheme(StrEnum):
    """How an HTTP probe speaks."""

    HTTP = "HTTP"
    HTTPS = "HTTPS"


Port = int | str
"""1 to 65535, or the name of a port of the container."""


@dataclass(frozen=True, slots=True)
class HttpGet:
    """Passes with an answer of 2xx or 3xx."""

    port: Port
    scheme: Scheme = Scheme.HTTP
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """Passes when a connection is made."""

    port: Port


@dataclass(frozen=True, slots=True)
class Grpc:
    """Passes when the standard health service answers SERVING."""

    port: int
    service: str = ""


@dataclass(frozen=True, slots=True)
class Exec:
    """Passes with exit code 0; run inside the container, without a shell."""

    command: tuple[str, ...]


Handler = HttpGet | TcpSocket | Grpc | Exec


@dataclass(frozen=True, slots=True)
class EndpointProbe:
    """One entry of `endpointProbes`; seconds, as Kubernetes has them."""

    name: str
    handler: Handler
    type: ProbeType = ProbeType.READINESS
    host: str | None = None
    """Who is asked, with `{namespace}` in it where it differs by shoot; None where the targets are containers."""
    pods: LabelSelector | None = None
    """Whose containers are asked, in the control-plane namespace; None where it is a host."""
    container: str | None = None
    """The only container of these pods that is asked; None: each."""
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
    """It could not be run, and says nothing about its target."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run brought."""

    outcome: ProbeOutcome
    message: str
    """One line for an operator, trimmed: nothing of a password, and of an answer a few characters at most."""


class ProbedContainer(NamedTuple):
    """One container of a pod, as far as its probes depend on it."""

    name: str
    id: str = ""
    """`containerID`; empty before it has been created."""
    running: bool = False
    started_at: float | None = None
    """`state.running.startedAt`, an instant."""
    ports: Mapping[str, int] = {}
    """Its named ports."""


@dataclass(frozen=True, slots=True)
class ProbedPod:
    """A pod, as far as the probes of its containers depend on it."""

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
        """Whether all its containers have ended for good."""
        return self.phase in {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class TargetAddress:
    """Where one run of a probe goes."""

    namespace: str
    """The control-plane namespace."""
    host: str
    """A name or an IP address without brackets; of a container, its pod's IP."""
    pod: str = ""
    """The name of the pod; empty where the target is a host."""
    container: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    """The container's named ports."""
