"""A process's own adapters to the simulated seed, with the books that are kept at each of them."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from app.core.ports import Starting
from app.simulation.deletion import DeleteOptions
from app.simulation.leadership import SimulatedPauses
from app.simulation.parts import WorldParts
from app.simulation.store import Object, ObjectKey
from app.simulation.weeder_seed import SimulatedWeederSeed
from bench.exploration.timeline import Machine

if TYPE_CHECKING:
    from app.simulation.seed_pods import SeedPods


class Deletions(Protocol):
    """Hears of deletions."""

    def deleting(self, namespace: str, name: str, uid: str) -> None:
        """One is being sent."""
        ...

    def deleted(self, uid: str, pod: Object) -> None:
        """One was accepted."""
        ...


class ProcessPauses:
    """What one process knows of pauses; a `Pauses`."""

    def __init__(
        self, pauses: SimulatedPauses, machine: Machine, namespaces: Collection[str]
    ) -> None:
        """Knows nothing before `learn`."""
        self.synced = False
        self._pauses, self._machine, self._namespaces = pauses, machine, namespaces
        self._known: Mapping[str, str] = {}
        self._learnt = False
        self._listeners: list[Callable[[], None]] = []
        pauses.subscribe(self._changed)

    def paused(self, namespace: str) -> str | None:
        """Why nothing may be deleted there."""
        return self._known.get(namespace)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change."""
        self._listeners.append(listener)

    def learn(self) -> None:
        """They are listed."""
        self._learnt = True
        self._changed()

    def _changed(self) -> None:
        found = {each: self._pauses.paused(each) for each in self._namespaces}
        known = {each: why for each, why in found.items() if why is not None}
        if self._machine.alive and self._learnt:
            self._machine.call_soon(self._take, known)

    def _take(self, known: Mapping[str, str]) -> None:
        self.synced, self._known = True, known
        for listener in self._listeners:
            listener()


class BookedPods:
    """The pods of the seed as one process reaches them: each deletion that is accepted is noted."""

    def __init__(self, parts: WorldParts, books: Deletions) -> None:
        self._pods: SeedPods = parts.pods
        self._store, self._books = parts.store, books

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the pods have
        return getattr(self._pods, name)

    def delete(self, key: ObjectKey, by: str, options: DeleteOptions | None = None) -> None:
        """Somebody deletes a pod."""
        before = self._store.find(key)
        self._pods.delete(key, by, options)
        if before is not None:
            self._books.deleted(before["metadata"]["uid"], before)


class BookedSeed(SimulatedWeederSeed):
    """The seed as one process has it: each deletion is noted at the instant at which it is sent."""

    def __init__(self, parts: WorldParts, books: Deletions) -> None:
        super().__init__(parts)
        self._books = books

    async def delete_pod(
        self, namespace: str, name: str, *, uid: str, resource_version: str, starting: Starting
    ) -> None:
        """Deletes a pod if it is still the one that was judged."""

        def begins() -> None:
            starting()
            self._books.deleting(namespace, name, uid)

        await super().delete_pod(
            namespace, name, uid=uid, resource_version=resource_version, starting=begins
        )
