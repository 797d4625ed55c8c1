"""All pods of a seed: their kubelet, their owners, their services, and what became of them."""

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
"""Seconds that a pod has been Ready for that was there before: no crash of long ago counts any more."""


class PodDeletion(NamedTuple):
    """A pod began to end, or was gone at once."""

    pod: PodView
    """As it was right before."""
    at: float
    waiting: bool
    """Whether a container waited in CrashLoopBackOff."""
    due: float | None
    """When its kubelet would have started that container again by itself: exact."""
    by: str
    """Who deleted it; empty where that is not known."""

    @property
    def uid(self) -> str:
        """Which pod it was."""
        return self.pod.uid

    @property
    def owner(self) -> OwnerView | None:
        """Whose pod it was."""
        return self.pod.owner


class SeedPods:
    """The pods of a seed and everybody who acts on them."""

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
        """Lets everything happen when it is due, for ever."""
        await self.timers.run()

    def serves(self, key: ServiceKey) -> bool:
        """Whether a service is ready, as its slices say."""
        return serves(list(self._slices.get(key, {}).values()))

    def add(self, workload: Workload, *, since: float | None = None) -> None:
        """A workload joins, all of whose pods have been Ready for long.

        Args:
            workload: what it is.
            since: since when; None: for an hour.
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
        """Somebody deletes a pod, or whatever else it is.

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
        """Keeps the books of deletions; the end of a pod that was terminating is none."""
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
        """Keeps what the slices of each service say, and tells the kubelet where that makes a difference."""
        places = {service_of(each) for each in (event.before, event.object) if each is not None}
        before = {place: self.serves(place) for place in places}
        for place in places:
            self._slices[place].pop(event.key.name, None)
        if event.happened is not Happened.DELETED:
            self._slices[service_of(event.object)][event.key.name] = slice_view(event.object)
        for place in sorted(places):
            if before[place] is not self.serves(place):
                self.kubelet.service_changed(place, ready=not before[place])
