"""The seed as the prober needs it: watches, live reads and writes.

One reflector per kind covers all namespaces. Secrets and dependents are watched with a `metadata.name` field selector,
one watch for each name, and every object is decoded to the few fields that rules read (rules 3.2).
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

import msgspec
import structlog

from app.core.errors import NotFound
from app.core.kube import resources
from app.core.kube.client import Decode
from app.core.kube.connections import RequestedRight
from app.core.kube.decoding import seed_objects
from app.core.kube.reflector import DECODED_AT_ONCE, Reflector, troubles
from app.core.kube.resources import (
    CLUSTERS,
    SECRETS,
    ApiResource,
    Resources,
    WatchSource,
    metadata,
    pages,
)
from app.core.kube.seed_api import PATIENT_WITHIN, WITHIN, Budget, SeedApi, or_none
from app.core.model.policy import ProberPolicy
from app.core.model.shoots import ClusterView, MachineView, Route, SecretView
from app.core.model.workloads import Patch, ResourceRef, ScaleView, WorkloadView
from app.core.ports import SeedChange, Starting, Watched, WatchState
from app.core.tasks import Tasks, tell

log = structlog.get_logger(__name__)

T = TypeVar("T")

MAX_MACHINES: Final = 20_000


class SeedCluster:
    """The seed's API server, with a copy of those of its objects that the prober needs."""

    def __init__(
        self,
        api: SeedApi,
        policy: ProberPolicy,
        tasks: Tasks,
        random: Random,
    ) -> None:
        """Sends nothing yet.

        Args:
            api: sends the requests.
            policy: names the Secrets and dependents, and says whether Machines are needed.
            tasks: owns the watch tasks; one that dies ends the process.
            random: spreads retries and the durations of watches.
        """
        self._api, self._tasks, self._clock = api, tasks, api.clock
        self._secret_names = policy.secret_names
        self.resources = Resources(api)
        self._listeners: list[Callable[[SeedChange], None]] = []

        def reflect(what: Watched, source: WatchSource[T]) -> Reflector[T]:
            def changed(namespace: str, name: str) -> None:
                # a Cluster is cluster-scoped; its name is that of the control-plane namespace
                change = SeedChange(what, name if what is Watched.CLUSTERS else namespace)
                tell(self._listeners, {"change": str(change)}, change)

            return Reflector(source, api, random, changed)

        self._clusters = reflect(Watched.CLUSTERS, resources.clusters())
        self._machine_lists = reflect(Watched.MACHINES, resources.machines())
        # endpoint mode watches no Machines, and must work without the right to
        self._machines = self._machine_lists if not policy.endpoint_mode else None
        self._secrets = {
            route: reflect(Watched.SECRETS, resources.secrets(name, route))
            for route, name in self._secret_names.items()
        }
        self._dependents = {
            each.ref: reflect(
                Watched.DEPENDENTS,
                resources.dependent(each.ref, self.resources, optional=each.optional),
            )
            for each in policy.dependents
        }
        self._watches: list[Reflector[Any]] = [
            self._clusters,
            *([] if self._machines is None else [self._machines]),
            *self._secrets.values(),
            *self._dependents.values(),
        ]

    async def start(self) -> None:
        """Starts the watches; does not wait until they are synced."""
        for each in self._watches:
            _ = self._tasks.shared(each.run, f"watch {each.label}")

    def troubles(self) -> Mapping[str, str]:
        """Returns why watches do not work, by name; empty if all do."""
        return troubles(self._watches)

    def subscribe(self, listener: Callable[[SeedChange], None]) -> None:
        """Calls `listener` in the event loop after each change of a watched object."""
        self._listeners.append(listener)

    def watch_state(self, what: Watched) -> WatchState:
        """Returns the state of the watch of `what`; of several watches the worst, apart from unavailable ones.

        In endpoint mode Machines are not watched and nothing may wait for them, so they count as synced just now.
        """
        match what:
            case Watched.CLUSTERS:
                return self._clusters.state
            case Watched.SECRETS:
                return _worst([reflector.state for reflector in self._secrets.values()])
            case Watched.MACHINES:
                if self._machines is None:
                    return WatchState(synced=True, last_contact=self._clock.now())
                return self._machines.state
            case Watched.DEPENDENTS:
                every = self._dependents.values()
                available = [each.state for each in every if each.unavailable is None]
                return _worst(available or [each.state for each in every])

    def unavailable(self, ref: ResourceRef) -> str | None:
        """Returns why nothing can be known of a configured dependent (docs/decisions/0012)."""
        return self._dependents[ref].unavailable

    # From the watches; these send no request.

    def clusters(self) -> Mapping[str, ClusterView]:
        """Returns all Clusters by name."""
        return self._clusters.of("")

    def secret(self, namespace: str, route: Route = Route.INTERNAL) -> SecretView | None:
        """Returns the kubeconfig Secret of this route; None if it does not exist or the route is not used."""
        name = self._secret_names.get(route)
        return None if name is None else self._secrets[route].of(namespace).get(name)

    def machines(self, namespace: str) -> tuple[MachineView, ...]:
        """Returns the Machines; none in endpoint mode."""
        return () if self._machines is None else tuple(self._machines.of(namespace).values())

    def dependent(self, namespace: str, ref: ResourceRef) -> WorkloadView | None:
        return self._dependents[ref].of(namespace).get(ref.name)

    # Live reads, one request each. `urgent` requests are charged to the budget of scale-downs (`--scale-down-qps`) and
    # overtake everything else; a `spare` read uses only what the others leave, and raises `Throttled` if that is
    # nothing.

    async def read_cluster(self, namespace: str, *, urgent: bool = False) -> ClusterView | None:
        """Reads the Cluster; returns None if it does not exist."""
        budget = Budget.of(urgent=urgent)
        return await or_none(self._get(CLUSTERS, "", namespace, seed_objects.cluster, budget))

    async def read_secret(
        self,
        namespace: str,
        *,
        route: Route = Route.INTERNAL,
        urgent: bool = False,
        spare: bool = False,
    ) -> SecretView | None:
        """Returns the kubeconfig Secret of this route; None if it does not exist or the route is not used."""
        name = self._secret_names.get(route)
        if name is None:
            return None
        decode, budget = seed_objects.secret_of(route), Budget.of(urgent=urgent, spare=spare)
        return await or_none(self._get(SECRETS, namespace, name, decode, budget))

    async def read_machines(
        self, namespace: str, *, urgent: bool = False
    ) -> tuple[MachineView, ...]:
        """Lists the Machines of a namespace by a consistent read, page by page as the watch lists them.

        Raises:
            LimitExceeded: there are more than 20,000.
        """
        budget = Budget.of(urgent=urgent)
        found = await self._machine_lists.read(
            namespace,
            send=partial(self._api.call, budget=budget),
            within=budget.within,
            most=MAX_MACHINES,
        )
        return tuple(found.values())

    async def read_dependent(
        self, namespace: str, ref: ResourceRef, *, urgent: bool = False, spare: bool = False
    ) -> WorkloadView | None:
        """Reads a dependent; returns None if it does not exist."""
        resource, budget = await self._find(ref, urgent=urgent, spare=spare)
        decode = seed_objects.workload(ref)
        return await or_none(self._get(resource, namespace, ref.name, decode, budget))

    async def read_scale(
        self, namespace: str, ref: ResourceRef, *, urgent: bool = False, spare: bool = False
    ) -> ScaleView:
        """Reads the `scale` subresource of a dependent."""
        resource, budget = await self._find(ref, urgent=urgent, spare=spare)
        return await self._get(
            resource, namespace, ref.name, seed_objects.scale, budget, subresource="scale"
        )

    async def _find(
        self, ref: ResourceRef, *, urgent: bool, spare: bool = False
    ) -> tuple[ApiResource, Budget]:
        resource = await self.resources.find(ref, urgent=urgent)
        return resource, Budget.of(urgent=urgent, spare=spare)

    async def _get(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        decode: Decode[T],
        budget: Budget,
        *,
        subresource: str = "",
    ) -> T:
        request = resource.request("get", namespace, name, subresource, within=budget.within)
        return await self._api.call(request, decode, budget)

    async def unconfigured(self) -> tuple[str, ...]:
        """Finds objects that have the meltdown key but are not configured, of the kinds of the configured dependents.

        Lists the metadata of each kind once; returns the objects as `namespace/Kind/name`.

        Raises:
            Forbidden: a kind may not be listed.
            ClusterError: the seed did not answer.
        """
        configured: dict[tuple[str, str], list[ResourceRef]] = {}
        for ref in self._dependents:
            configured.setdefault((ref.api_version, ref.kind), []).append(ref)
        found: list[str] = []
        for refs in configured.values():
            try:
                resource = await self.resources.find(refs[0])
            except NotFound:  # the seed does not serve it
                continue
            names = {ref.name for ref in refs}
            found += [
                f"{namespace}/{refs[0].kind}/{name}"
                for namespace, name in await self._protected(resource)
                if name not in names
            ]
        return tuple(sorted(found))

    async def _protected(self, resource: ApiResource) -> list[tuple[str, str]]:
        """Decodes the metadata one by one with turns of the event loop in between (threat T18)."""
        source, asked = metadata(resource), RequestedRight("list", resource.plural)
        found: list[tuple[str, str]] = []
        async for page, _ in pages(source, resource.path(), asked, self._api.call, within=WITHIN):
            size = 0
            for item in page.items:
                # what cannot be decoded must not hide the others
                with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    if (protected := source.decode(item)) is not None:
                        found.append(protected)
                if (size := size + len(item)) >= DECODED_AT_ONCE:
                    size = 0
                    await self._clock.sleep(0)
        return found

    # Writes. `starting` is called when the request budget has admitted the write (`ports.Starting`). If it raises,
    # nothing is sent and the call ends with that error.

    async def patch_dependent(
        self,
        namespace: str,
        ref: ResourceRef,
        patch: Patch,
        *,
        starting: Starting | None = None,
        urgent: bool = False,
        patient: bool = False,
    ) -> WorkloadView:
        """Sends one merge patch of the object itself and returns the patched object; `patient`: it is sent again.

        Raises:
            Conflict: the object is newer than the patch.
            NotFound: the object does not exist any more.
        """
        decode = seed_objects.workload(ref)
        return await self._patch(
            namespace, ref, "", patch, decode, starting, urgent=urgent, patient=patient
        )

    async def patch_scale(
        self,
        namespace: str,
        ref: ResourceRef,
        patch: Patch,
        *,
        starting: Starting | None = None,
        urgent: bool = False,
        patient: bool = False,
    ) -> ScaleView:
        """Sends one merge patch of the `scale` subresource and returns the patched `scale`; `patient`: sent again.

        Raises:
            Conflict: the object is newer than the patch.
            NotFound: the object does not exist any more.
        """
        decode = seed_objects.scale
        return await self._patch(
            namespace, ref, "scale", patch, decode, starting, urgent=urgent, patient=patient
        )

    async def _patch(
        self,
        namespace: str,
        ref: ResourceRef,
        subresource: str,
        patch: Patch,
        decode: Decode[T],
        starting: Starting | None,
        *,
        urgent: bool,
        patient: bool,
    ) -> T:
        """Writes on a new connection: a dead kept-alive one would cost seconds, and no write is repeated here."""
        resource, budget = await self._find(ref, urgent=urgent)
        where = (namespace, ref.name, subresource)
        within = PATIENT_WITHIN if patient else budget.within
        request = resource.request("patch", *where, within=within, body=patch.body())
        return await self._api.call(request, decode, budget, new_connection=True, starting=starting)


def _worst(states: list[WatchState]) -> WatchState:
    contacts = [state.last_contact for state in states]
    heard = [contact for contact in contacts if contact is not None]
    oldest = min(heard) if heard and len(heard) == len(contacts) else None
    return WatchState(all(state.synced for state in states), oldest)
