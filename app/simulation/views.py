"""Converts JSON objects of the store to the records that rules read; pure."""

import base64
import binascii
from typing import Final

from app.core.config.scalars import parse_duration
from app.core.errors import NotFound
from app.core.model.instants import parse_rfc3339
from app.core.model.nodes import LeaseView, MachineView, NodeView
from app.core.model.shoots import (
    DEFAULT_NODE_CONDITIONS,
    ClusterView,
    LastOperation,
    Route,
    SecretView,
    ShootView,
    Undecodable,
    WorkerPool,
)
from app.core.model.workloads import OURS, ResourceRef, ScaleView, WorkloadView
from app.simulation.store import Object, version_of
from app.simulation.validation import SIZES

NOT_MANAGED: Final = "node.machine.sapcloud.io/not-managed-by-mcm"
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


def secret_view(obj: Object, route: Route = Route.INTERNAL) -> SecretView:
    """Converts the kubeconfig Secret; a value that is not base64 counts as absent."""
    data = obj.get("data", {}).get("kubeconfig")
    try:
        kubeconfig = None if data is None else base64.b64decode(data, validate=True)
    except binascii.Error:
        kubeconfig = None
    return SecretView(obj["metadata"]["namespace"], version_of(obj), kubeconfig, route)


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
