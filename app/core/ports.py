"""Protocols between the rules and the outside world: the seed, the shoots, pods, overrides and reviews.

The prober, the weeder and the API depend on these protocols only. `app.core.kube` implements them on API servers, real
or simulated (docs/decisions/0044); `app.core.handlers` runs endpoint probes. Every method may raise a `ClusterError`
(`app.core.errors`), and no other exception: an implementation translates what its HTTP client or decoder raises.

Conventions that hold for all of them: instants are those of `Clock`, durations are seconds; "from the watch" means that
a method reads local memory and sends nothing; "live" means one request to the API server.
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, NamedTuple, Protocol, TypeVar

from app.core.fair_queue import Consumer
from app.core.model.callers import AUDIENCE, Access, Caller
from app.core.model.endpoints import EndpointProbeSpec, ProbedPod, ProbeOutcome, Ran, TargetAddress
from app.core.model.nodes import LeaseReading, MachineView, NodeView
from app.core.model.overrides import (
    EffectiveOverrides,
    Pause,
    ScaleRequest,
)
from app.core.model.pods import PodView, SliceView
from app.core.model.scaling_runs import ScaleSpec
from app.core.model.selectors import LabelSelector
from app.core.model.shoots import ClusterView, Route, SecretView
from app.core.model.weeding import ServiceKey
from app.core.model.workloads import Patch, ResourceRef, ScaleView, WorkloadView


class ShootCluster(Protocol):
    """The API server of one shoot, reached with the credentials of one kubeconfig."""

    async def version(self, *, new_connection: bool = False, within: float | None = None) -> str:
        """Sends `GET /version` and returns `gitVersion`.

        `within` limits the whole call, in seconds; None stands for the time limit of one probe.
        """
        ...

    async def leases(self, *, new_connection: bool = False) -> LeaseReading:
        """Lists all Leases of `kube-node-lease` in pages of 500, by a consistent read."""
        ...

    async def contact(self) -> float:
        """Reads one page of one Lease, consistently, and returns when the request was sent."""
        ...

    async def nodes(self, *, consistent: bool = False) -> tuple[NodeView, ...]:
        """Lists all Nodes, from the API server's watch cache unless `consistent`; closes the connection afterwards."""
        ...


class ShootConnector(Protocol):
    """Creates a `ShootCluster` from a kubeconfig Secret and owns its connections."""

    async def connect(self, secret: SecretView) -> ShootCluster:
        """Returns the shoot of this Secret, on the same connections while the content of the Secret is unchanged.

        Raises:
            CredentialRefused: the kubeconfig is not accepted (threats T1-T5).
        """
        ...

    def consumer(self, namespace: str) -> Consumer:
        """Returns the consumer that is charged for the event-loop time which this shoot's answers take (threat T11)."""
        ...

    def forget(self, namespace: str) -> None:
        """Closes all connections to the shoot of this namespace."""
        ...


class Watched(StrEnum):
    """The kinds of objects that the prober watches in the seed."""

    CLUSTERS = "clusters"
    SECRETS = "secrets"
    DEPENDENTS = "dependents"
    MACHINES = "machines"


STALE: Final = 90.0
"""Seconds without contact after which a watch is stale (rules 4.1)."""


@dataclass(frozen=True, slots=True)
class WatchState:
    """Whether a watch has listed its objects, and when the server was last heard of."""

    synced: bool
    """Whether the objects have been listed at least once."""
    last_contact: float | None
    """When the server last proved that it is alive: by a list, an event, a bookmark, or a watch that it ended in
    time."""

    def stale(self, now: float, after: float = STALE) -> bool:
        """Whether the last contact is more than `after` seconds ago, or there was none."""
        return self.last_contact is None or now - self.last_contact > after


@dataclass(frozen=True, slots=True)
class SeedChange:
    """A notification that something changed; it carries no state, so the listener reads the current one."""

    what: Watched
    namespace: str


Starting = Callable[[], None]
"""Called immediately before a write is sent; raises an error to forbid the write."""


