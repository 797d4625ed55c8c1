"""Nodes, Machines and Leases of a shoot, and one reading of them.

Leases, Nodes and Machines are named tuples: thousands are made a second, and a tuple costs a third of a dataclass.
"""

from dataclasses import dataclass
from typing import NamedTuple


class LeaseView(NamedTuple):
    """A Lease of `kube-node-lease`; it has the name of its node."""

    name: str
    renew_time: float | None
    """`spec.renewTime`, an instant on the *node's* clock."""
    duration: int | None
    """`spec.leaseDurationSeconds`."""


class NodeView(NamedTuple):
    """A Node."""

    name: str
    pool: str | None = None
    """Label `worker.gardener.cloud/pool`."""
    zone: str | None = None
    """Label `topology.kubernetes.io/zone`."""
    not_managed: bool = False
    """Annotation `node.machine.sapcloud.io/not-managed-by-mcm` is there."""
    conditions: frozenset[str] = frozenset()
    """Types of the conditions whose status is True."""
    in_place_update: str | None = None
    """Reason of the condition InPlaceUpdate where its status is True."""


class MachineView(NamedTuple):
    """A `Machine` of `machine.sapcloud.io/v1alpha1` in the control-plane namespace."""

    name: str
    node: str | None
    """Label `node`."""
    phase: str
    """`status.currentStatus.phase`; empty where there is none yet."""

    @property
    def alive(self) -> bool:
        """Whether the machine still stands for a node: neither Failed nor Terminating."""
        return self.phase not in {"Failed", "Terminating"}


@dataclass(frozen=True, slots=True)
class LeaseReading:
    """All Leases, read consistently."""

    leases: tuple[LeaseView, ...]
    sent: float
    """When the request was sent: what a lease's age is measured at."""
    received: float
    """When the last of the answer had arrived."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """Nodes and Machines, read together."""

    nodes: tuple[NodeView, ...]
    machines: tuple[MachineView, ...]
    at: float
