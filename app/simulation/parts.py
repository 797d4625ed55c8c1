"""The parts of a world that faults act on, the `Fault` that undoes an action, and who writes into the seed.

Gardenlet writes the kubeconfig Secrets of shoots, people write Pauses and ScaleRequests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from app.core.clock import Clock
from app.core.errors import ClusterError, NotFound
from app.core.model.shoots import Route
from app.core.model.workloads import ResourceRef
from app.simulation import manifests
from app.simulation.identities import OPERATOR
from app.simulation.network import Hosts, SeedNetwork, ServerPlace
from app.simulation.seed_pods import SeedPods
from app.simulation.shoot import ShootServer
from app.simulation.store import Object, ObjectKey, Store
from app.simulation.traffic import ApiServer, Journal
from app.simulation.watches import OpenWatches
from app.simulation.workloads import DeploymentController

GARDENLET = "gardenlet"
"""The author of changes to Clusters and Secrets in the journal."""


class Fault:
    """A fault in effect, until it is lifted; a context manager that lifts it on exit."""

    def __init__(self, *undo: Callable[[], object]) -> None:
        """Remembers what ends it, in this order."""
        self._undo = undo

    def lift(self) -> None:
        """Ends the fault; further calls have no effect."""
        undo, self._undo = self._undo, ()
        for each in undo:
            each()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.lift()


@dataclass(slots=True)
class WorldParts:
    """The parts of a world, which faults, servers and players share."""

    clock: Clock
    store: Store
    api: ApiServer
    deployments: DeploymentController
    journal: Journal
    secret_names: Mapping[Route, str]
    """The name of the kubeconfig Secret for each route in use; endpoint mode has two."""
    pods: SeedPods
    place: ServerPlace
    watches: OpenWatches = field(default_factory=OpenWatches)
    network: SeedNetwork = field(default_factory=SeedNetwork)
    """The network that probes of hosts and external routes pass."""
    hosts: Hosts = field(default_factory=Hosts)
    """The behaviour set for targets of endpoint probes."""
    shoots: dict[str, ShootServer] = field(default_factory=dict)
    unavailable: dict[ResourceRef, ClusterError] = field(default_factory=dict)
    """Dependents that the seed does not serve or does not let clients list, with the error that requests get."""

    @property
    def secret_name(self) -> str:
        """The name of the Secret of the internal route."""
        return self.secret_names[Route.INTERNAL]

    def write(self, key: ObjectKey, patch: Object, by: str, *, status: bool = False) -> None:
        """Patches an object of the seed and records the write in the journal under the author `by`."""
        obj = self.store.patch(key, patch, status=status)
        self.journal.enter(self.clock.now(), obj, patch, by)


# The kubeconfig Secrets of shoots, one for each route, written like gardenlet's.


NOWHERE: Final = "https://api.gone.invalid"
"""A server whose name cannot be resolved (RFC 2606)."""


class Kubeconfigs:
    """Writes the kubeconfig Secrets of shoots."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes that have a Secret."""
        return tuple(self._parts.secret_names)

    def key(self, namespace: str, route: Route) -> ObjectKey:
        """Returns the key of a route's Secret."""
        return ObjectKey("Secret", namespace, self._parts.secret_names[route])

    def content(
        self,
        namespace: str,
        route: Route,
        *,
        user: Object | None = None,
        server: str | None = None,
    ) -> bytes:
        """Builds a kubeconfig; arguments that are not given default to correct values, such as the newest token."""
        shoot = self._parts.shoots[namespace]
        user = {"token": shoot.newest_token} if user is None else user
        url = server or self._parts.place.url(namespace, route)
        return manifests.kubeconfig(namespace, url, shoot.authority(route), user)

    def create(self, namespace: str, route: Route) -> None:
        """Creates the Secret with a correct kubeconfig."""
        body = manifests.secret(self.content(namespace, route))
        born = manifests.born(body, self._parts.clock.now())
        self._parts.store.create(self.key(namespace, route), born)

    def write(
        self,
        namespace: str,
        route: Route,
        *,
        user: Object | None = None,
        server: str | None = None,
    ) -> None:
        """Writes another kubeconfig into the Secret."""
        content = self.content(namespace, route, user=user, server=server)
        self._parts.write(self.key(namespace, route), manifests.secret(content), GARDENLET)

    def write_all(self, namespace: str) -> None:
        """Writes a correct kubeconfig into each Secret of the shoot."""
        for route in self.routes:
            self.write(namespace, route)


# Pauses and ScaleRequests, written as a person with kubectl would.


class People:
    """People who write immediately and unaffected by faults; `by` names them in the journal."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts

    def create(
        self, kind: str, namespace: str, name: str, *, by: str = OPERATOR, **spec: object
    ) -> Object:
        """Creates an object.

        Raises:
            NotFound: the kind is not served.
            Conflict: there is one of this name.
            Rejected: `spec` is wrong.
        """
        key, body = self._key(kind, namespace, name), {"spec": spec}
        known = self._parts.store.definitions[kind]
        whole = {"apiVersion": f"{known.group}/{known.version}", **body}
        made = self._parts.store.create(key, manifests.born(whole, self._parts.clock.now()))
        self._enter(made, body, by, "create")
        return made

    def edit(
        self, kind: str, namespace: str, name: str, *, by: str = OPERATOR, **spec: object
    ) -> None:
        """Changes some fields of the spec; None removes one.

        Raises:
            NotFound: there is no such object.
            Rejected: what would come of it is wrong.
        """
        self._parts.write(self._key(kind, namespace, name), {"spec": spec}, by)

    def delete(self, kind: str, namespace: str, name: str, *, by: str = OPERATOR) -> None:
        """Deletes an object.

        Raises:
            NotFound: there is no such object.
        """
        self._enter(self._parts.store.delete(self._key(kind, namespace, name)), {}, by, "delete")

    def _key(self, kind: str, namespace: str, name: str) -> ObjectKey:
        if kind not in self._parts.store.definitions:
            raise NotFound(f"the server doesn't have a resource type {kind}", status=404)
        return ObjectKey(kind, namespace, name)

    def _enter(self, obj: Object, body: Mapping[str, Any], by: str, verb: str) -> None:
        self._parts.journal.enter(self._parts.clock.now(), obj, body, by, verb)
