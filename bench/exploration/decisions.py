"""The overrides of one process: all that it is told of them is noted."""

from collections.abc import Callable, Mapping

from app.core.clock import Clock
from app.core.ports import OverridesDocument, OverridesStore, Starting, WatchState
from bench.exploration.wishes import Told


class NotedOverrides:
    """A process's `OverridesStore`; what it tells is noted before the process hears of it."""

    def __init__(self, store: OverridesStore, told: Told, clock: Clock) -> None:
        self._store, self._told, self._clock = store, told, clock
        store.subscribe(self._shown)

    def _shown(self) -> None:
        self._told.forbidden = self.forbidden is not None
        synced = self.watch_state().synced
        self._told.shown(self.document(), synced=synced, now=self._clock.now())

    @property
    def forbidden(self) -> str | None:
        """Why reading them is forbidden."""
        return self._store.forbidden

    def watch_state(self) -> WatchState:
        """The state of the watch."""
        return self._store.watch_state()

    def document(self) -> OverridesDocument | None:
        """As the watch shows it."""
        return self._store.document()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change."""
        self._store.subscribe(listener)

    async def read(self) -> OverridesDocument | None:
        """As it is now."""
        found = await self._store.read()
        if found is None:
            self._told.not_there()
            return None
        return self._answered(found)

    async def create(
        self, data: Mapping[str, str], *, starting: Starting | None = None
    ) -> OverridesDocument:
        """Makes it."""
        return self._answered(await self._store.create(data, starting=starting))

    async def replace(
        self,
        document: OverridesDocument,
        data: Mapping[str, str],
        *,
        starting: Starting | None = None,
    ) -> OverridesDocument:
        """Writes over it."""
        return self._answered(await self._store.replace(document, data, starting=starting))

    def _answered(self, document: OverridesDocument) -> OverridesDocument:
        self._told.answered(document, self._clock.now())
        return document
