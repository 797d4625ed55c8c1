"""Protocols between the rules and the outside world: the seed, the shoots, pods, overrides and reviews.

The prober, the weeder and the API depend on these protocols only. `app.core.kube` implements them on API servers, real
or simulated (docs/decisions/0044); `app.core.handlers` runs endpoint probes. Every method may raise a `ClusterError`
(`app.core.errors`), and no other exception: an implementation translates what its HTTP client or decoder raises.

Conventions that hold for all of them: instants are those of `Clock`, durations are seconds; "from the watch" means that
a method reads local memory and sends nothing; "live" means one request to the API server.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple, Protocol

from app.core.errors import FeatureUnavailable
from app.core.fair_queue import Consumer
from app.core.model.callers import AUDIENCE, Access, Caller
from app.core.model.endpoints import EndpointProbeSpec, ProbedPod, ProbeOutcome, Ran, TargetAddress
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


# Overrides: the ConfigMap that holds what people decided, and what follows from it.


@dataclass(frozen=True, slots=True)
class OverridesDocument:
    """The ConfigMap of the overrides at one resourceVersion."""

    uid: str
    resource_version: str
    data: Mapping[str, str] = field(default_factory=dict)
    """JSON objects by key: the name of a control-plane namespace, or `_all`."""
    whole: Mapping[str, Any] = field(default_factory=dict)
    """The complete object, so that an update preserves labels, annotations and whatever else others put there."""
    left_out: int = 0
    """Roughly how many keys are missing in `data`, as there are too many to decode; if any, it cannot be written."""


class OverridesStore(Protocol):
    """The ConfigMap `dependency-watchdog-overrides` in the watchdog's own namespace."""

    @property
    def forbidden(self) -> str | None:
        """Why reading it is forbidden; None while it is allowed, or not known to be forbidden."""
        ...

    def watch_state(self) -> WatchState:
        """Returns the state of its watch."""
        ...

    def document(self) -> OverridesDocument | None:
        """Returns it as the watch shows it, without a request; None if it does not exist."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` in the event loop, shortly after each change of `document`, `watch_state` or `forbidden`."""
        ...

    async def read(self) -> OverridesDocument | None:
        """Reads it live; returns None if it does not exist."""
        ...

    async def create(
        self, data: Mapping[str, str], *, starting: Starting | None = None
    ) -> OverridesDocument:
        """Creates it.

        Raises:
            Conflict: it exists already.
        """
        ...

    async def replace(
        self,
        document: OverridesDocument,
        data: Mapping[str, str],
        *,
        starting: Starting | None = None,
    ) -> OverridesDocument:
        """Replaces the data of `document`, under its resourceVersion.

        Raises:
            Conflict: the ConfigMap has changed since `document` was read.
        """
        ...


class OverridesView(Protocol):
    """The overrides that are known now, for readers."""

    @property
    def synced(self) -> bool:
        """Whether the overrides have been read, or may count as none; before that nothing is scaled or deleted."""
        ...

    @property
    def off(self) -> str | None:
        """Why this process has no overrides; None while it has."""
        ...

    def effective(self, namespace: str) -> EffectiveOverrides:
        """Returns the overrides that are in force for this shoot now."""
        ...

    def global_pause(self) -> Pause | None:
        """Returns the pause of all shoots that is in force now, if any."""
        ...

    def holds(self) -> Mapping[str, Hold]:
        """Returns the holds by namespace, including expired ones: their scaling runs may still have to be ended."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change of what is in force, including pauses and holds that expire."""
        ...


