"""A shoot as seen from the seed: its `Cluster`, and the Secrets with its kubeconfigs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DEFAULT_NODE_CONDITIONS: Final = frozenset(
    {"KernelDeadlock", "ReadonlyFilesystem", "DiskPressure", "NetworkUnavailable"}
)
"""The conditions that make machine-controller-manager replace a machine, unless the worker pool lists its own."""


@dataclass(frozen=True, slots=True)
class LastOperation:
    """`status.lastOperation` of the Shoot."""

    type: str
    """Create, Reconcile, Delete, Migrate, Restore."""
    state: str
    """Processing, Succeeded, Error, Failed, Pending, Aborted."""
    last_update: float | None
    """`lastUpdateTime`, as an instant."""


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """A worker pool: one entry of `spec.provider.workers`."""

    name: str
    node_conditions: frozenset[str] = DEFAULT_NODE_CONDITIONS
    """`machineControllerManager.nodeConditions`: a node on which one of these types is True is unhealthy."""


@dataclass(frozen=True, slots=True)
class ShootView:
    """The fields that the watchdog reads from the Shoot embedded in a Cluster."""

    deleting: bool = False
    hibernation_enabled: bool = False
    is_hibernated: bool = False
    last_operation: LastOperation | None = None
    workers: tuple[WorkerPool, ...] = ()
    node_monitor_grace: float | None = None
    """`spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod`, in seconds; None if not set."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Takes the place of a record that exists but cannot be decoded; the last good record stays in effect."""

    reason: str


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A `Cluster` of `extensions.gardener.cloud/v1alpha1`; its name is the control-plane namespace."""

    name: str
    resource_version: str
    shoot: ShootView | Undecodable
    deleting: bool = False


class Route(StrEnum):
    """A network path to a shoot's API server; lease mode uses the internal one only."""

    INTERNAL = "internal"
    """Within the seed, as components of the control plane connect."""
    EXTERNAL = "external"
    """Through the load balancer, as the nodes connect."""


@dataclass(frozen=True, slots=True)
class SecretView:
    """The kubeconfig Secret of a shoot; `kubeconfig` is never displayed or logged."""

    namespace: str
    resource_version: str
    kubeconfig: bytes | None
    route: Route = Route.INTERNAL
    """The path that its kubeconfig uses."""

    def __repr__(self) -> str:
        size = "absent" if self.kubeconfig is None else f"{len(self.kubeconfig)} bytes"
        return f"SecretView({self.namespace!r}, {self.resource_version!r}, kubeconfig={size})"
