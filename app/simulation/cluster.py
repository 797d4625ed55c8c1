"""The simulated seed as the prober uses it: implements `app.core.ports.SeedCluster` on the store."""

from collections.abc import Callable, Mapping

from app.core.errors import NotFound
from app.core.model.nodes import MachineView
from app.core.model.shoots import ClusterView, Route, SecretView
from app.core.model.workloads import Patch, ResourceRef, ScaleView, WorkloadView
from app.core.ports import SeedChange, Starting, Watched, WatchState
from app.simulation.parts import WorldParts
from app.simulation.store import ObjectKey, Store
from app.simulation.traffic import Host, SimulatedRequest, Write
from app.simulation.validation import check_count
from app.simulation.views import (
    cluster_view,
    machine_view,
    scale_view,
    secret_view,
    size_field,
    workload_view,
)

WATCHDOG = "dependency-watchdog"
"""The author of writes through `SimulatedSeed` in the journal."""
LIMIT = 10.0
URGENT_LIMIT = 5.0


class SimulatedSeed:
    """A `SeedCluster`: reads through watch caches or live, and patches."""

    def __init__(self, parts: WorldParts) -> None:
        self._clock = parts.clock
        self._store = parts.store
        self._api = parts.api
        self._caches = parts.caches
        self._unavailable = parts.unavailable
        self._journal = parts.journal
        self._secret_names = parts.secret_names

    def subscribe(self, listener: Callable[[SeedChange], None]) -> None:
        """Calls `listener` after each change that a watch has delivered."""

        def heard(change: SeedChange) -> None:
            if change.what is not Watched.MACHINES or not self._both_routes:
                listener(change)

        self._caches.subscribe(heard)

    def watch_state(self, what: Watched) -> WatchState:
        """Returns the state of a watch; Machines are not watched in endpoint mode and always count as synced."""
        if what is Watched.MACHINES and self._both_routes:
            return WatchState(synced=True, last_contact=self._clock.now())
        return self._caches.state(what)

    def unavailable(self, ref: ResourceRef) -> str | None:
        """Returns why a dependent is unavailable, which only a fault causes; None if it is available."""
        error = self._unavailable.get(ref)
        return None if error is None else str(error)

    def _check_available(self, ref: ResourceRef) -> None:
        if (error := self._unavailable.get(ref)) is not None:
            raise error

    @property
    def _both_routes(self) -> bool:
        """Whether this is endpoint mode."""
        return Route.EXTERNAL in self._secret_names

    def clusters(self) -> Mapping[str, ClusterView]:
        """Returns all Clusters by name, from the watch."""
        found = (cluster_view(obj) for obj in self._caches.all("Cluster", ""))
        return {view.name: view for view in found}

    def secret(self, namespace: str, route: Route = Route.INTERNAL) -> SecretView | None:
        """Returns the kubeconfig Secret of a route, from the watch."""
        name = self._secret_names.get(route)
        found = name and self._caches.find(ObjectKey("Secret", namespace, name))
        return secret_view(found, route) if found else None

    def machines(self, namespace: str) -> tuple[MachineView, ...]:
        """Returns the Machines, from the watch; none in endpoint mode."""
        if self._both_routes:
            return ()
        return tuple(machine_view(obj) for obj in self._caches.all("Machine", namespace))

    def dependent(self, namespace: str, ref: ResourceRef) -> WorkloadView | None:
        """Returns a dependent, from the watch."""
        found = None if self.unavailable(ref) else self._caches.find(_key(namespace, ref))
        return None if found is None else workload_view(found)

    async def read_cluster(self, namespace: str, *, urgent: bool = False) -> ClusterView | None:
        """Reads the Cluster live."""

        def serve() -> ClusterView | None:
            found = self._store.find(ObjectKey("Cluster", "", namespace))
            return None if found is None else cluster_view(found)

        return await self._api.ask(
            _request("get", "clusters", namespace), serve, limit=_limit(urgent=urgent)
        )

    async def read_secret(
        self, namespace: str, *, route: Route = Route.INTERNAL, urgent: bool = False
    ) -> SecretView | None:
        """Reads the kubeconfig Secret of a route live."""
        name = self._secret_names.get(route)
        if name is None:
            return None

        def serve() -> SecretView | None:
            found = self._store.find(ObjectKey("Secret", namespace, name))
            return None if found is None else secret_view(found, route)

        return await self._api.ask(
            _request("get", "secrets", namespace), serve, limit=_limit(urgent=urgent)
        )

    async def read_machines(
        self, namespace: str, *, urgent: bool = False
    ) -> tuple[MachineView, ...]:
        """Reads the Machines live."""

        def serve() -> tuple[MachineView, ...]:
            return tuple(machine_view(obj) for obj in self._store.list("Machine", namespace))

        return await self._api.ask(
            _request("list", "machines", namespace), serve, limit=_limit(urgent=urgent)
        )

    async def read_dependent(
        self,
        namespace: str,
        ref: ResourceRef,
        *,
        urgent: bool = False,
        spare: bool = False,  # noqa: ARG002 - here is no budget that could be used up
    ) -> WorkloadView | None:
        """Reads a dependent live.

        Raises:
            NotFound: the seed does not serve its kind.
        """

        def serve() -> WorkloadView | None:
            self._check_available(ref)
            _check_served(self._store, ref)
            found = self._store.find(_key(namespace, ref))
            return None if found is None else workload_view(found)

        return await self._api.ask(
            _request("get", _plural(ref), namespace), serve, limit=_limit(urgent=urgent)
        )

    async def read_scale(
        self,
        namespace: str,
        ref: ResourceRef,
        *,
        urgent: bool = False,
        spare: bool = False,  # noqa: ARG002 - as above
    ) -> ScaleView:
        """Reads the `scale` subresource live.

        Raises:
            NotFound: there is no such object, or its kind has no `scale`.
        """
        return await self._api.ask(
            _request("get", f"{_plural(ref)}/scale", namespace),
            lambda: scale_view(self._store.get(_key(namespace, ref))),
            limit=_limit(urgent=urgent),
        )

    async def patch_dependent(
        self,
        namespace: str,
        ref: ResourceRef,
        patch: Patch,
        *,
        starting: Starting | None = None,
        urgent: bool = False,
    ) -> WorkloadView:
        """Sends one merge patch of the object.

        Raises:
            NotFound: there is no such object.
            Conflict: the object has changed since it was read.
            Invalid: the number of replicas is negative.
        """
        if starting is not None:
            starting()
        sent = self._clock.now()

        def serve() -> WorkloadView:
            changed = self._store.patch(_key(namespace, ref), patch.body())
            self._enter(namespace, ref, patch.body(), sent, "patch")
            return workload_view(changed)

        return await self._api.ask(
            _request("patch", _plural(ref), namespace), serve, limit=_limit(urgent=urgent)
        )

    async def patch_scale(
        self,
        namespace: str,
        ref: ResourceRef,
        patch: Patch,
        *,
        starting: Starting | None = None,
        urgent: bool = False,
    ) -> ScaleView:
        """Sends one merge patch of the `scale` subresource.

        Raises:
            NotFound: there is no such object, or its kind has no `scale`.
            Conflict: the object has changed since it was read.
            Invalid: the number of replicas is negative.
        """
        if starting is not None:
            starting()
        sent = self._clock.now()

        def serve() -> ScaleView:
            key = _key(namespace, ref)
            name = size_field(self._store.get(key))
            if patch.replicas is not None:
                check_count("Scale", ref.name, "spec.replicas", patch.replicas)
            spec = {} if patch.replicas is None else {name: patch.replicas}
            body = {"metadata": {"resourceVersion": patch.resource_version}, "spec": spec}
            changed = self._store.patch(key, body)
            self._enter(namespace, ref, patch.body(), sent, "scale")
            return scale_view(changed)

        return await self._api.ask(
            _request("patch", f"{_plural(ref)}/scale", namespace),
            serve,
            limit=_limit(urgent=urgent),
        )

    def _enter(
        self, namespace: str, ref: ResourceRef, body: Mapping[str, object], sent: float, verb: str
    ) -> None:
        self._journal.add(Write(self._clock.now(), namespace, ref, body, WATCHDOG, sent, verb))


def _key(namespace: str, ref: ResourceRef) -> ObjectKey:
    return ObjectKey(ref.kind, namespace, ref.name)


def _check_served(store: Store, ref: ResourceRef) -> None:
    """Checks that a kind is served: those outside `apps/v1` are, once an object of the kind has existed.

    Raises:
        NotFound: the kind is not served.
    """
    if not ref.has_replicas and ref.kind not in store.kinds():
        raise NotFound(f"the seed serves no {ref.kind} of {ref.api_version}", status=404)


def _plural(ref: ResourceRef) -> str:
    return f"{ref.kind.lower()}s"


def _limit(*, urgent: bool) -> float:
    return URGENT_LIMIT if urgent else LIMIT


def _request(verb: str, what: str, namespace: str) -> SimulatedRequest:
    return SimulatedRequest(Host.SEED, verb, what, namespace)