class NoOverrides:
    """`OverridesView` and `OverridesService` of a process without a ConfigMap: nothing is ever paused or held."""

    synced = True
    off: str | None = "this process has no overrides"

    def effective(self, namespace: str) -> EffectiveOverrides:  # noqa: ARG002 - the port's signature
        return NOTHING

    def global_pause(self) -> Pause | None:
        return None

    def holds(self) -> Mapping[str, Hold]:
        return {}

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Never calls `listener`, because nothing ever changes."""

    async def set_pause(self, key: str, pause: Pause) -> "OverrideWrite":  # noqa: ARG002 - the port's signature
        """Raises FeatureUnavailable, as do the other methods that write."""
        raise self._refusal()

    async def end_pause(
        self,
        key: str,  # noqa: ARG002 - the port's signature
        *,
        by: str | None = None,  # noqa: ARG002 - as above
    ) -> "OverrideWrite":
        raise self._refusal()

    async def set_hold(
        self,
        namespace: str,  # noqa: ARG002 - the port's signature
        hold: Hold,  # noqa: ARG002 - as above
        *,
        starting: Starting | None = None,  # noqa: ARG002 - as above
    ) -> "OverrideWrite":
        raise self._refusal()

    async def still_there(self, namespace: str, hold: Hold) -> bool:  # noqa: ARG002 - as above
        return False

    def note_done(self, namespace: str, operation: str) -> None:
        """Does nothing: there are no holds."""

    async def finish_hold(
        self,
        namespace: str,  # noqa: ARG002 - the port's signature
        operation: str,  # noqa: ARG002 - as above
    ) -> "OverrideWrite":
        raise self._refusal()

    async def end_hold(
        self,
        namespace: str,  # noqa: ARG002 - the port's signature
        *,
        operation: str | None = None,  # noqa: ARG002 - as above
        by: str | None = None,  # noqa: ARG002 - as above
    ) -> "OverrideWrite":
        raise self._refusal()

    def _refusal(self) -> FeatureUnavailable:
        return FeatureUnavailable("overrides", str(self.off))


@dataclass(frozen=True, slots=True)
class OverrideWrite:
    """One key of the ConfigMap before and after a write."""

    key: str
    before: OverrideEntry | Unreadable | None
    after: OverrideEntry | None


class OverridesService(Protocol):
    """Writes overrides, one entry of one key at a time; a change is in force in this process when the call returns.

    Each method may raise a `ClusterError`, `FeatureUnavailable` if this process has no overrides, `StoreFull` if the
    ConfigMap would exceed 900 KiB, and `EntryChanged` if somebody else changed the same entry. After any of them
    nothing has been changed.
    """

    async def set_pause(self, key: str, pause: Pause) -> OverrideWrite:
        """Pauses a shoot, or all shoots; replaces an existing pause."""
        ...

    async def end_pause(self, key: str, *, by: str | None = None) -> OverrideWrite:
        """Removes the pause; `before` equals `after` if there was none. Notices name `by` as the one who ended it."""
        ...

    async def set_hold(
        self, namespace: str, hold: Hold, *, starting: Starting | None = None
    ) -> OverrideWrite:
        """Holds a shoot; replaces an existing hold.

        Raises:
            RunInProgress: the scaling run of another operation still runs under the hold, or is to be resumed.
        """
        ...

    async def still_there(self, namespace: str, hold: Hold) -> bool:
        """Reads live whether the hold is still as this process knows it."""
        ...

    def note_done(self, namespace: str, operation: str) -> None:
        """Marks the hold of `operation` as done in this process, even if writing that fails."""
        ...

    async def finish_hold(self, namespace: str, operation: str) -> OverrideWrite:
        """Writes `done: true` into the hold if it still belongs to this operation."""
        ...

    async def end_hold(
        self, namespace: str, *, operation: str | None = None, by: str | None = None
    ) -> OverrideWrite:
        """Removes the hold, or only that of `operation` if one is given. Notices name `by` as the one who ended it."""
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


class NoPauses:
    """`Pauses` of a process without overrides: nothing is ever paused."""

    synced = True

    def paused(self, namespace: str) -> str | None:  # noqa: ARG002 - the port's signature
        return None

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Never calls `listener`, because nothing ever changes."""
