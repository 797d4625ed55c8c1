"""The chart, installed into a scenario's seed by helm, as its administrator does it."""

import asyncio
import base64
import json
from dataclasses import dataclass
from typing import Any

from tests.chart import cluster
from tests.chart.rendering import CHART
from tests.chart.tools import Tool, tool
from tests.e2e import objects
from tests.e2e.api import Json
from tests.e2e.apiclient import ApiClient
from tests.e2e.chart_world import InstalledWorld
from tests.e2e.landscape import RBAC
from tests.e2e.podrunner import Pod
from tests.support.certs import Authority

GARDEN = "garden"
RELEASE = "dependency-watchdog"
TLS = "dependency-watchdog-api"
AUDIENCE = "dependency-watchdog"


class Helm:
    """One helm, for the seed of a scenario; `namespace` is where the release goes."""

    def __init__(self, world: InstalledWorld, binary: str, namespace: str = GARDEN) -> None:
        self._world, self.namespace = world, namespace
        self._folder = world.stage.folder / f"{binary}-{world.stage.number:02}"
        made = tool(binary, self._folder)
        config = cluster.administrator(world.seed, self._folder)
        self._tool: Tool = made.with_words(f"--kubeconfig={config}", f"--namespace={namespace}")

    async def __call__(self, *words: str, values: Json | None = None) -> str:
        """Calls it; returns what it printed."""
        return await asyncio.to_thread(self._tool, *words, *self._given(values))

    async def refusal(self, *words: str, values: Json | None = None) -> str:
        """Calls it, and expects that it fails; returns what it printed."""
        return await asyncio.to_thread(self._tool.refusal, *words, *self._given(values))

    async def install(self, values: Json) -> str:
        """`helm install`, into a namespace that it makes if there is none."""
        return await self("install", RELEASE, str(CHART), "--create-namespace", values=values)

    async def upgrade(self, values: Json) -> str:
        """`helm upgrade`."""
        return await self("upgrade", RELEASE, str(CHART), values=values)

    def _given(self, values: Json | None) -> list[str]:
        if values is None:
            return []
        path = self._folder / f"values-{len(list(self._folder.glob('values-*')))}.json"
        path.write_text(json.dumps(values))
        return [f"--values={path}"]


def quick(**more: Any) -> Json:
    """Values of a seed whose shoots are lost and found in seconds."""
    policies = [
        ("kube-controller-manager", 0, 1, False, None),
        ("machine-controller-manager", 1, 0, False, "2s"),
        ("cluster-autoscaler", 2, 0, True, None),
    ]
    return {
        "prober": {
            "config": {"probeInterval": "5s", "dependentResourceInfos": [*map(_of, policies)]}
        },
        **more,
    }


def _of(policy: tuple[str, int, int, bool, str | None]) -> Json:
    name, up, down, optional, delay = policy
    return {
        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "optional": optional,
        "scaleUp": {"level": up} if delay is None else {"level": up, "initialDelay": delay},
        "scaleDown": {"level": down},
    }


async def furnish_tls(world: InstalledWorld, authority: Authority, namespace: str = GARDEN) -> None:
    """The namespace, and in it the Secret with the API's certificate, which are there before the chart."""
    await world.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    await world.api.create(secrets, tls_secret(authority))


def tls_secret(authority: Authority) -> Json:
    """The Secret that the values of a seed with TLS name."""
    pair = authority.server(["127.0.0.1"])
    data = {"tls.crt": pair.certificate, "tls.key": pair.key}
    return {
        "metadata": {"name": TLS},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(content).decode() for key, content in data.items()},
    }


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls the API of pods: a ServiceAccount of the seed, with a role that the chart brings."""

    token: str
    ca: bytes | None

    @classmethod
    async def admin(
        cls, world: InstalledWorld, authority: Authority | None = None, namespace: str = GARDEN
    ) -> "Caller":
        """One who may do everything, everywhere."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        await world.api.create(accounts, {"metadata": {"name": "caller"}})
        role = f"{RELEASE}-admin"
        bound = objects.binding("ClusterRoleBinding", "caller", role, namespace, "caller")
        await world.api.create(f"{RBAC}/clusterrolebindings", bound)
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [AUDIENCE], "expirationSeconds": 3600},
        }
        made = await world.api.create(f"{accounts}/caller/token", request)
        return cls(made["status"]["token"], authority.pem if authority else None)

    def of(self, pod: Pod) -> ApiClient:
        """The API of a pod, through TLS."""
        return ApiClient(f"https://127.0.0.1:{pod.port('api')}", token=self.token, ca=self.ca)
