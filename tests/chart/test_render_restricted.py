"""A namespace that enforces the restricted Pod Security Standard takes the pods of every set of values."""

import json

import pytest

from tests.chart.cluster import Cluster, Clusters
from tests.chart.rendering import Json, Renderer

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

NAMESPACE = "restricted"


@pytest.fixture(scope="module")
def strict(clusters: Clusters) -> Cluster:
    """An API server with that namespace."""
    cluster = clusters.bare
    if f"namespace/{NAMESPACE}" not in cluster.names("namespaces"):
        cluster.namespace(NAMESPACE)
    level = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", NAMESPACE, level, "--overwrite")
    return cluster


def test_the_server_would_take_every_pod(strict: Cluster, render: Renderer) -> None:
    """Of one set: what a pod may do is the same in all of them (test_render_pods)."""
    for deployment in render(namespace=NAMESPACE).of("Deployment"):
        strict.kubectl(*DRY, stdin=json.dumps(pod(deployment)))


@pytest.mark.parametrize("key", ["seccompProfile", "runAsNonRoot"])
def test_it_would_not_take_one_that_may_do_more(
    strict: Cluster, render: Renderer, key: str
) -> None:
    """Else the test above could not fail."""
    asked = pod(render(namespace=NAMESPACE).of("Deployment")[0])
    del asked["spec"]["securityContext"][key]
    assert "violates PodSecurity" in strict.kubectl.refusal(*DRY, stdin=json.dumps(asked))


DRY = ("apply", "--dry-run=server", "--validate=strict", "--filename=-")


def pod(deployment: Json) -> Json:
    """A pod of a Deployment, without its priority: the class is not there."""
    template = deployment["spec"]["template"]
    spec = {key: each for key, each in template["spec"].items() if key != "priorityClassName"}
    metadata = {**template["metadata"], "name": "tried", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
