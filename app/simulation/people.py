"""The parts of a world that faults act on, the `Fault` that undoes an action, and who writes into the seed.

Gardenlet writes the kubeconfig Secrets of shoots, people write Pauses and ScaleRequests.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from app.core.clock import Clock
from app.core.errors import ClusterError, NotFound
from app.core.model.shoots import Route
from app.core.model.workloads import ResourceRef
from app.core.ports import Watched
from app.simulation import manifests
from app.simulation.identities import OPERATOR
from app.simulation.network import Hosts, SeedNetwork, ServerPlace
from app.simulation.seed_pods import SeedPods
from app.simulation.shoot import ShootServer
from app.simulation.store import Object, ObjectKey, Store
from app.simulation.traffic import ApiServer, Journal
from app.simulation.workloads import DeploymentController

if TYPE_CHECKING:
    from app.simulation.server.streams import StoreWatch

_OF_OTHERS: Final = frozenset(
    {
        *("Pod", "EndpointSlice", "Service", "Lease", "Event"),
        *("Pause", "ScaleRequest"),
    }
)
"""Kinds that the prober does not watch: they belong to the weeder, to what people decide and to endpoint probes."""


def watched(kind: str) -> Watched | None:
    """Returns the prober's watch that delivers changes of a kind; None if there is none."""
    match kind:
        case "Cluster":
            return Watched.CLUSTERS
        case "Secret":
            return Watched.SECRETS
        case "Machine":
            return Watched.MACHINES
        case _:
            return None if kind in _OF_OTHERS else Watched.DEPENDENTS


class OpenWatches:
    """All open watches of the seed, counted by kind."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        """The maximum number of watches open at the same time, by kind."""
        self._stalled: set[str] = set()
        self._served: list[tuple[str, StoreWatch]] = []

    def open_now(self, kind: str) -> int:
        """Returns the number of open watches of a kind."""
        return len(self._of(kind))

    @contextmanager
    def serving(self, kind: str, stream: "StoreWatch") -> Iterator[None]:
        """Counts a watch as long as it is open."""
        served = (kind, stream)
        self._served.append(served)
        self.most[kind] = max(self.most[kind], self.open_now(kind))
        try:
            yield
        finally:
            self._served.remove(served)

    def cut(self, kind: str) -> None:
        """Breaks the connections of all watches of a kind; pending events are lost."""
        for stream in self._of(kind):
            stream.cut()

    def end(self, kind: str) -> None:
        """Ends all watches of a kind, which is served no longer."""
        for stream in self._of(kind):
            stream.end()

    def _of(self, kind: str) -> "list[StoreWatch]":
        return [stream for each, stream in self._served if each == kind]

    def stall(self, what: str) -> None:
        """Stops delivery to the watches of a kind, or of all kinds of a `Watched`, while they stay open."""
        self._stalled.add(what)

    def go_on(self, what: str) -> None:
        """Ends `stall`; pending events are delivered."""
        self._stalled.discard(what)

    def stalled(self, kind: str) -> bool:
        """Returns whether watches of a kind deliver nothing."""
        return kind in self._stalled or watched(kind) in self._stalled


GARDENLET = "gardenlet"
"""The author of changes to Clusters and Secrets in the journal."""
NOWHERE: Final = "https://api.gone.invalid"
"""A server whose name cannot be resolved (RFC 2606)."""


class Fault(ExitStack):
    """A fault in effect, until it is lifted; a context manager that lifts it on exit."""

    def __init__(self, *undo: Callable[[], object]) -> None:
        """Remembers what ends it, in this order."""
        super().__init__()
        for each in reversed(undo):
            self.callback(each)

    def lift(self) -> None:
        """Ends the fault; further calls have no effect."""
        self.close()


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

    def secret_key(self, namespace: str, route: Route) -> ObjectKey:
        """Returns the key of the kubeconfig Secret of a route."""
        return ObjectKey("Secret", namespace, self.secret_names[route])

    def write_kubeconfig(
        self,
        namespace: str,
        route: Route,
        *,
        user: Object | None = None,
        server: str | None = None,
    ) -> None:
        """Writes the kubeconfig Secret of a route, as gardenlet does; what is not given is right, such as the token."""
        shoot, key = self.shoots[namespace], self.secret_key(namespace, route)
        user = {"token": shoot.newest_token} if user is None else user
        url = server or self.place.url(namespace, route)
        content = manifests.kubeconfig(namespace, url, shoot.authority(route), user)
        if self.store.find(key) is None:
            body = manifests.born(manifests.secret(content), self.clock.now())
            self.store.create(key, body)
        else:
            self.write(key, manifests.secret(content), GARDENLET)


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
