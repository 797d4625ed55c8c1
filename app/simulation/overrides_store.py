"""The overrides of a simulated seed: the `OverridesStore` port on its ConfigMap, and people who edit that."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from app.core.errors import Conflict, NotFound
from app.core.model.overrides import OVERRIDES
from app.core.model.workloads import ResourceRef
from app.core.ports import OverridesDocument, Starting, WatchState
from app.simulation import manifests
from app.simulation.cluster import WATCHDOG
from app.simulation.reflection import Reflection, WatchedKind
from app.simulation.stage import Stage
from app.simulation.store import Happened, Object, ObjectKey, StoreEvent, version_of
from app.simulation.traffic import Host, SimulatedRequest, Write

GARDEN: Final = "garden"
"""The watchdog's own namespace."""
CONFIG_MAP: Final = ObjectKey("ConfigMap", GARDEN, OVERRIDES)
LIMIT: Final = 10.0
_REF: Final = ResourceRef("v1", "ConfigMap", OVERRIDES)


class _Copy:
    """The ConfigMap as it was last delivered."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.document: OverridesDocument | None = None
        self._tell = tell

    def listed(self, objects: Iterable[Object], since: float | None) -> None:  # noqa: ARG002  a copy of any kind
        self.document = next((_document(obj) for obj in objects), None)
        self._tell()

    def happened(self, event: StoreEvent) -> None:
        if event.key != CONFIG_MAP:
            return
        gone = event.happened is Happened.DELETED
        self.document = None if gone else _document(event.object)
        self._tell()


class SimulatedOverridesStore:
    """An `OverridesStore`.  It is listed as soon as somebody has subscribed."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._listeners: list[Callable[[], None]] = []
        self._wanted = asyncio.Event()
        self._copy = _Copy(self._tell)
        asked = WatchedKind(stage.store, stage.api, stage.watches, "ConfigMap", GARDEN, _is_ours)
        self._reflection = Reflection(stage.clock, asked, self._copy)
        self._reflection.tell_refusals(self._tell)

    async def run(self) -> None:
        """Watches it, for ever."""
        await self._wanted.wait()
        await self._reflection.run()

    @property
    def forbidden(self) -> str | None:
        """Why it may not be read; None while it may be, or nobody has said otherwise."""
        return self._reflection.forbidden

    def watch_state(self) -> WatchState:
        """How far the watch can be trusted."""
        return self._reflection.state

    def document(self) -> OverridesDocument | None:
        """As the watch has it; None where there is none."""
        return self._copy.document

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change of the document and of `forbidden`, and after each list."""
        self._listeners.append(listener)
        self._wanted.set()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    async def read(self) -> OverridesDocument | None:
        """As it is now; None where there is none."""

        def serve() -> OverridesDocument | None:
            found = self._stage.store.find(CONFIG_MAP)
            return None if found is None else _document(found)

        return await self._stage.api.ask(_request("get"), serve, limit=LIMIT)

    async def create(
        self, data: Mapping[str, str], *, starting: Starting | None = None
    ) -> OverridesDocument:
        """Makes it.

        Raises:
            Conflict: somebody else was quicker.
            Invalid: it is too large.
        """
        body = manifests.config_map(data)

        def serve() -> Object:
            return self._stage.store.create(
                CONFIG_MAP, manifests.born(body, self._stage.clock.now())
            )

        return await self._write("create", body, serve, starting)

    async def replace(
        self,
        document: OverridesDocument,
        data: Mapping[str, str],
        *,
        starting: Starting | None = None,
    ) -> OverridesDocument:
        """Writes `data` over the document as it was read.

        Raises:
            Conflict: it has changed since, or is gone.
            Invalid: it is too large.
        """
        body = {**document.whole, "data": dict(data)}

        def serve() -> Object:
            try:
                return self._stage.store.replace(CONFIG_MAP, body)
            except NotFound as gone:
                raise Conflict(str(gone), status=gone.status) from gone

        return await self._write("update", body, serve, starting)

    async def _write(
        self, verb: str, body: Object, serve: Callable[[], Object], starting: Starting | None
    ) -> OverridesDocument:
        if starting is not None:
            starting()
        stage, sent = self._stage, self._stage.clock.now()

        def written() -> OverridesDocument:
            made = serve()
            now = stage.clock.now()
            stage.journal.add(Write(now, GARDEN, _REF, body, WATCHDOG, sent, verb))
            return _document(made)

        return await stage.api.ask(_request(verb), written, limit=LIMIT)


class OverridesEditor:
    """Somebody with kubectl, at once and whatever the network does."""

    def __init__(self, stage: Stage, author: str) -> None:
        self._stage, self._author = stage, author

    def data(self) -> Mapping[str, str]:
        """The keys of the ConfigMap as they truly are; empty where there is none."""
        found = self._stage.store.find(CONFIG_MAP)
        return {} if found is None else dict(found.get("data") or {})

    def edit(self, changes: Mapping[str, str | None]) -> None:
        """Writes these keys, or removes those that are None; makes the ConfigMap where there is none.

        Raises:
            Invalid: it would be too large, or has a key that cannot be one.
        """
        store, now = self._stage.store, self._stage.clock.now()
        if store.find(CONFIG_MAP) is not None:
            self._stage.write(CONFIG_MAP, {"data": dict(changes)}, self._author)
            return
        body = manifests.config_map(
            {key: text for key, text in changes.items() if text is not None}
        )
        store.create(CONFIG_MAP, manifests.born(body, now))
        self._stage.journal.add(Write(now, GARDEN, _REF, body, self._author, now, "create"))

    def delete(self) -> None:
        """Deletes the ConfigMap.

        Raises:
            NotFound: there is none.
        """
        now = self._stage.clock.now()
        self._stage.store.delete(CONFIG_MAP)
        self._stage.journal.add(Write(now, GARDEN, _REF, {}, self._author, now, "delete"))


def _is_ours(obj: Object) -> bool:
    return bool(obj["metadata"]["name"] == OVERRIDES)


def _document(obj: Object) -> OverridesDocument:
    return OverridesDocument(
        str(obj["metadata"]["uid"]), version_of(obj), dict(obj.get("data") or {}), obj
    )


def _request(verb: str) -> SimulatedRequest:
    return SimulatedRequest(Host.SEED, verb, "configmaps", GARDEN)
