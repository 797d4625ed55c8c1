"""The real adapter on a server, simulated or real: what the arenas of both share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

import pytest

from app.core.clock import Clock
from app.core.kube import kubeconfig, reflector
from app.core.kube.kubeconfig import ExternalServerPolicy, ServerPolicy
from app.core.kube.reviews import AccessReviewer
from app.core.kube.seed import SeedCluster
from app.core.kube.seed_api import SeedApi, SeedIdentity
from app.core.kube.shoot import ShootConnector
from app.core.limits import Backoff
from app.core.metrics import Metrics
from app.core.model.policy import ProberPolicy
from app.core.tasks import Tasks
from app.simulation.server.servers import MemoryCredentials
from tests.contract.arena import synced, until
from tests.contract.proxy import Proxy

PROBE_TIMEOUT = 1.0
"""Seconds; what waits for a storage that is away waits no longer."""

_LOCAL = r"(127\.0\.0\.1|[a-z.]+\.invalid):[0-9]+"


class Adapter:
    """All adapters of `app.core.kube` on one seed, through a relay of our own."""

    def __init__(
        self,
        clock: Clock,
        tasks: Tasks,
        proxy: Proxy,
        ca: str,
        token: str,
        policy: ProberPolicy,
    ) -> None:
        identity = SeedIdentity(proxy.url, kubeconfig.client_context(ca), token)
        self._clock, self._tasks, self._proxy = clock, tasks, proxy
        self.metrics = Metrics()
        self.api = SeedApi(MemoryCredentials(identity), clock, self.metrics, qps=1000.0, burst=1000)
        self.seed = SeedCluster(self.api, policy, tasks, Random(1))
        self.connector = ShootConnector(
            clock,
            self.metrics,
            ServerPolicy(pattern=_LOCAL),
            external=ExternalServerPolicy(_LOCAL),
            probe_timeout=PROBE_TIMEOUT,
        )
        self.access = AccessReviewer(self.api)

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

    async def list_anew(self, told_before: float) -> None:
        """Waits until the watch of Secrets was told that its position is too old, and listed anew at once.

        Args:
            told_before: how often it had been told that before.
        """
        await until(lambda: self.expired > told_before, "the watch has expired")
        await until(lambda: "secrets" not in self.seed.troubles(), "the watch is well again")
        assert self.expired == told_before + 1

    @property
    def expired(self) -> float:
        """How often the watch of Secrets was told that its position is too old."""
        counter = self.metrics.watch_restarts.labels("secrets", "Expired")
        return float(counter._value.get())


class Relayed:
    """An arena whose server is behind a relay: what becomes of watches there."""

    proxy: Proxy
    adapter: Adapter

    async def forget(self) -> None:
        """The server forgets what happened until now, to kinds of which it has no cache."""
        raise NotImplementedError

    def watches_cut(self) -> AbstractAsyncContextManager[None]:
        """All watches end, and none can be opened."""
        return self.proxy.down()

    def watches_stalled(self) -> AbstractAsyncContextManager[None]:
        """All watches that are open deliver nothing more."""
        return self.proxy.frozen()

    @asynccontextmanager
    async def watches_expired(self) -> AsyncIterator[None]:
        """As `watches_cut`, and at its end the server has forgotten what happened in it."""
        before = self.adapter.expired
        async with self.proxy.down():
            yield
            await self.forget()
        await self.adapter.list_anew(before)


def hurried(patch: pytest.MonkeyPatch) -> None:
    """From now on a watch that broke is tried again within milliseconds, instead of seconds."""
    patch.setattr(reflector, "_BACKOFF", Backoff(first=0.05, most=0.2))


def impatient(patch: pytest.MonkeyPatch) -> None:
    """From now on a silent watch is given up within half a second."""
    patch.setattr(reflector, "SILENCE", 0.5)
