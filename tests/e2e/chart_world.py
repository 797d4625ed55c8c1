"""A seed of its own that something is installed into, one shoot with its usual name, and pods of what was installed."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.e2e import weeder_objects as things
from tests.e2e.api import Api, Json
from tests.e2e.audit import Audit, Request
from tests.e2e.controlplane import ControlPlane
from tests.e2e.landscape import CANNOT_PATCH, PROBER, RBAC, Shoot
from tests.e2e.podrunner import Node, Pod
from tests.e2e.processes import eventually
from tests.e2e.stage import SCALED, Stage
from tests.e2e.weeder_actors import Kubelet, Place
from tests.e2e.weeder_objects import APISERVER
from tests.e2e.worlds import own_seed

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
            await place.service(APISERVER, ready=False)
            await place.service(APISERVER, ready=True)

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
