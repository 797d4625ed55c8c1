"""Queries for the true state of a simulated world, whatever its servers show."""

import math
from collections.abc import Iterable, Iterator, Mapping

from app.core.model import workloads as ann
from app.core.model.shoots import DEFAULT_NODE_CONDITIONS, MachineView
from app.core.model.weeding import PodView, ServiceKey, SliceView
from app.core.model.workloads import ResourceRef, WorkloadView
from app.simulation.actors import MCM
from app.simulation.kubelets import Kubelet
from app.simulation.parts import WorldParts
from app.simulation.pod_kubelet import BecameReady
from app.simulation.seed_pods import PodDeletion
from app.simulation.shoot import ShootServer
from app.simulation.store import Object, ObjectKey
from app.simulation.views import (
    machine_view,
    pod_view,
    ready,
    size_field,
    slice_view,
    workload_view,
)

# When an outage can be known at the earliest: only a simulation knows when each kubelet really renewed.


def known_at(
    candidates: Iterable[Kubelet], *, limit: float, expiry: float, now: float, since: float
) -> float | None:
    """Returns the first instant at which the share `limit` of the true ages has reached `expiry` (rules 3.1).

    Args:
        candidates: the kubelets of the candidate nodes.
        limit: a share above 0.
        expiry: seconds; more than 1.5 renewal intervals, because kubelets do not record shorter gaps.
        now: the current instant.
        since: the start of the search; an outage that can be known before it counts from there.

    Returns:
        The instant; None if it has not been reached.
    """
    kubelets = tuple(candidates)
    needed = max(math.ceil(limit * len(kubelets) - 1e-9), 1)
    old = 0
    for instant, change in sorted(_changes(kubelets, expiry, since)):
        if instant > now:
            return None
        old += change
        if old >= needed:
            return instant
    return None


def _changes(
    kubelets: Iterable[Kubelet], expiry: float, since: float
) -> Iterator[tuple[float, int]]:
    for kubelet in kubelets:
        for begin, end in kubelet.gaps:
            if end - begin >= expiry and end > since:
                yield max(begin + expiry, since), 1
                yield end, -1
        yield max(kubelet.last + expiry, since), 1


def reference(which: str | ResourceRef) -> ResourceRef:
    """Returns the reference; a plain name means a Deployment."""
    return ResourceRef("apps/v1", "Deployment", which) if isinstance(which, str) else which


