"""The ConfigMap of the overrides in memory, with the resourceVersions of a real one, and adapters to it that can fail.

store = MemoryStore(clock)          one replica's adapter, an `OverridesStore`
other = store.replica(clock)        another replica's adapter to the same ConfigMap
store.kubectl({"shoot--a": "{}"})   a person replaces all of it; None deletes it
store.kubectl_set("shoot--a", "{")  a person writes one key; None removes it
store.annotate("a/b", "c")          a person sets an annotation
store.forbid("no get configmaps")   403 from now on, until `allow`
store.stale = True                  the watch hears nothing any more
store.failing = ServerFault("away") raised by each request, until it is None
store.conflicts = 1                 so many writes meet somebody else's, who changed the key `stranger`
store.lost_answers = 1              so many writes are done, and their answer is lost
store.lost_requests = 1             so many writes are lost before they are done
store.synced = False                the watch has not listed yet; set it to True for that
store.held = True                   the watch shows changes only at `show()`
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from app.core.clock import Clock
from app.core.errors import ClusterError, Conflict, Forbidden, NotFound, Unreachable
from app.core.ports import OverridesDocument, Starting, WatchState

STRANGER = "stranger"


def annotations_of(document: OverridesDocument | None) -> dict[str, str]:
    return {} if document is None else dict(document.whole["metadata"]["annotations"])


@dataclass
class MemoryConfigMap:
    """What etcd has; every adapter to it hears of each change."""

    version: int = 100
    document: OverridesDocument | None = None
    annotations: dict[str, str] = field(default_factory=dict)
    """What the next version has."""
    adapters: list["MemoryStore"] = field(default_factory=list)

    def write(self, data: Mapping[str, str] | None) -> None:
        """Replaces, creates or (None) deletes; who writes the same as is there changes no version."""
        before = self.document
        same = annotations_of(before) == self.annotations
        if same and (None if before is None else before.data) == data:
            return
        self.version += 1
        uid = f"uid-{self.version}" if before is None else before.uid
        self.annotations = {} if data is None else self.annotations
        metadata = {"uid": uid, "annotations": self.annotations}
        self.document = (
            None
            if data is None
            else OverridesDocument(
                uid, str(self.version), dict(data), {"metadata": metadata, "data": dict(data)}
            )
        )
        for door in self.adapters:
            door.heard(self.document)


class MemoryStore:
    """One replica's adapter (`OverridesStore`)."""

    def __init__(self, clock: Clock, server: MemoryConfigMap | None = None) -> None:
        self.clock = clock
        self.server = server or MemoryConfigMap()
        self.server.adapters.append(self)
        self.requests: list[str] = []
        """Each that was sent: read, create, replace."""
        self.answers_lost = 0
        """How many have been lost so far."""
        self.failing: ClusterError | None = None
        self.conflicts = self.lost_answers = self.lost_requests = 0
        self.before: Callable[[str], Awaitable[None]] | None = None
        """Awaited before each request, for tests that let others go first."""
        self.after: Callable[[], Awaitable[None]] | None = None
        """Awaited between a write and its answer."""
        self._forbidden: str | None = None
        self._watched = self.server.document
        self._pending: list[OverridesDocument | None] = []
        self._synced, self._stale, self.held = True, False, False
        self._last_contact = clock.now()
        self._listeners: list[Callable[[], None]] = []

    def replica(self, clock: Clock | None = None) -> "MemoryStore":
        return MemoryStore(clock or self.clock, self.server)

    # What the tests do to it.

    @property
    def data(self) -> dict[str, str]:
        """What is there; empty where nothing is."""
        found = self.server.document
        return {} if found is None else dict(found.data)

    def entries(self, key: str) -> dict[str, dict[str, object]]:
        """The entries under one key."""
        found: dict[str, dict[str, object]] = json.loads(self.data.get(key, "{}"))
        return found

    def kubectl(self, data: Mapping[str, str] | None) -> None:
        self.server.write(data)

    def annotate(self, name: str, value: str) -> None:
        """A person sets an annotation."""
        self.server.annotations = {**self.server.annotations, name: value}
        self.server.write(self.data)

    def kubectl_set(self, key: str, value: object) -> None:
        """Text as it is, anything else as JSON; None removes the key."""
        data = self.data
        data.pop(key, None)
        if value is not None:
            data[key] = value if isinstance(value, str) else json.dumps(value)
        self.server.write(data)

    def forbid(self, reason: str = "get configmaps dependency-watchdog-overrides: 403") -> None:
        self._forbidden = reason
        self._tell()

    def allow(self) -> None:
        self._forbidden = None
        self._tell()

    @property
    def synced(self) -> bool:
        return self._synced

    @synced.setter
    def synced(self, listed: bool) -> None:
        self._synced = listed
        if listed:
            self._pending.clear()
            self._watched = self.server.document
        self._tell()

    @property
    def stale(self) -> bool:
        return self._stale

    @stale.setter
    def stale(self, silent: bool) -> None:
        """The watch hears nothing; when that ends it lists anew."""
        self._last_contact = self.clock.now()
        self._stale = silent
        if not silent:
            self._pending.clear()
            self._watched = self.server.document
        self._tell()

    def heard(self, document: OverridesDocument | None) -> None:
        if not self._synced or self._stale or self._forbidden is not None:
            return
        self._pending.append(document)
        if not self.held:
            self.show()

    def show(self, number: int | None = None) -> None:
        """The watch shows the next `number` changes; all without one."""
        for _ in range(len(self._pending) if number is None else min(number, len(self._pending))):
            self._watched = self._pending.pop(0)
            self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    # The port.

    @property
    def forbidden(self) -> str | None:
        return self._forbidden

    def watch_state(self) -> WatchState:
        if not self._synced:
            return WatchState(synced=False, last_contact=None)
        quiet = self._stale or self._forbidden is not None
        return WatchState(
            synced=True, last_contact=self._last_contact if quiet else self.clock.now()
        )

    def document(self) -> OverridesDocument | None:
        return self._watched if self._synced else None

    def subscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def read(self) -> OverridesDocument | None:
        await self._sent("read")
        return self.server.document

    async def create(
        self, data: Mapping[str, str], *, starting: Starting | None = None
    ) -> OverridesDocument:
        await self._sent("create", starting)
        if self.server.document is not None:
            raise Conflict("create configmaps: 409 (Conflict): it exists")
        return await self._done(data)

    async def replace(
        self,
        document: OverridesDocument,
        data: Mapping[str, str],
        *,
        starting: Starting | None = None,
    ) -> OverridesDocument:
        await self._sent("replace", starting)
        now = self.server.document
        if now is None:
            raise NotFound("update configmaps: 404 (NotFound)")
        if (now.uid, now.resource_version) != (document.uid, document.resource_version):
            raise Conflict("update configmaps: 409 (Conflict): it has changed")
        self.server.annotations = annotations_of(document)
        return await self._done(data)

    async def _sent(self, what: str, starting: Starting | None = None) -> None:
        await asyncio.sleep(0)
        if self.before is not None:
            await self.before(what)
        if starting is not None:
            starting()
        self.requests.append(what)
        if self.failing is not None:
            raise self.failing
        if self._forbidden is not None:
            raise Forbidden(self._forbidden, status=403)
        if what != "read" and self.conflicts:
            self.conflicts -= 1
            self.server.write(
                {
                    **self.data,
                    STRANGER: json.dumps({"pause": {"reason": "x" * (1 + self.conflicts)}}),
                }
            )
        if what != "read" and self.lost_requests:
            self.lost_requests -= 1
            raise Unreachable(f"{what} configmaps: cut")

    async def _done(self, data: Mapping[str, str]) -> OverridesDocument:
        self.server.write(data)
        written = self.server.document
        if self.after is not None:
            await self.after()
        if self.lost_answers:
            self.lost_answers -= 1
            self.answers_lost += 1
            raise Unreachable("configmaps: the answer was lost")
        assert written is not None
        return written
