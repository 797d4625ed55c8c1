"""Pauses and ScaleRequests on both clusters: our port on them, people who write them, and what may be wrong."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

from app.core.kube.custom_objects import PAUSE, SCALE_REQUEST, CustomObjects
from app.core.kube.reviews import permissions_needed, process_permissions
from app.core.ports import Permission
from tests.contract.arena import KINDS, POLICY, Json, until
from tests.contract.real import RealArena
from tests.contract.served import ServedArena
from tests.e2e import objects
from tests.e2e.landscape import PROBER, RBAC, furnish_people, remove_people
from tests.e2e.processes import eventually

PROCESS = "watchdog-1"
"""The identity of the process whose adapter this is."""


class _Both:
    """The adapters, and people, who do the same on both clusters."""

    def __init__(self, arena: ServedArena | RealArena) -> None:
        self._arena, self.clock = arena, arena.clock
        shared = (arena.adapter.api, PROCESS, arena.tasks, Random(1))
        self.pauses, self.requests = (
            CustomObjects(PAUSE, *shared),
            CustomObjects(SCALE_REQUEST, *shared),
        )

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """Both are watched within, and listed once."""
        async with AsyncExitStack() as stack:
            for each in (self.pauses, self.requests):
                await each.start()
                stack.push_async_callback(each.close)
            both = (self.pauses, self.requests)
            await until(lambda: all(each.watch_state().synced for each in both), "they are listed")
            yield

    async def make(self, kind: str, name: str, **spec: Any) -> None:
        """Somebody creates one with kubectl."""
        body = {
            "apiVersion": KINDS[kind].api_version,
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"reason": "a test", **spec},
        }
        await self._arena.admin.create(kind, body)

    async def edit(self, kind: str, name: str, **spec: Any) -> None:
        await self._arena.admin.patch(kind, name, {"spec": spec})

    async def delete(self, kind: str, name: str) -> None:
        await self._arena.admin.delete(kind, name)

    async def find(self, kind: str, name: str) -> Json | None:
        return await self._arena.admin.find(kind, name)


class ServedPeopling(_Both):
    """The adapter on the simulation's servers."""

    def __init__(self, arena: ServedArena) -> None:
        super().__init__(arena)
        self._world, self._servers = arena.world, arena.servers

    def open(self):
        return self._watched()

    async def make(self, kind: str, name: str, **spec: Any) -> None:
        self._world.people.create(kind, self._arena.namespace, name, **{"reason": "a test", **spec})

    @asynccontextmanager
    async def removed(self) -> AsyncIterator[None]:
        """The definitions are deleted, and all objects with them; at its end they are installed again."""
        with self._world.faults.crds_removed():
            yield

    @asynccontextmanager
    async def forbidden(self, *verbs: str) -> AsyncIterator[None]:
        """We may not do this, or nothing at all; a watch that is open ends."""
        with self._world.faults.overrides_forbidden(*verbs):
            self._servers.cut()
            yield


class RealPeopling(_Both):
    """The adapter on a real API server; it has the rights of threat T16 to both kinds, and no more."""

    def __init__(self, arena: RealArena) -> None:
        super().__init__(arena)
        self._real, self._api = arena, arena.api
        self._role = f"{RBAC}/clusterroles/{arena.garden}-people"
        needed = (*process_permissions(arena.garden), *permissions_needed(POLICY, {}))
        self._needed = tuple(each for each in needed if each.feature in {"pauses", "scalerequests"})

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        name = f"{self._real.garden}-people"
        await self._api.create(f"{RBAC}/clusterroles", objects.role("ClusterRole", name, _rules()))
        bound = objects.binding("ClusterRoleBinding", name, name, self._real.garden, PROBER)
        await self._api.create(f"{RBAC}/clusterrolebindings", bound)
        await self._known(self._needed, missing=False)
        async with self._watched():
            yield

    @asynccontextmanager
    async def removed(self) -> AsyncIterator[None]:
        await remove_people(self._api)
        try:
            yield
        finally:
            await furnish_people(self._api)

    @asynccontextmanager
    async def forbidden(self, *verbs: str) -> AsyncIterator[None]:
        lost = tuple(each for each in self._needed if not verbs or each.verb in verbs)
        await self._api.patch(self._role, {"rules": _rules(*(each.verb for each in lost))})
        await self._known(lost, missing=True)
        async with self._real.proxy.down():
            pass  # a watch that is open would go on for a minute: rights are checked at its beginning
        try:
            yield
        finally:
            await self._api.patch(self._role, {"rules": _rules()})
            await self._known(lost, missing=False)

    async def _known(self, rights: tuple[Permission, ...], *, missing: bool) -> None:
        async def known() -> bool:
            return await self._real.access.missing(rights) == (rights if missing else ())

        await eventually(known, f"{rights} are known", within=10, every=0.02)


Peopling = ServedPeopling | RealPeopling
"""The custom resources of one cluster."""


def _rules(*without: str) -> list[Json]:
    rules = [
        each | {"verbs": [verb for verb in each["verbs"] if verb not in without]}
        for each in objects.people_rules()
    ]
    return [each for each in rules if each["verbs"]]
