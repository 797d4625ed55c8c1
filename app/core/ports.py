"""The narrow doors to the outside.  `core/kube` opens them on real clusters, `core/simulation` on a simulated one.

Every method may raise a `ClusterError`; nothing else crosses these doors.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, Protocol

from app.core.model.nodes import LeaseReading, MachineView, NodeView
from app.core.model.shoots import ClusterView, Route, SecretView
from app.core.model.workloads import Patch, ResourceRef, ScaleView, WorkloadView
from app.core.fair_queue import Consumer


class ShootCluster(Protocol):
    """The API server of one shoot, through one kubeconfig."""

    async def version(self, *, new_connection: bool = False, within: float | None = None) -> str:
        """`GET /version`, in `within` seconds (None: those of one probe) over all; returns gitVersion."""
        ...

    async def leases(self, *, new_connection: bool = False) -> LeaseReading:
        """All Leases of `kube-node-lease`, consistently, in pages of 500."""
        ...

    async def contact(self) -> float:
        """Reads one page of one Lease, consistently; returns when the request was sent."""
        ...

    async def nodes(self, *, consistent: bool = False) -> tuple[NodeView, ...]:
        """All Nodes; from the API server's watch cache, unless `consistent`; on a connection that is closed after."""
        ...


class ShootConnector(Protocol):
    """Makes `ShootCluster`s of kubeconfigs and keeps their connections."""

    async def connect(self, secret: SecretView) -> ShootCluster:
        """The cluster of this Secret; the same connections while its content stays the same.

        Raises:
            CredentialRefused: the kubeconfig is one that may not be used.
        """
        ...

    def consumer(self, namespace: str) -> Consumer:
        """Who is charged for the time of the event loop that the answers of this shoot take."""
        ...

    def forget(self, namespace: str) -> None:
        """Closes what is open to the shoot of this namespace."""
        ...


class Watched(StrEnum):
    """What is watched in the seed."""

    CLUSTERS = "clusters"
    SECRETS = "secrets"
    DEPENDENTS = "dependents"
    MACHINES = "machines"


STALE: Final = 90.0
"""Seconds without contact after which a watch is stale (rules 4.1)."""


@dataclass(frozen=True, slots=True)
class WatchState:
    """How far a watch can be trusted."""

    synced: bool
    """Listed once."""
    last_contact: float | None
    """When the server last proved that it is there: a list, an event, a bookmark, the end of a watch in its time."""

    def stale(self, now: float, after: float = STALE) -> bool:
        """Whether it has been without contact for too long."""
        return self.last_contact is None or now - self.last_contact > after


@dataclass(frozen=True, slots=True)
class Change:
    """Something in the seed changed; re-read what it is now."""

    what: Watched
    namespace: str


Starting = Callable[[], None]
"""Asked right before a write is sent; raises what forbids it."""


class SeedCluster(Protocol):
    """The seed: what is watched of it, what is read live, what is written."""

    def subscribe(self, listener: Callable[[Change], None]) -> None:
        """`listener` is called, soon and in the event loop, after each change."""
        ...

    def watch_state(self, what: Watched) -> WatchState:
        """How far the watch of this can be trusted; for several watches, the worst of them.

        A dependent that is `unavailable` holds up no other: it counts only where all of them are.
        """
        ...

    def unavailable(self, ref: ResourceRef) -> str | None:
        """Why nothing can be known of a configured dependent: the seed does not serve its kind, or lets nobody list it.

        None where it is watched or may still be, and where its kind is not served and it is optional.
        """
        ...

    # From the watches: no request.

    def clusters(self) -> Mapping[str, ClusterView]:
        """All Clusters by name."""
        ...

    def secret(self, namespace: str, route: Route = Route.INTERNAL) -> SecretView | None:
        """The kubeconfig Secret of this route."""
        ...

    def machines(self, namespace: str) -> tuple[MachineView, ...]:
        """The Machines."""
        ...

    def dependent(self, namespace: str, ref: ResourceRef) -> WorkloadView | None:
        """A configured dependent."""
        ...

    # Live: one request each; `urgent` ones go before everything else, on the budget of protection.

    async def read_cluster(self, namespace: str, *, urgent: bool = False) -> ClusterView | None:
        """The Cluster; None where there is none."""
        ...

    async def read_secret(
        self, namespace: str, *, route: Route = Route.INTERNAL, urgent: bool = False
    ) -> SecretView | None:
        """The kubeconfig Secret of this route; None where there is none."""
        ...

    async def read_machines(
        self, namespace: str, *, urgent: bool = False
    ) -> tuple[MachineView, ...]:
        """The Machines, consistently."""
        ...

    # A `spare` one is made on what all others leave of the request budget, or not at all (`Throttled`).

    async def read_dependent(
        self, namespace: str, ref: ResourceRef, *, urgent: bool = False, spare: bool = False
    ) -> WorkloadView | None:
        """A dependent; None where there is none."""
        ...

    async def read_scale(
        self, namespace: str, ref: ResourceRef, *, urgent: bool = False, spare: bool = False
    ) -> ScaleView:
        """The `scale` subresource of a dependent."""
        ...

    # Writes: `starting` is called when the request budget has let the write through, right before it is sent; what it
    # raises ends the call, and nothing is sent.

    async def patch_dependent(
        self,
        namespace: str,
        ref: ResourceRef,
        patch: Patch,
        *,
        starting: Starting | None = None,
        urgent: bool = False,
    ) -> WorkloadView:
        """One merge patch of the object itself; returns it as it is then."""
        ...

    async def patch_scale(
        self,
        namespace: str,
        ref: ResourceRef,
        patch: Patch,
        *,
        starting: Starting | None = None,
        urgent: bool = False,
    ) -> ScaleView:
        """One merge patch of the `scale` subresource."""
        ...


class Preparation(Enum):
    """How far a process is that may come to lead."""

    NONE = "it has not listed all that it decides on"
    LISTED = "it has listed all of it"
    COMPLETE = "it has looked at all of it as well: it could act at once"


class Ownership(Protocol):
    """Which shoots are ours, and whether a write may start now."""

    @property
    def leading(self) -> bool:
        """Whether this instance leads: it may write."""
        ...

    @property
    def observing(self) -> bool:
        """Whether this instance looks at shoots: it leads, nobody does, or the leader has gone quiet."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change of either."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """A right that the configuration needs."""

    verb: str
    group: str
    resource: str
    """With its subresource: `deployments/scale`."""
    name: str = ""
    namespace: str = ""
    feature: str = ""
    """The one feature that is off without it; empty: needed to protect."""


class AccessReviewer(Protocol):
    """Asks the seed what we may do."""

    async def missing(self, needed: Iterable[Permission]) -> tuple[Permission, ...]:
        """Those that a SelfSubjectAccessReview denies."""
        ...


class EventSink(Protocol):
    """Takes Kubernetes Events."""

    async def emit(self, namespace: str, event: dict[str, object]) -> None:
        """Creates `event`, an `events.k8s.io/v1` object, in this namespace; raises a `ClusterError` where it cannot."""
        ...
