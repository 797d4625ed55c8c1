"""What runs in the control planes of a simulated seed, and what it needs of each other; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

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
