"""The pods whose containers are probed, from watches of the seed (`endpoint_ports.ProbedPods`)."""

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
    """One watch for each selector, and none where there is none."""

    def __init__(
        self,
        api: SeedApi,
        selectors: Collection[LabelSelector],
        clock: Clock,
        tasks: Tasks,
        metrics: Metrics,
        random: Random,
    ) -> None:
        """Asks for nothing yet.

        Args:
            api: the requests, on the normal budget.
            selectors: those of the configured probes; of equal ones there is one watch.
            clock: says when watches were last in contact.
            tasks: keeps the watches; when one dies the process ends.
            metrics: where watches are counted.
            random: spreads retries and the ends of watches.
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
        """From now on there is a watch of each selector while anybody is followed."""
        for each in self._selected.values():
            self._running.append(self._tasks.shared(each.run, each.label))

    async def close(self) -> None:
        """Ends the watches."""
        for task in self._running:
            await cancelled(task)
        self._running.clear()

    def troubles(self) -> Mapping[str, str]:
        """What watches suffer from, by name; empty while all is well."""
        found = {each.label: each.trouble for each in self._selected.values()}
        return {name: trouble for name, trouble in found.items() if trouble is not None}

    @property
    def forbidden(self) -> str | None:
        """Why pods may not be watched; None while they may be, or nobody has said otherwise."""
        return next((each.forbidden for each in self._selected.values() if each.forbidden), None)

    def follow(self, namespace: str) -> None:
        """The shoot of this namespace is probed."""
        for each in self._selected.values():
            each.follow(namespace)

    def leave(self, namespace: str) -> None:
        """It is not any more: its pods are dropped."""
        for each in self._selected.values():
            each.leave(namespace)

    def pods(self, namespace: str, selector: LabelSelector) -> Collection[ProbedPod]:
        """The pods of a namespace that match a configured selector, as last seen; none before all were listed."""
        return self._selected[selector].pods(namespace)

    def watch_state(self, namespace: str, selector: LabelSelector) -> WatchState:
        """How far the watch of this selector can be trusted; synced: the pods of this namespace were listed."""
        return self._selected[selector].state(namespace)

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """`listener` is called with the namespace after each change of its pods, and when they have been listed."""
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
            log.error("the pods of probes may not be watched", feature=PODS_FEATURE, error=why)


# The pods of one namespace, for as long as a recovery lasts (`weeding_ports.PodWatch`).


R = TypeVar("R")


class AdmittedRequests:
    """Requests on a budget of whoever asks (`reflector.Requests`): each waits until it is admitted."""

    def __init__(self, api: SeedApi, admitted: Admission) -> None:
        self._api, self._admitted = api, admitted

    async def call(self, request: ApiRequest, decode: Decode[R]) -> R:
        """Asks, and decodes the answer."""
        await self._admitted()
        return await self._api.call(request, decode, Budget.PACED)

    @asynccontextmanager
    async def watch(
        self, request: ApiRequest, *, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a watch; gives its lines as they come."""
        await self._admitted()
        opened = self._api.watch(request, silence=silence, budget=Budget.PACED)
        async with opened as lines:
            yield lines


class KubePodWatch:
    """Reflects the pods of one namespace until it is cancelled."""

    def __init__(self, namespace: str, reflector: Reflector[PodView]) -> None:
        self._namespace, self._reflector = namespace, reflector

    @property
    def synced(self) -> bool:
        """Whether they have been listed."""
        return self._reflector.state.synced

    @property
    def trouble(self) -> str | None:
        """What it suffers from; None while all is well."""
        return self._reflector.trouble

    def pods(self) -> Mapping[str, PodView]:
        """The pods by name, as they were last seen; of this moment, whatever comes later."""
        return dict(self._reflector.of(self._namespace))

    async def run(self) -> None:
        """Lists once, then watches, until it is cancelled.

        Raises:
            Forbidden: the right to list or to watch pods is missing, or we are not who we say that we are.
        """
        try:
            await self._reflector.run()
        except Unauthorized as error:
            raise Forbidden(str(error), status=error.status) from error
