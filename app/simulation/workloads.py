"""What runs in the control planes of a simulated seed, and what it needs of each other; pure."""

import asyncio
import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import Any, Final

from app.core.clock import Clock
from app.simulation.store import Happened, Object, ObjectKey, Store, StoreEvent
from app.simulation.traffic import Journal, Write
from app.simulation.validation import SIZES
from app.simulation.views import ref_of, size_field

ROLE: Final = "gardener.cloud/role"
ETCD: Final = "etcd-main"
ETCD_SERVICE: Final = "etcd-main-client"
API_SERVER: Final = "kube-apiserver"
"""The ReplicaSet's application, and its service."""
SERVER: Final = "server"
"""The name of the port that a service leads to."""
SERVED_AT: Final = 443


class Owner(StrEnum):
    """Who makes a pod anew."""

    REPLICA_SET = "ReplicaSet"
    """At once when one begins to end, under a new name."""
    STATEFUL_SET = "StatefulSet"
    """When it is gone, under the same name."""
    NOBODY = "Nobody"


@dataclass(frozen=True, slots=True)
class PodTimes:
    """How long things take in a pod, in seconds; each differs by up to `jitter` from pod to pod."""

    bound: float = 0.05
    """From its creation to its node."""
    start: float = 0.5
    """From its node to the start of its first container."""
    init: float = 0.5
    """For the init container to have seen what it waits for."""
    crash_after: float = 5.0
    """From the start of a container that misses what it needs to its crash."""
    ready_after: float = 3.0
    """From a good start to Ready."""
    lost_after: float = 5.0
    """From the loss of what it needs to its crash, or until it is not ready."""
    grace: float = 1.0
    """From the deletion of a pod on a node to its end: sooner than it might, as what crashes has little to end."""
    recreate: float = 0.2
    """Until the owner makes another pod."""
    jitter: float = 0.1


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods that are alike."""

    namespace: str
    name: str
    replicas: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: Owner = Owner.REPLICA_SET
    service: str | None = None
    """The service that its pods are behind; None: none."""
    needs: str | None = None
    """The service of the same namespace without which its containers crash; None: they run by themselves."""
    init: bool = False
    """Whether an init container waits for what it needs, and crashes instead."""
    crashes_when_lost: bool = True
    """False: it only becomes not ready when it loses what it needs."""
    times: PodTimes = PodTimes()
    ports: Mapping[str, int] = field(default_factory=dict)
    """Named ports of its container, beside that of its service."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name: what it is called."""
        return self.namespace, self.name

    @property
    def selected_by(self) -> Mapping[str, str]:
        """The labels that its service, and its owner, select its pods by."""
        return {"app": self.name}

    @property
    def all_ports(self) -> Mapping[str, int]:
        """The named ports of its container."""
        served = {} if self.service is None else {SERVER: SERVED_AT}
        return {**served, **self.ports}

    @property
    def all_labels(self) -> Mapping[str, str]:
        """The labels of its pods."""
        return {**self.labels, **self.selected_by}


def control_plane(
    namespace: str,
    *,
    api_servers: int = 2,
    bare: bool = False,
    independent: bool = False,
    times: PodTimes | None = None,
) -> tuple[Workload, ...]:
    """The chain of a control plane as Gardener labels it: etcd, kube-apiserver, and what depends on that.

    Some are more patient than others when they miss what they need, so that they do not crash in step.

    Args:
        namespace: where.
        api_servers: how many pods kube-apiserver has.
        bare: whether there is a dependent pod that nobody owns.
        independent: whether there is one that needs nothing.
        times: how long things take.
    """
    usual = times or PodTimes()

    def part(name: str, role: str, patience: float = 1.0, **more: Any) -> Workload:  # noqa: ANN401  members of Workload
        labels = {ROLE: "controlplane", "role": role}
        own = replace(usual, crash_after=patience * usual.crash_after)
        return Workload(namespace, name, labels=labels, times=own, **more)

    def dependent(name: str, role: str, patience: float, **more: Any) -> Workload:  # noqa: ANN401  the same
        return part(name, role, patience, needs=API_SERVER, **more)

    servers = {"replicas": api_servers, "service": API_SERVER, "needs": ETCD_SERVICE}
    chain = [
        part(ETCD, "main", owner=Owner.STATEFUL_SET, service=ETCD_SERVICE),
        part(API_SERVER, "apiserver", 4, **servers),
        dependent("kube-scheduler", "scheduler", 2),
        dependent("cloud-controller-manager", "cloud-controller-manager", 3),
        dependent("csi-driver-controller", "csi", 6),
        dependent("csi-snapshot-controller", "csi-snapshot", 1, init=True),
        dependent("gardener-resource-manager", "gardener-resource-manager", 2, replicas=2),
        dependent("vpa-recommender", "vpa", 1, crashes_when_lost=False),
    ]
    if bare:
        chain.append(dependent("migration-check", "check", 2, owner=Owner.NOBODY))
    if independent:
        chain.append(part("plutono", "monitoring"))
    return tuple(chain)