class SeedCluster(Protocol):
    """The seed: what the prober watches, reads live and writes there."""

    def subscribe(self, listener: Callable[[SeedChange], None]) -> None:
        """Calls `listener` in the event loop, shortly after each change."""
        ...

    def watch_state(self, what: Watched) -> WatchState:
        """Returns the state of the watch of `what`; where that is several watches, the worst of them.

        An `unavailable` dependent does not hold up the others: it counts only if all of them are unavailable.
        """
        ...

    def unavailable(self, ref: ResourceRef) -> str | None:
        """Returns why nothing can be known of a configured dependent: its kind is not served, or may not be listed.

        None while it is watched or may still become so, and for an optional dependent whose kind is not served.
        """
        ...

    # From the watches; these send no request.

    def clusters(self) -> Mapping[str, ClusterView]:
        """Returns all Clusters by name."""
        ...

    def secret(self, namespace: str, route: Route = Route.INTERNAL) -> SecretView | None:
        """Returns the kubeconfig Secret of this route, or None if there is none."""
        ...

    def machines(self, namespace: str) -> tuple[MachineView, ...]:
        """Returns the Machines of a namespace."""
        ...

    def dependent(self, namespace: str, ref: ResourceRef) -> WorkloadView | None:
        """Returns a configured dependent, or None if it does not exist."""
        ...

    # Live reads, one request each. `urgent` requests are charged to the budget of scale-downs (`--scale-down-qps`) and
    # overtake everything else.

    async def read_cluster(self, namespace: str, *, urgent: bool = False) -> ClusterView | None:
        """Reads the Cluster; returns None if it does not exist."""
        ...

    async def read_secret(
        self, namespace: str, *, route: Route = Route.INTERNAL, urgent: bool = False
    ) -> SecretView | None:
        """Reads the kubeconfig Secret of this route; returns None if it does not exist."""
        ...

    async def read_machines(
        self, namespace: str, *, urgent: bool = False
    ) -> tuple[MachineView, ...]:
        """Lists the Machines of the namespace, by a consistent read."""
        ...

    # A `spare` read uses only what the other requests leave of the budget, and raises `Throttled` if that is nothing.

    async def read_dependent(
        self, namespace: str, ref: ResourceRef, *, urgent: bool = False, spare: bool = False
    ) -> WorkloadView | None:
        """Reads a dependent; returns None if it does not exist."""
        ...

    async def read_scale(
        self, namespace: str, ref: ResourceRef, *, urgent: bool = False, spare: bool = False
    ) -> ScaleView:
        """Reads the `scale` subresource of a dependent."""
        ...

    # Writes. `starting` is called once the request budget has admitted the write, immediately before it is sent. If it
    # raises, nothing is sent and the call ends with that error.

    async def patch_dependent(
        self,
        namespace: str,
        ref: ResourceRef,
        patch: Patch,
        *,
        starting: Starting | None = None,
        urgent: bool = False,
    ) -> WorkloadView:
        """Sends one merge patch of the object itself and returns the patched object."""
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
        """Sends one merge patch of the `scale` subresource and returns the patched `scale`."""
        ...


class Preparation(Enum):
    """How well prepared a standby is to take over."""

    NONE = "it has not listed all that it decides on"
    LISTED = "it has listed all of it"
    COMPLETE = "it has probed every shoot as well: it could act at once"


