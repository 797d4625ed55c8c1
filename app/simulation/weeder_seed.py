"""The simulated seed as the weeder uses it: implements `app.core.ports.WeederSeed` on the store."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from app.core.model.pods import PodView, SliceView
from app.core.model.selectors import LabelSelector
from app.core.model.weeding import ServiceKey
from app.core.model.workloads import ResourceRef
from app.core.ports import Admission, Relisted, ServiceListener, Starting, WatchState
from app.simulation.deletion import DeleteOptions
from app.simulation.parts import WorldParts
from app.simulation.reflection import OpenWatches, Reflection, WatchedKind
from app.simulation.store import Happened, Object, ObjectKey, StoreEvent
from app.simulation.traffic import Host, SimulatedRequest, Write
from app.simulation.views import pod_view, slice_view

WEEDER: Final = "dependency-watchdog-weeder"
"""The author of deletions through `SimulatedWeederSeed` in the journal."""
LIMIT: Final = 10.0
DELETE_LIMIT: Final = 5.0


class _Slices:
    """The EndpointSlices, as last delivered."""

    def __init__(self) -> None:
        self.listeners: list[ServiceListener] = []
        self.of: dict[ServiceKey, dict[str, SliceView]] = {}
        self.selected: frozenset[str] | None = None

    def listed(self, objects: Iterable[Object], since: float | None) -> None:
        before, self.of = self.of, {}
        for obj in objects:
            self._put(slice_view(obj))
        keys = sorted(before.keys() | self.of.keys())
        changed = tuple(key for key in keys if before.get(key) != self.of.get(key))
        for listener in self.listeners:
            listener.services_relisted(Relisted(since, changed))

    def happened(self, event: StoreEvent) -> None:
        """Notifies each service that the slice belongs or belonged to."""
        views = [slice_view(each) for each in (event.before, event.object) if each is not None]
        for view in views:
            self._drop(view)
        if event.happened is not Happened.DELETED:
            self._put(views[-1])
        for key in sorted({_service(view) for view in views if self._selects(view)}):
            for listener in self.listeners:
                listener.service_changed(key)

    def _put(self, view: SliceView) -> None:
        if self._selects(view):
            self.of.setdefault(_service(view), {})[view.name] = view

    def _selects(self, view: SliceView) -> bool:
        return bool(view.service) and (self.selected is None or view.service in self.selected)

    def _drop(self, view: SliceView) -> None:
        slices = self.of.get(_service(view), {})
        slices.pop(view.name, None)
        if not slices:
            self.of.pop(_service(view), None)


def _service(view: SliceView) -> ServiceKey:
    return ServiceKey(view.namespace, view.service)


class _Pods:
    """The pods of one namespace that match a selector, as last delivered."""

    def __init__(self, selector: LabelSelector | None, changed: Callable[[str], None]) -> None:
        self.views: dict[str, PodView] = {}
        self._selector, self._changed = selector, changed

    def matches(self, obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return self._selector is None or self._selector.matches(labels)

    def listed(self, objects: Iterable[Object], since: float | None) -> None:  # noqa: ARG002  a copy of any kind
        before, self.views = self.views, {}
        for obj in objects:
            view = pod_view(obj)
            self.views[view.name] = view
        for name in sorted(before.keys() | self.views.keys()):
            if before.get(name) != self.views.get(name):
                self._changed(name)

    def happened(self, event: StoreEvent) -> None:
        # As with a real server, a pod that no longer matches appears as deleted.
        name = event.key.name
        if event.happened is not Happened.DELETED and self.matches(event.object):
            self.views[name] = pod_view(event.object)
        elif self.views.pop(name, None) is None:
            return
        self._changed(name)


class SimulatedPodWatch:
    """A `PodWatch`."""

    def __init__(self, pods: _Pods, reflection: Reflection) -> None:
        self._pods, self._reflection = pods, reflection

    @property
    def synced(self) -> bool:
        """Whether they have been listed."""
        return self._reflection.synced

    @property
    def trouble(self) -> str | None:
        """The current error; None if there is none."""
        return self._reflection.trouble

    def pods(self) -> Mapping[str, PodView]:
        """The pods by name, as last delivered."""
        return self._pods.views

    async def run(self) -> None:
        """Lists and watches until it is cancelled.

        Raises:
            Forbidden: the right is missing.
        """
        await self._reflection.run()


class SimulatedWeederSeed:
    """A `WeederSeed`; it lists the slices as soon as there is a subscriber."""

    def __init__(self, parts: WorldParts) -> None:
        self.watches: OpenWatches = parts.watches
        self._parts = parts
        self._slices = _Slices()
        self._wanted = asyncio.Event()
        asked = WatchedKind(parts.store, parts.api, parts.watches, "EndpointSlice")
        self._reflection = Reflection(parts.clock, asked, self._slices)

    async def run(self) -> None:
        """Watches the slices, until cancelled."""
        await self._wanted.wait()
        await self._reflection.run()

    @property
    def open_watches(self) -> int:
        """The number of open watches of pods."""
        return self.watches.open_now("Pod")

    @property
    def most_watches(self) -> int:
        """The maximum number of watches of pods that were open at the same time."""
        return self.watches.most["Pod"]

    def select(self, services: Collection[str]) -> None:
        """Restricts the slices to services of these names; to be called before the first subscription."""
        self._slices.selected = frozenset(services)

    def subscribe(self, listener: ServiceListener) -> None:
        """Notifies `listener` of changes of services from now on."""
        self._slices.listeners.append(listener)
        self._wanted.set()

    def watch_state(self) -> WatchState:
        """Returns the state of the watch of the slices."""
        return self._reflection.state

    def services(self) -> Collection[ServiceKey]:
        """Returns the services that have slices."""
        return tuple(self._slices.of)

    def slices(self, key: ServiceKey) -> tuple[SliceView, ...]:
        """Returns the slices of a service."""
        return tuple(self._slices.of.get(key, {}).values())

    def watch_pods(
        self,
        namespace: str,
        selector: LabelSelector | None,
        changed: Callable[[str], None],
        admitted: Admission,
    ) -> SimulatedPodWatch:
        """Creates a watch of the pods of a namespace that match `selector`; it begins when it is run."""
        parts, pods = self._parts, _Pods(selector, changed)
        asked = WatchedKind(parts.store, parts.api, parts.watches, "Pod", namespace, pods.matches)
        reflection = Reflection(parts.clock, asked, pods, admitted=admitted, gives_up=True)
        return SimulatedPodWatch(pods, reflection)

    async def read_pod(self, namespace: str, name: str) -> PodView | None:
        """Reads a pod live."""

        def serve() -> PodView | None:
            found = self._parts.store.find(ObjectKey("Pod", namespace, name))
            return None if found is None else pod_view(found)

        return await self._parts.api.ask(_request("get", namespace), serve, limit=LIMIT)

    async def any_pod(self, selector: LabelSelector) -> bool:
        """Returns whether a pod in any namespace matches a selector."""

        def serve() -> bool:
            pods = self._parts.store.list("Pod")
            return any(selector.matches(pod["metadata"].get("labels") or {}) for pod in pods)

        return await self._parts.api.ask(_request("list"), serve, limit=LIMIT)

    async def delete_pod(
        self, namespace: str, name: str, *, uid: str, resource_version: str, starting: Starting
    ) -> None:
        """Deletes a pod, with its uid and resourceVersion as preconditions.

        Raises:
            NotFound: there is none of this name.
            Conflict: it is another one, or has changed.
            Unreachable: no answer in 5 s; it may have been deleted.
        """
        starting()
        sent = self._parts.clock.now()

        def serve() -> None:
            options = DeleteOptions(uid, resource_version)
            self._parts.pods.delete(ObjectKey("Pod", namespace, name), WEEDER, options)
            ref = ResourceRef("v1", "Pod", name)
            now = self._parts.clock.now()
            self._parts.journal.add(Write(now, namespace, ref, {}, WEEDER, sent, "delete"))

        await self._parts.api.ask(_request("delete", namespace), serve, limit=DELETE_LIMIT)


def _request(verb: str, namespace: str = "") -> SimulatedRequest:
    return SimulatedRequest(Host.SEED, verb, "pods", namespace)
