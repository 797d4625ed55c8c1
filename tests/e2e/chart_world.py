"""A seed that something is installed into: one shoot with its usual name, and pods of what was installed.

The chart is installed by helm, as its administrator does it; rights are held against their use.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from app.core.model.callers import AUDIENCE
from tests.chart import cluster
from tests.chart.rendering import CHART
from tests.chart.tools import Tool, tool
from tests.e2e import objects
from tests.e2e import weeder_objects as things
from tests.e2e.api import Api, Json
from tests.e2e.apiclient import ApiClient
from tests.e2e.audit import Audit, Request
from tests.e2e.controlplane import ControlPlane
from tests.e2e.landscape import CANNOT_PATCH, PROBER, RBAC, Shoot
from tests.e2e.podrunner import Node, Pod
from tests.e2e.processes import eventually
from tests.e2e.program import gardener_dependents
from tests.e2e.stage import SCALED, Stage
from tests.e2e.weeder_actors import Kubelet, Place
from tests.e2e.worlds import own_seed
from tests.support.certs import Authority

GRACE = 16
"""Seconds after which a shoot of these scenarios takes a node for lost."""


@dataclass(frozen=True, slots=True)
class InstalledWorld:
    """What a scenario of installed objects plays on."""

    stage: Stage
    node: Node

    @property
    def seed(self) -> ControlPlane:
        """The seed."""
        return self.stage.seed

    @property
    def api(self) -> Api:
        """Its administrator."""
        return self.stage.seed.api

    @property
    def shoot(self) -> Shoot:
        """The only shoot."""
        return self.stage.shoot

    def requests(self, account: str, namespace: str, since: float = 0) -> list[Request]:
        """What a ServiceAccount asked of the seed."""
        user = f"system:serviceaccount:{namespace}:{account}"
        return Audit(self.seed.audit.log).requests(since=since, user=user)

    def scaled_by(self, account: str, namespace: str) -> list[Request]:
        """What it wrote to dependents, refused writes too."""
        asked = self.requests(account, namespace)
        return [each for each in asked if each.writes and each.resource in SCALED]

    async def until_verdict(self, prober: Pod, state: str = "Healthy", within: float = 30) -> None:
        """Waits until its metrics say that the shoot is in this state; needs no right to call its API."""

        async def is_so() -> bool:
            labels = {"namespace": self.shoot.namespace, "state": state}
            return await prober.metric("dwd_shoot_state", **labels) == 1

        what = f"{self.shoot.namespace} is {state}"
        await eventually(is_so, what, within=within, every=0.2)

    async def protected_and_back(self) -> tuple[float, float]:
        """An outage, and its end; returns the seconds from when it could be known to 0, and from its end to 1."""
        await self.stage.outage(within=40)
        down = time.time() - self.shoot.known_at()
        restored = self.shoot.kubelets.path.restore()
        await self.stage.until_up(within=60)
        return down, time.time() - restored

    async def weeded(self, namespace: str, *, told: bool = True) -> None:
        """A service is lost and comes back; waits until the pods that waited were deleted, and Events `told` it."""
        place = Place(self.api, namespace)
        await place.create()
        async with Kubelet(self.api):
            waiting = await place.workloads(2, 2)
            others = await place.workloads(1, 1, labels=things.UNRELATED, named="other")
            await place.service(ready=False)
            await place.service(ready=True)

            async def are_gone() -> bool:
                return not waiting.items() & (await place.there()).items()

            await eventually(are_gone, "the pods that waited are deleted", within=30)
            assert others.items() <= (await place.there()).items()
        if told:
            await self.until_event("PodWeeded", namespace)

    async def until_event(self, reason: str, namespace: str) -> None:
        """Waits until there is such an Event."""

        async def is_there() -> bool:
            found = await self.api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
            return any(each["reason"] == reason for each in found)

        await eventually(is_there, f"an Event {reason} in {namespace}", within=15)


@asynccontextmanager
async def installed_world(outer: Stage) -> AsyncIterator[InstalledWorld]:
    """A seed of its own, and the shoot."""
    async with own_seed(outer, people=False) as world:
        await outer.plane.known_as(name_of_server(world.stage.shoot))
        async with furnished(world.stage, world.way.port) as made:
            yield made


def name_of_server(shoot: Shoot) -> str:
    """How a kubeconfig names a shoot's API server, in Gardener."""
    return f"kube-apiserver.{shoot.namespace}.svc"


@asynccontextmanager
async def furnished(stage: Stage, seed_port: int) -> AsyncIterator[InstalledWorld]:
    """The shoot, whose API server is `known_as` its name already; pods reach the seed at that port, and end with it."""
    for role in (PROBER, CANNOT_PATCH):  # what is installed brings its own
        await stage.seed.api.delete(f"{RBAC}/clusterroles/{role}")
    host = name_of_server(stage.shoot)
    stage.shoot.server = f"https://{host}"
    node = Node(stage.seed.api, seed_port, stage.folder, {host: stage.plane.port})
    await stage.shoot.build(grace=GRACE, duration=GRACE)
    try:
        yield InstalledWorld(stage, node)
    except BaseException as error:
        error.add_note("\n".join(f"--- {each.name}\n{each.child.tail()}" for each in node.pods))
        raise
    finally:
        await node.close()


def rbac_refusals(requests: list[Request]) -> set[tuple[str, str, str]]:
    """What was refused: verb, group and resource."""
    return {(each.verb, each.group, each.resource) for each in requests if each.code == 403}


def annotations_of(state: Json) -> dict[str, str]:
    """The annotations of an object."""
    found: dict[str, str] = state["metadata"].get("annotations") or {}
    return found