# The controller that makes pods of `spec.replicas` in the seed, and tells so in the status.


NAME: Final = "deployment-controller"
_TICK: Final = 0.001
"""No timer is finer: what is due within it is due, or the loop would turn on the spot for a rounded microsecond."""


@dataclass(frozen=True, slots=True)
class PodPace:
    """How long pods take, in seconds from the change of the spec."""

    observed: float = 0.1
    """Until the controller has seen the new spec and made, or begun to end, its pods."""
    gone: float = 0.5
    """Until pods that have been scaled away no longer count."""
    ready: float = 5.0
    """Until new pods are ready."""


class DeploymentController:
    """Follows every object of the seed that has a size."""

    def __init__(self, clock: Clock, seed: Store, journal: Journal, pace: PodPace) -> None:
        self.pace = pace
        self.stuck: set[ObjectKey] = set()
        """Those whose new pods do not become ready."""
        self._ending: set[ObjectKey] = set()
        self._clock = clock
        self._seed = seed
        self._journal = journal
        self._due: list[tuple[float, int, ObjectKey, Object, bool]] = []
        self._order = count()
        self._more = asyncio.Event()
        seed.subscribe(self._heard)

    async def run(self) -> None:
        """Writes each status when it is due, for ever."""
        while True:
            self._more.clear()
            now = self._clock.now()
            while self._due and self._due[0][0] <= now + _TICK:
                _, _, key, spec, last = heapq.heappop(self._due)
                self._write(key, spec, settled=last)
            await self._until_next()

    async def _until_next(self) -> None:
        if not self._due:
            await self._more.wait()
            return
        try:
            async with asyncio.timeout(self._due[0][0] - self._clock.now()):
                await self._more.wait()
        except TimeoutError:
            return  # the next one is due

    def recheck(self, key: ObjectKey) -> None:
        """Brings an object's status up to its spec, as after a change."""
        obj = self._seed.get(key)
        self._plan(key, obj)

    def _heard(self, event: StoreEvent) -> None:
        obj = event.object
        if event.happened is not Happened.MODIFIED or obj.get("spec", {}).keys().isdisjoint(SIZES):
            return
        if obj.get("status", {}).get("observedGeneration", 1) != obj["metadata"]["generation"]:
            self._plan(event.key, obj)

    def _plan(self, key: ObjectKey, obj: Object) -> None:
        now = self._clock.now()
        settled = self.pace.ready if obj["spec"][size_field(obj)] else self.pace.gone
        for delay, last in ((self.pace.observed, False), (settled, True)):
            heapq.heappush(self._due, (now + delay, next(self._order), key, obj["spec"], last))
        self._more.set()

    def _write(self, key: ObjectKey, spec: Object, *, settled: bool) -> None:
        obj = self._seed.find(key)
        if obj is None or obj["spec"] != spec:
            return  # a newer spec has its own turn
        name, now = size_field(obj), self._clock.now()
        patch = {"status": self._status(key, obj, name, settled=settled)}
        if self._seed.patch(key, patch, status=True) is not obj:
            self._journal.add(Write(now, key.namespace, ref_of(obj), patch, NAME, now))

    def _status(self, key: ObjectKey, obj: Object, name: str, *, settled: bool) -> Object:
        wanted, before = obj["spec"][name], obj.get("status", {})
        status = {"observedGeneration": obj["metadata"]["generation"]}
        status[name] = wanted if wanted or settled else before.get(name, 0)
        ready = self._still_ready(key, wanted, before.get("readyReplicas", 0))
        if settled and (not wanted or key not in self.stuck):
            ready = wanted
        return {**status, "readyReplicas": min(ready, status[name])}

    def _still_ready(self, key: ObjectKey, wanted: int, before: int) -> int:
        """How many of the pods that were ready stay: none once all were told to end."""
        if not wanted:
            self._ending.add(key)
        elif key in self._ending:
            self._ending.discard(key)
            return 0
        return before
