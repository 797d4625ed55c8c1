"""What one asks a simulated world: how things truly are, whatever the ports show."""

import math
from collections.abc import Iterable, Iterator, Mapping

from app.core.clock import Clock
from app.core.model import workloads as ann
from app.core.model.nodes import MachineView
from app.core.model.pods import PodView, SliceView
from app.core.model.shoots import DEFAULT_NODE_CONDITIONS
from app.core.model.weeding import ServiceKey
from app.core.model.workloads import ResourceRef, WorkloadView
from app.simulation.actors import MCM
from app.simulation.kubelets import Kubelet
from app.simulation.pod_kubelet import BecameReady
from app.simulation.pod_views import pod_view, slice_view
from app.simulation.seed_pods import PodDeletion
from app.simulation.shoot import ShootServer
from app.simulation.stage import Stage
from app.simulation.store import Object, ObjectKey, Store
from app.simulation.traffic import Journal
from app.simulation.views import machine_view, ready, scale_view, workload_view

# What one asks a simulated world about its pods, and what somebody else does to them.


class PodTruth:
    """The pods of a world, as they truly are."""

    _stage: Stage

    def pods(self, namespace: str, workload: str | None = None) -> tuple[PodView, ...]:
        """The pods of a namespace, or of one workload in it, by name."""
        found = (pod_view(obj) for obj in self._stage.store.list("Pod", namespace))
        return tuple(pod for pod in found if workload in (None, pod.labels.get("app")))

    def pod(self, namespace: str, name: str) -> PodView:
        """A pod.

        Raises:
            NotFound: there is none.
        """
        return pod_view(self._stage.store.get(ObjectKey("Pod", namespace, name)))

    def slices(self, namespace: str, service: str) -> tuple[SliceView, ...]:
        """The slices of a service, by name."""
        found = (slice_view(obj) for obj in self._stage.store.list("EndpointSlice", namespace))
        return tuple(each for each in found if each.service == service)

    def served(self, namespace: str, service: str) -> bool:
        """Whether a service is ready, as its slices say."""
        return self._stage.pods.serves(ServiceKey(namespace, service))

    def restarts(self, namespace: str, workload: str) -> int:
        """How often the containers of a workload's pods were started again."""
        pods = self.pods(namespace, workload)
        return sum(container.restarts or 0 for pod in pods for container in pod.containers)

    def crash_looping(self, namespace: str) -> tuple[str, ...]:
        """The names of the pods of which a container waits in CrashLoopBackOff and that nobody has deleted."""
        return tuple(
            pod.name
            for pod in self.pods(namespace)
            if not pod.terminating and any(container.crash_loops for container in pod.containers)
        )

    def starts_again(self, namespace: str, pod: str) -> float | None:
        """The very instant at which a waiting container will be started again; None where none waits."""
        found = self._stage.pods.kubelet.find(ObjectKey("Pod", namespace, pod))
        return None if found is None else found.active.due

    def became_ready(self, namespace: str) -> tuple[BecameReady, ...]:
        """Which pods became Ready, and when, in that order; not those that were from the first."""
        return tuple(self._stage.pods.kubelet.became_ready.get(namespace, ()))

    @property
    def pod_deletions(self) -> tuple[PodDeletion, ...]:
        """All deletions of pods, by whomever, in their order."""
        return tuple(self._stage.pods.deletions)

    # What somebody else does.

    def delete_pod(self, namespace: str, name: str, by: str = "operator") -> None:
        """A person deletes a pod.

        Raises:
            NotFound: there is none.
        """
        self._stage.pods.delete(ObjectKey("Pod", namespace, name), by)

    def delete_slice(self, namespace: str, name: str) -> None:
        """Somebody deletes an EndpointSlice; it is written anew soon.

        Raises:
            NotFound: there is none.
        """
        self._stage.store.delete(ObjectKey("EndpointSlice", namespace, name))

    def split_service(self, namespace: str, service: str, slices: int) -> None:
        """The endpoints of a service are dealt out to so many slices from now on."""
        key = ServiceKey(namespace, service)
        self._stage.pods.endpoints.slices[key] = slices
        self._stage.pods.endpoints.sync(key)

    def crash_looped(
        self, namespace: str, workload: str, restarts: int, *, exited: float | None = None
    ) -> None:
        """The pods of a workload are as after a long time of crashes: each that does not end waits for its next start.

        Args:
            namespace: where.
            workload: whose.
            restarts: how often each was started again.
            exited: when each exited last; None: now.
        """
        at = self._stage.clock.now() if exited is None else exited
        for pod in self._stage.pods.kubelet.of((namespace, workload)):
            if not pod.ending:
                self._stage.pods.kubelet.crash_looped(pod, restarts, exited=at)


# What only a simulation knows: when each kubelet truly renewed, and so when an outage can be known; pure.


def known_at(
    candidates: Iterable[Kubelet], *, limit: float, expiry: float, now: float, since: float
) -> float | None:
    """The first instant from `since` to `now` at which `limit` of the true ages are at least `expiry` (rules 3.1).

    Args:
        candidates: the kubelets of the candidate nodes.
        limit: a fraction, above 0.
        expiry: seconds, more than 1.5 renewal intervals: shorter absences are not remembered.
        now: the end of what has happened.
        since: where to begin; an outage that is already known there counts from there.

    Returns:
        The instant; None where it has not come.
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
    """What is meant: a plain name is that of a Deployment."""
    return ResourceRef("apps/v1", "Deployment", which) if isinstance(which, str) else which


class WorldTruth(PodTruth):
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
        return self.store.get(ObjectKey(ref.kind, namespace, ref.name))
