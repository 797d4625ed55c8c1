"""The seed as the weeder needs it: watches services and pods, reads and deletes pods."""

from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from typing import Final

from app.core.errors import Forbidden, Invalid
from app.core.kube import resources
from app.core.kube.connections import MIB
from app.core.kube.decoding import envelope, pod_objects
from app.core.kube.reflector import ObjectKey, Reflector, troubles
from app.core.kube.resources import PODS
from app.core.kube.seed_api import Budget, SeedApi, denied_by_admission, or_none
from app.core.model.names import LabelSelector
from app.core.model.weeding import PodView, ServiceKey, SliceView
from app.core.ports import Admission, Relisted, ServiceListener, Starting, WatchState
from app.core.tasks import Tasks, tell

_WATCH: Final = {"watch": "endpointslices"}

DELETED_WITHIN: Final = 5.0
"""Time limit of a deletion in seconds (rules 6)."""
ONE_POD: Final = 4 * MIB
"""Maximum bytes of an answer with one pod: etcd stores 1.5 MiB of it, and JSON is longer. A hundred deletions may be in
flight, and each could be answered with endless nonsense."""


class WeederSeed:
    """The seed's API server, with a copy of the EndpointSlices of the configured services."""

    def __init__(
        self,
        api: SeedApi,
        services: Collection[str],
        tasks: Tasks,
        random: Random,
    ) -> None:
        """Sends nothing yet.

        Args:
            api: sends the requests.
            services: the names of the configured services.
            tasks: owns the watch of the slices; if it dies the process ends.
            random: spreads retries and the durations of watches.
        """
        self._api, self._tasks, self._random = api, tasks, random
        self._listeners: list[ServiceListener] = []
        self._services = frozenset(services)
        self._service_of: dict[ObjectKey, ServiceKey] = {}
        """The configured service of each slice, as it was told last."""
        source = resources.slices(services)
        self._slices = Reflector(
            source, api, random, self._slice_changed, replaced=self._slices_listed
        )

    async def start(self) -> None:
        """Starts the watch of the slices; does not wait until it is synced."""
        _ = self._tasks.shared(self._slices.run, f"watch {self._slices.label}")

    def troubles(self) -> Mapping[str, str]:
        """Returns why the watch of the slices does not work, by its name; empty if it does."""
        return troubles([self._slices])

    def subscribe(self, listener: ServiceListener) -> None:
        """Calls `listener` for each change of a service from now on."""
        self._listeners.append(listener)

    def watch_state(self) -> WatchState:
        """Returns the state of the watch of EndpointSlices."""
        return self._slices.state

    def services(self) -> Collection[ServiceKey]:
        """Returns the configured services that have slices."""
        return tuple(dict.fromkeys(self._service_of.values()))

    def slices(self, key: ServiceKey) -> tuple[SliceView, ...]:
        """Returns the slices of a service; empty if it has none."""
        found = self._slices.of(key.namespace).values()
        return tuple(each for each in found if self._service(each) == key)

    def _service(self, view: SliceView | None) -> ServiceKey | None:
        """Returns the configured service that a slice belongs to; None if there is none."""
        if view is None or view.service not in self._services:
            return None
        return ServiceKey(view.namespace, view.service)

    def _slice_changed(self, namespace: str, name: str) -> None:
        for key in self._services_of([(namespace, name)]):
            tell([each.service_changed for each in self._listeners], _WATCH, key)

    def _slices_listed(self, since: float | None, news: tuple[ObjectKey, ...]) -> None:
        relisted = Relisted(since, self._services_of(news))
        tell([each.services_relisted for each in self._listeners], _WATCH, relisted)

    def _services_of(self, changed: Iterable[ObjectKey]) -> tuple[ServiceKey, ...]:
        """Returns the services that these slices belonged to and belong to, each once."""
        found: list[ServiceKey | None] = []
        for key in changed:
            namespace, name = key
            now = self._service(self._slices.of(namespace).get(name))
            found += self._service_of.get(key), now
            if now is None:
                self._service_of.pop(key, None)
            else:
                self._service_of[key] = now
        return tuple(dict.fromkeys(each for each in found if each is not None))

    # Live.

    def watch_pods(
        self,
        namespace: str,
        selector: LabelSelector | None,
        changed: Callable[[str], None],
        admitted: Admission,
    ) -> Reflector[PodView]:
        """Creates a watch of the pods of a namespace that match `selector` (None: all), to be started by `run`."""
        return Reflector(
            resources.pods(namespace, selector),
            self._api,
            self._random,
            lambda _, name: changed(name),
            admitted=admitted,
        )

    async def read_pod(self, namespace: str, name: str) -> PodView | None:
        """Reads a pod live, on the caller's budget; returns None if it does not exist."""
        request = PODS.request("get", namespace, name, most=ONE_POD)
        return await or_none(self._api.call(request, pod_objects.pod, Budget.PACED))

    async def any_pod(self, selector: LabelSelector) -> bool:
        """Returns whether any pod in any namespace matches, by one request with `limit=1`."""
        params = {"limit": "1"} | ({"labelSelector": str(selector)} if str(selector) else {})
        request = PODS.request("list", params=params)
        page = await self._api.call(request, envelope.raw_page("Pod"))
        # a list with further pages does not prove that there is none
        return bool(page.items or page.continues)

    async def delete_pod(
        self, namespace: str, name: str, *, uid: str, resource_version: str, starting: Starting
    ) -> None:
        """Deletes a pod under the preconditions uid and resourceVersion, on the caller's budget.

        Uses a new connection: a dead kept-alive one would cost seconds, and a deletion is never repeated here.

        Raises:
            NotFound: no pod has this name.
            Conflict: the pod of this name is another one, or has changed.
            Throttled: the seed asks for a pause; `retry_after` if it said how long.
            Invalid: admission denies it for this pod.
            Unreachable: there was no answer within 5 s; the pod may have been deleted.
        """
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
        }
        request = PODS.request(
            "delete", namespace, name, within=DELETED_WITHIN, body=options, most=ONE_POD
        )
        try:
            await self._api.call(
                request, pod_objects.accepted, Budget.PACED, new_connection=True, starting=starting
            )
        except Forbidden as refusal:
            if denied_by_admission(refusal):
                raise Invalid(str(refusal), status=refusal.status) from refusal
            raise
