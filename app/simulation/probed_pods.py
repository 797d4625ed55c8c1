"""Watches of the pods whose containers are probed: implements `app.core.ports.ProbedPods`."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from app.core.model.endpoints import ProbedPod
from app.core.model.selectors import LabelSelector
from app.core.ports import WatchState
from app.core.tasks import Tasks, cancelled
from app.simulation.parts import WorldParts
from app.simulation.reflection import Reflection, WatchedKind
from app.simulation.store import Happened, Object, StoreEvent
from app.simulation.views import probed_view

DESERTED: Final = 60.0
"""Seconds after which an unused watch is closed."""


class _Matching:
    """The pods that match one selector in the followed namespaces, as last delivered."""

    def __init__(self, selector: LabelSelector, changed: Callable[[str], None]) -> None:
        self.followed: set[str] = set()
        self.of: dict[str, dict[str, ProbedPod]] = {}
        """The pods of all namespaces, which are few in a simulation."""
        self._selector, self._changed = selector, changed

    def matches(self, obj: Object) -> bool:
        return self._selector.matches(obj["metadata"].get("labels") or {})

    def listed(self, objects: Iterable[Object], since: float | None) -> None:  # noqa: ARG002  a copy of any kind
        self.of = {}
        for obj in objects:
            self._put(obj)
        for namespace in sorted(self.followed):
            self._changed(namespace)

    def happened(self, event: StoreEvent) -> None:
        # As with a real server, a pod that no longer matches appears as deleted.
        namespace, name = event.key.namespace, event.key.name
        if event.happened is not Happened.DELETED and self.matches(event.object):
            self._put(event.object)
        elif self.of.get(namespace, {}).pop(name, None) is None:
            return
        if namespace in self.followed:
            self._changed(namespace)

    def _put(self, obj: Object) -> None:
        view = probed_view(obj)
        self.of.setdefault(view.namespace, {})[view.name] = view


class _Selected:
    """The watch for one selector; it is open while any namespace is followed."""

    def __init__(
        self,
        parts: WorldParts,
        selector: LabelSelector,
        tasks: Tasks,
        changed: Callable[[str], None],
    ) -> None:
        self.pods = _Matching(selector, changed)
        self.stirred = asyncio.Event()
        self._parts, self._tasks = parts, tasks
        self.reflection = self._new()

    def _new(self) -> Reflection:
        parts, pods = self._parts, self.pods
        asked = WatchedKind(parts.store, parts.api, parts.watches, "Pod", where=pods.matches)
        return Reflection(parts.clock, asked, pods)

    async def run(self) -> None:
        while True:
            while not self.pods.followed:
                await self._stir()
            watching = self._tasks.shared(self.reflection.run, "simulated watch of probed pods")
            await self._deserted()
            await cancelled(watching)
            self.reflection, self.pods.of = self._new(), {}

    async def _deserted(self) -> None:
        """Returns when no namespace has been followed for a while."""
        while True:
            try:
                async with asyncio.timeout(None if self.pods.followed else DESERTED):
                    await self._stir()
            except TimeoutError:
                return

    async def _stir(self) -> None:
        self.stirred.clear()
        await self.stirred.wait()


class SimulatedProbedPods:
    """A `ProbedPods` with one watch for each selector."""

    def __init__(
        self, parts: WorldParts, selectors: Collection[LabelSelector], tasks: Tasks
    ) -> None:
        """Sends no request before a namespace is followed.

        Args:
            parts: the parts of the world.
            selectors: those of the configured probes.
            tasks: keeps the watches.
        """
        self._listeners: list[Callable[[str], None]] = []
        self._selected: dict[LabelSelector, _Selected] = {}
        for each in dict.fromkeys(selectors):
            self._selected[each] = _Selected(parts, each, tasks, self._changed)
            _ = tasks.shared(self._selected[each].run, "simulated probed pods")

    def troubles(self) -> Mapping[str, str]:
        """The errors of the watches, by selector."""
        found = {f"pods {each}": one.reflection.trouble for each, one in self._selected.items()}
        return {name: trouble for name, trouble in found.items() if trouble is not None}

    def follow(self, namespace: str) -> None:
        """Follows the pods of a namespace whose shoot is probed."""
        for each in self._selected.values():
            each.pods.followed.add(namespace)
            each.stirred.set()

    def leave(self, namespace: str) -> None:
        """Stops following a namespace."""
        for each in self._selected.values():
            each.pods.followed.discard(namespace)
            each.stirred.set()

    def pods(self, namespace: str, selector: LabelSelector) -> Collection[ProbedPod]:
        """Returns the pods of a namespace that match a selector, as last delivered."""
        one = self._selected[selector]
        if not self._synced(namespace, one):
            return ()
        return tuple(one.pods.of.get(namespace, {}).values())

    def watch_state(self, namespace: str, selector: LabelSelector) -> WatchState:
        """Returns the state of the watch for a namespace."""
        one = self._selected[selector]
        return WatchState(self._synced(namespace, one), one.reflection.state.last_contact)

    def _synced(self, namespace: str, one: _Selected) -> bool:
        return namespace in one.pods.followed and one.reflection.synced

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with the namespace after each change of its pods."""
        self._listeners.append(listener)

    def _changed(self, namespace: str) -> None:
        for listener in self._listeners:
            listener(namespace)
