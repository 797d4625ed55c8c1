"""What one asks a simulated world: how things truly are, whatever the ports show."""

from collections.abc import Mapping

from app.core.model import annotations as ann
from app.core.model.nodes import MachineView
from app.core.model.shoots import DEFAULT_NODE_CONDITIONS
from app.core.model.workloads import ResourceRef, WorkloadView
from app.core.clock import Clock
from app.simulation.actors import MCM
from app.simulation.knowledge import known_at
from app.simulation.kubelets import Kubelet
from app.simulation.pod_truth import PodTruth
from app.simulation.shoot import ShootServer
from app.simulation.stage import Stage
from app.simulation.store import Key, Object, Store
from app.simulation.traffic import Journal
from app.simulation.views import machine_view, ready, scale_view, workload_view


def reference(which: str | ResourceRef) -> ResourceRef:
    """What is meant: a plain name is that of a Deployment."""
    return ResourceRef("apps/v1", "Deployment", which) if isinstance(which, str) else which


class Truth(PodTruth):
    """The state of the world."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def clock(self) -> Clock:
        """The time line of the world."""
        return self._stage.clock

    @property
    def store(self) -> Store:
        """The objects of the seed."""
        return self._stage.store

    @property
    def journal(self) -> Journal:
        """All writes."""
        return self._stage.journal

    def shoot(self, namespace: str) -> ShootServer:
        """The API server of a shoot, with its nodes."""
        return self._stage.shoots[namespace]

    def dependent(self, namespace: str, which: str | ResourceRef) -> WorkloadView:
        """A dependent, as it truly is.

        Raises:
            NotFound: there is none.
        """
        return workload_view(self._dependent(namespace, which))

    def replicas(self, namespace: str, which: str | ResourceRef) -> int:
        """How many pods a dependent is to have.

        Raises:
            NotFound: there is none.
        """
        return scale_view(self._dependent(namespace, which)).replicas

    def annotations(self, namespace: str, which: str | ResourceRef) -> Mapping[str, str]:
        """Our annotations on a dependent.

        Raises:
            NotFound: there is none.
        """
        return self.dependent(namespace, which).annotations

    def protected(self, namespace: str) -> bool:
        """Whether any dependent carries the meltdown key."""
        return any(
            ann.MELTDOWN in obj["metadata"].get("annotations", {})
            for kind in self.store.kinds()
            for obj in self.store.list(kind, namespace)
        )

    def machines(self, namespace: str) -> tuple[MachineView, ...]:
        """The Machines, as they truly are."""
        return tuple(machine_view(obj) for obj in self.store.list("Machine", namespace))

    def not_ready_nodes(self, namespace: str) -> tuple[str, ...]:
        """The names of the nodes that kube-controller-manager has marked and that have not come back."""
        shoot = self.shoot(namespace)
        shoot.advance()
        nodes = shoot.store.list("Node")
        return tuple(node["metadata"]["name"] for node in nodes if not ready(node))

    def machines_deleted(self, namespace: str) -> tuple[str, ...]:
        """The names of the Machines that machine-controller-manager has deleted, in their order."""
        writes = self.journal.of(MCM, namespace)
        return tuple(write.ref.name for write in writes if write.verb == "delete")

    def known_at(
        self,
        namespace: str,
        *,
        limit: float = 0.6,
        grace: float = 40.0,
        since: float = float("-inf"),
    ) -> float | None:
        """The first instant from `since` on at which an outage can be known; None: it has not come.

        It counts the nodes that are candidates now, by their true renewals.
        """
        return known_at(
            self.candidates(namespace),
            limit=limit,
            expiry=0.75 * grace,
            now=self.clock.now(),
            since=since,
        )

    def candidates(self, namespace: str) -> list[Kubelet]:
        """The kubelets of the nodes that are candidates now, as they are now."""
        shoot = self.shoot(namespace)
        alive = {machine.node for machine in self.machines(namespace) if machine.alive}
        return [
            shoot.fleet.of(node.name)
            for node in shoot.nodes()
            if node.name in alive
            and not node.not_managed
            and not node.conditions & DEFAULT_NODE_CONDITIONS
            and node.in_place_update not in {"ReadyForUpdate", "UpdateFailed"}
        ]

    def out_of_reach(self, namespace: str) -> frozenset[str]:
        """The nodes whose kubelets are dead or whose path to their API server is cut, whatever their Leases say."""
        return frozenset(kubelet.node for kubelet in self.shoot(namespace).fleet.out_of_reach())

    def _dependent(self, namespace: str, which: str | ResourceRef) -> Object:
        ref = reference(which)
        return self.store.get(Key(ref.kind, namespace, ref.name))
