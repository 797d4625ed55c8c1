"""The simulation's servers as an arena: arranged by store and faults, looked at by the real adapter over HTTPS."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from urllib.parse import urlsplit

import yaml

from app.core.clock import Clock
from app.core.model.policy import ProberPolicy
from app.core.model.shoots import Route, SecretView
from app.core.ports import Permission
from app.core.tasks import Tasks
from app.simulation import manifests
from app.simulation.builders import World
from app.simulation.faults import Fault
from app.simulation.identities import OPERATOR
from app.simulation.server.loopback import Loopback
from app.simulation.server.servers import SimulatedServers
from app.simulation.shoot import ShootServer
from app.simulation.store import ObjectKey, Store
from app.simulation.traffic import ConnectionLoss, Trouble
from app.simulation.workloads import PodPace
from tests.contract.adapter import Adapter, Relayed
from tests.contract.arena import KINDS, POLICY, SCALER, Json, whole
from tests.contract.proxy import Proxy

_NEVER = PodPace(observed=86_400, gone=86_400, ready=86_400)
"""Nobody but the test writes a status: there is no kube-controller-manager in the other cluster either."""
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
        self._store.request_deletion(self._key(kind, name, namespace), self._clock.now())

    async def find(self, kind: str, name: str, *, namespace: str | None = None) -> Json | None:
        found = self._store.find(self._key(kind, name, namespace))
        return None if found is None else dict(found)


class ServedShoot:
    """A shoot of a world."""

    def __init__(self, world: World, server: ShootServer) -> None:
        self._world, self._server = world, server
        self.admin = StoreAdmin(world.clock, server.store, manifests.LEASES)

    def secret(self, route: Route = Route.INTERNAL, content: bytes | None = None) -> SecretView:
        """The Secret that leads to it by `route`; `content` instead of what is right."""
        server = self._server
        url = self._world.place.url(server.namespace, route)
        user, authority = {"token": server.newest_token}, server.authority(route)
        content = content or manifests.kubeconfig(server.namespace, url, authority, user)
        return SecretView(server.namespace, f"a{next(_versions)}", content, route)

    @asynccontextmanager
    async def cut(self, route: Route, how: ConnectionLoss) -> AsyncIterator[None]:
        """Our way to it by this route is cut."""
        with self._world.faults.route_cut(self._server.namespace, route, how):
            await asyncio.sleep(0.01)  # its port hears of it in the next turns of the loop
            yield
        await asyncio.sleep(0.01)

    def storage_away(self):
        return during(self._world.faults.storage_away(self._server.namespace))


class ServedArena(Relayed):
    """A world behind its own servers."""

    namespace = "shoot--contract--a"

    def __init__(
        self, clock: Clock, tasks: Tasks, place: Loopback, *, policy: ProberPolicy = POLICY
    ) -> None:
        self.clock, self.tasks, self.policy = clock, tasks, policy
        self.world = World(
            clock,
            tasks,
            seed=1,
            latency=0.0,
            pace=_NEVER,
            place=place,
            external_secret_name=policy.secret_names.get(Route.EXTERNAL),
        )
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
            self.proxy = Proxy(self.port)
            await self.proxy.start()
            self.adapter = Adapter(
                self.clock, self.tasks, self.proxy, self.ca, self.token, self.policy
            )
            self.seed, self.connector = self.adapter.seed, self.adapter.connector
            self.access = self.adapter.access
            async with self.adapter.open():
                yield
            await self.proxy.stop()
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
    async def without(self, *rights: Permission) -> AsyncIterator[None]:
        """We may not do this, and that is known, for as long as it lasts; watches that are open go on."""
        with ExitStack() as stack:
            for each in rights:
                verbs, what = frozenset({each.verb}), frozenset({each.resource})
                trouble = Trouble(forbidden=True, verbs=verbs, what=what)
                stack.enter_context(self.world.faults.seed_trouble(trouble))
            yield


@asynccontextmanager
async def during(fault: Fault) -> AsyncIterator[None]:
    """It lasts as long as this."""
    with fault:
        yield