class Leadership(Protocol):
    """Whether this replica may write now, and whether it probes shoots."""

    @property
    def leading(self) -> bool:
        """Whether this replica leads, and so may write."""
        ...

    @property
    def may_probe(self) -> bool:
        """Whether this replica probes shoots: it leads, nobody leads, or the leader has stopped renewing its Lease."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change of `leading` or `may_probe`."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """An RBAC permission that the configuration needs."""

    verb: str
    group: str
    resource: str
    """With its subresource, such as `deployments/scale`."""
    name: str = ""
    namespace: str = ""
    feature: str = ""
    """The one feature that is switched off without it; empty if protection itself needs it."""


class AccessReviewer(Protocol):
    """Finds out which permissions this process has in the seed."""

    async def missing(self, needed: Iterable[Permission]) -> tuple[Permission, ...]:
        """Returns the permissions that a SelfSubjectAccessReview denies."""
        ...


class EventSink(Protocol):
    """Creates Kubernetes Events."""

    async def emit(self, namespace: str, event: dict[str, object]) -> None:
        """Creates `event`, an `events.k8s.io/v1` object, in this namespace.

        Raises:
            ClusterError: the Event was not created.
        """
        ...


# Endpoint probes: what runs them, and which pods they have as targets.


class Handlers(Protocol):
    """Runs endpoint probes of all types."""

    async def run(self, probe: EndpointProbeSpec, address: TargetAddress) -> Ran:
        """Runs the probe once and returns its result after `timeoutSeconds` at the latest.

        Never raises because of anything that the target does.
        """
        ...


class ProbedPods(Protocol):
    """The pods that the configured selectors match, in the namespaces of the shoots that are probed."""

    def follow(self, namespace: str) -> None:
        """Starts to watch the pods of this namespace, because its shoot is probed from now on."""
        ...

    def leave(self, namespace: str) -> None:
        """Stops watching the pods of this namespace and drops them."""
        ...

    def pods(self, namespace: str, selector: LabelSelector) -> Collection[ProbedPod]:
        """Returns the pods of a namespace that match one of the configured selectors, from the watch."""
        ...

    def watch_state(self, namespace: str, selector: LabelSelector) -> WatchState:
        """Returns the state of this selector's watch; `synced` says whether the pods of this namespace were listed."""
        ...

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with the namespace, in the event loop, after each change of its pods."""
        ...


class Frame(NamedTuple):
    """One message of an exec stream (subprotocols `v4.channel.k8s.io` and `v5.channel.k8s.io`)."""

    channel: int
    """1 is stdout, 2 is stderr, 3 is the final status: a `Status` object as JSON."""
    data: bytes


class ContainerExec(Protocol):
    """Runs commands in containers, through the seed's API server."""

    def open(
        self, namespace: str, pod: str, container: str, command: tuple[str, ...]
    ) -> AbstractAsyncContextManager[AsyncIterator[Frame]]:
        """Starts `command` without a shell; yields its output as frames and closes the connection on exit.

        Raises:
            ClusterError: the API server refused to run the command, or the stream broke.
        """
        ...


class EndpointMeter(Protocol):
    """Counts runs of endpoint probes; called after each, hundreds of times a second, so it has to be cheap."""

    def ran(self, namespace: str, name: str, outcome: ProbeOutcome, seconds: float) -> None:
        """Counts one run of the probe `name`, which took `seconds`.

        An error is repeated, so one that persists counts as three runs (rules 5).
        """
        ...


class Unmetered:
    """An `EndpointMeter` that counts nothing."""

    def ran(self, namespace: str, name: str, outcome: ProbeOutcome, seconds: float) -> None:
        """Does nothing."""


# Overrides: Pauses and ScaleRequests, and what follows from them.


ObjectT = TypeVar("ObjectT", Pause, ScaleRequest)


class CustomObjects(Protocol[ObjectT]):
    """The custom resources of one kind, in all namespaces: as the watch shows them, and as this process left them."""

    @property
    def off(self) -> str | None:
        """Why there are none in this process: the kind is not served, or may not be read; None while it is at work."""
        ...

    def watch_state(self) -> WatchState:
        """Returns the state of the watch."""
        ...

    def of(self, namespace: str) -> Mapping[str, ObjectT]:
        """Returns the objects of a namespace by name, without a request."""
        ...

    def everything(self) -> Iterator[ObjectT]:
        """Yields the objects of all namespaces, without a request."""
        ...

    def subscribe(self, listener: Callable[[str | None, str], None]) -> None:
        """Calls `listener` with namespace and name after each change of an object, and with None and "" after others.

        The others are changes of `off` and of `watch_state`.
        """
        ...

    async def refresh(self, namespace: str, *, urgent: bool = True) -> None:
        """Reads the objects of a namespace live, if they were listed once and the watch is stale.

        Raises:
            ClusterError: they could not be read.
        """
        ...

    # Requests. What a write returns is at once among the objects, and so is what `read` finds.

    async def read(self, namespace: str, name: str) -> ObjectT | None:
        """Reads an object live; returns None if it does not exist."""
        ...

    async def create(self, wanted: ObjectT, *, starting: Starting | None = None) -> ObjectT:
        """Creates an object with the spec of `wanted`, marked as made by the API.

        Raises:
            Conflict: one of this name exists already.
            Invalid: the API server does not accept it.
        """
        ...

    async def change(
        self, known: ObjectT, wanted: ObjectT, *, starting: Starting | None = None
    ) -> ObjectT:
        """Gives an object the spec of `wanted`, if it is still as `known` says.

        Raises:
            Conflict: it has changed since, or is gone.
        """
        ...

    async def set_status(
        self,
        known: ObjectT,
        wanted: ObjectT,
        *,
        starting: Starting | None = None,
        spare: bool = False,
    ) -> ObjectT:
        """Gives an object the status of `wanted`, if it is still as `known` says.

        Args:
            known: the object as last seen.
            wanted: has the status.
            starting: called immediately before the request is sent.
            spare: use only what other requests leave of the budget.

        Raises:
            Conflict: it has changed since, or is gone.
            Throttled: a `spare` request found nothing left.
        """
        ...

    async def delete(self, known: ObjectT, *, unchanged: bool = False) -> None:
        """Deletes the object with the uid of `known`; with `unchanged` only if it is still as `known` says.

        Raises:
            NotFound: it is gone.
            Conflict: the object of this name is another one, or has changed.
        """
        ...


