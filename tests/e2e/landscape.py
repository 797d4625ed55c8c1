"""One shoot of the landscape: its control-plane namespace in the seed, its nodes, and what may happen to them."""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.model import workloads as ann
from tests.e2e import objects
from tests.e2e.api import (
    CLUSTERS,
    CRDS,
    LEASES,
    NODES,
    Api,
    ApiError,
    Json,
    all_of,
    deployments,
    machines,
    people,
    scalers,
    secrets,
)
from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubelets import Kubelets
from tests.e2e.objects import CA, KCM, MCM
from tests.e2e.processes import eventually

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PROBE = "dependency-watchdog-probe"
PROBER = "dependency-watchdog-prober"
PROBE_USER = f"system:serviceaccount:kube-system:{PROBE}"
CANNOT_PATCH = "prober-that-cannot-patch"
ONE_EACH: Mapping[str, int] = {KCM: 1, MCM: 1, CA: 1}


@dataclass(frozen=True, slots=True)
class Dependent:
    """A scaled resource, as the seed has it."""

    replicas: int
    ready: int
    annotations: Mapping[str, str]

    @property
    def saved(self) -> str | None:
        """The saved count, as it is written."""
        return self.annotations.get(ann.REPLICAS)

    @property
    def protected(self) -> bool:
        """Whether it carries the meltdown key."""
        return ann.MELTDOWN in self.annotations


async def furnish_seed(api: Api) -> None:
    """What every seed has: the custom resources, and the roles that Gardener grants."""
    for crd in objects.crds():
        await api.create(CRDS, crd)
    for name, writes in {PROBER: "update patch", CANNOT_PATCH: ""}.items():
        role = objects.role("ClusterRole", name, objects.prober_rules(writes=writes))
        await api.create(f"{RBAC}/clusterroles", role)
    for crd in objects.crds():
        await established(api, crd["metadata"]["name"])


async def furnish_people(api: Api) -> None:
    """Defines Pauses and ScaleRequests, as the chart does; those that are defined already stay."""
    for crd in objects.people_crds():
        if await api.find(f"{CRDS}/{crd['metadata']['name']}") is None:
            await api.create(CRDS, crd)
    for crd in objects.people_crds():
        await established(api, crd["metadata"]["name"])

    async def served() -> bool:
        found = [await api.find(f"{people(kind)}?limit=1") for kind in ("pauses", "scalerequests")]
        return None not in found

    await eventually(served, "Pauses and ScaleRequests are served", within=15)


async def remove_people(api: Api) -> None:
    """Deletes the definitions, and with them all Pauses and ScaleRequests; returns when none is served."""
    for crd in objects.people_crds():
        await api.delete(f"{CRDS}/{crd['metadata']['name']}")

    async def gone() -> bool:
        found = [await api.find(f"{people(kind)}?limit=1") for kind in ("pauses", "scalerequests")]
        return not any(found)

    await eventually(gone, "no Pauses and no ScaleRequests are served", within=15)


async def established(api: Api, name: str) -> None:
    """Waits until a custom resource is served."""

    async def is_so() -> bool:
        status = (await api.get(f"{CRDS}/{name}")).get("status") or {}
        conditions = status.get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    await eventually(is_so, f"{name} is established", within=15)


async def furnish_shoot(api: Api) -> None:
    """The probe's account in a shoot, with its rights, once the API server has made its namespaces."""
    await eventually(lambda: _has_namespaces(api), "the system's namespaces exist", within=30)
    leases = objects.rule("coordination.k8s.io", ["leases"], "get list")
    nodes = objects.rule("", ["nodes"], "get list")
    inside = f"{RBAC}/namespaces/kube-node-lease"
    await api.create(f"{inside}/roles", objects.role("Role", PROBE, [leases]))
    await api.create(f"{RBAC}/clusterroles", objects.role("ClusterRole", PROBE, [nodes]))
    for kind, path in {"Role": inside, "ClusterRole": RBAC}.items():
        binding = objects.binding(f"{kind}Binding", PROBE, PROBE, "kube-system", PROBE)
        await api.create(f"{path}/{kind.lower()}bindings", binding)
    await api.create(_ACCOUNTS.format("kube-system"), {"metadata": {"name": PROBE}})


_ACCOUNTS = "/api/v1/namespaces/{}/serviceaccounts"


async def _has_namespaces(api: Api) -> bool:
    found = [await api.find(f"/api/v1/namespaces/{n}") for n in ("kube-system", "kube-node-lease")]
    return all(found)


async def garden(
    seed: Api, namespace: str, role: str = PROBER, own_rules: list[Json] | None = None
) -> str:
    """A namespace for the watchdog itself, with its account and rights; returns a token of the account."""
    inner = objects.garden_rules() if own_rules is None else own_rules
    await seed.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await seed.create(_ACCOUNTS.format(namespace), {"metadata": {"name": PROBER}})
    inside = f"{RBAC}/namespaces/{namespace}"
    await seed.create(f"{inside}/roles", objects.role("Role", PROBER, inner))
    own = objects.binding("RoleBinding", PROBER, PROBER, namespace, PROBER)
    await seed.create(f"{inside}/rolebindings", own)
    everywhere = objects.binding("ClusterRoleBinding", namespace, role, namespace, PROBER)
    await seed.create(f"{RBAC}/clusterrolebindings", everywhere)
    return await seed.token_of(namespace, PROBER)


