"""The overrides on both clusters: our port on their ConfigMap, people who edit it, its troubles."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from random import Random
from typing import Protocol

from app.core.kube.access import process_permissions
from app.core.kube.overrides_store import KubeOverridesStore
from app.core.model.overrides import OVERRIDES
from app.core.ports import OverridesStore, Permission
from tests.contract.arena import GARDEN, until
from tests.contract.real import RealArena
from tests.contract.served import ServedArena
from tests.e2e import objects
from tests.e2e.api import Json
from tests.e2e.landscape import PROBER, RBAC
from tests.e2e.processes import eventually

READING = ("get", "list", "watch")


class Overriding(Protocol):
    """The overrides of one cluster."""

    @property
    def store(self) -> OverridesStore:
        """The port; it is watched within `open`."""
        ...

    def open(self) -> AbstractAsyncContextManager[None]:
        """The ConfigMap is watched within, and listed once."""
        ...

    async def edit(self, changes: Mapping[str, str | None]) -> None:
        """Somebody writes these keys with kubectl; makes the ConfigMap where there is none."""
        ...

    async def delete(self) -> None:
        """Somebody deletes the ConfigMap."""
        ...

    async def data(self) -> Mapping[str, str] | None:
        """The keys as they truly are; None: there is no ConfigMap."""
        ...

    def cut(self) -> AbstractAsyncContextManager[None]:
        """The watch breaks, and none can be opened."""
        ...

    def stalled(self) -> AbstractAsyncContextManager[None]:
        """The watch delivers nothing more."""
        ...

    def forgets(self) -> AbstractAsyncContextManager[None]:
        """As `cut`, and at its end the server has forgotten what happened in it."""
        ...

    def away(self) -> AbstractAsyncContextManager[None]:
        """The API server is stopped, and started again."""
        ...

    def forbidden(self, *verbs: str) -> AbstractAsyncContextManager[None]:
        """We may not do this; a watch that is open ends."""
        ...


class ServedOverriding:
    """The adapter on the simulation's servers."""

    store: OverridesStore

    def __init__(self, arena: ServedArena) -> None:
        self._arena, self._world = arena, arena.world
        self._adapted = _adapted(arena, GARDEN)
        self.store = self._adapted

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with _opened(self._adapted):
            yield

    async def edit(self, changes: Mapping[str, str | None]) -> None:
        self._world.overrides_editor.edit(changes)

    async def delete(self) -> None:
        self._world.overrides_editor.delete()

    async def data(self) -> Mapping[str, str] | None:
        return self._world.overrides_editor.data()

    def cut(self):
        return self._arena.proxy.down()

    def stalled(self):
        return self._arena.proxy.frozen()

    @asynccontextmanager
    async def forgets(self) -> AsyncIterator[None]:
        async with self._arena.proxy.down():
            yield
            await self._arena.forget()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        with self._world.faults.seed_down():
            self._arena.servers.cut()
            yield

    @asynccontextmanager
    async def forbidden(self, *verbs: str) -> AsyncIterator[None]:
        with self._world.faults.overrides_forbidden(*verbs):
            self._arena.servers.cut()
            yield


class RealOverriding:
    """The adapter on a real API server; it has the rights of threat T16 in its own namespace, and no more."""

    store: OverridesStore

    def __init__(self, arena: RealArena) -> None:
        self._arena, self._api = arena, arena.api
        self._maps = f"/api/v1/namespaces/{arena.garden}/configmaps"
        self._path = f"{self._maps}/{OVERRIDES}"
        self._adapted = _adapted(arena, arena.garden)
        self.store = self._adapted
        self.needed = process_permissions(arena.garden)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        inside = f"{RBAC}/namespaces/{self._arena.garden}"
        name = "overrides"
        await self._api.create(f"{inside}/roles", objects.role("Role", name, _rules()))
        bound = objects.binding("RoleBinding", name, name, self._arena.garden, PROBER)
        await self._api.create(f"{inside}/rolebindings", bound)
        await self._known(self.needed, missing=False)
        async with _opened(self._adapted):
            yield

    async def edit(self, changes: Mapping[str, str | None]) -> None:
        if await self.data() is not None:
            await self._api.patch(self._path, {"data": dict(changes)})
            return
        body = {"metadata": {"name": OVERRIDES}, "data": dict(changes)}
        await self._api.create(self._maps, body)

    async def delete(self) -> None:
        await self._api.delete(self._path)

    async def data(self) -> Mapping[str, str] | None:
        found = await self._api.find(self._path)
        return None if found is None else found.get("data") or {}

    def cut(self):
        return self._arena.proxy.down()

    def stalled(self):
        return self._arena.proxy.frozen()

    @asynccontextmanager
    async def forgets(self) -> AsyncIterator[None]:
        async with self._arena.proxy.down():
            yield
            # The last revision of all is never forgotten: so that what happened is not in it, one more thing happens.
            again = {"metadata": {"annotations": {"contract": str(self._arena.clock.now())}}}
            await self._api.patch(f"/api/v1/namespaces/{self._arena.namespace}", again)
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
    async def forbidden(self, *verbs: str) -> AsyncIterator[None]:
        path = f"{RBAC}/namespaces/{self._arena.garden}/roles/overrides"
        lost = tuple(each for each in self.needed if not verbs or each.verb in verbs)
        await self._api.patch(path, {"rules": _rules(*(each.verb for each in lost))})
        await self._known(lost, missing=True)
        async with self._arena.proxy.down():
            pass  # the watch that is open would go on for a minute: rights are checked at its beginning
        try:
            yield
        finally:
            await self._api.patch(path, {"rules": _rules()})
            await self._known(lost, missing=False)

    async def _known(self, rights: tuple[Permission, ...], *, missing: bool) -> None:
        async def known() -> bool:
            return await self._arena.access.missing(rights) == (rights if missing else ())

        await eventually(known, f"{rights} are known", within=10, every=0.02)


def _rules(*without: str) -> list[Json]:
    named = [verb for verb in (*READING, "update") if verb not in without]
    rules = [objects.rule("", ["configmaps"], " ".join(named)) | {"resourceNames": [OVERRIDES]}]
    if "create" not in without:
        rules.append(objects.rule("", ["configmaps"], "create"))
    return [each for each in rules if each["verbs"] != [""] and each["verbs"]]


def _adapted(arena: ServedArena | RealArena, namespace: str) -> KubeOverridesStore:
    adapter = arena.adapter
    return KubeOverridesStore(
        adapter.api, namespace, arena.clock, arena.tasks, adapter.metrics, Random(1)
    )


@asynccontextmanager
async def _opened(store: KubeOverridesStore) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        await store.start()
        stack.push_async_callback(store.close)
        await until(lambda: store.watch_state().synced, "the ConfigMap is listed")
        yield
