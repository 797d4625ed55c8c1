"""A shoot as its `Cluster` resource in the seed shows it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DEFAULT_NODE_CONDITIONS: Final = frozenset(
    {"KernelDeadlock", "ReadonlyFilesystem", "DiskPressure", "NetworkUnavailable"}
)
"""The node conditions that make machine-controller-manager give up a machine, unless the worker pool lists its own."""


@dataclass(frozen=True, slots=True)
class LastOperation:
    """`status.lastOperation` of the Shoot."""

    type: str
    """Create, Reconcile, Delete, Migrate, Restore."""
    state: str
    """Processing, Succeeded, Error, Failed, Pending, Aborted."""
    last_update: float | None
    """`lastUpdateTime`, an instant."""


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """A pool of `spec.provider.workers`."""

    name: str
    node_conditions: frozenset[str] = DEFAULT_NODE_CONDITIONS
    """`machineControllerManager.nodeConditions`: types whose status True makes a node unhealthy."""


@dataclass(frozen=True, slots=True)
class ShootView:
    """What the watchdog reads of the Shoot that a Cluster embeds."""

    deleting: bool = False
    hibernation_enabled: bool = False
    is_hibernated: bool = False
    last_operation: LastOperation | None = None
    workers: tuple[WorkerPool, ...] = ()
    node_monitor_grace: float | None = None
    """`spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod`, seconds."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Something that is there and cannot be read: what was known before goes on."""

    reason: str


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A `Cluster` of `extensions.gardener.cloud/v1alpha1`; its name is the control-plane namespace."""

    name: str
    resource_version: str
    shoot: ShootView | Undecodable
    deleting: bool = False


class Route(StrEnum):
    """A way to a shoot's API server; lease mode has the internal one only."""

    INTERNAL = "internal"
    """Within the seed, as the control plane has it."""
    EXTERNAL = "external"
    """Through the load balancer, as the nodes have it."""


@dataclass(frozen=True, slots=True)
class SecretView:
    """The kubeconfig Secret of a shoot; `kubeconfig` is never shown, logged or compared in the open."""

    namespace: str
    resource_version: str
    kubeconfig: bytes | None
    route: Route = Route.INTERNAL
    """Which way its kubeconfig leads."""

    def __repr__(self) -> str:
        size = "absent" if self.kubeconfig is None else f"{len(self.kubeconfig)} bytes"
        return f"SecretView({self.namespace!r}, {self.resource_version!r}, kubeconfig={size})"
