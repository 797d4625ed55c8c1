"""The controllers of ReplicaSets and StatefulSets, which create pods and replace deleted ones."""

import random
from typing import Any, Final

from app.simulation import manifests, pod_manifests
from app.simulation.deletion import delete
from app.simulation.pod_kubelet import PodKubelet
from app.simulation.pod_views import controller_of, terminating
from app.simulation.store import Happened, Object, ObjectKey, Store, StoreEvent
from app.simulation.timers import Timers
from app.simulation.workloads import Owner, Workload

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

    def add(self, workload: Workload, born: dict[str, Any]) -> Object | None:
        """Adds a workload, without creating pods yet.

        Args:
            workload: what it is.
            born: metadata that each new object has.

        Returns:
            Its owner object; None where nobody owns its pods.
        """
        if workload.owner is Owner.NOBODY:
            return None
        hashed = workload.owner is Owner.REPLICA_SET
        name = f"{workload.name}-{self._suffix(9)}" if hashed else workload.name
        key = ObjectKey(workload.owner.value, workload.namespace, name)
        self._workloads[key] = workload
        body = dict(pod_manifests.owner_object(workload, name))
        return self._seed.create(key, {**body, "metadata": {**body["metadata"], **born}})

    def name(self, workload: Workload, owner: Object | None, ordinal: int) -> ObjectKey:
        """Returns the name of the pod with an ordinal; random for a ReplicaSet."""
        name = f"{workload.name}-{ordinal}"
        if owner is None:
            name = workload.name if workload.replicas == 1 else name
        elif workload.owner is Owner.REPLICA_SET:
            name = f"{owner['metadata']['name']}-{self._suffix(5)}"
        return ObjectKey("Pod", workload.namespace, name)

    def heard(self, event: StoreEvent) -> None:
        """Handles a change of a pod or of its controller."""
        if event.key.kind != "Pod":
            self._plan(event.key)
        elif event.happened is Happened.DELETED or terminating(event.object):
            owner = controller_of(event.object)
            if owner is not None:
                self._plan(ObjectKey(owner.kind, event.key.namespace, owner.name))

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
        has = [pod for pod in self._seed.list("Pod", key.namespace) if _owned(pod, owner)]
        wanted = owner["spec"]["replicas"]
        match workload.owner:
            case Owner.REPLICA_SET:
                self._keep_count(workload, owner, has, wanted)
            case Owner.STATEFUL_SET:
                self._keep_names(workload, owner, has, wanted)
            case Owner.NOBODY:
                return

    def _keep_count(
        self, workload: Workload, owner: Object, has: list[Object], wanted: int
    ) -> None:
        active = [pod for pod in has if not terminating(pod)]
        for ordinal in range(len(active), wanted):
            self._make(workload, owner, self.name(workload, owner, ordinal))
        for pod in active[wanted:]:
            self._end(pod)

    def _keep_names(
        self, workload: Workload, owner: Object, has: list[Object], wanted: int
    ) -> None:
        names = [self.name(workload, owner, ordinal) for ordinal in range(wanted)]
        for key in names:
            if self._seed.find(key) is None:
                self._make(workload, owner, key)
        for pod in has:
            if _key(pod) not in names:
                self._end(pod)

    def _make(self, workload: Workload, owner: Object, key: ObjectKey) -> None:
        born = manifests.born(pod_manifests.pod(workload, owner), self._timers.now())
        made = self._seed.create(key, born)
        self._kubelet.admit(key, made["metadata"]["uid"], workload)

    def _end(self, pod: Object) -> None:
        if not terminating(pod):
            delete(self._seed, _key(pod), self._timers.now())

    def _suffix(self, length: int) -> str:
        return "".join(self._rng.choices(_LETTERS, k=length))


def _key(pod: Object) -> ObjectKey:
    return ObjectKey("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])


def _owned(pod: Object, owner: Object) -> bool:
    found = controller_of(pod)
    return found is not None and found.uid == owner["metadata"]["uid"]
