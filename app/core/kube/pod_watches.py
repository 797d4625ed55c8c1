"""Watches pods: those that are probed (`ports.ProbedPods`), and those of one recovery (`ports.PodWatch`)."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

import structlog

from app.core.clock import Clock
from app.core.errors import Forbidden, Unauthorized
from app.core.kube.access import PODS_FEATURE
from app.core.kube.client import ApiRequest, Decode
from app.core.kube.reflector import Reflector
from app.core.kube.seed_api import Budget, SeedApi
from app.core.kube.selected_pods import SelectedPods
from app.core.metrics import Metrics
from app.core.model.endpoints import ProbedPod
from app.core.model.pods import PodView
from app.core.model.selectors import LabelSelector
from app.core.ports import Admission, WatchState
from app.core.tasks import Tasks, cancelled

log = structlog.get_logger(__name__)


class KubeProbedPods:
    """One watch for each selector; no watch if no selector is configured."""

    def __init__(
        self,
        api: SeedApi,
        selectors: Collection[LabelSelector],
        clock: Clock,
        tasks: Tasks,
        metrics: Metrics,
        random: Random,
    ) -> None:
        """Sends nothing yet.

        Args:
            api: sends the requests, on the normal budget.
            selectors: the selectors of the configured probes; equal ones share a watch.
            clock: timestamps the contacts of watches.
            tasks: owns the watch tasks; if one dies the process ends.
            metrics: counts watch restarts.
            random: spreads retries and the durations of watches.
        """
        self._tasks = tasks
        self._off = metrics.feature_off.labels(PODS_FEATURE)
        self._listeners: list[Callable[[str], None]] = []
        self._running: list[Any] = []
        self._selected = {
            each: SelectedPods(
                each,
                api,
                clock,
                tasks,
                metrics,
                random,
                changed=self._changed,
                refusal_changed=self._refusal_changed,
            )
            for each in dict.fromkeys(selectors)
        }

    async def start(self) -> None:
        """Starts to keep a watch of each selector while any namespace is followed."""
        for each in self._selected.values():
            self._running.append(self._tasks.shared(each.run, each.label))

    async def close(self) -> None:
        """Stops the watches."""
        for task in self._running:
            await cancelled(task)
        self._running.clear()

    def troubles(self) -> Mapping[str, str]:
        """Returns why watches do not work, by name; empty if all do."""
        found = {each.label: each.trouble for each in self._selected.values()}
        return {name: trouble for name, trouble in found.items() if trouble is not None}

    @property
    def forbidden(self) -> str | None:
        """Why watching pods is forbidden; None while it is allowed, or not known to be forbidden."""
        return next((each.forbidden for each in self._selected.values() if each.forbidden), None)

    def follow(self, namespace: str) -> None:
        """Follows the pods of this namespace, because its shoot is probed from now on."""
        for each in self._selected.values():
            each.follow(namespace)

    def leave(self, namespace: str) -> None:
        """Stops following the pods of this namespace and drops them."""
        for each in self._selected.values():
            each.leave(namespace)

    def pods(self, namespace: str, selector: LabelSelector) -> Collection[ProbedPod]:
        """Returns the pods that match a configured selector, from the watch; none until all were listed."""
        return self._selected[selector].pods(namespace)

    def watch_state(self, namespace: str, selector: LabelSelector) -> WatchState:
        """Returns the state of this selector's watch; `synced` says whether the pods of this namespace were listed."""
        return self._selected[selector].state(namespace)

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with the namespace after each change of its pods, and when they have been listed."""
        self._listeners.append(listener)

    def _changed(self, namespace: str) -> None:
        for listener in self._listeners:
            try:
                listener(namespace)
            except Exception as error:
                log.exception("a listener failed", watch="pods", exc_info=error)

    def _refusal_changed(self) -> None:
        why = self.forbidden
        self._off.set(0 if why is None else 1)
        if why is not None:
            log.error("watching the pods of probes is forbidden", feature=PODS_FEATURE, error=why)


# The pods of one namespace, for the time of a recovery (`ports.PodWatch`).


R = TypeVar("R")


class AdmittedRequests:
    """`reflector.WatchRequests` on the caller's budget: each request waits until it is admitted."""

    def __init__(self, api: SeedApi, admitted: Admission) -> None:
        self._api, self._admitted = api, admitted

    async def call(self, request: ApiRequest, decode: Decode[R]) -> R:
        """Sends the request and decodes the answer."""
        await self._admitted()
        return await self._api.call(request, decode, Budget.PACED)

    @asynccontextmanager
    async def watch(
        self, request: ApiRequest, *, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a watch and yields its lines as they arrive."""
        await self._admitted()
        opened = self._api.watch(request, silence=silence, budget=Budget.PACED)
        async with opened as lines:
            yield lines


class KubePodWatch:
    """A copy of the pods of one namespace, kept up to date by `run`."""

    def __init__(self, namespace: str, reflector: Reflector[PodView]) -> None:
        self._namespace, self._reflector = namespace, reflector

    @property
    def synced(self) -> bool:
        """Whether the pods have been listed."""
        return self._reflector.state.synced

    @property
    def trouble(self) -> str | None:
        """Why the watch does not work; None while it does."""
        return self._reflector.trouble

    def pods(self) -> Mapping[str, PodView]:
        """Returns a snapshot of the pods by name, from the watch."""
        return dict(self._reflector.of(self._namespace))

    async def run(self) -> None:
        """Lists once, then watches until it is cancelled.

        Raises:
            Forbidden: the right to list or watch pods is missing, or our credentials are not accepted.
        """
        try:
            await self._reflector.run()
        except Unauthorized as error:
            raise Forbidden(str(error), status=error.status) from error
