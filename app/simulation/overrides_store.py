"""The ConfigMap of the overrides: implements `app.core.ports.OverridesStore`, and edits it as a person would."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from app.core.errors import Conflict, NotFound
from app.core.model.overrides import OVERRIDES
from app.core.model.workloads import ResourceRef
from app.core.ports import OverridesDocument, Starting, WatchState
from app.simulation import manifests
from app.simulation.cluster import WATCHDOG
from app.simulation.parts import WorldParts
from app.simulation.reflection import Reflection, WatchedKind
from app.simulation.store import Happened, Object, ObjectKey, StoreEvent, version_of
from app.simulation.traffic import Host, SimulatedRequest, Write

GARDEN: Final = "garden"
"""The watchdog's own namespace."""
CONFIG_MAP: Final = ObjectKey("ConfigMap", GARDEN, OVERRIDES)
LIMIT: Final = 10.0
_REF: Final = ResourceRef("v1", "ConfigMap", OVERRIDES)


class _Copy:
    """The ConfigMap, as last delivered."""

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
    """An `OverridesStore`; it lists the ConfigMap as soon as there is a subscriber."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts
        self._listeners: list[Callable[[], None]] = []
        self._wanted = asyncio.Event()
        self._copy = _Copy(self._tell)
        asked = WatchedKind(parts.store, parts.api, parts.watches, "ConfigMap", GARDEN, _is_ours)
        self._reflection = Reflection(parts.clock, asked, self._copy)
        self._reflection.tell_refusals(self._tell)

    async def run(self) -> None:
        """Watches the ConfigMap, until cancelled."""
        await self._wanted.wait()
        await self._reflection.run()

    @property
    def forbidden(self) -> str | None:
        """Why reading the ConfigMap is forbidden; None if it is permitted or unknown."""
        return self._reflection.forbidden

    def watch_state(self) -> WatchState:
        """The state of the watch."""
        return self._reflection.state

    def document(self) -> OverridesDocument | None:
        """The document, from the watch; None if there is none."""
        return self._copy.document

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change of the document or of `forbidden`, and after each list."""
        self._listeners.append(listener)
        self._wanted.set()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    async def read(self) -> OverridesDocument | None:
        """Reads the document live; returns None if there is none."""

        def serve() -> OverridesDocument | None:
            found = self._parts.store.find(CONFIG_MAP)
            return None if found is None else _document(found)

        return await self._parts.api.ask(_request("get"), serve, limit=LIMIT)

    async def create(
        self, data: Mapping[str, str], *, starting: Starting | None = None
    ) -> OverridesDocument:
        """Creates the ConfigMap.

        Raises:
            Conflict: somebody else was quicker.
            Invalid: it is too large.
        """
        body = manifests.config_map(data)

        def serve() -> Object:
            return self._parts.store.create(
                CONFIG_MAP, manifests.born(body, self._parts.clock.now())
            )

        return await self._write("create", body, serve, starting)

    async def replace(
        self,
        document: OverridesDocument,
        data: Mapping[str, str],
        *,
        starting: Starting | None = None,
    ) -> OverridesDocument:
        """Replaces the contents of the document that was read by `data`.

        Raises:
            Conflict: it has changed since, or is gone.
            Invalid: it is too large.
        """
        body = {**document.whole, "data": dict(data)}

        def serve() -> Object:
            try:
                return self._parts.store.replace(CONFIG_MAP, body)
            except NotFound as gone:
                raise Conflict(str(gone), status=gone.status) from gone

        return await self._write("update", body, serve, starting)

    async def _write(
        self, verb: str, body: Object, serve: Callable[[], Object], starting: Starting | None
    ) -> OverridesDocument:
        if starting is not None:
            starting()
        parts, sent = self._parts, self._parts.clock.now()

        def written() -> OverridesDocument:
            made = serve()
            now = parts.clock.now()
            parts.journal.add(Write(now, GARDEN, _REF, body, WATCHDOG, sent, verb))
            return _document(made)

        return await parts.api.ask(_request(verb), written, limit=LIMIT)


class OverridesEditor:
    """Edits the ConfigMap like a person with kubectl, immediately and unaffected by faults."""

    def __init__(self, parts: WorldParts, author: str) -> None:
        self._parts, self._author = parts, author

    def data(self) -> Mapping[str, str]:
        """The contents of the ConfigMap in the store; empty if there is none."""
        found = self._parts.store.find(CONFIG_MAP)
        return {} if found is None else dict(found.get("data") or {})

    def edit(self, changes: Mapping[str, str | None]) -> None:
        """Writes the given keys, and removes those that are None; creates the ConfigMap if necessary.

        Raises:
            Invalid: it would be too large, or has a key that cannot be one.
        """
        store, now = self._parts.store, self._parts.clock.now()
        if store.find(CONFIG_MAP) is not None:
            self._parts.write(CONFIG_MAP, {"data": dict(changes)}, self._author)
            return
        body = manifests.config_map(
            {key: text for key, text in changes.items() if text is not None}
        )
        store.create(CONFIG_MAP, manifests.born(body, now))
        self._parts.journal.add(Write(now, GARDEN, _REF, body, self._author, now, "create"))

    def delete(self) -> None:
        """Deletes the ConfigMap.

        Raises:
            NotFound: there is none.
        """
        now = self._parts.clock.now()
        self._parts.store.delete(CONFIG_MAP)
        self._parts.journal.add(Write(now, GARDEN, _REF, {}, self._author, now, "delete"))


def _is_ours(obj: Object) -> bool:
    return bool(obj["metadata"]["name"] == OVERRIDES)


def _document(obj: Object) -> OverridesDocument:
    return OverridesDocument(
        str(obj["metadata"]["uid"]), version_of(obj), dict(obj.get("data") or {}), obj
    )


def _request(verb: str) -> SimulatedRequest:
    return SimulatedRequest(Host.SEED, verb, "configmaps", GARDEN)
