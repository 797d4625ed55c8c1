"""The endpoint probes of all shoots: the interface for the registry, the runners and the API."""

import asyncio
from collections.abc import Callable

from app.core.model.endpoints import CachedResult
from app.core.tasks import tell
from app.prober.endpoints.results import (
    EndpointResultView,
    GateView,
    ResultChange,
    ResultNotices,
    Results,
    TargetResult,
    WorkerKey,
)
from app.prober.endpoints.worker_manager import WorkerManager
from app.prober.environment import ProberEnvironment

Listener = Callable[[str], None]


class EndpointProbes:
    """Keeps a `WorkerManager` for each shoot that is probed; does nothing if no endpoint probe is configured."""

    def __init__(self, environment: ProberEnvironment) -> None:
        self._env = environment
        self._teller = ResultNotices(environment.notice_bus)
        self._probes = {probe.name: probe for probe in environment.policy.endpoint_probes}
        self._managers: dict[str, WorkerManager] = {}
        self._counted: dict[WorkerKey, CachedResult] = {}
        """The last counted result of each worker; a new container does not reset it."""
        self._listeners: list[Listener] = []
        self.results = Results()
        """The results cache of all workers."""
        self.results.subscribe(self._changed)
        self._adapters = environment.endpoints if self._probes else None
        if self._adapters is not None:
            self._adapters.pods.subscribe(self._pods_changed)
            environment.leadership.subscribe(self._leadership_changed)

    # Called by the registry.

    def start(self, namespace: str) -> None:
        """Starts the endpoint probes of a shoot that is probed from now on."""
        if self._adapters is None or namespace in self._managers:
            return
        manager = WorkerManager(self._env, self._adapters, namespace, self.results, self._tell)
        self._managers[namespace] = manager
        self._adapters.pods.follow(namespace)
        manager.sync()

    async def stop(self, namespace: str) -> None:
        """Stops the endpoint probes of a shoot: removes its results at once, and returns when no run is under way."""
        manager = self._managers.pop(namespace, None)
        if manager is None or self._adapters is None:
            return
        self._adapters.pods.leave(namespace)
        await manager.stop()

    async def stop_all(self) -> None:
        """Ends the probes of all shoots."""
        await asyncio.gather(*(self.stop(namespace) for namespace in list(self._managers)))

    # Events.

    def _pods_changed(self, namespace: str) -> None:
        if (manager := self._managers.get(namespace)) is not None:
            manager.sync()

    def _leadership_changed(self) -> None:
        for manager in list(self._managers.values()):
            manager.sync()

    # For the runners and the API.

    def closed(self, namespace: str) -> str | None:
        """Why no scale-down may start: the closed gates, their targets and messages; None if every gate is open."""
        manager = self._managers.get(namespace)
        return None if manager is None else manager.closed()

    def views(self, namespace: str) -> tuple[EndpointResultView, ...]:
        """The result of each probe and target of a shoot that is probed, in the order of the configuration."""
        manager = self._managers.get(namespace)
        return () if manager is None else manager.views()

    def gates(self, namespace: str) -> tuple[GateView, ...]:
        """The gates of a shoot, in the order of the configuration; empty if this instance does not probe it."""
        manager = self._managers.get(namespace)
        return () if manager is None else manager.gates()

    def subscribe(self, listener: Listener) -> None:
        """Calls `listener` with the namespace when a counted result or the side of a gate changes."""
        self._listeners.append(listener)

    def _changed(self, change: ResultChange) -> None:
        """Reports a new counted result; that a result no longer counts is passed on to the listeners only."""
        key, before, after = change
        if after is None:
            self._counted.pop(key, None)
        elif after.counted:
            self._note_counted(key, after)
        if _counting(before) is not _counting(after):
            self._tell(key.namespace)

    def _note_counted(self, key: WorkerKey, entry: TargetResult) -> None:
        last = self._counted.get(key)
        if last is entry.result:
            return
        self._counted[key] = entry.result
        self._teller.counted(self._probes[key.probe], key, entry, first=last is None)

    def _tell(self, namespace: str) -> None:
        tell(self._listeners, {"namespace": namespace}, namespace)


def _counting(entry: TargetResult | None) -> CachedResult | None:
    return entry.result if entry is not None and entry.counted else None
