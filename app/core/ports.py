"""The narrow adapters to the outside.  `core/kube` opens them on real clusters, `core/simulation` on a simulated one.

Every method may raise a `ClusterError`; nothing else crosses these adapters.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple, Protocol

from app.core.errors import FeatureOff
from app.core.fair_queue import Consumer
from app.core.model.callers import Access, Caller
from app.core.model.endpoints import EndpointProbe, ProbedPod, ProbeOutcome, Ran, TargetAddress
from app.core.model.nodes import LeaseReading, MachineView, NodeView
from app.core.model.overrides import (
    NOTHING,
    EffectiveOverrides,
    Hold,
    OverrideEntry,
    Pause,
    Unreadable,
)
from app.core.model.pods import PodView, SliceView
from app.core.model.selectors import LabelSelector
from app.core.model.shoots import ClusterView, Route, SecretView
from app.core.model.weeding import ServiceKey
from app.core.model.workloads import Patch, ResourceRef, ScaleView, WorkloadView


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
class SeedChange:
    """Something in the seed changed; re-read what it is now."""

    what: Watched
    namespace: str


Starting = Callable[[], None]
"""Asked right before a write is sent; raises what forbids it."""


class SeedCluster(Protocol):
    """The seed: what is watched of it, what is read live, what is written."""

    def subscribe(self, listener: Callable[[SeedChange], None]) -> None:
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


class Leadership(Protocol):
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


# The adapters of the endpoint probes: who runs them, and which pods there are.


class Handlers(Protocol):
    """Runs a probe once."""

    async def run(self, probe: EndpointProbe, address: TargetAddress) -> Ran:
        """What one run brings, after `timeoutSeconds` at the latest; never raises for what a target may do."""
        ...


class ProbedPods(Protocol):
    """The pods that the configured selectors match, of the namespaces whose shoots are probed."""

    def follow(self, namespace: str) -> None:
        """The shoot of this namespace is probed: its pods are wanted from now on."""
        ...

    def leave(self, namespace: str) -> None:
        """It is not any more: its pods are dropped."""
        ...

    def pods(self, namespace: str, selector: LabelSelector) -> Collection[ProbedPod]:
        """The pods of a namespace that match this selector, which is one of the configured ones, as last seen."""
        ...

    def watch_state(self, namespace: str, selector: LabelSelector) -> WatchState:
        """How far the watch of this selector can be trusted; synced: the pods of this namespace were listed."""
        ...

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """`listener` is called with the namespace, in the event loop, after each change of its pods."""
        ...


class Frame(NamedTuple):
    """One message of an exec stream."""

    channel: int
    """1 stdout, 2 stderr, 3 the status: a `Status` object as JSON."""
    data: bytes


class ContainerExec(Protocol):
    """Runs commands in containers, through the seed's API server."""

    def open(
        self, namespace: str, pod: str, container: str, command: tuple[str, ...]
    ) -> AbstractAsyncContextManager[AsyncIterator[Frame]]:
        """Starts `command`, without a shell; its output comes as frames; leaving ends the connection.

        Raises:
            ClusterError: the API server does not run it, or the stream broke.
        """
        ...


class EndpointMeter(Protocol):
    """Counts the runs of endpoint probes: called after each, hundreds of times a second, so it has to be cheap."""

    def ran(self, namespace: str, name: str, outcome: ProbeOutcome, seconds: float) -> None:
        """One run of the probe `name` ended like this, after so long; an error is three of them where it stays one."""
        ...


class Unmetered:
    """Counts nothing; an `EndpointMeter`."""

    def ran(self, namespace: str, name: str, outcome: ProbeOutcome, seconds: float) -> None:
        """Nobody wants to know."""


# The adapters to what people decided: the ConfigMap of the overrides, what is read of it, what is written to it.


@dataclass(frozen=True, slots=True)
class OverridesDocument:
    """The ConfigMap as it was at one resourceVersion."""

    uid: str
    resource_version: str
    data: Mapping[str, str] = field(default_factory=dict)
    """A JSON object by key: a control-plane namespace, or `_all`."""
    whole: Mapping[str, Any] = field(default_factory=dict)
    """The object itself, for writing it back with all that others put there."""


class OverridesStore(Protocol):
    """The ConfigMap `dependency-watchdog-overrides` of the own namespace.

    Each method may raise a `ClusterError`.
    """

    @property
    def forbidden(self) -> str | None:
        """Why it may not be read; None while it may be, or nobody has said otherwise."""
        ...

    def watch_state(self) -> WatchState:
        """How far its watch can be trusted."""
        ...

    def document(self) -> OverridesDocument | None:
        """As the watch shows it, no request; None where there is none."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called, soon and in the event loop, after each change of the above."""
        ...

    async def read(self) -> OverridesDocument | None:
        """As it is now; None where there is none."""
        ...

    async def create(
        self, data: Mapping[str, str], *, starting: Starting | None = None
    ) -> OverridesDocument:
        """Makes it.

        Raises:
            Conflict: somebody else was quicker.
        """
        ...

    async def replace(
        self,
        document: OverridesDocument,
        data: Mapping[str, str],
        *,
        starting: Starting | None = None,
    ) -> OverridesDocument:
        """Writes `data` over the document as it was read.

        Raises:
            Conflict: it has changed since.
        """
        ...


