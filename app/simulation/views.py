"""Converts JSON objects of the store to the records that rules and endpoint probes read; pure."""

from collections.abc import Iterator
from typing import Final

from app.core.errors import NotFound
from app.core.model.durations import parse_duration
from app.core.model.endpoints import ProbedContainer, ProbedPod
from app.core.model.instants import parse_rfc3339
from app.core.model.nodes import LeaseView, MachineView, NodeView
from app.core.model.pods import ContainerView, OwnerView, PodView, SliceEndpoint, SliceView
from app.core.model.shoots import (
    DEFAULT_NODE_CONDITIONS,
    ClusterView,
    LastOperation,
    ShootView,
    Undecodable,
    WorkerPool,
)
from app.core.model.workloads import OURS, ResourceRef, ScaleView, WorkloadView
from app.simulation.store import Object, version_of
from app.simulation.validation import SIZES

NOT_MANAGED: Final = "node.machine.sapcloud.io/not-managed-by-mcm"
SERVICE_NAME: Final = "kubernetes.io/service-name"
POOL: Final = "worker.gardener.cloud/pool"
ZONE: Final = "topology.kubernetes.io/zone"


def lease_view(obj: Object) -> LeaseView:
    """A Lease."""
    spec = obj.get("spec", {})
    return LeaseView(
        obj["metadata"]["name"],
        parse_rfc3339(spec.get("renewTime")),
        spec.get("leaseDurationSeconds"),
    )


def node_view(obj: Object) -> NodeView:
    """A Node."""
    metadata = obj["metadata"]
    labels = metadata.get("labels", {})
    true = [c for c in obj.get("status", {}).get("conditions", ()) if c["status"] == "True"]
    return NodeView(
        name=metadata["name"],
        pool=labels.get(POOL),
        zone=labels.get(ZONE),
        not_managed=NOT_MANAGED in metadata.get("annotations", {}),
        conditions=frozenset(condition["type"] for condition in true),
        in_place_update=next((c.get("reason") for c in true if c["type"] == "InPlaceUpdate"), None),
    )


def ready(node: Object) -> bool:
    """Returns whether a Node's condition Ready is True."""
    conditions = node.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def machine_view(obj: Object) -> MachineView:
    """A Machine."""
    metadata = obj["metadata"]
    phase = obj.get("status", {}).get("currentStatus", {}).get("phase", "")
    return MachineView(metadata["name"], metadata.get("labels", {}).get("node"), phase)


def cluster_view(obj: Object) -> ClusterView:
    """Converts a Cluster, with its Shoot or the reason why that cannot be decoded."""
    metadata = obj["metadata"]
    return ClusterView(
        name=metadata["name"],
        resource_version=version_of(obj),
        shoot=_shoot(obj.get("spec", {}).get("shoot")),
        deleting="deletionTimestamp" in metadata,
    )


def _shoot(raw: object) -> ShootView | Undecodable:
    if not isinstance(raw, dict):
        return Undecodable(f"spec.shoot: expected an object, got {type(raw).__name__}")
    if not isinstance(raw.get("spec"), dict):
        return Undecodable("spec.shoot: its spec is no object")
    spec, status = raw.get("spec", {}), raw.get("status", {})
    kcm = spec.get("kubernetes", {}).get("kubeControllerManager", {})
    grace = kcm.get("nodeMonitorGracePeriod")
    return ShootView(
        deleting="deletionTimestamp" in raw.get("metadata", {}),
        hibernation_enabled=bool(spec.get("hibernation", {}).get("enabled")),
        is_hibernated=bool(status.get("isHibernated")),
        last_operation=_last_operation(status.get("lastOperation")),
        workers=tuple(_worker(each) for each in spec.get("provider", {}).get("workers", ())),
        node_monitor_grace=None if grace is None else parse_duration(grace),
    )


def _last_operation(raw: Object | None) -> LastOperation | None:
    if raw is None:
        return None
    return LastOperation(raw["type"], raw["state"], parse_rfc3339(raw.get("lastUpdateTime")))


def _worker(raw: Object) -> WorkerPool:
    conditions = raw.get("machineControllerManager", {}).get("nodeConditions")
    return WorkerPool(
        raw["name"], DEFAULT_NODE_CONDITIONS if conditions is None else frozenset(conditions)
    )


def ref_of(obj: Object) -> ResourceRef:
    """Returns the reference to an object."""
    return ResourceRef(obj["apiVersion"], obj["kind"], obj["metadata"]["name"])


