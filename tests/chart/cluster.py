"""Real API servers that a chart goes into: one that serves the kinds of others, and one that does not."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chart.crds import optional_crds
from tests.chart.tools import Tool, where_is
from tests.e2e.api import CRDS, all_of
from tests.e2e.controlplane import ADMIN, ControlPlane, Etcd, assets_in
from tests.e2e.landscape import established
from tests.e2e.program import admin_config

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cluster:
    """One API server, and the programs that speak to it as its administrator."""

    plane: ControlPlane
    kubeconfig: Path
    kubectl: Tool

    def helm(self, binary: Tool) -> Tool:
        """This helm, for this API server."""
        return binary.with_words(f"--kubeconfig={self.kubeconfig}")

    def get(self, kind: str, name: str, namespace: str) -> Json:
        """One object."""
        found: Json = json.loads(self.kubectl("get", kind, name, "-n", namespace, "-o", "json"))
        return found

    def names(self, kinds: str, *words: str) -> set[str]:
        """`kind/name` of all objects of some kinds (with commas between); `words` select."""
        return set(self.kubectl("get", kinds, "-o", "name", *words).split())

    def namespace(self, name: str) -> str:
        """A new namespace; returns its name."""
        self.kubectl("create", "namespace", name)
        return name


@dataclass(frozen=True, slots=True)
class Clusters:
    """Both."""

    full: Cluster
    """Serves the kinds of the Prometheus operator, the VPA, cert-manager and the Gateway API."""
    bare: Cluster
    """Serves none of them."""


@asynccontextmanager
async def clusters(folder: Path, assets: Path) -> AsyncIterator[Clusters]:
    """Starts both, on one etcd."""
    storage = Etcd(assets / "etcd", folder, "etcd")
    planes = [ControlPlane(assets / "kube-apiserver", folder, n, storage) for n in ("full", "bare")]
    try:
        await storage.start()
        await all_of(each.start() for each in planes)
        await define(planes[0])
        full, bare = (_cluster(each, folder) for each in planes)
        yield Clusters(full, bare)
    finally:
        await all_of(each.stop() for each in planes)
        await storage.stop()


async def define(plane: ControlPlane) -> None:
    """Lets an API server serve the kinds of others."""
    definitions = optional_crds()
    await all_of(plane.api.create(CRDS, each) for each in definitions)
    await all_of(established(plane.api, each["metadata"]["name"]) for each in definitions)


def administrator(plane: ControlPlane, folder: Path) -> Path:
    """A kubeconfig of the administrator, in that folder."""
    path = folder / f"{plane.name}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(admin_config(plane.url, plane.authority.pem, ADMIN))
    return path


def found_assets() -> Path | None:
    """The folder of etcd, kube-apiserver and kubectl; None where one of them is missing."""
    assets = assets_in(os.environ.get("KUBEBUILDER_ASSETS"))
    return assets if assets and where_is("kubectl") else None


def _cluster(plane: ControlPlane, folder: Path) -> Cluster:
    config = administrator(plane, folder)
    kubectl = where_is("kubectl")
    assert kubectl is not None, "found_assets() was asked before"
    home = folder / f"kubectl-{plane.name}"
    home.mkdir()
    return Cluster(plane, config, Tool(kubectl, home, (f"--kubeconfig={config}",)))


async def document(plane: ControlPlane) -> Json:
    """What an API server says of all the kinds that it serves (OpenAPI 2)."""
    return await plane.api.get("/openapi/v2")


async def documented(plane: ControlPlane, kind: str, within: float = 30) -> Json:
    """The same, once a kind is in it: those of custom resources come a moment after they are served."""
    async with asyncio.timeout(within):
        while True:
            found = await document(plane)
            if any(kind == name.rpartition(".")[2] for name in found["definitions"]):
                return found
            await asyncio.sleep(0.3)