class OverridesView(Protocol):
    """What people decided, as far as it is known now."""

    @property
    def synced(self) -> bool:
        """Whether it has been read, or may count as none: nothing is scaled or deleted before."""
        ...

    @property
    def off(self) -> str | None:
        """Why there are no overrides in this process; None while there are."""
        ...

    def effective(self, namespace: str) -> EffectiveOverrides:
        """What is in force for this shoot now."""
        ...

    def global_pause(self) -> Pause | None:
        """The pause of all shoots that is in force now."""
        ...

    def holds(self) -> Mapping[str, Hold]:
        """The holds by namespace, expired ones included: their scaling runs may still have to be ended."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change of what is in force, ends by the clock included."""
        ...


class NoOverrides:
    """Nothing is ever paused or held: of a process that has no ConfigMap (`OverridesView`, `OverridesService`)."""

    synced = True
    off: str | None = "this process has no overrides"

    def effective(self, namespace: str) -> EffectiveOverrides:  # noqa: ARG002 - the port's signature
        """Nothing."""
        return NOTHING

    def global_pause(self) -> Pause | None:
        """None."""
        return None

    def holds(self) -> Mapping[str, Hold]:
        """None."""
        return {}

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Nothing ever changes, so `listener` is never called."""

    async def set_pause(self, key: str, pause: Pause) -> "OverrideWrite":  # noqa: ARG002 - the port's signature
        """Raises FeatureOff, as all that follow."""
        raise self._refusal()

    async def end_pause(
        self,
        key: str,  # noqa: ARG002 - the port's signature
        *,
        by: str | None = None,  # noqa: ARG002 - as above
    ) -> "OverrideWrite":
        """As above."""
        raise self._refusal()

    async def set_hold(
        self,
        namespace: str,  # noqa: ARG002 - the port's signature
        hold: Hold,  # noqa: ARG002 - as above
        *,
        starting: Starting | None = None,  # noqa: ARG002 - as above
    ) -> "OverrideWrite":
        """As above."""
        raise self._refusal()

    def note_done(self, namespace: str, operation: str) -> None:
        """There is none."""

    async def finish_hold(
        self,
        namespace: str,  # noqa: ARG002 - the port's signature
        operation: str,  # noqa: ARG002 - as above
    ) -> "OverrideWrite":
        """As above."""
        raise self._refusal()

    async def end_hold(
        self,
        namespace: str,  # noqa: ARG002 - the port's signature
        *,
        operation: str | None = None,  # noqa: ARG002 - as above
        by: str | None = None,  # noqa: ARG002 - as above
    ) -> "OverrideWrite":
        """As above."""
        raise self._refusal()

    def _refusal(self) -> FeatureOff:
        return FeatureOff("overrides", str(self.off))


@dataclass(frozen=True, slots=True)
class OverrideWrite:
    """What a write changed under one key."""

    key: str
    before: OverrideEntry | Unreadable | None
    after: OverrideEntry | None


class OverridesService(Protocol):
    """Writes overrides, one entry of one key at a time; what is written is in force here when the call returns.

    Each method may raise a `ClusterError`, `FeatureOff` where there are no overrides, `StoreFull` where the ConfigMap
    would be larger than 900 KiB, and `EntryChanged` where somebody else changed the very same entry meanwhile.
    Nothing has been changed then.
    """

    async def set_pause(self, key: str, pause: Pause) -> OverrideWrite:
        """Pauses a shoot, or all; replaces a pause that is there."""
        ...

    async def end_pause(self, key: str, *, by: str | None = None) -> OverrideWrite:
        """Removes the pause; `before` and `after` are alike where there was none.  `by` is who ends it, for telling."""
        ...

    async def set_hold(
        self, namespace: str, hold: Hold, *, starting: Starting | None = None
    ) -> OverrideWrite:
        """Holds a shoot; replaces a hold that is there.

        Raises:
            RunInProgress: the scaling run of another operation runs under it, or is to be carried on.
        """
        ...

    def note_done(self, namespace: str, operation: str) -> None:
        """Notes that the run has ended: in this process its hold is done from now on, even if the write fails."""
        ...

    async def finish_hold(self, namespace: str, operation: str) -> OverrideWrite:
        """Writes `done: true` into the hold, if it still is of this operation."""
        ...

    async def end_hold(
        self, namespace: str, *, operation: str | None = None, by: str | None = None
    ) -> OverrideWrite:
        """Removes the hold; only that of `operation`, where one is named.  `by` is who ends it, for telling."""
        ...


# The adapter to the seed's word on who a caller is, and what he may do.


AUDIENCE = "dependency-watchdog"
"""Tokens must be made for it, so that they are worth nothing elsewhere (threat T14)."""
GROUP = "dependency-watchdog.gardener.cloud"
"""Of the resources that SubjectAccessReviews name."""


class Reviewer(Protocol):
    """Asks the seed; each method may raise a `ClusterError`, and answers within 3 s."""

    async def authenticate(self, token: str, *, audience: str | None = AUDIENCE) -> Caller | None:
        """Whose token it is, if it was made for `audience` (None: for the API server itself); None: nobody's."""
        ...

    async def allowed(self, caller: Caller, access: Access) -> bool:
        """Whether the caller may do this."""
        ...


