"""The simulation as an arena: arranged on its store and by its faults, looked at through its own ports."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, cast

from app.core.clock import Clock
from app.core.kube.election import ElectionTimes, LeaseElection
from app.core.metrics import Metrics
from app.core.model.policy import ProberPolicy
from app.core.model.shoots import Route, SecretView
from app.core.ports import (
    AccessReviewer,
    EventSink,
    Permission,
    SeedCluster,
    ShootConnector,
    Watched,
)
from app.core.tasks import Tasks
from app.simulation import deletion, manifests
from app.simulation.builders import World
from app.simulation.leases import SimulatedLeaseStore
from app.simulation.network import ServerPlace
from app.simulation.parts import Fault
from app.simulation.shoot import ShootServer
from app.simulation.store import ObjectKey, Store
from app.simulation.traffic import ConnectionLoss, Trouble
from app.simulation.views import secret_view
from app.simulation.workloads import PodPace
from tests.contract.arena import ELECTION, KCM, KINDS, POLICY, SCALER, Json, whole

if TYPE_CHECKING:
    from app.core.kube.election_lease import LeaseStore

TIMES = ElectionTimes(lease_duration=1.0, renew_deadline=0.6, retry_period=0.1)
GARDEN = "garden"
_NEVER = PodPace(observed=86_400, gone=86_400, ready=86_400)
"""Nobody but the test writes a status: there is no kube-controller-manager in the other clusters either."""
_versions = count(1)


class StoreAdmin:
    """Writes into the store of one simulated API server."""

    def __init__(self, clock: Clock, store: Store, namespace: str) -> None:
        self._clock, self._store, self._namespace = clock, store, namespace

    def _key(self, kind: str, name: str, namespace: str | None) -> ObjectKey:
        place = self._namespace if namespace is None else namespace
        return ObjectKey(kind, place if KINDS[kind].namespaced else "", name)

    async def create(self, kind: str, body: Json, *, namespace: str | None = None) -> None:
        key = self._key(kind, body["metadata"]["name"], namespace)
        defaults = {"status": {"phase": "Pending"}} if kind == "Pod" else {}
        self._store.create(key, defaults | whole(kind, body, key.namespace))

    async def patch(
        self,
        kind: str,
        name: str,
        patch: Json,
        *,
        namespace: str | None = None,
        status: bool = False,
    ) -> None:
        self._store.patch(self._key(kind, name, namespace), patch, status=status)

    async def delete(self, kind: str, name: str, *, namespace: str | None = None) -> None:
        deletion.delete(self._store, self._key(kind, name, namespace), self._clock.now())

    async def find(self, kind: str, name: str, *, namespace: str | None = None) -> Json | None:
        found = self._store.find(self._key(kind, name, namespace))
        return None if found is None else dict(found)


class WorldShoot:
    """A shoot of a world."""

    def __init__(self, world: World, server: ShootServer) -> None:
        self._world, self._server = world, server
        self.admin = StoreAdmin(world.clock, server.store, manifests.LEASES)

    def secret(self, **changes: Any) -> SecretView:
        server, route = self._server, changes.get("route", Route.INTERNAL)
        user = changes.get("user", {"token": changes.get("token", server.newest_token)})
        url = changes.get("server", self._world.parts.place.url(server.namespace, route))
        content = manifests.kubeconfig(server.namespace, url, server.authority(route), user)
        content = changes.get("content", content)
        return SecretView(server.namespace, f"a{next(_versions)}", content, route)

    @asynccontextmanager
    async def cut(self, route: Route, how: ConnectionLoss) -> AsyncIterator[None]:
        with self._world.faults.route_cut(self._server.namespace, route, how):
            await asyncio.sleep(0.01)  # its port hears of it in the next turns of the loop
            yield
        await asyncio.sleep(0.01)

    def slow(self, route: Route, seconds: float):
        trouble = Trouble(latency=seconds)
        return self._during(
            self._world.faults.route_trouble(self._server.namespace, route, trouble)
        )

    @asynccontextmanager
    async def _during(self, fault: Fault) -> AsyncIterator[None]:
        with fault:
            yield

    def storage_away(self):
        return self._during(self._world.faults.storage_away(self._server.namespace))

    def down(self):
        return self._during(self._world.faults.api_down(self._server.namespace))

    @asynccontextmanager
    async def impostor(self) -> AsyncIterator[SecretView]:
        right = self.secret()
        with self._world.faults.certificate_untrusted(self._server.namespace):
            yield right

    def throttled(self, retry_after: float | None):
        return self._during(self._world.faults.throttled(self._server.namespace, retry_after))

    def forbidden(self):
        return self._during(self._world.faults.forbidden(self._server.namespace, "list", "nodes"))

    async def rotate(self) -> SecretView:
        self._world.faults.rotate_token(self._server.namespace)
        return secret_view(self._world.store.get(self._key))

    @property
    def _key(self) -> ObjectKey:
        return ObjectKey("Secret", self._server.namespace, manifests.SECRET_NAME)


class WorldArena:
    """A world, through its own ports."""

    namespace = "shoot--contract--a"
    events: EventSink | None = None

    def __init__(
        self,
        clock: Clock,
        tasks: Tasks,
        place: ServerPlace | None = None,
        *,
        policy: ProberPolicy = POLICY,
    ) -> None:
        self.clock, self.tasks, self.policy = clock, tasks, policy
        self.world = World(
            clock,
            tasks,
            seed=1,
            latency=0.0,
            watch_delay=0.01,
            pace=_NEVER,
            place=place,
            external_secret_name=policy.secret_names.get(Route.EXTERNAL),
        )
        self.world.add_dependent("shoot--contract--other", SCALER, 1)
        self.admin = StoreAdmin(clock, self.world.store, self.namespace)
        self.seed: SeedCluster = self.world.seed
        self.connector: ShootConnector = self.world.connector
        self.access: AccessReviewer = self.world.access

    async def shoot(self) -> WorldShoot:
        return WorldShoot(self.world, self.world.add_shoot(self.namespace, nodes=0, replicas={}))

    def candidate(self, identity: str) -> LeaseElection:
        api = self.world.parts.api
        lease = cast(
            "LeaseStore",  # it has the same methods
            SimulatedLeaseStore(api, self.world.store, self.clock, GARDEN, ELECTION),
        )
        return LeaseElection(lease, identity, TIMES, self.clock, Metrics(), Random(identity))

    async def lease(self) -> Json | None:
        found = self.world.store.find(ObjectKey("Lease", GARDEN, ELECTION))
        return None if found is None else dict(found)

    async def drop_lease(self) -> None:
        self.world.store.delete(ObjectKey("Lease", GARDEN, ELECTION))

    async def usurp(self, holder: str) -> None:
        patch = {"spec": {"holderIdentity": holder}}
        self.world.store.patch(ObjectKey("Lease", GARDEN, ELECTION), patch)

    async def begin_deletion(self, kind: str, name: str) -> None:
        patch = {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}
        await self.admin.patch(kind, name, patch)

    @asynccontextmanager
    async def watches_cut(self) -> AsyncIterator[None]:
        with ExitStack() as stack:
            for what in Watched:
                stack.enter_context(self.world.faults.watch_stalled(what))
            yield

    def watches_stalled(self):
        return self.watches_cut()

    @asynccontextmanager
    async def watches_expired(self) -> AsyncIterator[None]:
        async with self.watches_cut():
            yield
            self.world.store.compact()

    @asynccontextmanager
    async def throttled(self, retry_after: float | None) -> AsyncIterator[None]:
        trouble = Trouble(throttled=True, retry_after=retry_after)
        with self.world.faults.seed_trouble(trouble):
            yield

    @asynccontextmanager
    async def patches_forbidden(self) -> AsyncIterator[tuple[Permission, ...]]:
        missing = Permission("patch", "apps", "deployments", KCM.name)
        self.world.access.denied.add(missing)
        with self.world.faults.patch_forbidden("deployments"):
            yield (missing,)
        self.world.access.denied.discard(missing)
