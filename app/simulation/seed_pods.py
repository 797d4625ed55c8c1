"""All pods of a seed, with their kubelet, owners, services and EndpointSlices, and a record of their deletions."""

import random
from collections import defaultdict
from typing import Final, NamedTuple

from app.core.model.weeding import PodView, ServiceKey, SliceView
from app.simulation import manifests
from app.simulation.pod_kubelet import PodKubelet
from app.simulation.store import (
    DeleteOptions,
    Happened,
    Object,
    ObjectKey,
    Store,
    StoreEvent,
)
from app.simulation.timers import Timers
from app.simulation.views import SERVICE_NAME, controller_of, pod_view, slice_view, terminating
from app.simulation.workloads import Owner, Workload

MOST: Final = 100
"""The maximum number of endpoints in a slice, as the real controller's default."""
# The range of seconds from a change to the write of its slices.
_SOON: Final = (0.05, 0.2)


class EndpointSliceController:
    """Writes the EndpointSlices of each Service that has a selector."""

    def __init__(self, seed: Store, timers: Timers, rng: random.Random) -> None:
        self.slices: dict[ServiceKey, int] = {}
        """Services with a fixed number of slices, however few endpoints they have."""
        self.away: set[ServiceKey] = set()
        """Services whose slices a fault has removed; they are not written again."""
        self.untold: set[ServiceKey] = set()
        """Services whose endpoints lack `conditions.ready`."""
        self._seed, self._timers, self._rng = seed, timers, rng
        self._selectors: dict[str, dict[str, dict[str, str]]] = {}
        self._names: dict[ServiceKey, list[str]] = {}
        self._planned: set[ServiceKey] = set()

    def forget(self, namespace: str) -> None:
        """Forgets the services of a namespace, which are gone."""
        self._selectors.pop(namespace, None)
        for known in (self.slices, self._names):
            for key in [each for each in known if each.namespace == namespace]:
                del known[key]

    def heard(self, event: StoreEvent) -> None:
        """Handles a change of a Service, a pod or a slice."""
        match event.key.kind:
            case "Service":
                self._learn(event.key, event.object)
            case "EndpointSlice":
                self._plan(service_of(event.object))
            case _:
                labels = event.object["metadata"].get("labels") or {}
                for name, selector in self._selectors.get(event.key.namespace, {}).items():
                    if selector.items() <= labels.items():
                        self._plan(ServiceKey(event.key.namespace, name))

    def _learn(self, key: ObjectKey, obj: Object) -> None:
        services = self._selectors.setdefault(key.namespace, {})
        services.pop(key.name, None)
        selector = (obj.get("spec") or {}).get("selector")
        if selector and self._seed.find(key) is not None:
            services[key.name] = dict(selector)
        self._plan(ServiceKey(key.namespace, key.name))

    def _plan(self, key: ServiceKey) -> None:
        if key not in self._planned and key.service in self._selectors.get(key.namespace, {}):
            self._planned.add(key)
            self._timers.after(self._rng.uniform(*_SOON), lambda: self.sync(key, planned=True))

    def sync(self, key: ServiceKey, *, planned: bool = False) -> None:
        """Reconciles the slices of a service now; `planned`: as it was due to be."""
        if planned:
            self._planned.discard(key)
        owner = self._seed.find(ObjectKey("Service", key.namespace, key.service))
        names = self._names.setdefault(key, [])
        shares = [] if owner is None or key in self.away else self._shares(key)
        while len(names) < len(shares):
            names.append(f"{key.service}-{self._rng.randrange(16**5):05x}")
        while len(names) > len(shares):
            gone = ObjectKey("EndpointSlice", key.namespace, names.pop())
            if self._seed.find(gone) is not None:
                self._seed.delete(gone)
        if owner is None:
            return
        for name, share in zip(names, shares, strict=True):
            place = ObjectKey("EndpointSlice", key.namespace, name)
            write = self._seed.create if self._seed.find(place) is None else self._seed.replace
            write(place, manifests.endpoint_slice(owner, share, untold=key in self.untold))

    def _shares(self, key: ServiceKey) -> list[list[Object]]:
        """Distributes the endpoints over the slices."""
        selector = self._selectors.get(key.namespace, {}).get(key.service)
        found = [
            pod
            for pod in self._seed.list("Pod", key.namespace)
            if selector is not None
            and selector.items() <= (pod["metadata"].get("labels") or {}).items()
            and pod["status"].get("podIP")
        ]
        number = max(self.slices.get(key, 1), -(-len(found) // MOST))
        return [found[first::number] for first in range(number)]


def service_of(obj: Object) -> ServiceKey:
    """Returns the service that a slice belongs to; its name is empty if the slice has no label for it."""
    metadata = obj["metadata"]
    return ServiceKey(metadata["namespace"], (metadata.get("labels") or {}).get(SERVICE_NAME, ""))


# The alphabet of generated names, without vowels and look-alikes, as in Kubernetes.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class Owners:
    """Maintains the number of pods in `spec.replicas`.

    As with the real controllers, a ReplicaSet replaces a pod as soon as it is terminating; a StatefulSet, whose pods
    keep their names, only when it is gone.
    """

    def __init__(
        self, seed: Store, timers: Timers, kubelet: PodKubelet, rng: random.Random
    ) -> None:
        self._seed, self._timers, self._kubelet, self._rng = seed, timers, kubelet, rng
        self._workloads: dict[ObjectKey, Workload] = {}
        self._planned: set[ObjectKey] = set()

    def add(self, workload: Workload, since: float) -> Object | None:
        """Adds the owner of a workload, created at `since`, without pods; returns it, or None if nobody owns them."""
        if workload.owner is Owner.NOBODY:
            return None
        hashed = workload.owner is Owner.REPLICA_SET
        name = f"{workload.name}-{self._suffix(9)}" if hashed else workload.name
        key = ObjectKey(workload.owner.value, workload.namespace, name)
        self._workloads[key] = workload
        return self._seed.create(key, manifests.born(manifests.owner_object(workload, name), since))

    def name(self, workload: Workload, owner: Object | None, ordinal: int) -> ObjectKey:
        """Returns the name of the pod with an ordinal; random for a ReplicaSet."""
        name = f"{workload.name}-{ordinal}"
        if owner is None:
            name = workload.name if workload.replicas == 1 else name
        elif workload.owner is Owner.REPLICA_SET:
            name = f"{owner['metadata']['name']}-{self._suffix(5)}"
        return ObjectKey("Pod", workload.namespace, name)

    def forget(self, namespace: str) -> None:
        """Forgets the workloads of a namespace, whose owners are about to be deleted: no pod is replaced."""
        for key in [each for each in self._workloads if each.namespace == namespace]:
            del self._workloads[key]

    def heard(self, event: StoreEvent) -> None:
        """Handles a change of a pod or of its controller."""
        if event.key.kind != "Pod":
            self._plan(event.key)
        elif event.happened is Happened.DELETED or terminating(event.object):
            owner = controller_of(event.object)
            if owner is not None:
                self._plan(ObjectKey(owner["kind"], event.key.namespace, owner["name"]))

    def _plan(self, key: ObjectKey) -> None:
        workload = self._workloads.get(key)
        if workload is None or key in self._planned:
            return
        self._planned.add(key)
        self._timers.after(workload.times.recreate, lambda: self._reconcile(key, workload))

    def _reconcile(self, key: ObjectKey, workload: Workload) -> None:
        self._planned.discard(key)
        owner = self._seed.find(key)
        if owner is None:
            return
        uid, wanted = owner["metadata"]["uid"], owner["spec"]["replicas"]
        pods = self._seed.list("Pod", key.namespace)
        has = [pod for pod in pods if (controller_of(pod) or {}).get("uid") == uid]
        active = [pod for pod in has if not terminating(pod)]
        if workload.owner is Owner.STATEFUL_SET:
            names = [self.name(workload, owner, ordinal) for ordinal in range(wanted)]
            missing = (name for name in names if self._seed.find(name) is None)
            surplus = [pod for pod in active if _key(pod) not in names]
        else:
            missing = (self.name(workload, owner, each) for each in range(len(active), wanted))
            surplus = active[wanted:]
        for name in missing:
            self._make(workload, owner, name)
        for pod in surplus:
            self._seed.request_deletion(_key(pod), self._timers.now())

    def _make(self, workload: Workload, owner: Object, key: ObjectKey) -> None:
        born = manifests.born(manifests.pod(workload, owner), self._timers.now())
        made = self._seed.create(key, born)
        self._kubelet.admit(key, made["metadata"]["uid"], workload)

    def _suffix(self, length: int) -> str:
        return "".join(self._rng.choices(_LETTERS, k=length))


def _key(pod: Object) -> ObjectKey:
    return ObjectKey("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])


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


class SeedPods:
    """The pods of a seed and the components that act on them."""

    def __init__(self, seed: Store, timers: Timers, rng: random.Random) -> None:
        self.kubelet = PodKubelet(seed, timers, rng, self.serves)
        self.owners = Owners(seed, timers, self.kubelet, rng)
        self.endpoints = EndpointSliceController(seed, timers, rng)
        self.deletions: list[PodDeletion] = []
        """Those of pods, by any author, in order."""
        self.behind: defaultdict[ServiceKey, list[Workload]] = defaultdict(list)
        """The workloads whose pods are behind each service."""
        self._seed, self._timers = seed, timers
        self._author = ""
        self._slices: defaultdict[ServiceKey, dict[str, SliceView]] = defaultdict(dict)
        seed.subscribe(self._heard)

    def serves(self, key: ServiceKey) -> bool:
        """Returns whether a service is ready according to its EndpointSlices."""
        slices = self._slices.get(key, {}).values()
        return any(endpoint.ready for each in slices for endpoint in each.endpoints)

    def add(self, workload: Workload) -> None:
        """Adds a workload all of whose pods are Ready for long."""
        since = self._timers.now() - SETTLED
        owner = self.owners.add(workload, since)
        for ordinal in range(workload.replicas):
            key = self.owners.name(workload, owner, ordinal)
            made = self._seed.create(key, manifests.born(manifests.pod(workload, owner), since))
            self.kubelet.settle(key, made["metadata"]["uid"], workload, since=since)
        if workload.service is not None:
            service = ServiceKey(workload.namespace, workload.service)
            self.behind[service].append(workload)
            key = ObjectKey("Service", service.namespace, service.service)
            self._seed.create(key, manifests.born(manifests.service(workload), since))
            self.endpoints.sync(service)

    def remove(self, namespace: str) -> None:
        """Removes all objects of a namespace, pods and workloads among them, at once."""
        self.owners.forget(namespace)
        self._seed.empty(namespace)
        self.kubelet.forget(namespace)
        self.endpoints.forget(namespace)
        for known in (self.behind, self._slices):
            for key in [each for each in known if each.namespace == namespace]:
                del known[key]

    def delete(self, key: ObjectKey, by: str, options: DeleteOptions | None = None) -> Object:
        """Deletes an object in the name of `by`, as an API server does.

        Raises:
            NotFound: there is none.
            Conflict: a precondition does not hold.
        """
        self._author = by
        try:
            made = self._seed.request_deletion(key, self._timers.now(), options)
        finally:
            self._author = ""
        if key.kind == "Namespace":
            self.remove(key.name)  # by the namespace controller, which takes no time here
        return made

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
        self.deletions.append(PodDeletion(view, self._timers.now(), waiting, due, self._author))

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