# The weeder's adapters to the seed: services and pods.
#
# `core/kube` opens them on a real seed, `core/simulation` on a simulated one.
# Every method may raise a `ClusterError`; nothing else crosses these adapters.


Admission = Callable[[], Awaitable[None]]
"""Waited for before each request: the weeder's budgets are its own, and fair between namespaces."""


@dataclass(frozen=True, slots=True)
class Relisted:
    """The slices were listed anew, after a time in which changes may have been missed."""

    since: float | None
    """Until when nothing was missed: the last that was heard of the server before."""
    changed: tuple[ServiceKey, ...]
    """Services of which a slice is not what it was."""


class ServiceListener(Protocol):
    """Hears of services; called in the event loop, in the order of what happened."""

    def service_changed(self, key: ServiceKey) -> None:
        """A slice of this service has changed; called for each event of the watch, before the next is taken up."""
        ...

    def services_relisted(self, relisted: Relisted) -> None:
        """All slices are now as listed; called once for the list, after the first one too."""
        ...


class PodWatch(Protocol):
    """The pods of one namespace, for as long as `run` runs."""

    @property
    def synced(self) -> bool:
        """Whether they have been listed."""
        ...

    @property
    def trouble(self) -> str | None:
        """What it suffers from; None while all is well."""
        ...

    def pods(self) -> Mapping[str, PodView]:
        """The pods by name, as they were last seen."""
        ...

    async def run(self) -> None:
        """Lists once, then watches, until it is cancelled; survives everything that a watch dies of.

        Raises:
            Forbidden: the right to list or to watch pods is missing, and that was no passing refusal.
        """
        ...


class WeederSeed(Protocol):
    """The services and pods of the seed."""

    def subscribe(self, listener: ServiceListener) -> None:
        """`listener` hears of what happens to services from now on."""
        ...

    def watch_state(self) -> WatchState:
        """How far the watch of the slices can be trusted."""
        ...

    # From the watch: no request.

    def services(self) -> Collection[ServiceKey]:
        """The configured services that have slices."""
        ...

    def slices(self, key: ServiceKey) -> tuple[SliceView, ...]:
        """The slices of a service; empty where it has none."""
        ...

    # Live.

    def watch_pods(
        self,
        namespace: str,
        selector: LabelSelector | None,
        changed: Callable[[str], None],
        admitted: Admission,
    ) -> PodWatch:
        """The pods of a namespace that match `selector` (None: all), which nobody asks for before it is run.

        Args:
            namespace: the control-plane namespace.
            selector: what the server is to select.
            changed: called with the name of each pod that changed, in the event loop; of the first list, with each.
            admitted: waited for before each request.
        """
        ...

    async def read_pod(self, namespace: str, name: str) -> PodView | None:
        """A pod, live; None where there is none."""
        ...

    async def any_pod(self, selector: LabelSelector) -> bool:
        """Whether a pod in any namespace matches, by one request for one pod."""
        ...

    async def delete_pod(
        self, namespace: str, name: str, *, uid: str, resource_version: str, starting: Starting
    ) -> None:
        """Deletes a pod if it is still the one that was judged; `starting` is called right before it is sent.

        Raises:
            NotFound: there is none of this name.
            Conflict: it is another one, or has changed.
            Unreachable: no answer in 5 s; it may have been deleted.
        """
        ...


class Pauses(Protocol):
    """What people paused."""

    @property
    def synced(self) -> bool:
        """Whether it is known what is paused: nothing is deleted before."""
        ...

    def paused(self, namespace: str) -> str | None:
        """Why nothing may be deleted in this namespace now; None where that is allowed."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change."""
        ...


class NoPauses:
    """Nothing is ever paused: for a process without overrides (`Pauses`)."""

    synced = True

    def paused(self, namespace: str) -> str | None:  # noqa: ARG002 - the port's signature
        """Never."""
        return None

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Nothing ever changes, so `listener` is never called."""
