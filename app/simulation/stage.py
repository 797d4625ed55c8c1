"""All parts of a world that something can happen to, and what it is to happen and to end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from app.core.clock import Clock
from app.core.errors import ClusterError
from app.core.model.shoots import Route
from app.core.model.workloads import ResourceRef
from app.simulation.network import Hosts, SeedNetwork
from app.simulation.place import Nowhere, ServerPlace
from app.simulation.reflection import OpenWatches
from app.simulation.seed_pods import SeedPods
from app.simulation.shoot import ShootServer
from app.simulation.store import Object, ObjectKey, Store
from app.simulation.traffic import ApiServer, Journal, Write
from app.simulation.views import ref_of
from app.simulation.watching import WatchCaches
from app.simulation.workloads import DeploymentController

GARDENLET = "gardenlet"
"""Who changes Clusters and Secrets, in the journal."""


class Fault:
    """Something that is wrong until it is lifted, once; as a context it is lifted at its end."""

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo: Callable[[], object] | None = undo

    def lift(self) -> None:
        """Ends it; a second time changes nothing."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

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
class Stage:
    """All parts of a world that something can happen to."""

    clock: Clock
    store: Store
    api: ApiServer
    caches: WatchCaches
    deployments: DeploymentController
    journal: Journal
    secret_names: Mapping[Route, str]
    """The kubeconfig Secret of each route to a shoot that there is."""
    pods: SeedPods
    watches: OpenWatches
    """Those of the weeder."""
    place: ServerPlace = field(default_factory=Nowhere)
    network: SeedNetwork = field(default_factory=SeedNetwork)
    """What probes of hosts and external routes go through."""
    hosts: Hosts = field(default_factory=Hosts)
    """How targets of endpoint probes answer."""
    shoots: dict[str, ShootServer] = field(default_factory=dict)
    unavailable: dict[ResourceRef, ClusterError] = field(default_factory=dict)
    """Dependents that the seed does not serve or lets nobody see, and what it answers to whoever asks for them."""

    @property
    def secret_name(self) -> str:
        """That of the internal route."""
        return self.secret_names[Route.INTERNAL]

    def write(self, key: ObjectKey, patch: Object, by: str, *, status: bool = False) -> None:
        """Patches an object of the seed in somebody's name."""
        obj = self.store.patch(key, patch, status=status)
        now = self.clock.now()
        self.journal.add(Write(now, key.namespace or key.name, ref_of(obj), patch, by, now))
