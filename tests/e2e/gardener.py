"""What Gardener puts into the `garden` namespace for the original: its Deployments, ConfigMaps and rights.

Facts of its public sources, not their text. Whoever swaps the watchdog in changes the image and nothing else.
"""

import hashlib
import json
from collections.abc import Iterator

import yaml

from tests.e2e import objects, program, weeder_objects
from tests.e2e.api import Api, Json, deployments
from tests.e2e.landscape import PROBER, RBAC

GARDEN = "garden"
WEEDER = weeder_objects.WEEDER
KEY = "dep-config.yaml"
ORIGINAL = "europe-docker.pkg.dev/gardener-project/releases/gardener/dependency-watchdog:v1.4.0"
"""The image of the original, as it stands in a Deployment; nobody pulls it here."""
_FOLDER = "/etc/dependency-watchdog/config"
COMMANDS = {
    PROBER: [
        "/usr/local/bin/dependency-watchdog",
        "prober",
        f"--config-file={_FOLDER}/{KEY}",
        "--kube-api-qps=20.0",
        "--kube-api-burst=100",
        "--enable-leader-election=true",
        "--zap-log-level=INFO",
    ],
    WEEDER: [
        "/usr/local/bin/dependency-watchdog",
        "weeder",
        f"--config-file={_FOLDER}/{KEY}",
        "--enable-leader-election=true",
    ],
}
_LEASES = {PROBER: objects.LEASE, WEEDER: weeder_objects.LEASE}
_USER = 65532


def config_map(name: str, content: Json) -> Json:
    """Immutable, and named after what is in it."""
    text = yaml.safe_dump(content)
    digest = hashlib.sha256(json.dumps({KEY: text}).encode()).hexdigest()[:8]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-config-{digest}", "namespace": GARDEN},
        "immutable": True,
        "data": {KEY: text},
    }


def deployment(name: str, config: str) -> Json:
    """As gardenlet's own component deploys it; the resource manager raises the replicas to two in such seeds."""
    labels = {"app": name}
    container = {
        "name": "dependency-watchdog",
        "image": ORIGINAL,
        "imagePullPolicy": "IfNotPresent",
        "command": COMMANDS[WEEDER if name.endswith("weeder") else PROBER],
        "ports": [{"name": "metrics", "containerPort": 9643, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": _FOLDER, "readOnly": True}],
    }
    pod = {
        "serviceAccountName": name,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
        },
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": config}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": GARDEN, "labels": labels},
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def prober_settings(interval: str = "30s", mcm_delay: str = "30s") -> Json:
    """The prober's ConfigMap; word by word Gardener's, unless a test has less time."""
    return program.config(program.gardener_dependents(mcm_delay), interval=interval)


def cluster_rules(name: str) -> list[Json]:
    """What each of the two may do in the whole seed."""
    return objects.prober_rules() if name == PROBER else weeder_objects.weeder_rules()


def rights(name: str) -> Iterator[tuple[str, Json]]:
    """Where to create each object of its rights, and the object."""
    inside = f"{RBAC}/namespaces/{GARDEN}"
    cluster, own = f"gardener.cloud:{name}:cluster-role", f"gardener.cloud:{name}:role"
    yield f"{RBAC}/clusterroles", objects.role("ClusterRole", cluster, cluster_rules(name))
    role = objects.role("Role", own, objects.garden_rules(_LEASES[name]))
    yield f"{inside}/roles", role
    yield (
        f"{RBAC}/clusterrolebindings",
        objects.binding("ClusterRoleBinding", f"{cluster}-binding", cluster, GARDEN, name),
    )
    yield (
        f"{inside}/rolebindings",
        objects.binding("RoleBinding", f"{own}-binding", own, GARDEN, name),
    )


async def deploy(seed: Api, prober: Json, weeder: Json) -> None:
    """Everything, in a seed that has no `garden` yet; the settings are those of the ConfigMaps."""
    await seed.create("/api/v1/namespaces", {"metadata": {"name": GARDEN}})
    for name, content in {PROBER: prober, WEEDER: weeder}.items():
        account = {"metadata": {"name": name}, "automountServiceAccountToken": True}
        await seed.create(f"/api/v1/namespaces/{GARDEN}/serviceaccounts", account)
        for path, body in rights(name):
            await seed.create(path, body)
        made = config_map(name, content)
        await seed.create(f"/api/v1/namespaces/{GARDEN}/configmaps", made)
        await seed.create(deployments(GARDEN), deployment(name, made["metadata"]["name"]))


async def swap(seed: Api, image: str) -> None:
    """Another image in both Deployments, and nothing else."""
    for name in (PROBER, WEEDER):
        path = f"{deployments(GARDEN)}/{name}"
        found = await seed.get(path)
        (container,) = found["spec"]["template"]["spec"]["containers"]
        changed = {"containers": [{**container, "image": image}]}
        await seed.patch(path, {"spec": {"template": {"spec": changed}}})
