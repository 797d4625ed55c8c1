"""Builds API objects of a world as JSON data; pure."""

import base64
import json
from collections.abc import Iterable
from typing import Any, Final

from app.core.model.instants import rfc3339
from app.core.model.workloads import ResourceRef
from app.simulation.store import Object
from app.simulation.views import NOT_MANAGED, POOL, SERVICE_NAME, ZONE, ready, terminating
from app.simulation.workloads import SERVED_AT, SERVER, Owner, Workload

SECRET_NAME: Final = "shoot-access-dependency-watchdog-probe"  # noqa: S105  a name, no secret
EXTERNAL_SECRET_NAME: Final = "shoot-access-dependency-watchdog-external-probe"  # noqa: S105  a name too
LEASES: Final = "kube-node-lease"


def cluster(name: str, since: float, *, grace: str | None = None) -> Object:
    """Builds a Cluster whose Shoot was last reconciled at `since`; `grace` is a Go duration."""
    kcm = {} if grace is None else {"nodeMonitorGracePeriod": grace}
    shoot = {
        "metadata": {"name": name},
        "spec": {
            "hibernation": {"enabled": False},
            "provider": {"workers": [{"name": "worker"}]},
            "kubernetes": {"kubeControllerManager": kcm},
        },
        "status": {
            "hibernated": False,
            "lastOperation": {
                "type": "Reconcile",
                "state": "Succeeded",
                "lastUpdateTime": rfc3339(since),
            },
        },
    }
    return {"apiVersion": "extensions.gardener.cloud/v1alpha1", "spec": {"shoot": shoot}}


def born(body: Object, at: float) -> Object:
    """Returns the object with a creationTimestamp."""
    metadata = {**body.get("metadata", {}), "creationTimestamp": rfc3339(at)}
    return {**body, "metadata": metadata}


def kubeconfig(name: str, server: str, ca: str, user: Object) -> bytes:
    """Builds a kubeconfig like Gardener's, as JSON, which is valid YAML.

    Args:
        name: of its cluster, context and user: the control-plane namespace.
        server: where the API server is.
        ca: the authority to trust.
        user: its credentials.
    """
    authority = base64.b64encode(ca.encode()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server, "certificate-authority-data": authority},
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": dict(user)}],
    }
    return json.dumps(content).encode()


def secret(content: bytes | None) -> Object:
    """Builds the kubeconfig Secret; None leaves out its key."""
    data = {} if content is None else {"kubeconfig": base64.b64encode(content).decode()}
    return {"apiVersion": "v1", "type": "Opaque", "data": data}


def workload(ref: ResourceRef, replicas: int) -> Object:
    """Builds a dependent whose `replicas` pods are all ready."""
    if not ref.has_replicas:
        size = {"size": replicas}
        return {"apiVersion": ref.api_version, "spec": size, "status": dict(size)}
    labels = {"app": ref.name}
    containers = [{"name": ref.name, "image": f"registry.example/{ref.name}:1"}]
    sized = _sized(ref.api_version, replicas, labels, labels, {"containers": containers})
    return {**sized, "metadata": {"labels": {**labels, "gardener.cloud/role": "controlplane"}}}


def _sized(
    api_version: str, size: int, selector: Object, labels: Object, spec: Object
) -> dict[str, Any]:
    """Builds what has `size` pods of this spec, with these labels, all of them ready."""
    return {
        "apiVersion": api_version,
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": dict(selector)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": spec},
        },
        "status": {"replicas": size, "readyReplicas": size, "observedGeneration": 1},
    }


