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
    """The order: ascending, one level together; gaps are fine."""
    initial_delay: keys.DurationOrZero = 0.0
    """The wait from when its level could start to its first write; while it protects, each second is one that the nodes
    may not have."""
    timeout: keys.Duration = 30.0
    """From the first write to the end of the wait; `initialDelay` is not part of it."""


def _without_default(schema: dict[str, Any]) -> None:
    """A file has to have the key, and a default would name the fields of our record."""
    schema.pop("default", None)


_NO_DEFAULT: Any = Field(json_schema_extra=_without_default)


@dataclass(frozen=True, slots=True)
class DependentPolicy:
    """A dependent."""

    __pydantic_config__: ClassVar = keys.KEYS

    ref: keys.Reference
    """The object; it has a `scale` subresource."""
    scale_up: Annotated[ScalePolicy, keys.Needed(), _NO_DEFAULT] = ScalePolicy()
    """How it is scaled up; `{}` takes the defaults."""
    scale_down: Annotated[ScalePolicy, keys.Needed(), _NO_DEFAULT] = ScalePolicy()
    """How it is scaled down; `{}` takes the defaults."""
    optional: keys.Switch = False
    """True: a shoot without it is in order."""
    # None in a policy, which has `optional`.
    should_exist: Annotated[keys.Switch | None, Field(exclude=True)] = None
    """The inverse of `optional`, from older files; not beside it."""

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
    """Lease mode: the name of the Secret in each control-plane namespace that has the shoot's kubeconfig."""
    dependents: Annotated[
        tuple[DependentPolicy, ...],
        Field(alias="dependentResourceInfos", min_length=1),
        keys.Needed(),
    ] = ()
    """What is scaled; no object twice, not in two versions of its group either."""
    internal_secret: Annotated[
        keys.ObjectName | None,
        Field(alias="internalKubeConfigSecretName", description="Null in lease mode."),
    ] = None
    """Endpoint mode: as `kubeConfigSecretName`, for the internal path, that of the control plane itself."""
    external_secret: Annotated[
        keys.ObjectName | None,
        Field(alias="externalKubeConfigSecretName", description="Null in lease mode."),
    ] = None
    """Endpoint mode: as `kubeConfigSecretName`, for the external path, that of the nodes."""
    probe_interval: keys.Duration = 10.0
    """The longest pause between two probes; an outage is seen when it can be known, whatever this is."""
    initial_delay: keys.DurationOrZero = 30.0
    """How long nothing is scaled after a shoot became eligible; probes begin at once."""
    probe_timeout: keys.Duration = 30.0
    """Bounds one whole probe; in endpoint mode each of its attempts, of which there are three at most, and 5s do that
    in any case."""
    # The next probe is due after interval × (1 + jitter × random).
    jitter: Annotated[keys.Share, Field(alias="backoffJitterFactor")] = 0.2
    """Share of `probeInterval` by which a probe may come later, so that shoots are not probed in step."""
    grace: Annotated[keys.Duration, Field(alias="kcmNodeMonitorGraceDuration")] = 40.0
    """Grace after which kube-controller-manager marks a node NotReady; a Shoot's own `nodeMonitorGracePeriod` wins. A
    lease expires after 0.75 of it; in endpoint mode only warnings need it."""
    limit: Annotated[keys.PositiveShare, Field(alias="nodeLeaseFailureFraction")] = 0.6
    """Lease mode: share of expired leases from which on a shoot is cut off from its nodes."""
    failure_threshold: keys.Count = 1
    """Probes in a row before a scale-down; in lease mode one, as it is confirmed by a second reading and time is
    short."""
    success_threshold: keys.Count = 3
    """Probes in a row before a scale-up; a path that flickers is still a bad one."""
    # The default is lowered to the probe interval where that is shorter (`policy_files`).
    suspect_interval: Annotated[
        keys.Duration, Field(alias="suspectProbeInterval"), AfterValidator(_fit_probe_interval)
    ] = 5.0
    """Pause between probes that are counted, and during protection."""
    max_protection: Annotated[
        Annotated[keys.Duration, keys.at_most(LONGEST)] | None, Field(alias="maxProtectionDuration")
    ] = None
    """How long a protection may last: then the shoot is scaled up and held for as long, with an Event; it waits for the
    end of a hold, and of a pause of scope `all`."""
    internal_failure_backoff: Annotated[
        keys.DurationOrZero | None,
        Field(alias="internalProbeFailureBackoffDuration", description="Null in lease mode."),
    ] = 30.0
    """Endpoint mode: the pause after an internal failure, when nothing can be told of the external path."""
    on_scale_down_failure: OnFailure = OnFailure.CONTINUE
    """Whether later levels go on after one that failed: each controller that stops does less harm."""
    on_scale_up_failure: OnFailure = OnFailure.STOP
    """The same on the way up, where what comes later depends on what comes first."""
    endpoint_probes: tuple[EndpointProbeSpec, ...] = ()
    """What else is probed."""

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
