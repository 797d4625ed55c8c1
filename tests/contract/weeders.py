"""The weeder's ports on both clusters (`weeding.Weeding`)."""

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

from app.core.kube.weeder_view import WeederSeed
from app.core.ports import Permission
from app.simulation.traffic import Trouble
from tests.contract.arena import until
from tests.contract.real import RealArena
from tests.contract.served import ServedArena
from tests.contract.weeding import SERVICES, Heard
from tests.contract.wire import Wire
from tests.e2e import objects
from tests.e2e.api import Json
from tests.e2e.landscape import RBAC, grant
from tests.e2e.processes import eventually

GROUPS = {"pods": "", "endpointslices": "discovery.k8s.io"}
_WATCHES = re.compile(
    'apiserver_longrunning_requests{.*resource="pods".*scope="namespace".*verb="WATCH"'
)
RIGHTS = {"pods": "get list watch delete", "endpointslices": "get list watch"}


class ServedWeeding:
    """The adapter on the simulation's servers."""

    seed: WeederSeed

    def __init__(self, arena: ServedArena) -> None:
        self._arena, self._world = arena, arena.world
        self._adapted = _adapted(arena)
        self.seed = self._adapted

    @asynccontextmanager
    async def open(self, heard: Heard) -> AsyncIterator[None]:
        async with _opened(self._adapted, heard):
            yield

    def cut(self):
        return self._arena.proxy.down()

    @asynccontextmanager
    async def forgets(self) -> AsyncIterator[None]:
        async with self._arena.proxy.down():
            yield
            await self._arena.forget()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        with self._world.faults.seed_down():
            yield

    @asynccontextmanager
    async def forbidden(self, verb: str, resource: str) -> AsyncIterator[None]:
        trouble = Trouble(forbidden=True, verbs=frozenset({verb}), what=frozenset({resource}))
        right = Permission(verb, GROUPS[resource], resource)
        self._world.denied.add(right)
        with self._world.faults.seed_trouble(trouble):
            yield
        self._world.denied.discard(right)

    async def watches(self) -> int:
        return self._world.parts.watches.open_now("Pod")


class RealWeeding:
    """The adapter on a real API server."""

    seed: WeederSeed

    def __init__(self, arena: RealArena) -> None:
        self._arena = arena
        self._adapted = _adapted(arena)
        self.seed = self._adapted

    async def granted(self) -> None:
        """All rights are there, and known to be."""
        api, garden = self._arena.api, self._arena.garden
        await grant(api, garden, "weeder", _rules(RIGHTS.items()))
        await self._granted(_permissions(), missing=False)

    @asynccontextmanager
    async def open(self, heard: Heard) -> AsyncIterator[None]:
        await self.granted()
        async with _opened(self._adapted, heard):
            yield

    def cut(self):
        return self._arena.proxy.down()

    @asynccontextmanager
    async def forgets(self) -> AsyncIterator[None]:
        async with self._arena.proxy.down():
            yield
            # The last revision of all is never forgotten: so that what happened is not in it, one more thing happens.
            again = {"metadata": {"annotations": {"contract": str(self._arena.clock.now())}}}
            await self._arena.api.patch(f"/api/v1/namespaces/{self._arena.namespace}", again)
            await self._arena.forget()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        seed = self._arena.land.seed
        await seed.child.stop(within=10)
        try:
            yield
        finally:
            await seed.start()

    @asynccontextmanager
    async def forbidden(self, verb: str, resource: str) -> AsyncIterator[None]:
        verbs = [each for each in RIGHTS[resource].split() if each != verb]
        rights = RIGHTS | {resource: " ".join(verbs)}
        path = f"{RBAC}/clusterroles/{self._arena.garden}-weeder"
        right = (Permission(verb, GROUPS[resource], resource),)
        await self._arena.api.patch(path, {"rules": _rules(rights.items())})
        await self._granted(right, missing=True)
        try:
            yield
        finally:
            await self._arena.api.patch(path, {"rules": _rules(RIGHTS.items())})
            await self._granted(right, missing=False)

    async def _granted(self, rights: tuple[Permission, ...], *, missing: bool) -> None:
        async def known() -> bool:
            return await self._arena.access.missing(rights) == (rights if missing else ())

        await eventually(known, f"{rights} are known", within=10, every=0.02)

    async def watches(self) -> int:
        wire = Wire(self._arena.port, self._arena.ca, self._arena.admin_token)
        lines = (await wire.get("/metrics", accept="text/plain")).text.splitlines()
        await wire.close()
        return sum(int(line.rpartition(" ")[2]) for line in lines if _WATCHES.match(line))


def _rules(rights: Iterable[tuple[str, str]]) -> list[Json]:
    return [objects.rule(GROUPS[resource], [resource], verbs) for resource, verbs in rights]


def _permissions() -> tuple[Permission, ...]:
    return tuple(
        Permission(verb, GROUPS[resource], resource)
        for resource, verbs in RIGHTS.items()
        for verb in verbs.split()
    )


def _adapted(arena: ServedArena | RealArena) -> WeederSeed:
    adapter = arena.adapter
    return WeederSeed(adapter.api, SERVICES, arena.tasks, Random(1))


@asynccontextmanager
async def _opened(seed: WeederSeed, heard: Heard) -> AsyncIterator[None]:
    heard.to(seed)
    async with AsyncExitStack() as stack:
        await seed.start()
        stack.push_async_callback(seed.close)
        await until(lambda: seed.watch_state().synced, "the slices are listed")
        yield