class WorldTruth:
    """The true state of a world."""

    def __init__(self, parts: WorldParts) -> None:
        self.parts = parts
        self.clock, self.store = parts.clock, parts.store
        """The time line of the world, and the objects of the seed."""
        self.journal = parts.journal
        """All accepted writes."""

    def shoot(self, namespace: str) -> ShootServer:
        """Returns the API server of a shoot, with its nodes."""
        return self.parts.shoots[namespace]

    def dependent(self, namespace: str, which: str | ResourceRef) -> WorkloadView:
        """Returns a dependent, from the store.

        Raises:
            NotFound: there is none.
        """
        return workload_view(self._dependent(namespace, which))

    def replicas(self, namespace: str, which: str | ResourceRef) -> int:
        """Returns the desired number of replicas of a dependent.

        Raises:
            NotFound: there is none.
        """
        obj = self._dependent(namespace, which)
        return int(obj["spec"][size_field(obj)])

    def annotations(self, namespace: str, which: str | ResourceRef) -> Mapping[str, str]:
        """Returns the watchdog's annotations on a dependent.

        Raises:
            NotFound: there is none.
        """
        return self.dependent(namespace, which).annotations

    def protected(self, namespace: str) -> bool:
        """Returns whether any dependent carries the meltdown key."""
        return any(
            ann.MELTDOWN in obj["metadata"].get("annotations", {})
            for kind in self.store.kinds()
            for obj in self.store.list(kind, namespace)
        )

    def machines(self, namespace: str) -> tuple[MachineView, ...]:
        """Returns the Machines, from the store."""
        return tuple(machine_view(obj) for obj in self.store.list("Machine", namespace))

    def not_ready_nodes(self, namespace: str) -> tuple[str, ...]:
        """Returns the names of the nodes that kube-controller-manager has marked and that are not Ready again."""
        shoot = self.shoot(namespace)
        shoot.advance()
        nodes = shoot.store.list("Node")
        return tuple(node["metadata"]["name"] for node in nodes if not ready(node))

    def machines_deleted(self, namespace: str) -> tuple[str, ...]:
        """Returns the names of the Machines that machine-controller-manager has deleted, in order."""
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
        """Returns the first instant from `since` on at which an outage can be known; None if it has not been reached.

        It considers the nodes that are candidates now, and their true renewals.
        """
        return known_at(
            self.candidates(namespace),
            limit=limit,
            expiry=0.75 * grace,
            now=self.clock.now(),
            since=since,
        )

    def candidates(self, namespace: str) -> list[Kubelet]:
        """Returns the kubelets of the nodes that are candidates now (rules 3)."""
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
        """Returns the nodes whose kubelet is dead or cut off from the API server, whatever their Leases show."""
        return frozenset(kubelet.node for kubelet in self.shoot(namespace).fleet.out_of_reach())

    # Pods.

    def pods(self, namespace: str, workload: str | None = None) -> tuple[PodView, ...]:
        """Returns the pods of a namespace, or of one workload in it, ordered by name."""
        found = (pod_view(obj) for obj in self.parts.store.list("Pod", namespace))
        return tuple(pod for pod in found if workload in (None, pod.labels.get("app")))

    def pod(self, namespace: str, name: str) -> PodView:
        """Returns a pod.

        Raises:
            NotFound: there is none.
        """
        return pod_view(self.parts.store.get(ObjectKey("Pod", namespace, name)))

    def slices(self, namespace: str, service: str) -> tuple[SliceView, ...]:
        """Returns the EndpointSlices of a service, ordered by name."""
        found = (slice_view(obj) for obj in self.parts.store.list("EndpointSlice", namespace))
        return tuple(each for each in found if each.service == service)

    def served(self, namespace: str, service: str) -> bool:
        """Returns whether a service is ready according to its EndpointSlices."""
        return self.parts.pods.serves(ServiceKey(namespace, service))

    def restarts(self, namespace: str, workload: str) -> int:
        """Returns the total number of container restarts in a workload's pods."""
        pods = self.pods(namespace, workload)
        return sum(container.restarts or 0 for pod in pods for container in pod.containers)

    def crash_looping(self, namespace: str) -> tuple[str, ...]:
        """Returns the names of the pods that wait in CrashLoopBackOff and are not terminating."""
        return tuple(
            pod.name
            for pod in self.pods(namespace)
            if not pod.terminating and any(container.crash_loops for container in pod.containers)
        )

    def starts_again(self, namespace: str, pod: str) -> float | None:
        """Returns the exact instant at which a waiting container will be restarted; None if none waits."""
        found = self.parts.pods.kubelet.find(ObjectKey("Pod", namespace, pod))
        return None if found is None else found.active.due

    def became_ready(self, namespace: str) -> tuple[BecameReady, ...]:
        """Returns when pods became Ready, in order; pods that were Ready from the start are not included."""
        return tuple(self.parts.pods.kubelet.became_ready.get(namespace, ()))

    @property
    def pod_deletions(self) -> tuple[PodDeletion, ...]:
        """All deletions of pods by any author, in order."""
        return tuple(self.parts.pods.deletions)

    # Changes to pods by others than the watchdog.

    def delete_pod(self, namespace: str, name: str, by: str = "operator") -> None:
        """Deletes a pod in the name of `by`.

        Raises:
            NotFound: there is none.
        """
        self.parts.pods.delete(ObjectKey("Pod", namespace, name), by)

    def delete_slice(self, namespace: str, name: str) -> None:
        """Deletes an EndpointSlice, which its controller soon writes again.

        Raises:
            NotFound: there is none.
        """
        self.parts.store.delete(ObjectKey("EndpointSlice", namespace, name))

    def split_service(self, namespace: str, service: str, slices: int) -> None:
        """Distributes the endpoints of a service over this number of slices from now on."""
        key = ServiceKey(namespace, service)
        self.parts.pods.endpoints.slices[key] = slices
        self.parts.pods.endpoints.sync(key)

    def crash_looped(
        self, namespace: str, workload: str, restarts: int, *, exited: float | None = None
    ) -> None:
        """Puts the pods of a workload that are not terminating into CrashLoopBackOff, as after many crashes.

        Args:
            namespace: the namespace of the workload.
            workload: its name.
            restarts: the number of restarts of each pod.
            exited: the instant of the last exit; None for now.
        """
        at = self.parts.clock.now() if exited is None else exited
        for pod in self.parts.pods.kubelet.of((namespace, workload)):
            if not pod.ending:
                self.parts.pods.kubelet.crash_looped(pod, restarts, exited=at)

    def _dependent(self, namespace: str, which: str | ResourceRef) -> Object:
        ref = reference(which)
        return self.store.get(ObjectKey(ref.kind, namespace, ref.name))
