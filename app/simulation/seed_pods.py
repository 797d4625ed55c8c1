"""All pods of a seed, with their kubelet, controllers and services, and a record of their deletions."""

import random
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from app.core.clock import Clock
from app.core.model.instants import rfc3339
from app.core.model.pods import OwnerView, PodView, SliceView
from app.core.model.weeding import ServiceKey
from app.simulation import pod_manifests
from app.simulation.deletion import DeleteOptions, DeletionState, delete
from app.simulation.endpoints import EndpointSliceController, serves, service_of
from app.simulation.owners import Owners
from app.simulation.pod_kubelet import PodKubelet
from app.simulation.pod_views import pod_view, slice_view, terminating
from app.simulation.store import Happened, ObjectKey, Store, StoreEvent
from app.simulation.timers import Timers
from app.simulation.workloads import Workload

_OWNERS: Final = frozenset({"ReplicaSet", "StatefulSet"})
SETTLED: Final = 3600.0
"""For how many seconds a pod that exists from the start has been Ready: long enough to reset its back-off."""


class PodDeletion(NamedTuple):
    """A deletion: a pod became terminating, or was removed at once."""

    pod: PodView
    """The pod just before the deletion."""
    at: float
    waiting: bool
    """Whether a container waited in CrashLoopBackOff."""
    due: float | None
    """The exact instant at which its kubelet would have restarted that container."""
    by: str
    """The author of the deletion; empty if unknown."""

    @property
    def uid(self) -> str:
        """Which pod it was."""
        return self.pod.uid

    @property
    def owner(self) -> OwnerView | None:
        """Whose pod it was."""
        return self.pod.owner


class SeedPods:
    """The pods of a seed and the components that act on them."""

    def __init__(self, clock: Clock, seed: Store, rng: random.Random) -> None:
        self.timers = Timers(clock)
        self.kubelet = PodKubelet(clock, seed, self.timers, rng, self.serves)
        self.owners = Owners(seed, self.timers, self.kubelet, rng)
        self.endpoints = EndpointSliceController(seed, self.timers, rng)
        self.deletions: list[PodDeletion] = []
        self.behind: defaultdict[ServiceKey, list[Workload]] = defaultdict(list)
        """The workloads whose pods are behind each service."""
        self._clock, self._seed = clock, seed
        self._author = ""
        self._slices: defaultdict[ServiceKey, dict[str, SliceView]] = defaultdict(dict)
        seed.subscribe(self._heard)

    async def run(self) -> None:
        """Runs the components, until cancelled."""
        await self.timers.run()

    def serves(self, key: ServiceKey) -> bool:
        """Returns whether a service is ready according to its EndpointSlices."""
        return serves(list(self._slices.get(key, {}).values()))

    def add(self, workload: Workload, *, since: float | None = None) -> None:
        """Adds a workload all of whose pods are Ready.

        Args:
            workload: describes the pods.
            since: when the pods became Ready; None for an hour ago.
        """
        since = self._clock.now() - SETTLED if since is None else since
        born = {"creationTimestamp": rfc3339(since)}
        owner = self.owners.add(workload, born)
        for ordinal in range(workload.replicas):
            key = self.owners.name(workload, owner, ordinal)
            body = pod_manifests.pod(workload, owner)
            made = self._seed.create(key, {**body, "metadata": {**body["metadata"], **born}})
            self.kubelet.settle(key, made["metadata"]["uid"], workload, since=since)
        if workload.service is not None:
            self._serve(workload, ServiceKey(workload.namespace, workload.service), born)

    def _serve(self, workload: Workload, service: ServiceKey, born: Mapping[str, str]) -> None:
        self.behind[service].append(workload)
        key = ObjectKey("Service", service.namespace, service.service)
        self._seed.create(key, {**pod_manifests.service(workload), "metadata": born})
        self.endpoints.sync(service)

    def delete(
        self, key: ObjectKey, by: str, options: DeleteOptions | None = None
    ) -> DeletionState:
        """Deletes an object in the name of `by`, as an API server does.

        Raises:
            NotFound: there is none.
            Conflict: a precondition does not hold.
        """
        self._author = by
        try:
            return delete(self._seed, key, self._clock.now(), options)
        finally:
            self._author = ""

    def _heard(self, event: StoreEvent) -> None:
        match event.key.kind:
            case "Pod":
                self._enter(event)
                self.kubelet.heard(event)
                self.owners.heard(event)
                self.endpoints.heard(event)
            case "EndpointSlice":
                self._learn(event)
                self.endpoints.heard(event)
            case "Service":
                self.endpoints.heard(event)
            case kind if kind in _OWNERS:
                self.owners.heard(event)
            case _:
                return

    def _enter(self, event: StoreEvent) -> None:
        """Records deletions; the removal of a pod that was already terminating is not another one."""
        before = event.before
        if before is None or terminating(before):
            return
        if event.happened is not Happened.DELETED and not terminating(event.object):
            return
        view, pod = pod_view(before), self.kubelet.find(event.key)
        waiting = any(container.crash_loops for container in view.containers)
        due = None if pod is None else pod.active.due
        self.deletions.append(PodDeletion(view, self._clock.now(), waiting, due, self._author))

    def _learn(self, event: StoreEvent) -> None:
        """Tracks the slices of each service, and tells the kubelet when a service becomes ready or not ready."""
        places = {service_of(each) for each in (event.before, event.object) if each is not None}
        before = {place: self.serves(place) for place in places}
        for place in places:
            self._slices[place].pop(event.key.name, None)
        if event.happened is not Happened.DELETED:
            self._slices[service_of(event.object)][event.key.name] = slice_view(event.object)
        for place in sorted(places):
            if before[place] is not self.serves(place):
                self.kubelet.service_changed(place, ready=not before[place])
