"""The real adapter on a server, simulated or real: what the arenas of both share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from app.core.clock import Clock
from app.core.kube import kubeconfig
from app.core.kube.kubeconfig import ServerPolicy
from app.core.kube.seed import SeedCluster
from app.core.kube.seed_api import SeedApi, SeedIdentity
from app.core.kube.shoot import ShootConnector
from app.core.metrics import Metrics
from app.core.tasks import Tasks
from app.simulation.server.servers import MemoryCredentials
from tests.contract.arena import POLICY, synced

PROBE_TIMEOUT = 1.0
"""Seconds; what waits for a storage that is away waits no longer."""

_LOCAL = r"127\.0\.0\.1:[0-9]+"


class Adapter:
    """All adapters of `app.core.kube` on one seed, which listens on this port."""

    def __init__(self, clock: Clock, tasks: Tasks, port: int, ca: str, token: str) -> None:
        self.url, self._tasks = f"https://127.0.0.1:{port}", tasks
        identity = SeedIdentity(self.url, kubeconfig.client_context(ca), token)
        self.metrics = Metrics()
        self.api = SeedApi(MemoryCredentials(identity), clock, self.metrics, qps=1000.0, burst=1000)
        self.seed = SeedCluster(self.api, POLICY, tasks, Random(1))
        self.connector = ShootConnector(
            clock, self.metrics, ServerPolicy(pattern=_LOCAL), probe_timeout=PROBE_TIMEOUT
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Watches are open within."""
        await self.seed.start()
        try:
            await synced(self.seed)
            yield
        finally:
            await self._tasks.stop()
            await self.connector.close()
            await self.api.close()
            await asyncio.sleep(0.01)  # what was closed says so in the next turns of the loop
