"""Kubelets as small tasks: they renew their Leases as the real ones do, through a path that can be cut."""

import asyncio
import math
import random
import time
from collections.abc import Iterable
from contextlib import suppress

import aiohttp

from app.core.model.instants import rfc3339
from tests.e2e.api import LEASES, Api, ApiError, all_of
from tests.e2e.controlplane import ADMIN, ControlPlane
from tests.e2e.objects import lease

# The real ones renew every quarter of leaseDurationSeconds, 4 % jittered, and give up a request after as long; they try
# five times, and then pause from 0.1 s, doubling to 7 s, until the server has answered.
_ATTEMPTS = 5
_JITTER = 0.04
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 7 / 40


class NodesPath:
    """The way from the nodes to their API server: where it is cut, requests vanish and end by their time limit."""

    def __init__(self) -> None:
        self._cut: set[str] = set()
        self._all = False

    def cut(self, nodes: Iterable[str] | None = None) -> float:
        """Cuts it for some nodes, or for all; returns the instant."""
        if nodes is None:
            self._all = True
        else:
            self._cut.update(nodes)
        return time.time()

    def restore(self) -> float:
        """Opens it for everybody; returns the instant."""
        self._all = False
        self._cut.clear()
        return time.time()

    def open_for(self, node: str) -> bool:
        """Whether requests of this node arrive."""
        return not self._all and node not in self._cut


class Kubelets:
    """All kubelets of one shoot; a context manager."""

    def __init__(
        self, plane: ControlPlane, names: Iterable[str], duration: int, randomness: random.Random
    ) -> None:
        self.path = NodesPath()
        self.renewed: dict[str, float] = {}
        """When each node last renewed."""
        self._duration = duration
        self._interval = duration / 4
        self._random = randomness
        self._api = Api(plane.url, plane.api.ca, ADMIN, timeout=self._interval)
        self._tasks: list[asyncio.Task[None]] = []
        self._names = list(names)

    async def start(self) -> None:
        """Creates the Leases and begins to renew them, spread over the interval."""
        await all_of(self._create(name) for name in self._names)
        self._tasks = [asyncio.create_task(self._run(name)) for name in self._names]

    async def stop(self) -> None:
        """Ends them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._api.close()

    def known_at(self, expiry: float) -> float:
        """When an outage that goes on could be known: 60 % of the leases are, in truth, `expiry` old."""
        oldest_first = sorted(self.renewed.values())
        needed = math.ceil(round(0.6 * len(oldest_first), 9))
        return oldest_first[needed - 1] + expiry

    async def _create(self, name: str) -> None:
        now = time.time()
        try:
            await self._api.create(LEASES, lease(name, now, self._duration))
        except ApiError as error:
            if error.status != 409:  # it is there, and that is all
                raise
        self.renewed[name] = now

    async def _run(self, name: str) -> None:
        await asyncio.sleep(self._random.uniform(0, self._interval))
        while True:
            if not await self._attempts(name):
                await self._until_answered(name)
            await asyncio.sleep(self._interval * (1 + _JITTER * self._random.random()))

    async def _attempts(self, name: str) -> bool:
        for _ in range(_ATTEMPTS):
            if await self._renew(name):
                return True
        return False

    async def _until_answered(self, name: str) -> None:
        pause = _FIRST_PAUSE
        while not await self._renew(name):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE * self._duration)

    async def _renew(self, name: str) -> bool:
        if not self.path.open_for(name):
            await asyncio.sleep(self._interval)
            return False
        now = time.time()
        spec = {"renewTime": rfc3339(now, micro=True)}
        with suppress(aiohttp.ClientError, TimeoutError, OSError, ApiError):
            await self._api.patch(f"{LEASES}/{name}", {"spec": spec})
            self.renewed[name] = now
            return True
        return False
