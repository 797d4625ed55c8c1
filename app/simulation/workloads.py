"""The workloads of simulated control planes, how they depend on each other, and the controller that sizes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final

from app.simulation.definitions import SIZES
from app.simulation.store import Happened, Object, ObjectKey, Store, StoreEvent
from app.simulation.timers import Timers
from app.simulation.traffic import Journal
from app.simulation.views import size_field

ROLE: Final = "gardener.cloud/role"
ETCD: Final = "etcd-main"
ETCD_SERVICE: Final = "etcd-main-client"
API_SERVER: Final = "kube-apiserver"
"""The name of the workload, and of its service."""
SERVER: Final = "server"
"""The name of the container port that a service targets."""
SERVED_AT: Final = 443


class Owner(StrEnum):
    """The kind of controller that recreates a pod."""

    REPLICA_SET = "ReplicaSet"
    """Recreates a pod under a new name as soon as it terminates."""
    STATEFUL_SET = "StatefulSet"
    """Recreates a pod under the same name once it is gone."""
    NOBODY = "Nobody"


@dataclass(frozen=True, slots=True)
class PodTimes:
    """Durations in the life of a pod, in seconds; each varies by up to the share `jitter` between pods."""

    bound: float = 0.05
    """From creation to being bound to a node."""
    start: float = 0.5
    """From being bound to the start of the first container."""
    init: float = 0.5
    """For the init container to complete once its dependency is ready."""
    crash_after: float = 5.0
    """From the start of a container without its dependency to its crash."""
    ready_after: float = 3.0
    """From a successful start to Ready."""
    lost_after: float = 5.0
    """From the loss of the dependency to a crash, or to not being ready."""
    grace: float = 1.0
    """From the deletion of a pod to its end; short, because a crashing process has little to shut down."""
    recreate: float = 0.2
    """Until the controller creates the replacement."""
    jitter: float = 0.1


@dataclass(frozen=True, slots=True)
class Workload:
    """A set of identical pods with their controller and service."""

    namespace: str
    name: str
    replicas: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: Owner = Owner.REPLICA_SET
    service: str | None = None
    """The service in front of its pods; None if there is none."""
    needs: str | None = None
    """The service of the same namespace that its containers need to run; None if they are independent."""
    init: bool = False
    """Whether an init container, in place of the main one, waits for the dependency and crashes without it."""
    crashes_when_lost: bool = True
    """Whether its containers crash when the dependency is lost; otherwise they only become not ready."""
    times: PodTimes = PodTimes()
    ports: Mapping[str, int] = field(default_factory=dict)
    """Named container ports, in addition to that of its service."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def selected_by(self) -> Mapping[str, str]:
        """The labels by which its service and its controller select its pods."""
        return {"app": self.name}

    @property
    def all_ports(self) -> Mapping[str, int]:
        """All named container ports."""
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
    """Returns the workloads of a control plane, labelled as by Gardener: etcd, kube-apiserver, and their dependants.

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


# The controller that turns `spec.replicas` of dependents into status.


NAME: Final = "deployment-controller"


@dataclass(frozen=True, slots=True)
class PodPace:
    """How long pods of a dependent take, in seconds from the change of the spec."""

    observed: float = 0.1
    """Until the controller has seen the new spec and created pods, or begun to terminate them."""
    gone: float = 0.5
    """Until removed pods no longer count."""
    ready: float = 5.0
    """Until new pods are ready."""


class DeploymentController:
    """Reconciles the status of every object of the seed that can be scaled."""

    def __init__(self, seed: Store, timers: Timers, journal: Journal, pace: PodPace) -> None:
        self.pace = pace
        self.stuck: set[ObjectKey] = set()
        """Objects whose new pods do not become ready."""
        self._ending: set[ObjectKey] = set()
        self._seed, self._timers, self._journal = seed, timers, journal
        seed.subscribe(self._heard)

    def recheck(self, key: ObjectKey) -> None:
        """Reconciles an object's status, as after a change of its spec."""
        obj = self._seed.get(key)
        self._plan(key, obj)

    def _heard(self, event: StoreEvent) -> None:
        obj = event.object
        if event.happened is not Happened.MODIFIED or obj.get("spec", {}).keys().isdisjoint(SIZES):
            return
        if obj.get("status", {}).get("observedGeneration", 1) != obj["metadata"]["generation"]:
            self._plan(event.key, obj)

    def _plan(self, key: ObjectKey, obj: Object) -> None:
        spec = obj["spec"]
        settled = self.pace.ready if spec[size_field(obj)] else self.pace.gone
        for delay, last in ((self.pace.observed, False), (settled, True)):
            self._timers.after(delay, partial(self._write, key, spec, settled=last))

    def _write(self, key: ObjectKey, spec: Object, *, settled: bool) -> None:
        obj = self._seed.find(key)
        if obj is None or obj["spec"] != spec:
            return  # the newer spec is scheduled separately
        name = size_field(obj)
        patch = {"status": self._status(key, obj, name, settled=settled)}
        if self._seed.patch(key, patch, status=True) is not obj:
            self._journal.enter(self._timers.now(), obj, patch, NAME)

    def _status(self, key: ObjectKey, obj: Object, name: str, *, settled: bool) -> Object:
        wanted, before = obj["spec"][name], obj.get("status", {})
        status = {"observedGeneration": obj["metadata"]["generation"]}
        status[name] = wanted if wanted or settled else before.get(name, 0)
        ready = self._still_ready(key, wanted, before.get("readyReplicas", 0))
        if settled and (not wanted or key not in self.stuck):
            ready = wanted
        return {**status, "readyReplicas": min(ready, status[name])}

    def _still_ready(self, key: ObjectKey, wanted: int, before: int) -> int:
        """Returns how many ready pods remain; none when scaled up again after a scale to 0, which ended them all."""
        if not wanted:
            self._ending.add(key)
        elif key in self._ending:
            self._ending.discard(key)
            return 0
        return before
