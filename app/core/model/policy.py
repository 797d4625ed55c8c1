"""The prober's configuration, parsed and validated; docs/configuration.md describes every key."""

from dataclasses import dataclass
from enum import StrEnum

from app.core.model.endpoints import EndpointProbeSpec
from app.core.model.shoots import Route
from app.core.model.workloads import Direction, ResourceRef


class OnFailure(StrEnum):
    """What a scaling run does with the next levels after a resource of this level has failed."""

    CONTINUE = "Continue"
    STOP = "Stop"


@dataclass(frozen=True, slots=True)
class ScalePolicy:
    """How to scale one resource in one direction; durations in seconds."""

    level: int = 0
    initial_delay: float = 0.0
    timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class DependentPolicy:
    """A dependent: one entry of `dependentResourceInfos`."""

    ref: ResourceRef
    scale_up: ScalePolicy = ScalePolicy()
    scale_down: ScalePolicy = ScalePolicy()
    optional: bool = False

    def scale(self, direction: Direction) -> ScalePolicy:
        return self.scale_up if direction is Direction.UP else self.scale_down


@dataclass(frozen=True, slots=True)
class EndpointMode:
    """What endpoint mode has beyond lease mode; seconds."""

    external_secret: str
    """`externalKubeConfigSecretName`."""
    internal_failure_backoff: float = 30.0
    """`internalProbeFailureBackoffDuration`."""


@dataclass(frozen=True, slots=True)
class ProberPolicy:
    """The contents of the prober file; durations in seconds."""

    kubeconfig_secret: str
    """`kubeConfigSecretName`, or `internalKubeConfigSecretName` in endpoint mode."""
    dependents: tuple[DependentPolicy, ...]
    probe_interval: float = 10.0
    initial_delay: float = 30.0
    probe_timeout: float = 30.0
    jitter: float = 0.2
    """`backoffJitterFactor`: the next probe is due after interval × (1 + jitter × random)."""
    grace: float = 40.0
    """`kcmNodeMonitorGraceDuration`; a grace period in the Shoot takes precedence."""
    limit: float = 0.6
    """`nodeLeaseFailureFraction`."""
    failure_threshold: int = 1
    success_threshold: int = 3
    suspect_interval: float = 5.0
    max_protection: float | None = None
    """`maxProtectionDuration`: a shoot protected for this long is scaled up and held for the same time (rules 7)."""
    on_scale_down_failure: OnFailure = OnFailure.CONTINUE
    on_scale_up_failure: OnFailure = OnFailure.STOP
    endpoint_mode: EndpointMode | None = None
    """None in lease mode."""
    endpoint_probes: tuple[EndpointProbeSpec, ...] = ()

    @property
    def secret_names(self) -> dict[Route, str]:
        """The name of the kubeconfig Secret for each route in use."""
        names = {Route.INTERNAL: self.kubeconfig_secret}
        if self.endpoint_mode is not None:
            names[Route.EXTERNAL] = self.endpoint_mode.external_secret
        return names

    def on_failure(self, direction: Direction) -> OnFailure:
        if direction is Direction.UP:
            return self.on_scale_up_failure
        return self.on_scale_down_failure

    def dependent(self, ref: ResourceRef) -> DependentPolicy:
        """The entry of `ref`; KeyError where it is not configured."""
        for each in self.dependents:
            if each.ref == ref:
                return each
        raise KeyError(ref)


@dataclass(frozen=True, slots=True)
class ConfigWarning:
    """A setting in a file or flag that is accepted, but probably not what the operator meant."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path} (line {self.line})"
        return f"{where}: {self.message}"


# The two loops of the watchdog; a process runs one of them, or both.


class Loop(StrEnum):
    """A loop of the watchdog; each has its own leader election."""

    PROBER = "prober"
    WEEDER = "weeder"
