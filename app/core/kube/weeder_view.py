"""The services and pods of the seed, as the weeder reads and deletes them (`weeding_ports.WeederSeed`)."""

from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from typing import Any, Final

import structlog

from app.core.clock import Clock
from app.core.errors import NotFound
from app.core.kube import decoding, sources
from app.core.kube.byte_budget import MIB
from app.core.kube.client import ApiRequest
from app.core.kube.failures import RequestedRight
from app.core.kube.pods import AdmittedRequests, KubePodWatch
from app.core.kube.reflector import Reflector
from app.core.kube.replica import ObjectKey
from app.core.kube.resources import PODS
from app.core.kube.seed_api import WITHIN, Budget, SeedApi
from app.core.metrics import Metrics
from app.core.model.pods import PodView, SliceView
from app.core.model.selectors import LabelSelector
from app.core.model.weeding import ServiceKey
from app.core.ports import Admission, Relisted, ServiceListener, Starting, WatchState
from app.core.tasks import Tasks, cancelled

# The EndpointSlices of each configured service: pure.


class ServiceIndex:
    """Which slices a service has, and which service a slice has."""

    def __init__(self, services: Collection[str]) -> None:
        """Knows no slice; those of services that are not in `services` are never taken in."""
        self._configured = frozenset(services)
        self._slices: dict[ServiceKey, dict[str, SliceView]] = {}
        self._service_of: dict[tuple[str, str], ServiceKey] = {}

    def services(self) -> tuple[ServiceKey, ...]:
        """Those that have slices."""
        return tuple(self._slices)

    def slices(self, key: ServiceKey) -> tuple[SliceView, ...]:
        """The slices of a service; empty where it has none."""
        return tuple(self._slices.get(key, {}).values())

    def put(self, namespace: str, name: str, view: SliceView | None) -> tuple[ServiceKey, ...]:
        """This slice is so now, or gone; returns the services that this concerns.

        Two where it went from one to another; first the one that lost it.
        """
        before, now = self._service_of.pop((namespace, name), None), self._key(view)
        if before is not None and before != now:
            self._leave(before, name)
        if now is not None and view is not None:
            self._service_of[namespace, name] = now
            self._slices.setdefault(now, {})[name] = view
        return tuple(dict.fromkeys(key for key in (before, now) if key is not None))

    def _key(self, view: SliceView | None) -> ServiceKey | None:
        if view is None or view.service not in self._configured:
            return None
        return ServiceKey(view.namespace, view.service)

    def _leave(self, key: ServiceKey, name: str) -> None:
        self._slices[key].pop(name)
        if not self._slices[key]:
            del self._slices[key]


log = structlog.get_logger(__name__)

DELETED_WITHIN: Final = 5.0
"""Seconds for one deletion (rules 6)."""
ONE_POD: Final = 4 * MIB
"""Bytes of an answer that is one pod: etcd keeps 1.5 MiB of it, and JSON is longer.  A hundred deletions may be on
their way at once, and each of them might be answered with nonsense without end."""