def node(zone: str, *, managed: bool = True) -> Object:
    """Builds a Node that is Ready."""
    annotations = {} if managed else {NOT_MANAGED: "1"}
    return {
        "apiVersion": "v1",
        "metadata": {"labels": {POOL: "worker", ZONE: zone}, "annotations": annotations},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def machine(node_name: str, phase: str, at: float) -> Object:
    """Builds a Machine that entered its phase at `at`."""
    return {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "metadata": {"labels": {"node": node_name}},
        "status": machine_phase(phase, at),
    }


def machine_phase(phase: str, at: float) -> Object:
    """Builds the status of a Machine that entered a phase at `at`."""
    return {"currentStatus": {"phase": phase, "lastUpdateTime": rfc3339(at, micro=True)}}


def lease(renewed: float | None, duration: int, node: str) -> Object:
    """Builds the Lease of a node, which was renewed at `renewed` on its clock; None: never."""
    spec: dict[str, Any] = {"holderIdentity": node, "leaseDurationSeconds": duration}
    if renewed is not None:
        spec["renewTime"] = rfc3339(renewed, micro=True)
    return {"apiVersion": "coordination.k8s.io/v1", "spec": spec}


# Pods with their controllers, services and EndpointSlices.


_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"


def owner_object(workload: Workload, name: str) -> Object:
    """Builds a ReplicaSet or StatefulSet all of whose pods run."""
    labels, spec = dict(workload.all_labels), _pod_spec(workload)
    sized = _sized("apps/v1", workload.replicas, workload.selected_by, labels, spec)
    return {**sized, "metadata": {"name": name, "labels": labels}}


def reference(obj: Object) -> dict[str, Any]:
    """Builds the owner reference that makes `obj` the controller."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod(workload: Workload, owner: Object | None) -> dict[str, Any]:
    """Builds a pod that is not bound to a node yet."""
    metadata: dict[str, Any] = {"labels": dict(workload.all_labels)}
    if owner is not None:
        metadata["ownerReferences"] = [reference(owner)]
        if workload.owner is Owner.REPLICA_SET:
            metadata["generateName"] = f"{owner['metadata']['name']}-"
    status = {"phase": "Pending", "qosClass": "Burstable"}
    spec = _pod_spec(workload)
    return {"apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


def _pod_spec(workload: Workload) -> dict[str, Any]:
    image = f"registry.example/{workload.name}:1"
    init = [{"name": "wait", "image": image}] if workload.init else []
    ports = [
        {"name": name, "containerPort": number, "protocol": "TCP"}
        for name, number in workload.all_ports.items()
    ]
    main = {"name": workload.name, "image": image, **({"ports": ports} if ports else {})}
    return {
        **({"initContainers": init} if init else {}),
        "containers": [main],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
    }


def condition(kind: str, status: bool, changed: float) -> dict[str, Any]:  # noqa: FBT001  the status of a condition
    """Builds a condition of a pod."""
    return {
        "type": kind,
        "status": str(status),
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(changed),
    }


def service(workload: Workload) -> dict[str, Any]:
    """Builds the Service of a workload."""
    ports = [{"name": SERVER, "port": SERVED_AT, "protocol": "TCP", "targetPort": SERVED_AT}]
    spec = {"selector": dict(workload.selected_by), "type": "ClusterIP", "ports": ports}
    return {"apiVersion": "v1", "spec": spec, "status": {"loadBalancer": {}}}


def endpoint_slice(
    owner: Object, pods: Iterable[Object], *, untold: bool = False
) -> dict[str, Any]:
    """An EndpointSlice of a service; without endpoints their list is null, as Go writes it.

    Args:
        owner: the service.
        pods: what is behind it.
        untold: leaves out whether they are ready.
    """
    name = owner["metadata"]["name"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "labels": {SERVICE_NAME: name, _MANAGED_BY: "endpointslice-controller.k8s.io"},
            "generateName": f"{name}-",
            "ownerReferences": [reference(owner)],
        },
        "addressType": "IPv4",
        "endpoints": [_endpoint(each, untold=untold) for each in pods] or None,
        "ports": [{"name": SERVER, "port": SERVED_AT, "protocol": "TCP"}],
    }


def _endpoint(pod: Object, *, untold: bool) -> Object:
    metadata, ends = pod["metadata"], terminating(pod)
    works = ready(pod) and not ends
    told = {"ready": works, "serving": works, "terminating": ends}
    return {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {} if untold else told,
        "nodeName": pod["spec"]["nodeName"],
        "targetRef": {
            "kind": "Pod",
            **{key: metadata[key] for key in ("namespace", "name", "uid")},
        },
    }
