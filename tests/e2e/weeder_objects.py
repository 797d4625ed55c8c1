"""What the weeder reads, deletes and is allowed, as plain data: its file, its rights, pods and EndpointSlices."""

import time
from collections.abc import Mapping

from app.core.model.instants import format_duration, rfc3339
from tests.e2e import objects, program
from tests.e2e.objects import Json
from tests.e2e.program import Command

WEEDER = "dependency-watchdog-weeder"
LEASE = "dwd-weeder-leader-election"
ETCD, APISERVER = "etcd-main-client", "kube-apiserver"
SERVICE_LABEL = "kubernetes.io/service-name"
_ROLE, _PART = "gardener.cloud/role", "role"
Labels = Mapping[str, str]

# Labels as Gardener's control planes have them.
OF_APISERVER: Labels = {_ROLE: "controlplane", _PART: "apiserver"}
DEPENDENT: Labels = {_ROLE: "controlplane", _PART: "controller-manager"}
"""What needs the API server."""
UNRELATED: Labels = {_ROLE: "monitoring", _PART: "controller-manager"}


# The program.


def selecting(*expressions: tuple[str, str, tuple[str, ...]]) -> Json:
    """A LabelSelector."""
    return {
        "matchExpressions": [
            {"key": key, "operator": how, "values": list(values)}
            for key, how, values in expressions
        ]
    }


def settings() -> Json:
    """The weeder file, as Gardener writes it into its ConfigMap."""
    ours = (_ROLE, "In", ("controlplane",))
    to_etcd = selecting(ours, (_PART, "In", ("apiserver",)))
    to_apiserver = selecting(ours, (_PART, "NotIn", ("main", "apiserver")))
    return {
        "watchDuration": "5m0s",
        "servicesAndDependantSelectors": {
            ETCD: {"podSelectors": [to_etcd]},
            APISERVER: {"podSelectors": [to_apiserver]},
        },
    }


def weeder() -> Command:
    """As Gardener starts the weeder."""
    return Command("weeder", {"config-file": settings()}, ("--enable-leader-election=true",))


def both() -> Command:
    """Both loops in one process, with Gardener's files."""
    files = {"prober-config-file": program.config(), "weeder-config-file": settings()}
    return Command("serve", files, ("--enable-leader-election=true",))


def weeder_rules(*, pods: str = "get list watch delete") -> list[Json]:
    """What Gardener's ClusterRole grants the weeder in the seed."""
    return [
        objects.rule("", ["pods"], pods),
        objects.rule("discovery.k8s.io", ["endpointslices"], "get list watch"),
    ]


# Paths.


def pods(namespace: str) -> str:
    """The collection of Pods of a namespace."""
    return f"/api/v1/namespaces/{namespace}/pods"


def slices(namespace: str) -> str:
    """The collection of EndpointSlices of a namespace."""
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"


# Pods.


def pod(name: str, labels: Labels, owner: Json | None, *, init: bool = False) -> Json:
    """A pod that runs on a node, so that it is gone only when its kubelet says so; `owner` is a reference."""
    container = {"name": "main", "image": "registry.invalid/none:1"}
    before = [{**container, "name": "wait"}] if init else []
    spec = {"nodeName": "node-0", "containers": [container], "initContainers": before}
    references = [] if owner is None else [owner]
    metadata = {"name": name, "labels": dict(labels), "ownerReferences": references}
    return {"metadata": metadata, "spec": spec}


def owned_by(name: str, uid: str) -> Json:
    """The reference of a pod to the controller that made it."""
    known = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid}
    return {**known, "controller": True, "blockOwnerDeletion": True}


def crash_looping(*, restarts: int = 7, ago: float = 30.0, init: bool = False) -> Json:
    """The status of a pod that waits; with these numbers 270 s more."""
    exited = {"exitCode": 1, "reason": "Error", "finishedAt": rfc3339(time.time() - ago)}
    name, whole = (
        "wait" if init else "main",
        format_duration(min(10.0 * 2 ** (restarts - 1), 300.0)),
    )
    message = f"back-off {whole} restarting failed container={name} pod=a_b(c)"
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    found = _container(name, state, restarts)
    found["lastState"] = {"terminated": exited}
    if not init:
        return _status("Running", ready=False, containers=[found])
    waiting = _container("main", {"waiting": {"reason": "PodInitializing"}}, 0)
    return {
        **_status("Pending", ready=False, containers=[waiting]),
        "initContainerStatuses": [found],
    }


def soon_again() -> Json:
    """The status of a pod that waits after its first crash: for 10 s at most."""
    return crash_looping(restarts=1, ago=1.0)


def running() -> Json:
    """The status of a pod that has just become ready."""
    found = _container("main", {"running": {"startedAt": rfc3339(time.time())}}, 0)
    return _status("Running", ready=True, containers=[found])


def _container(name: str, state: Json, restarts: int) -> Json:
    return {
        "name": name,
        "image": "registry.invalid/none:1",
        "imageID": "",
        "ready": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }


def _status(phase: str, *, ready: bool, containers: list[Json]) -> Json:
    known = {"type": "Ready", "status": str(ready), "lastTransitionTime": rfc3339(time.time())}
    return {"phase": phase, "conditions": [known], "containerStatuses": containers}


# Services.


def endpoint_slice(*, backing: str, ready: bool) -> Json:
    """The only slice of the API server, with one endpoint: the pod `backing`."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{APISERVER}-x", "labels": {SERVICE_LABEL: APISERVER}},
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.1.0.1"],
                "conditions": {"ready": ready, "serving": ready, "terminating": False},
                "targetRef": {"kind": "Pod", "name": backing},
            }
        ],
        "ports": [{"name": "main", "port": 443, "protocol": "TCP"}],
    }
