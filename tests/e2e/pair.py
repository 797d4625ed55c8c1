"""Two instances that are started again whenever they end, and the Lease that they share."""

import asyncio
import contextlib
import random
import time
from typing import Self

import aiohttp

from tests.e2e import objects
from tests.e2e.api import ApiError
from tests.e2e.processes import eventually
from tests.e2e.program import Program
from tests.e2e.stage import Stage

RESTARTED_AFTER = 1.0
"""Seconds, as the kubelet takes at first."""
LEASE = 15.0
RETRY = 2.0
NODES_CUT_AFTER = 3.0
"""Seconds from the beginning of a fault: at a grace of 16 s the outage can be known 11 to 15 s after it."""
BACK_WITHIN = 7.0
"""Seconds from the return of the seed to the first write."""
CHANCE = random.Random()  # the phase of the renewals in which a fault begins


def lease_path(stage: Stage) -> str:
    """The Lease of the election."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{stage.garden}/leases/{objects.LEASE}"


class Kept:
    """Instances that are started again whenever they end."""

    def __init__(self, *programs: Program) -> None:
        self.programs = programs
        self._keepers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for each in self.programs:
            await each.start()
        self._keepers = [asyncio.create_task(self._keep(each)) for each in self.programs]
        return self

    async def __aexit__(self, *_: object) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    @staticmethod
    async def _keep(program: Program) -> None:
        while True:
            await program.child.ended(within=86_400)
            await asyncio.sleep(RESTARTED_AFTER)
            await program.child.start()

    async def leader(self, within: float = 60) -> Program:
        """The one that leads, when exactly one does and the other is ready to."""

        async def found() -> Program | None:
            leading = [each for each in self.programs if await each.leads()]
            ready = [await each.is_ready() for each in self.programs]
            return leading[0] if len(leading) == 1 and all(ready) else None

        leader = await eventually(found, "one of two leads", within=within)
        assert leader is not None
        return leader


async def seed_is_back(stage: Stage) -> float:
    """When it answers from its storage again: its API server may have to find that first."""

    async def answers() -> bool:
        with contextlib.suppress(ApiError, aiohttp.ClientError, TimeoutError):
            async with asyncio.timeout(0.5):
                return bool(await stage.seed.api.get(lease_path(stage)))
        return False

    await eventually(answers, "the seed answers", within=60, every=0.05)
    return time.time()