async def grant(seed: Api, namespace: str, name: str, rules: list[Json]) -> None:
    """Gives the watchdog in that namespace more rights, everywhere in the seed."""
    role = f"{namespace}-{name}"
    await seed.create(f"{RBAC}/clusterroles", objects.role("ClusterRole", role, rules))
    bound = objects.binding("ClusterRoleBinding", role, role, namespace, PROBER)
    await seed.create(f"{RBAC}/clusterrolebindings", bound)


class Shoot:
    """A shoot in the seed, on an API server that is its own while it exists."""

    def __init__(self, seed: Api, plane: ControlPlane, namespace: str) -> None:
        self.namespace = namespace
        self.plane = plane
        self.server = plane.url
        """How its kubeconfig names its API server."""
        self._seed = seed
        self._randomness = random.Random(namespace)
        self.token = ""

    async def build(
        self,
        *,
        nodes: int = 10,
        named: str = "node",
        replicas: Mapping[str, int] = ONE_EACH,
        grace: float = 40,
        duration: int = 40,
        kubelets: type[Kubelets] = Kubelets,
    ) -> None:
        """Creates everything; returns when the nodes renew their Leases and the dependents are ready."""
        self.grace, self.duration = grace, duration
        self.nodes = [f"{named}-{n:03}" for n in range(nodes)]
        self.dependents = list(replicas)
        await self._seed.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.kubelets = kubelets(self.plane, self.nodes, duration, self._randomness)
        await all_of(self._add_node(name) for name in self.nodes)
        await self.kubelets.start()
        for name, count in replicas.items():
            await self._seed.create(deployments(self.namespace), objects.deployment(name, count))
        await self.write_secret()
        shoot = objects.shoot(self.namespace, grace=grace)
        await self._seed.create(CLUSTERS, objects.cluster(self.namespace, shoot))
        await eventually(self._is_ready, "the dependents are ready", within=20)

    async def _add_node(self, name: str) -> None:
        await self.plane.api.create(NODES, objects.node(name))
        await self._seed.create(machines(self.namespace), objects.machine(name))
        path = f"{machines(self.namespace)}/machine-{name}/status"
        await self._seed.patch(path, {"status": {"currentStatus": {"phase": "Running"}}})

    async def _is_ready(self) -> bool:
        return all(each.ready == each.replicas for each in (await self.state()).values())

    async def demolish(self) -> None:
        """Removes what would disturb the next scenario; needs an API server that answers."""
        if hasattr(self, "kubelets"):
            await self.kubelets.stop()
        await self._seed.delete(f"{CLUSTERS}/{self.namespace}")
        await self._seed.delete(f"{secrets(self.namespace)}/{objects.SECRET}")
        await self._seed.delete(machines(self.namespace))
        await self._seed.delete(deployments(self.namespace))
        await self.plane.api.delete(NODES)
        await self.plane.api.delete(LEASES)

    # What is there.

    async def state(self) -> dict[str, Dependent]:
        """The dependents by name."""
        found = await self._seed.items(deployments(self.namespace))
        return {item["metadata"]["name"]: _dependent(item) for item in found}

    async def replicas(self) -> dict[str, int]:
        """`spec.replicas` of the dependents by name."""
        return {name: each.replicas for name, each in (await self.state()).items()}

    # What happens to its credentials.

    async def write_secret(self, *, token: str | None = None, ca: bytes | None = None) -> None:
        """Writes the kubeconfig; with a fresh token of the account, unless one is given."""
        if token is None:
            token = await self.plane.api.token_of("kube-system", PROBE)
        self.token = token
        authority = ca or self.plane.authority.pem
        config = objects.kubeconfig(self.namespace, self.server, authority, token)
        body = objects.secret(config)
        try:
            await self._seed.create(secrets(self.namespace), body)
        except ApiError as error:
            if error.status != 409:
                raise
            await self._seed.patch(f"{secrets(self.namespace)}/{objects.SECRET}", body)

    # What happens in the seed.

    async def annotate(self, dependent: str, annotations: Mapping[str, str | None]) -> None:
        """Sets or removes annotations of a dependent."""
        path = f"{deployments(self.namespace)}/{dependent}"
        await self._seed.patch(path, {"metadata": {"annotations": annotations}})

    async def add_scaler(self, name: str, replicas: int) -> None:
        """Adds a resource of another kind with `scale`."""
        await self._seed.create(scalers(self.namespace), objects.scaler(name, replicas))

    async def scaler(self, name: str) -> Json:
        """That resource."""
        return await self._seed.get(f"{scalers(self.namespace)}/{name}")

    # When things can be known.

    @property
    def expiry(self) -> float:
        """The age at which a lease is expired."""
        return 0.75 * self.grace

    def known_at(self) -> float:
        """When the outage that goes on could be known."""
        return self.kubelets.known_at(self.expiry)

    async def wait_until_expired(self, extra: float = 0) -> None:
        """Returns when every lease of the cut nodes is, in truth, expired, and `extra` seconds later."""
        last = max(self.kubelets.renewed.values())
        await asyncio.sleep(max(last + self.expiry + extra - time.time(), 0))


def _dependent(item: Json) -> Dependent:
    return Dependent(
        replicas=item["spec"]["replicas"],
        ready=(item.get("status") or {}).get("readyReplicas", 0),
        annotations=item["metadata"].get("annotations") or {},
    )
