"""The simulation's server as an arena: arranged like a world, looked at by the real adapter over HTTPS."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import yaml

from app.core.clock import Clock
from app.core.kube.election import LeaseElection
from app.core.model.policy import ProberPolicy
from app.core.tasks import Tasks
from app.simulation.builders import OPERATOR
from app.simulation.server.loopback import Loopback
from app.simulation.server.servers import SimulatedServers
from app.simulation.store import ObjectKey
from tests.contract.adapter import Adapter
from tests.contract.arena import POLICY
from tests.contract.proxy import Proxy
from tests.contract.worlds import GARDEN, WorldArena, WorldShoot


class ServedArena(WorldArena):
    """A world behind its own servers."""

    def __init__(
        self, clock: Clock, tasks: Tasks, place: Loopback, *, policy: ProberPolicy = POLICY
    ) -> None:
        super().__init__(clock, tasks, place, policy=policy)
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
            self.access, self.events = self.adapter.access, self.adapter.events
            async with self.adapter.open():
                yield
            await self.proxy.close()
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

    async def shoot(self) -> WorldShoot:
        made = await super().shoot()
        await self.servers.start()
        return made

    def candidate(self, identity: str) -> LeaseElection:
        return self.adapter.candidate(identity, GARDEN)

    def watches_cut(self):
        return self.proxy.down()

    def watches_stalled(self):
        return self.proxy.frozen()

    @asynccontextmanager
    async def watches_expired(self) -> AsyncIterator[None]:
        before = self.adapter.expired
        async with self.proxy.down():
            yield
            await self.forget()
        await self.adapter.list_anew(before)

    async def forget(self) -> None:
        """The server forgets what happened until now."""
        self.world.store.compact()
