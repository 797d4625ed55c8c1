"""What tests of the contract have in common, whichever cluster stands behind them.

A test acts on two sides of one API server: it arranges as an administrator (`create`, `patch`, `delete`, faults), and
it looks through the adapters of `app.core.kube`, as the prober does.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from app.core.kube.seed import SeedCluster
from app.core.model.callers import GROUP
from app.core.model.policy import DependentPolicy, ProberPolicy
from app.core.model.workloads import ResourceRef
from app.core.ports import Permission, Watched
from tests.e2e.objects import KCM as KCM_NAME
from tests.e2e.objects import SECRET

Json = dict[str, Any]

KCM: Final = ResourceRef("apps/v1", "Deployment", KCM_NAME)
SCALER: Final = ResourceRef("example.org/v1", "Scaler", "thing")
"""A dependent of a kind that is scaled by its `scale` subresource only."""
POLICY: Final = ProberPolicy(SECRET, (DependentPolicy(KCM), DependentPolicy(SCALER)))
NODE_LEASES: Final = "kube-node-lease"
PATIENCE: Final = 10.0
"""Seconds after which a test stops waiting for what must happen."""

_REAL: Final = pytest.param("kube", marks=pytest.mark.real)
CLUSTERS: Final = ("http", _REAL)
"""The adapter on the simulation's servers, and on a real API server."""
REAL_ALONE: Final = pytest.mark.parametrize("where", [_REAL], indirect=True)
"""For what only a real API server takes."""
REAL_TIME: Final = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.looptime(False)]
"""Sockets and processes know no virtual time; the processes live as long as the run, and so does the loop."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind as the API has it."""

    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "") -> str:
        """The path of a collection, or of an object in it."""
        base = (
            f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        )
        parts = [base, f"namespaces/{namespace}" if namespace and self.namespaced else ""]
        return "/".join(part for part in [*parts, self.plural, name] if part)


KINDS: Final[Mapping[str, Kind]] = {
    "Cluster": Kind("extensions.gardener.cloud/v1alpha1", "clusters", namespaced=False),
    "ConfigMap": Kind("v1", "configmaps"),
    "Deployment": Kind("apps/v1", "deployments"),
    "EndpointSlice": Kind("discovery.k8s.io/v1", "endpointslices"),
    "Event": Kind("events.k8s.io/v1", "events"),
    "Lease": Kind("coordination.k8s.io/v1", "leases"),
    "Machine": Kind("machine.sapcloud.io/v1alpha1", "machines"),
    "Node": Kind("v1", "nodes", namespaced=False),
    "Pod": Kind("v1", "pods"),
    "Scaler": Kind("example.org/v1", "scalers"),
    "Pause": Kind(f"{GROUP}/v1alpha1", "pauses"),
    "ScaleRequest": Kind(f"{GROUP}/v1alpha1", "scalerequests"),
    "Secret": Kind("v1", "secrets"),
}


def whole(kind: str, body: Json, namespace: str) -> Json:
    """`body` with all that makes it an object of its own: kind, apiVersion, namespace."""
    known = KINDS[kind]
    place = {"namespace": namespace} if known.namespaced else {}
    metadata = {**body["metadata"], **place}
    return {**body, "apiVersion": known.api_version, "kind": kind, "metadata": metadata}


async def until(condition: Callable[[], object], what: str = "", within: float = PATIENCE) -> None:
    """Waits until `condition` holds, looking every 10 ms: most of what it is about tells nobody."""
    try:
        async with asyncio.timeout(within):
            while not condition():  # noqa: ASYNC110  no event tells of it
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {within:g} s: {what or 'the condition'}") from None


def permissions_of(rules: Iterable[Json]) -> tuple[Permission, ...]:
    """All that rules of a role give."""
    return tuple(
        Permission(verb, rule["apiGroups"][0], resource)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


async def synced(seed: SeedCluster) -> None:
    """Waits until every watch has listed once."""
    await until(lambda: all(seed.watch_state(what).synced for what in Watched), "watches synced")
