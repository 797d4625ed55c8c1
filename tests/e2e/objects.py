"""The Kubernetes objects of a Gardener landscape, as plain data."""

import base64
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from app.core.model.instants import rfc3339
from app.core.model.overrides import API_VERSION
from tests.support.kubeconfigs import kubeconfig_of

Json = dict[str, Any]

SECRET = "shoot-access-dependency-watchdog-probe"
KCM, MCM, CA = "kube-controller-manager", "machine-controller-manager", "cluster-autoscaler"
LEASE = "dwd-prober-leader-election"
POOL = "worker-1"
GROUP = API_VERSION.partition("/")[0]
"""Of Pauses and ScaleRequests."""
_DEFINITIONS = Path(__file__).parents[2] / "helm/dependency-watchdog/files/crds"
_BALLAST = "x" * 50_000


def crds() -> list[Json]:
    """Clusters and Machines, and a kind of our own that has `scale`."""
    return [
        crd("extensions.gardener.cloud", "v1alpha1", "Cluster", scope="Cluster"),
        crd("machine.sapcloud.io", "v1alpha1", "Machine", {"status": {}}),
        crd("example.org", "v1", "Scaler", {"status": {}, "scale": SCALE}),
    ]


def people_crds() -> list[Json]:
    """Pauses and ScaleRequests, as the chart defines them."""
    return [yaml.safe_load(each.read_text()) for each in sorted(_DEFINITIONS.glob("*.yaml"))]


SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# The paths of a scale subresource must be in the schema to be pruned from nothing and defaulted by nobody.
_SCHEMA = {**_ANYTHING, "properties": {"spec": _ANYTHING, "status": _ANYTHING}}


def crd(
    group: str,
    version: str,
    kind: str,
    subresources: Json | None = None,
    *,
    scope: str = "Namespaced",
) -> Json:
    """A kind of which anything may be stored."""
    plural = f"{kind.lower()}s"
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _SCHEMA},
        "subresources": subresources or {},
    }
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [served]},
    }


def cluster(namespace: str, shoot: Json) -> Json:
    """A Cluster with the Shoot in it, and with the weight of a real CloudProfile."""
    profile = {
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "CloudProfile",
        "metadata": {"name": "local"},
        "spec": {"caBundle": _BALLAST},
    }
    seed = {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Seed", "spec": {}}
    return {
        "apiVersion": "extensions.gardener.cloud/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": namespace},
        "spec": {"cloudProfile": profile, "seed": seed, "shoot": shoot},
    }


def shoot(namespace: str, *, grace: float) -> Json:
    """A Shoot that was reconciled an hour ago."""
    manager = {"nodeMonitorGracePeriod": f"{grace:g}s"}
    an_hour_ago = rfc3339(time.time() - 3600)
    operation = {"type": "Reconcile", "state": "Succeeded", "lastUpdateTime": an_hour_ago}
    return {
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "Shoot",
        "metadata": {"name": namespace.rpartition("--")[2], "namespace": "garden-e2e"},
        "spec": {
            "provider": {"type": "local", "workers": [{"name": POOL}]},
            "kubernetes": {"version": "1.35.4", "kubeControllerManager": manager},
        },
        "status": {"lastOperation": operation, "hibernated": False},
    }


def kubeconfig(name: str, server: str, ca: bytes, token: str | None) -> str:
    """As gardenlet writes it: everything named alike; an empty user until the token is there."""
    user = {} if token is None else {"token": token}
    bundle = base64.b64encode(ca).decode()
    cluster = {"certificate-authority-data": bundle, "server": server}
    return json.dumps(kubeconfig_of(name, cluster, user))


def secret(config: str) -> Json:
    """The Secret that holds the kubeconfig."""
    data = {"kubeconfig": base64.b64encode(config.encode()).decode()}
    return {"metadata": {"name": SECRET}, "type": "Opaque", "data": data}


def deployment(name: str, replicas: int, annotations: Mapping[str, str] | None = None) -> Json:
    """A Deployment of a control plane."""
    labels = {"app": name}
    container = {"name": "main", "image": "registry.invalid/none:1"}
    return {
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def scaler(name: str, replicas: int) -> Json:
    """A resource of a kind that only its `scale` subresource scales."""
    return {
        "apiVersion": "example.org/v1",
        "kind": "Scaler",
        "metadata": {"name": name},
        "spec": {"replicas": replicas},
    }


def machine(node: str) -> Json:
    """The Machine behind a node; its phase goes to its status."""
    return {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": f"machine-{node}", "labels": {"node": node}},
        "spec": {"class": {"kind": "MachineClass", "name": POOL}},
    }


def node(name: str, *, annotations: Mapping[str, str] | None = None) -> Json:
    """A Node of the only pool."""
    labels = {"worker.gardener.cloud/pool": POOL, "topology.kubernetes.io/zone": "a"}
    return {"metadata": {"name": name, "labels": labels, "annotations": dict(annotations or {})}}


def lease(name: str, renewed: float, duration: int) -> Json:
    """The Lease of a node, as its kubelet creates it."""
    spec = {
        "holderIdentity": name,
        "leaseDurationSeconds": duration,
        "renewTime": rfc3339(renewed, micro=True),
    }
    return {"metadata": {"name": name}, "spec": spec}


def rule(group: str, resources: Iterable[str], verbs: str, names: Iterable[str] = ()) -> Json:
    """One rule of a Role; `verbs` with spaces between."""
    found = {"apiGroups": [group], "resources": list(resources), "verbs": verbs.split()}
    return {**found, "resourceNames": list(names)} if names else found


def prober_rules(*, writes: str = "update patch") -> list[Json]:
    """What Gardener's ClusterRole grants the prober in the seed."""
    return [
        rule("extensions.gardener.cloud", ["clusters"], "get list watch"),
        rule("", ["secrets", "namespaces"], "get list watch"),
        rule("machine.sapcloud.io", ["machines"], "get list watch"),
        rule("apps", ["deployments", "deployments/scale"], f"get list watch {writes}"),
    ]


def scaler_rules() -> list[Json]:
    """What scaling our own kind needs."""
    return [
        rule("example.org", ["scalers"], "get list watch patch"),
        rule("example.org", ["scalers/scale"], "get patch"),
    ]


def garden_rules(*leases: str) -> list[Json]:
    """What Gardener's Role in the watchdog's own namespace grants; for the prober's Lease if none is named."""
    return [
        rule("coordination.k8s.io", ["leases"], "create"),
        rule("coordination.k8s.io", ["leases"], "get watch update", leases or [LEASE]),
        rule("", ["events"], "create get update patch"),
    ]


def people_rules(*plurals: str) -> list[Json]:
    """What Pauses and ScaleRequests, or these alone, need in the seed; Gardener does not grant it."""
    kinds = plurals or ("pauses", "scalerequests")
    return [
        rule(GROUP, kinds, "get list watch create patch delete"),
        rule(GROUP, [f"{each}/status" for each in kinds], "patch"),
    ]


def scale_request(name: str, direction: str, **spec: Any) -> Json:
    """A ScaleRequest, as somebody writes it who uses kubectl."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ScaleRequest",
        "metadata": {"name": name},
        "spec": {"direction": direction, "reason": "a test", **spec},
    }


def role(kind: str, name: str, rules: list[Json]) -> Json:
    """A Role or ClusterRole."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": rules,
    }


def binding(kind: str, name: str, to: str, namespace: str, account: str) -> Json:
    """A RoleBinding or ClusterRoleBinding of the role `to` for a ServiceAccount."""
    of = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind.removesuffix("Binding"), "name": to}
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": account}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": of,
        "subjects": [subject],
    }