# The chart.


GARDEN = "garden"
RELEASE = "dependency-watchdog"
TLS = "dependency-watchdog-api"


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

    def _given(self, values: Json | None) -> list[str]:
        if values is None:
            return []
        path = self._folder / f"values-{len(list(self._folder.glob('values-*')))}.json"
        path.write_text(json.dumps(values))
        return [f"--values={path}"]


def quick(**more: Any) -> Json:
    """Values of a seed whose shoots are lost and found in seconds."""
    config = {"probeInterval": "5s", "dependentResourceInfos": gardener_dependents(mcm_delay="2s")}
    return {"prober": {"config": config}, **more}


async def furnish_tls(world: InstalledWorld, authority: Authority) -> None:
    """The namespace, and in it the Secret with the API's certificate, which are there before the chart."""
    pair = authority.server(["127.0.0.1"])
    data = {"tls.crt": pair.certificate, "tls.key": pair.key}
    secret = {
        "metadata": {"name": TLS},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(content).decode() for key, content in data.items()},
    }
    await world.api.create("/api/v1/namespaces", {"metadata": {"name": GARDEN}})
    await world.api.create(f"/api/v1/namespaces/{GARDEN}/secrets", secret)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls the API of pods: a ServiceAccount of the seed, with a role that the chart brings."""

    token: str
    ca: bytes | None

    @classmethod
    async def admin(
        cls, world: InstalledWorld, authority: Authority | None = None, release: str = RELEASE
    ) -> "Caller":
        """One who may do everything, everywhere."""
        accounts = f"/api/v1/namespaces/{GARDEN}/serviceaccounts"
        await world.api.create(accounts, {"metadata": {"name": "caller"}})
        role = f"{release}-admin"
        bound = objects.binding("ClusterRoleBinding", "caller", role, GARDEN, "caller")
        await world.api.create(f"{RBAC}/clusterrolebindings", bound)
        token = await world.api.token_of(GARDEN, "caller", audience=AUDIENCE)
        return cls(token, authority.pem if authority else None)

    def of(self, pod: Pod) -> ApiClient:
        """The API of a pod, through TLS."""
        return ApiClient(f"https://127.0.0.1:{pod.port('api')}", token=self.token, ca=self.ca)


# Rights, and their use.


READING = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One verb on one resource; everywhere and for every name, unless it says otherwise."""

    verb: str
    group: str
    resource: str
    """With its subresource: `deployments/scale`."""
    name: str = ""
    namespace: str = ""

    def covers(self, request: Request) -> bool:
        """Whether a request is one that this allows."""
        return (
            (self.verb, self.group, self.resource)
            == (request.verb, request.group, request.resource)
            and self.name in {"", request.name}
            and self.namespace in {"", request.namespace}
        )

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}.{self.group or 'core'} {self.name}{where}"


async def granted(seed: Api, account: str, namespace: str) -> set[Grant]:
    """All that bindings give to a ServiceAccount, as the API server has them."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    found: set[Grant] = set()
    for kind in ("clusterrolebindings", "rolebindings"):
        for binding in await seed.items(f"{RBAC}/{kind}"):
            if any(subject.items() <= each.items() for each in binding.get("subjects") or ()):
                inside = binding["metadata"].get("namespace", "")
                role = await seed.get(_path(binding["roleRef"], inside))
                found.update(_of(role["rules"], inside))
    return found


def _path(reference: Json, namespace: str) -> str:
    if reference["kind"] == "ClusterRole":
        return f"{RBAC}/clusterroles/{reference['name']}"
    return f"{RBAC}/namespaces/{namespace}/roles/{reference['name']}"


def _of(rules: Iterable[Json], namespace: str) -> Iterator[Grant]:
    for rule in rules:
        for group in rule.get("apiGroups") or ():
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or [""]:
                        yield Grant(verb, group, resource, name, namespace)


def unused(grants: Iterable[Grant], requests: Iterable[Request]) -> set[Grant]:
    """Those that no request needed."""
    asked = list(requests)
    return {each for each in grants if not any(each.covers(request) for request in asked)}


# T16's table grants it, and the chart what the table grants. No Event is written twice.
_ON_PAPER = {Grant("patch", "events.k8s.io", "events")}
# Tried at each start, and refused by the chart's rights: what carries the meltdown key but is not configured could be
# anywhere.
_TRIED = {("list", "deployments", "")}


async def assert_exact(
    seed: Api,
    account: str,
    namespace: str,
    asked: Iterable[Request],
    *,
    spare: Iterable[Grant] = (),
) -> None:
    """Nothing that an account asked for was forbidden, and nothing that it is granted was never needed.

    Who may list a thing may know it: get, list and watch go together, as in T16's table, so one of them is enough.
    `spare` is what these requests could not need.
    """
    requests = list(asked)
    refused = {(each.verb, each.resource, each.name) for each in requests if each.code == 403}
    assert refused <= _TRIED, f"{account} was refused {refused - _TRIED}"
    grants = await granted(seed, account, namespace)
    assert grants, f"nothing is granted to {account}"
    used = grants - unused(grants, requests)
    readable = {_thing(each) for each in used if each.verb in READING}
    never = {
        each
        for each in grants - used - _ON_PAPER - set(spare)
        if each.verb not in READING or _thing(each) not in readable
    }
    assert not never, f"{account} never used: {', '.join(map(str, sorted(never)))}"
    assert not used & set(spare), "what is called spare is used"


def _thing(grant: Grant) -> Grant:
    return replace(grant, verb="")
