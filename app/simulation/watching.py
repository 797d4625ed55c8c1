"""The prober's watch caches: they lag by a delay, freeze in a stall, and are listed again after a 410."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, assert_never

from app.core.clock import Clock
from app.core.errors import Expired
from app.core.ports import SeedChange, Watched, WatchState
from app.simulation.store import Happened, Object, ObjectKey, Store, StoreEvent

# Kinds that these caches exclude: weeder, overrides and probed pods have their own watches (`reflection`).
_UNWATCHED: Final = frozenset({"ConfigMap", "Pod", "EndpointSlice", "Service", "Lease", "Event"})


def watched(key: ObjectKey) -> Watched | None:
    """Returns the prober's watch that delivers changes of an object; None if there is none."""
    match key.kind:
        case kind if kind in _UNWATCHED:
            return None
        case "Cluster":
            return Watched.CLUSTERS
        case "Secret":
            return Watched.SECRETS
        case "Machine":
            return Watched.MACHINES
        case _:
            return Watched.DEPENDENTS


class _Cache:
    """The contents of one watch cache."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Object]] = {}
        self.version = 0
        self.synced = False
        self.frozen_at: float | None = None

    def apply(self, event: StoreEvent) -> None:
        match event.happened:
            case Happened.ADDED | Happened.MODIFIED:
                self.put(event.key, event.object)
            case Happened.DELETED:
                self.objects.get((event.key.kind, event.key.namespace), {}).pop(
                    event.key.name, None
                )
            case _:
                assert_never(event.happened)

    def put(self, key: ObjectKey, obj: Object) -> None:
        self.objects.setdefault((key.kind, key.namespace), {})[key.name] = obj

    def keys(self) -> set[ObjectKey]:
        return {ObjectKey(*place, name) for place, names in self.objects.items() for name in names}


class WatchCaches:
    """One cache for each `Watched`; `run` delivers the changes."""

    def __init__(self, clock: Clock, store: Store, *, delay: float = 0.05) -> None:
        self.delay = delay
        """Seconds from a change to its delivery."""
        self._clock = clock
        self._store = store
        self._caches = {what: _Cache() for what in Watched}
        self._due: deque[tuple[float, StoreEvent]] = deque()
        self._more = asyncio.Event()
        self._listeners: list[Callable[[SeedChange], None]] = []
        store.subscribe(self._heard)

    def subscribe(self, listener: Callable[[SeedChange], None]) -> None:
        """Calls `listener` after each delivery."""
        self._listeners.append(listener)

    def sync(self, what: Watched) -> None:
        """Lists again immediately; for a frozen watch this becomes the last contact."""
        cache = self._caches[what]
        if cache.frozen_at is not None:
            cache.frozen_at = self._clock.now()
        before, cache.objects = cache.keys(), {}
        for key, obj in self._listed(what):
            cache.put(key, obj)
        cache.version, cache.synced = self._store.version, True
        self._tell(what, sorted(before | cache.keys()))

    def give_up(self, what: Watched) -> None:
        """Lists and watches again, as a client does after too long a silence."""
        self.sync(what)

    def unsync(self, what: Watched) -> None:
        """Resets the cache to the state before the first list; nothing is delivered until `sync`."""
        self._caches[what] = _Cache()

    def freeze(self, what: Watched, since: float) -> None:
        """Stalls the watch; its last contact was at `since`."""
        self._caches[what].frozen_at = since

    def thaw(self, what: Watched) -> None:
        """Resumes the watch with the missed changes, or with a new list if they have dropped out of the log."""
        self._caches[what].frozen_at = None
        self._deliver(what)

    def frozen(self, what: Watched | None) -> bool:
        """Returns whether a watch is frozen."""
        return what is not None and self._caches[what].frozen_at is not None

    def catch_up(self) -> None:
        """Delivers pending changes immediately, without the delay."""
        for what in Watched:
            self._deliver(what)

    def state(self, what: Watched) -> WatchState:
        """Returns the state of a watch; its last contact is now unless it is frozen."""
        cache = self._caches[what]
        now = self._clock.now() if cache.synced else None
        return WatchState(cache.synced, now if cache.frozen_at is None else cache.frozen_at)

    def find(self, key: ObjectKey) -> Object | None:
        """Returns an object, as last delivered."""
        return self._of(key).get(key.name)

    def all(self, kind: str, namespace: str) -> tuple[Object, ...]:
        """Returns the objects of a kind in a namespace, as last delivered."""
        return tuple(self._of(ObjectKey(kind, namespace, "")).values())

    def _of(self, key: ObjectKey) -> dict[str, Object]:
        what = watched(key)
        return {} if what is None else self._caches[what].objects.get((key.kind, key.namespace), {})

    async def run(self) -> None:
        """Delivers each change when it is due, until cancelled."""
        while True:
            if not self._due:
                self._more.clear()
                await self._more.wait()
            due, event = self._due.popleft()
            await self._clock.sleep_until(due)
            self._arrive(event)

    def _heard(self, event: StoreEvent) -> None:
        if watched(event.key) is None:
            return
        self._due.append((self._clock.now() + self.delay, event))
        self._more.set()

    def _arrive(self, event: StoreEvent) -> None:
        """Delivers one change, unless it was delivered before or the watch is frozen."""
        what = watched(event.key)
        if what is None:
            return
        cache = self._caches[what]
        if cache.synced and cache.frozen_at is None and event.version > cache.version:
            cache.apply(event)
            cache.version = event.version
            self._tell(what, [event.key])

    def _deliver(self, what: Watched) -> None:
        """Delivers all missing changes."""
        cache = self._caches[what]
        if not cache.synced or cache.frozen_at is not None:
            return
        try:
            missed = self._store.since(cache.version, self._kinds(what))
        except Expired:
            self.sync(what)
            return
        for event in missed:
            cache.apply(event)
        cache.version = self._store.version
        self._tell(what, (event.key for event in missed))

    def _kinds(self, what: Watched) -> list[str]:
        return [kind for kind in self._store.kinds() if watched(ObjectKey(kind, "", "")) is what]

    def _listed(self, what: Watched) -> Iterable[tuple[ObjectKey, Object]]:
        for kind in self._kinds(what):
            for obj in self._store.list(kind):
                metadata = obj["metadata"]
                yield ObjectKey(kind, metadata["namespace"], metadata["name"]), obj

    def _tell(self, what: Watched, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            for listener in self._listeners:
                listener(SeedChange(what, key.namespace or key.name))
