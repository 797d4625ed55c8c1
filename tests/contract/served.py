"""The simulation's servers as an arena: arranged by store and faults, looked at by the real adapter over HTTPS."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import yaml

from app.core.clock import Clock
from app.core.model.shoots import Route, SecretView
from app.core.tasks import Tasks
from app.simulation import manifests
from app.simulation.builders import World
from app.simulation.faults import Fault
from app.simulation.identities import OPERATOR
from app.simulation.server.loopback import Loopback
from app.simulation.server.servers import SimulatedServers
from app.simulation.shoot import ShootServer
from app.simulation.store import ObjectKey, Store
from app.simulation.traffic import Trouble
from app.simulation.workloads import PodPace
from tests.contract.adapter import Adapter
from tests.contract.arena import KINDS, SCALER, Json, whole

_NEVER = PodPace(observed=86_400, gone=86_400, ready=86_400)
"""Nobody but the test writes a status: there is no kube-controller-manager in the other cluster either."""


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
        self._store.request_deletion(self._key(kind, name, namespace), self._clock.now())

    async def find(self, kind: str, name: str, *, namespace: str | None = None) -> Json | None:
        found = self._store.find(self._key(kind, name, namespace))
        return None if found is None else dict(found)


class ServedShoot:
    """A shoot of a world."""

    def __init__(self, world: World, server: ShootServer) -> None:
        self._world, self._server = world, server
        self.admin = StoreAdmin(world.clock, server.store, manifests.LEASES)

    def secret(self) -> SecretView:
        """The Secret that leads to it."""
        server = self._server
        url = self._world.place.url(server.namespace, Route.INTERNAL)
        user, authority = {"token": server.newest_token}, server.authority(Route.INTERNAL)
        content = manifests.kubeconfig(server.namespace, url, authority, user)
        return SecretView(server.namespace, "a1", content)

    def storage_away(self):
        return during(self._world.faults.storage_away(self._server.namespace))


class ServedArena:
    """A world behind its own servers."""

    namespace = "shoot--contract--a"

    def __init__(self, clock: Clock, tasks: Tasks, place: Loopback) -> None:
        self.clock, self.tasks = clock, tasks
        self.world = World(clock, tasks, seed=1, latency=0.0, pace=_NEVER, place=place)
        self.world.add_dependent("shoot--contract--other", SCALER, 1)
        self.admin = StoreAdmin(clock, self.world.store, self.namespace)
        self.servers = SimulatedServers(self.world, place)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Its servers listen within, and the adapter watches."""
        self.world.store.create(ObjectKey("Namespace", "", self.namespace), {"apiVersion": "v1"})
        await self.servers.start()
        try:
            self._read_kubeconfig()
            self.adapter = Adapter(self.clock, self.tasks, self.port, self.ca, self.token)
            self.seed, self.connector = self.adapter.seed, self.adapter.connector
            async with self.adapter.open():
                yield
        finally:
            await self.servers.stop()

    def _read_kubeconfig(self) -> None:
        operator = yaml.safe_load(self.servers.kubeconfig(OPERATOR))
        self.admin_token = operator["users"][0]["user"]["token"]
        content = yaml.safe_load(self.servers.kubeconfig())
        cluster = content["clusters"][0]["cluster"]
        port = urlsplit(cluster["server"]).port
        assert port is not None
        self.port = port
        self.ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.token = content["users"][0]["user"]["token"]

    async def shoot(self) -> ServedShoot:
        """A shoot without nodes, behind the namespace of the test."""
        server = self.world.add_shoot(self.namespace, nodes=0, replicas={})
        await self.servers.start()
        return ServedShoot(self.world, server)

    async def forget(self) -> None:
        """The server forgets what happened until now, to kinds of which it has no cache."""
        self.world.store.compact()

    def throttled(self):
        """429 for us, from the seed."""
        trouble = Trouble(throttled=True, retry_after=1.0)
        return during(self.world.faults.seed_trouble(trouble))

    def definitions_removed(self):
        """Those of Pauses and ScaleRequests are deleted, and all objects with them; then they are installed again."""
        return during(self.world.faults.crds_removed())

    async def grant(self, name: str, rules: list[Json]) -> None:
        """We get these rights, under this name, beside those that we have."""
        # nobody lacks a right here that was not taken away


@asynccontextmanager
async def during(fault: Fault) -> AsyncIterator[None]:
    """It lasts as long as this."""
    with fault:
        yield
