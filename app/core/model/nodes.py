"""Nodes, Machines and Leases of a shoot, and readings of them.

Leases, Nodes and Machines are named tuples: thousands are made a second, and a tuple costs a third of a dataclass.
"""

from dataclasses import dataclass
from typing import NamedTuple


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
