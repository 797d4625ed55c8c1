"""What objects of the store say: the records that rules read, made by the decoders of the program, and few facts more.

The decoders are taken from their modules: a defect that the exploration plants in the program does not blind its
judges.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from app.core.errors import NotFound
from app.core.kube.decoding import pod_objects, seed_objects, shoot_objects
from app.core.model.shoots import LeaseView, NodeView
from app.core.model.workloads import ResourceRef, WorkloadView
from app.simulation.definitions import SIZES
from app.simulation.store import Object

NOT_MANAGED: Final = "node.machine.sapcloud.io/not-managed-by-mcm"
SERVICE_NAME: Final = pod_objects.SERVICE_LABEL
POOL: Final = "worker.gardener.cloud/pool"
ZONE: Final = "topology.kubernetes.io/zone"

T = TypeVar("T")

_encode: Final = msgspec.json.encode
_workload: Final = seed_objects.workload
_leases, _nodes = shoot_objects.leases, shoot_objects.nodes


def lease_views(objects: Iterable[Object]) -> tuple[LeaseView, ...]:
    """Decodes Leases."""
    return _all(_leases(_list("LeaseList", objects)))


def node_views(objects: Iterable[Object]) -> tuple[NodeView, ...]:
    """Decodes Nodes."""
    return _all(_nodes(_list("NodeList", objects)))


def _list(kind: str, objects: Iterable[Object]) -> bytes:
    return _encode({"kind": kind, "items": [*objects]})


def _all(steps: shoot_objects.Steps[Any]) -> tuple[Any, ...]:
    try:
        while True:
            next(steps)
    except StopIteration as end:
        items: tuple[Any, ...] = end.value.items
        return items


def workload_view(obj: Object) -> WorkloadView:
    """Decodes a dependent."""
    return _workload(ref_of(obj))(_encode(obj))


def _by(decode: Callable[[bytes], T]) -> Callable[[Object], T]:
    return lambda obj: decode(_encode(obj))


machine_view: Final = _by(seed_objects.machine)
cluster_view: Final = _by(seed_objects.cluster)
"""Its Shoot may be the reason why that cannot be decoded."""
pod_view: Final = _by(pod_objects.pod)
"""Decodes a pod for the weeder."""
probed_view: Final = _by(pod_objects.probed_pod)
"""Decodes a pod for endpoint probes."""
slice_view: Final = _by(pod_objects.endpoint_slice)


# What is said by one field.


def ref_of(obj: Object) -> ResourceRef:
    """Returns the reference to an object."""
    return ResourceRef(obj["apiVersion"], obj["kind"], obj["metadata"]["name"])


def size_field(obj: Object) -> str:
    """Returns the field of `spec` that `scale` reads and writes: `replicas`, or `size` outside `apps/v1`.

    Raises:
        NotFound: the kind has no `scale` subresource.
    """
    for name in SIZES:
        if name in obj.get("spec", {}):
            return name
    raise NotFound(f"{obj['kind']} has no scale", status=404)


def ready(obj: Object) -> bool:
    """Returns whether the condition Ready of a node or a pod is True."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def terminating(obj: Object) -> bool:
    """Returns whether an object has a deletionTimestamp."""
    return obj["metadata"].get("deletionTimestamp") is not None


def controller_of(obj: Object) -> Object | None:
    """Returns the owner reference with `controller: true`."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), None)
