"""A shoot: its `Cluster` and kubeconfig Secrets in the seed; its Nodes, Machines and Leases, and readings of them.

Leases, Nodes and Machines are named tuples: thousands are made a second, and a tuple costs a third of a dataclass.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

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
    self_hosted: bool = False
    """Whether its control plane runs on its own nodes: one of the pools has `controlPlane`."""
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
    uid: str = ""


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


class LeaseView(NamedTuple):
    """A Lease in `kube-node-lease`; its name is that of its node."""

    name: str
    renew_time: float | None
    """`spec.renewTime`: an instant on the *node's* clock, which may be off."""
    duration: int | None
    """`spec.leaseDurationSeconds`; None if missing."""


class NodeView(NamedTuple):
    """A Node."""

    name: str
    pool: str | None = None
    """Label `worker.gardener.cloud/pool`."""
    zone: str | None = None
    """Label `topology.kubernetes.io/zone`."""
    not_managed: bool = False
    """Whether the annotation `node.machine.sapcloud.io/not-managed-by-mcm` is present."""
    conditions: frozenset[str] = frozenset()
    """The types of all conditions whose status is True."""
    in_place_update: str | None = None
    """The reason of the condition InPlaceUpdate; None unless its status is True."""


class MachineView(NamedTuple):
    """A `Machine` of `machine.sapcloud.io/v1alpha1` in the control-plane namespace."""

    name: str
    node: str | None
    """Label `node`."""
    phase: str
    """`status.currentStatus.phase`; empty if not set yet."""

    @property
    def alive(self) -> bool:
        """Whether the phase is neither Failed nor Terminating, so that its node can be a candidate (rules 3)."""
        return self.phase not in {"Failed", "Terminating"}


@dataclass(frozen=True, slots=True)
class LeaseReading:
    """All Leases of a shoot, read consistently (without `resourceVersion`)."""

    leases: tuple[LeaseView, ...]
    sent: float
    """When the request for the first page was sent; the ages of leases are measured at this instant (rules 3.1)."""
    received: float
    """When the last byte of the last page had arrived."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """Nodes and Machines, read together."""

    nodes: tuple[NodeView, ...]
    machines: tuple[MachineView, ...]
    at: float
