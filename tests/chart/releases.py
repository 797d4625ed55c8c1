"""A release of the chart in a real API server: installed, changed, taken back and removed by a helm."""

import json
from pathlib import Path
from typing import Any

from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART
from tests.chart.tools import Tool

Json = dict[str, Any]

NAMESPACED = ",".join(
    [
        "deployments.apps",
        "configmaps",
        "services",
        "serviceaccounts",
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "networkpolicies.networking.k8s.io",
        "poddisruptionbudgets.policy",
        "endpointslices.discovery.k8s.io",
        "ingresses.networking.k8s.io",
        "secrets",
    ]
)
CLUSTER_WIDE = (
    "clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io"
)
OPTIONAL = ",".join(
    [
        "servicemonitors.monitoring.coreos.com",
        "podmonitors.monitoring.coreos.com",
        "prometheusrules.monitoring.coreos.com",
        "verticalpodautoscalers.autoscaling.k8s.io",
        "certificates.cert-manager.io",
        "httproutes.gateway.networking.k8s.io",
    ]
)


class Release:
    """One release; its namespace is made with it."""

    def __init__(self, cluster: Cluster, name: str, folder: Path) -> None:
        self.cluster, self.name, self.namespace = cluster, name, f"garden-{name}"
        self._folder = folder

    def do(self, helm: Tool, word: str, *more: str, values: Json | None = None) -> str:
        """`helm install`, `upgrade`, … of this release; with the chart where values are given."""
        words = [word, self.name, *more, f"--namespace={self.namespace}"]
        if values is not None:
            path = self._folder / "values.json"
            path.write_text(json.dumps(values))
            words += [str(CHART), f"--values={path}"]
        return self.cluster.helm(helm)(*words)

    def install(self, helm: Tool, values: Json, *more: str) -> str:
        """`helm install`, into a namespace that it makes where there is none."""
        return self.do(helm, "install", "--create-namespace", *more, values=values)

    def upgrade(self, helm: Tool, values: Json, *more: str) -> str:
        """`helm upgrade`."""
        return self.do(helm, "upgrade", *more, values=values)

    def revision(self, helm: Tool) -> int:
        """Its newest revision."""
        found = json.loads(self.do(helm, "history", "--output=json"))
        return max(int(each["revision"]) for each in found)

    def manifest(self, helm: Tool) -> str:
        """What helm says that it has put there."""
        words = ("get", "manifest", self.name, f"--namespace={self.namespace}")
        return self.cluster.helm(helm)(*words)

    def there(self, *kinds: str) -> set[str]:
        """`kind/name` of what it has in the API server, save what helm itself keeps."""
        chosen = f"--selector=app.kubernetes.io/instance={self.name}"
        inside = ",".join([NAMESPACED, *kinds])
        return self.cluster.names(inside, chosen, f"--namespace={self.namespace}") | (
            self.cluster.names(CLUSTER_WIDE, chosen)
        )

    def get(self, kind: str, suffix: str) -> Json:
        """One object, by what follows the release in its name."""
        return self.cluster.get(kind, f"{self.name}-{suffix}", self.namespace)

    def patch(self, kind: str, suffix: str, patch: Json) -> None:
        """What somebody else than helm changes."""
        given = ("--type=merge", f"--patch={json.dumps(patch)}", f"--namespace={self.namespace}")
        self.cluster.kubectl("patch", kind, f"{self.name}-{suffix}", *given)

    def config_maps(self) -> set[str]:
        """The ConfigMaps with files of the program."""
        chosen = "--selector=dependency-watchdog.gardener.cloud/config"
        return self.cluster.names("configmaps", chosen, f"--namespace={self.namespace}")