def workload_view(obj: Object) -> WorkloadView:
    """Converts a dependent; kinds outside `apps/v1` show their size through `scale` only."""
    ref, metadata, status = ref_of(obj), obj["metadata"], obj.get("status", {})
    own = ref.has_replicas
    return WorkloadView(
        ref=ref,
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        resource_version=version_of(obj),
        replicas=obj["spec"].get("replicas", 1) if own else None,
        annotations={k: v for k, v in metadata.get("annotations", {}).items() if k in OURS},
        ready=status.get("readyReplicas", 0) if own else None,
        current=status.get("replicas", 0) if own else None,
        generation=metadata["generation"],
        observed_generation=status.get("observedGeneration", 0) if own else None,
    )


def size_field(obj: Object) -> str:
    """Returns the field of `spec` that `scale` reads and writes: `replicas`, or `size` outside `apps/v1`.

    Raises:
        NotFound: the kind has no `scale` subresource.
    """
    for name in SIZES:
        if name in obj.get("spec", {}):
            return name
    raise NotFound(f"{obj['kind']} has no scale", status=404)


def scale_view(obj: Object) -> ScaleView:
    """Converts a dependent to its `scale` subresource."""
    name = size_field(obj)
    return ScaleView(version_of(obj), obj["spec"][name], obj.get("status", {}).get(name, 0))


# Pods and EndpointSlices, which the weeder and endpoint probes read.


def pod_view(obj: Object) -> PodView:
    """Converts a pod for the weeder; missing fields count as not reported."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    return PodView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=version_of(obj),
        labels=metadata.get("labels") or {},
        owner=controller_of(obj),
        terminating=terminating(obj),
        containers=tuple(_containers(status)),
        ready_since=_ready_since(status),
    )


def probed_view(obj: Object) -> ProbedPod:
    """Converts a pod for endpoint probes, without its labels, by which the server selects."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    told = {each["name"]: each for each in status.get("containerStatuses") or ()}
    return ProbedPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=version_of(obj),
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "",
        deleting=terminating(obj),
        containers=tuple(
            _probed(each, told.get(each["name"]) or {})
            for each in (obj.get("spec") or {}).get("containers") or ()
        ),
    )


def _probed(container: Object, status: Object) -> ProbedContainer:
    running = (status.get("state") or {}).get("running")
    return ProbedContainer(
        name=container["name"],
        id=status.get("containerID") or "",
        running=running is not None,
        started_at=parse_rfc3339((running or {}).get("startedAt")),
        ports={
            each["name"]: each["containerPort"]
            for each in container.get("ports") or ()
            if "name" in each
        },
    )


def controller_of(obj: Object) -> OwnerView | None:
    """Returns the owner reference with `controller: true`."""
    for each in obj["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            return OwnerView(each["apiVersion"], each["kind"], each["name"], each["uid"])
    return None


def _containers(status: Object) -> Iterator[ContainerView]:
    for member, init in (("initContainerStatuses", True), ("containerStatuses", False)):
        for each in status.get(member) or ():
            yield _container(each, init=init)


def _container(status: Object, *, init: bool) -> ContainerView:
    waiting = (status.get("state") or {}).get("waiting")
    ended = (status.get("lastState") or {}).get("terminated") or {}
    return ContainerView(
        name=status["name"],
        waiting=None if waiting is None else waiting.get("reason") or "",
        restarts=status.get("restartCount"),
        last_exit=parse_rfc3339(ended.get("finishedAt")),
        init=init,
    )


def _ready_since(status: Object) -> float | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return parse_rfc3339(condition.get("lastTransitionTime"))
    return None


def pod_ready(obj: Object) -> bool:
    """Returns whether a pod's condition Ready is True."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def terminating(obj: Object) -> bool:
    """Returns whether an object has a deletionTimestamp."""
    return obj["metadata"].get("deletionTimestamp") is not None


def slice_view(obj: Object) -> SliceView:
    """Converts an EndpointSlice."""
    metadata = obj["metadata"]
    return SliceView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        service=(metadata.get("labels") or {}).get(SERVICE_NAME, ""),
        resource_version=version_of(obj),
        endpoints=tuple(_endpoint(each) for each in obj.get("endpoints") or ()),
    )


def _endpoint(endpoint: Object) -> SliceEndpoint:
    ready = (endpoint.get("conditions") or {}).get("ready")
    target = endpoint.get("targetRef") or {}
    pod = target.get("name") if target.get("kind") == "Pod" else None
    return SliceEndpoint(ready=ready is not False, pod=pod)
