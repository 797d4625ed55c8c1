"""The prober's configuration, parsed and validated; docs/configuration.md describes every key."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, Field, ValidationInfo

from app.core.model import keys
from app.core.model.endpoints import EndpointProbeSpec
from app.core.model.instants import format_duration
from app.core.model.overrides import LONGEST
from app.core.model.shoots import Route
from app.core.model.workloads import Direction

EXPIRY: Final = 0.75
"""The share of the grace period after which a lease counts as expired (rules 3.1)."""
ATTEMPT: Final = 5.0
"""Seconds that one attempt of endpoint mode may take: in the usual outage a load balancer swallows packets, and no
answer comes (rules 4.2)."""


class OnFailure(StrEnum):
    """What a scaling run does with the next levels after a resource of this level has failed."""

    CONTINUE = "Continue"
    STOP = "Stop"


@dataclass(frozen=True, slots=True)
class ScalePolicy:
    """How a dependent is scaled in one direction; durations in seconds."""

    __pydantic_config__: ClassVar = keys.KEYS
    OBSOLETE: ClassVar = ("replicas",)

    level: keys.CountOrZero = 0
    initial_delay: keys.DurationOrZero = 0.0
    timeout: keys.Duration = 30.0


def _without_default(schema: dict[str, Any]) -> None:
    """A file has to have the key, and a default would name the fields of our record."""
    schema.pop("default", None)


_NO_DEFAULT: Any = Field(json_schema_extra=_without_default)


@dataclass(frozen=True, slots=True)
class DependentPolicy:
    """A dependent."""

    __pydantic_config__: ClassVar = keys.KEYS

    ref: keys.Reference
    scale_up: Annotated[ScalePolicy, keys.Needed(), _NO_DEFAULT] = ScalePolicy()
    scale_down: Annotated[ScalePolicy, keys.Needed(), _NO_DEFAULT] = ScalePolicy()
    optional: keys.Switch = False
    should_exist: Annotated[keys.Switch | None, Field(exclude=True)] = None
    """The inverse of `optional`, where an older file has it; None in a policy."""

    def scale(self, direction: Direction) -> ScalePolicy:
        return self.scale_up if direction is Direction.UP else self.scale_down


def _fit_probe_interval(interval: float, info: ValidationInfo) -> float:
    most = info.data.get("probe_interval")  # None: it is wrong itself
    if most is not None and interval > most:
        allowed, found = format_duration(most), format_duration(interval)
        raise keys.Complete(f"must be at most probeInterval ({allowed}), not {found}")
    return interval


@dataclass(frozen=True, slots=True)
class ProberPolicy:
    """The effective prober file, defaults included; durations in seconds.

    In lease mode it has `kubeconfig_secret`, in endpoint mode `internal_secret` and `external_secret`.
    """

    __pydantic_config__: ClassVar = keys.KEYS
    OBSOLETE: ClassVar = ("name", "namespace")

    kubeconfig_secret: Annotated[
        keys.ObjectName | None,
        Field(alias="kubeConfigSecretName", description="Null in endpoint mode."),
    ] = None
    dependents: Annotated[
        tuple[DependentPolicy, ...],
        Field(alias="dependentResourceInfos", min_length=1),
        keys.Needed(),
    ] = ()
    internal_secret: Annotated[
        keys.ObjectName | None, Field(alias="internalKubeConfigSecretName")
    ] = None
    """Null in lease mode, as the two below."""
    external_secret: Annotated[
        keys.ObjectName | None, Field(alias="externalKubeConfigSecretName")
    ] = None
    probe_interval: keys.Duration = 10.0
    initial_delay: keys.DurationOrZero = 30.0
    probe_timeout: keys.Duration = 30.0
    jitter: Annotated[keys.Share, Field(alias="backoffJitterFactor")] = 0.2
    """The next probe is due after interval × (1 + jitter × random)."""
    grace: Annotated[keys.Duration, Field(alias="kcmNodeMonitorGraceDuration")] = 40.0
    """A grace period in the Shoot takes precedence."""
    limit: Annotated[keys.PositiveShare, Field(alias="nodeLeaseFailureFraction")] = 0.6
    failure_threshold: keys.Count = 1
    success_threshold: keys.Count = 3
    suspect_interval: Annotated[
        keys.Duration, Field(alias="suspectProbeInterval"), AfterValidator(_fit_probe_interval)
    ] = 5.0
    """The default is lowered to the probe interval where that is shorter (`policy_files`)."""
    max_protection: Annotated[
        Annotated[keys.Duration, keys.at_most(LONGEST)] | None, Field(alias="maxProtectionDuration")
    ] = None
    """A shoot protected for this long is scaled up and held for the same time (rules 7)."""
    internal_failure_backoff: Annotated[
        keys.DurationOrZero | None, Field(alias="internalProbeFailureBackoffDuration")
    ] = 30.0
    """Of endpoint mode; the API shows null in lease mode, where it has no effect."""
    on_scale_down_failure: OnFailure = OnFailure.CONTINUE
    on_scale_up_failure: OnFailure = OnFailure.STOP
    endpoint_probes: tuple[EndpointProbeSpec, ...] = ()

    @property
    def endpoint_mode(self) -> bool:
        """Whether two paths are compared; otherwise leases are read."""
        return self.external_secret is not None

    @property
    def secret_names(self) -> dict[Route, str]:
        """The name of the kubeconfig Secret for each route in use."""
        if self.external_secret is None:
            return {Route.INTERNAL: self.kubeconfig_secret or ""}
        internal = self.internal_secret or self.kubeconfig_secret or ""
        return {Route.INTERNAL: internal, Route.EXTERNAL: self.external_secret}

    def on_failure(self, direction: Direction) -> OnFailure:
        if direction is Direction.UP:
            return self.on_scale_up_failure
        return self.on_scale_down_failure


# The two loops of the watchdog; a process runs one of them, or both.


class Loop(StrEnum):
    """A loop of the watchdog; each has its own leader election."""

    PROBER = "prober"
    WEEDER = "weeder"