class OverridesView(Protocol):
    """The overrides that are known now, for readers."""

    @property
    def synced(self) -> bool:
        """Whether the overrides have been read, or may count as none; before that nothing is scaled or deleted."""
        ...

    def effective(self, namespace: str) -> EffectiveOverrides:
        """Returns the overrides that are in force for this shoot now."""
        ...

    def global_pause(self) -> Pause | None:
        """Returns the pause of all shoots that acts now, if any."""
        ...

    def pauses(self, namespace: str | None) -> Sequence[Pause]:
        """Returns all Pauses in this control plane (None: of all shoots), those that have ended included."""
        ...

    def requests(self, namespace: str | None = None) -> Iterable[ScaleRequest]:
        """Returns the ScaleRequests of this shoot, or of all shoots."""
        ...

    def held(self) -> Collection[str]:
        """Returns the namespaces that have ScaleRequests."""
        ...

    async def refresh(self, namespace: str, *, urgent: bool = True) -> None:
        """Reads what concerns this shoot live, if a watch is stale.

        Raises:
            ClusterError: it could not be read.
        """
        ...

    def subscribe(self, listener: Callable[[str | None], None]) -> None:
        """Calls `listener` after each change of what is in force, including pauses and holds that expire.

        Its argument is the namespace of the shoot; None if more than one may be concerned.
        """
        ...


class PauseWrite(NamedTuple):
    """The API's Pause before and after a write."""

    before: Pause | None
    after: Pause


class OverridesService(Protocol):
    """Writes Pauses and ScaleRequests; what is written is in force in this process when the call returns.

    Each method may raise a `ClusterError`, `FeatureUnavailable` if this process has no such resources or only
    rehearses, and `EntryChanged` if somebody else changed the same object; after the latter two nothing has changed.
    """

    def check(self, feature: str) -> None:
        """Raises FeatureUnavailable if `feature` (`pauses` or `scalerequests`) is off in this process."""
        ...

    def ended_by(self, uid: str) -> str | None:
        """Returns who had this process delete the object with this uid; None if nobody did."""
        ...

    async def set_pause(self, namespace: str | None, wanted: Pause) -> PauseWrite:
        """Makes or replaces the API's Pause of a shoot, or of all shoots (None)."""
        ...

    async def end_pause(self, namespace: str | None, name: str, *, by: str) -> Pause | None:
        """Deletes a Pause and returns it; None if there is none. Notices name `by` as the one who ended it."""
        ...

    async def request_scaling(
        self,
        namespace: str,
        spec: ScaleSpec,
        *,
        prefix: str = "api",
        starting: Starting | None = None,
    ) -> ScaleRequest:
        """Creates a ScaleRequest under a name that nobody has used.

        Args:
            namespace: the shoot.
            spec: what is asked for.
            prefix: what the name begins with.
            starting: called immediately before each write; its exceptions propagate.
        """
        ...

    async def set_status(
        self, known: ScaleRequest, wanted: ScaleRequest, *, starting: Starting, spare: bool = False
    ) -> ScaleRequest:
        """Writes the status of a ScaleRequest, as `CustomObjects.set_status` does."""
        ...

    async def delete_request(self, request: ScaleRequest, *, by: str) -> bool:
        """Deletes a ScaleRequest; returns whether it was there. Notices name `by` as the one who did."""
        ...