class KubeWeederSeed:
    """The seed's API server, and a copy of the EndpointSlices of the configured services."""

    def __init__(
        self,
        api: SeedApi,
        services: Collection[str],
        clock: Clock,
        tasks: Tasks,
        metrics: Metrics,
        random: Random,
    ) -> None:
        """Asks for nothing yet.

        Args:
            api: the requests.
            services: the names of the configured services.
            clock: says when watches were last in contact.
            tasks: keeps the watch of the slices; when it dies the process ends.
            metrics: where watches are counted.
            random: spreads retries and the ends of watches.
        """
        self._api, self._clock, self._tasks = api, clock, tasks
        self._metrics, self._random = metrics, random
        self._listeners: list[ServiceListener] = []
        self._running: list[Any] = []
        self._index = ServiceIndex(services)
        self._slices = Reflector(
            sources.slices(services), api, clock, metrics, random, self._slice_changed
        )
        self._slices.tell_lists(self._slices_listed)

    async def start(self) -> None:
        """Opens the watch of the slices; it syncs on its own time."""
        self._running.append(self._tasks.shared(self._slices.run, "watch endpointslices"))

    async def close(self) -> None:
        """Ends the watch of the slices."""
        for task in self._running:
            await cancelled(task)
        self._running.clear()

    def troubles(self) -> Mapping[str, str]:
        """What the watch of the slices suffers from, by its name; empty while all is well."""
        trouble = self._slices.trouble
        return {} if trouble is None else {"endpointslices": trouble}

    def subscribe(self, listener: ServiceListener) -> None:
        """`listener` hears of what happens to services from now on."""
        self._listeners.append(listener)

    def watch_state(self) -> WatchState:
        """How far the watch of the slices can be trusted."""
        return self._slices.state

    def services(self) -> Collection[ServiceKey]:
        """The configured services that have slices."""
        return self._index.services()

    def slices(self, key: ServiceKey) -> tuple[SliceView, ...]:
        """The slices of a service; empty where it has none."""
        return self._index.slices(key)

    def _slice_changed(self, namespace: str, name: str) -> None:
        for key in self._index_anew([(namespace, name)]):
            self._tell_changed(key)

    def _tell_changed(self, key: ServiceKey) -> None:
        self._tell(lambda listener: listener.service_changed(key))

    def _slices_listed(self, since: float | None, news: tuple[ObjectKey, ...]) -> None:
        relisted = Relisted(since, self._index_anew(news))
        self._tell(lambda listener: listener.services_relisted(relisted))

    def _index_anew(self, slices: Iterable[ObjectKey]) -> tuple[ServiceKey, ...]:
        """The services that these slices belong to, or belonged to."""
        touched: dict[ServiceKey, None] = {}  # each once, in order
        for namespace, name in slices:
            view = self._slices.of(namespace).get(name)
            touched |= dict.fromkeys(self._index.put(namespace, name, view))
        return tuple(touched)

    def _tell(self, tell: Callable[[ServiceListener], None]) -> None:
        for listener in self._listeners:
            try:
                tell(listener)
            except Exception as error:
                log.exception("a listener failed", watch="endpointslices", exc_info=error)

    # Live.

    def watch_pods(
        self,
        namespace: str,
        selector: LabelSelector | None,
        changed: Callable[[str], None],
        admitted: Admission,
    ) -> KubePodWatch:
        """The pods of a namespace that match `selector` (None: all), which nobody asks for before it is run."""
        reflector = Reflector(
            sources.pods(namespace, selector),
            AdmittedRequests(self._api, admitted),
            self._clock,
            self._metrics,
            self._random,
            lambda _, name: changed(name),
        )
        return KubePodWatch(namespace, reflector)

    async def read_pod(self, namespace: str, name: str) -> PodView | None:
        """A pod, live; None where there is none.  On the budget of whoever asks."""
        asked = RequestedRight("get", PODS.plural, f"{namespace}/{name}")
        request = ApiRequest(asked, PODS.path(namespace, name), WITHIN, most=ONE_POD)
        try:
            return await self._api.call(request, decoding.pod, Budget.PACED)
        except NotFound:
            return None

    async def any_pod(self, selector: LabelSelector) -> bool:
        """Whether a pod in any namespace matches, by one request for one pod."""
        params = {"limit": "1"} | ({"labelSelector": str(selector)} if str(selector) else {})
        request = ApiRequest(RequestedRight("list", PODS.plural), PODS.path(), WITHIN, params)
        page = await self._api.call(request, decoding.raw_page("Pod"))
        return bool(page.items or page.continues)  # a list that goes on is no proof of none

    async def delete_pod(
        self, namespace: str, name: str, *, uid: str, resource_version: str, starting: Starting
    ) -> None:
        """Deletes a pod if it is still the one that was judged.  On the budget of whoever asks.

        On a new connection: a dead kept-alive one would cost seconds, and a deletion is never repeated here.

        Raises:
            NotFound: there is none of this name.
            Conflict: it is another one, or has changed.
            Throttled: not now; `retry_after` where the server said when.
            Unreachable: no answer in 5 s; it may have been deleted.
        """
        request = ApiRequest(
            RequestedRight("delete", PODS.plural, f"{namespace}/{name}"),
            PODS.path(namespace, name),
            DELETED_WITHIN,
            method="DELETE",
            body={
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "preconditions": {"uid": uid, "resourceVersion": resource_version},
            },
            most=ONE_POD,
        )
        await self._api.call(
            request, decoding.accepted, Budget.PACED, new_connection=True, starting=starting
        )
