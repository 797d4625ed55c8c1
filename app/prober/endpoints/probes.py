"""The endpoint probes of all shoots: what the runners, the registry and the API have to do with."""

import asyncio
from collections.abc import Callable

import structlog

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
from app.prober.rules.endpoints import CachedResult

log = structlog.get_logger(__name__)

Listener = Callable[[str], None]


class EndpointProbes:
    """Starts, replaces and stops the workers of every shoot with their targets; without a probe, it does nothing."""

    def __init__(self, environment: ProberEnvironment) -> None:
        self._env = environment
        self._teller = ResultNotices(environment.board)
        self._probes = {probe.name: probe for probe in environment.policy.endpoint_probes}
        self._managers: dict[str, WorkerManager] = {}
        self._counted: dict[WorkerKey, CachedResult] = {}
        """The last result of each worker that counted; a new container does not make it forgotten."""
        self._listeners: list[Listener] = []
        self.results = Results()
        """The cache, with its stream of changes."""
        self.results.subscribe(self._changed)
        self._adapters = environment.endpoints if self._probes else None
        if self._adapters is not None:
            self._adapters.pods.subscribe(self._pods_changed)
            environment.leadership.subscribe(self._leadership_changed)

    # What the registry says.

    def start(self, namespace: str) -> None:
        """The shoot of this namespace is probed from now on."""
        if self._adapters is None or namespace in self._managers:
            return
        manager = WorkerManager(self._env, self._adapters, namespace, self.results, self._tell)
        self._managers[namespace] = manager
        self._adapters.pods.follow(namespace)
        manager.sync()

    async def stop(self, namespace: str) -> None:
        """It is not any more: its results are gone at once, and when this returns no run is under way."""
        manager = self._managers.pop(namespace, None)
        if manager is None or self._adapters is None:
            return
        self._adapters.pods.leave(namespace)
        await manager.stop()

    async def stop_all(self) -> None:
        """Ends the probes of all shoots."""
        await asyncio.gather(*(self.stop(namespace) for namespace in list(self._managers)))

    # What happens outside.

    def _pods_changed(self, namespace: str) -> None:
        if (manager := self._managers.get(namespace)) is not None:
            manager.sync()

    def _leadership_changed(self) -> None:
        for manager in list(self._managers.values()):
            manager.sync()

    # What others hear and see.

    def closed(self, namespace: str) -> str | None:
        """Why no scale-down may start: the probe, its targets, what they said, and since when; None where one may."""
        manager = self._managers.get(namespace)
        return None if manager is None else manager.closed()

    def views(self, namespace: str) -> tuple[EndpointResultView, ...]:
        """One for each probe and target of a shoot that is probed, in the order of the configuration."""
        manager = self._managers.get(namespace)
        return () if manager is None else manager.views()

    def gates(self, namespace: str) -> tuple[GateView, ...]:
        """One for each probe that is a gate, in the order of the configuration; empty where nobody looks."""
        manager = self._managers.get(namespace)
        return () if manager is None else manager.gates()

    def subscribe(self, listener: Listener) -> None:
        """`listener` is called with the namespace when a counted result, or what is known of a gate, changes."""
        self._listeners.append(listener)

    def _changed(self, change: ResultChange) -> None:
        """Tells what counts; one that counted and does so no longer is for the listeners only."""
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
        for listener in self._listeners:
            try:
                listener(namespace)
            except Exception as error:
                log.exception("a listener failed", namespace=namespace, exc_info=error)


def _counting(entry: TargetResult | None) -> CachedResult | None:
    return entry.result if entry is not None and entry.counted else None