# Authentication and authorization of API callers, delegated to the seed.


class Reviewer(Protocol):
    """Asks the seed by TokenReview and SubjectAccessReview; each method may raise a `ClusterError`, within 3 s."""

    async def authenticate(self, token: str, *, audience: str | None = AUDIENCE) -> Caller | None:
        """Returns the owner of the token, or None if the token is not valid.

        Args:
            token: the bearer token that the caller sent.
            audience: what the token must have been issued for; None: the seed's API server itself.
        """
        ...

    async def allowed(self, caller: Caller, access: Access) -> bool:
        """Returns whether the caller has this access."""
        ...


# The weeder's view of the seed: services and pods.


Admission = Callable[[], Awaitable[None]]
"""Awaited before each request, for the weeder's own budgets, which are fair between namespaces."""


@dataclass(frozen=True, slots=True)
class Relisted:
    """A new list of the EndpointSlices, after a time in which changes may have been missed."""

    since: float | None
    """The last contact before the list: no change up to then was missed. None for the first list."""
    changed: tuple[ServiceKey, ...]
    """Services with a slice that differs from the one known before."""


class ServiceListener(Protocol):
    """Receives changes of services, in the event loop and in the order in which they happened."""

    def service_changed(self, key: ServiceKey) -> None:
        """Called for each watch event about a slice of this service, before the next event is processed."""
        ...

    def services_relisted(self, relisted: Relisted) -> None:
        """Called once after each list of all slices, including the first."""
        ...


class PodWatch(Protocol):
    """A watch of the pods of one namespace, active while `run` runs."""

    @property
    def synced(self) -> bool:
        """Whether the pods have been listed."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the watch does not work, in words for operators; None while it does."""
        ...

    def pods(self) -> Mapping[str, PodView]:
        """Returns the pods by name, from the watch."""
        ...

    async def run(self) -> None:
        """Lists once, then watches until it is cancelled, whatever ends a single watch.

        Raises:
            Forbidden: the right to list or watch pods is missing, and has been for several attempts.
        """
        ...


class WeederSeed(Protocol):
    """The services and pods of the seed, as the weeder needs them."""

    def subscribe(self, listener: ServiceListener) -> None:
        """Calls `listener` for each change of a service from now on."""
        ...

    def watch_state(self) -> WatchState:
        """Returns the state of the watch of EndpointSlices."""
        ...

    # From the watch; these send no request.

    def services(self) -> Collection[ServiceKey]:
        """Returns the configured services that have slices."""
        ...

    def slices(self, key: ServiceKey) -> tuple[SliceView, ...]:
        """Returns the slices of a service; empty if it has none."""
        ...

    # Live.

    def watch_pods(
        self,
        namespace: str,
        selector: LabelSelector | None,
        changed: Callable[[str], None],
        admitted: Admission,
    ) -> PodWatch:
        """Creates a watch of the pods of a namespace that match `selector`; it sends nothing before it is run.

        Args:
            namespace: the control-plane namespace.
            selector: evaluated by the API server; None matches all pods.
            changed: called in the event loop with the name of each pod that changed; after the first list, with every
                pod.
            admitted: awaited before each request.
        """
        ...

    async def read_pod(self, namespace: str, name: str) -> PodView | None:
        """Reads a pod live; returns None if it does not exist."""
        ...

    async def any_pod(self, selector: LabelSelector) -> bool:
        """Returns whether any pod in any namespace matches, by one request with `limit=1`."""
        ...

    async def delete_pod(
        self, namespace: str, name: str, *, uid: str, resource_version: str, starting: Starting
    ) -> None:
        """Deletes a pod under the preconditions uid and resourceVersion; calls `starting` immediately before.

        Raises:
            NotFound: no pod has this name.
            Conflict: the pod of this name is another one, or has changed.
            Unreachable: there was no answer within 5 s; the pod may have been deleted.
        """
        ...


class Pauses(Protocol):
    """Pauses, as the weeder needs them."""

    @property
    def synced(self) -> bool:
        """Whether the pauses are known; before that nothing is deleted."""
        ...

    def paused(self, namespace: str) -> str | None:
        """Returns why nothing may be deleted in this namespace now; None if deleting is allowed."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change."""
        ...
