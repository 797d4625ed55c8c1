"""The domain of the weeder: the pods and EndpointSlices that it reads, its configuration, decisions and results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, NamedTuple

from pydantic import AfterValidator, Field, WrapSerializer

from app.core.model import keys
from app.core.model.names import LabelSelector
from app.core.model.overrides import PauseDecision

CRASH_LOOP: Final = "CrashLoopBackOff"
"""The waiting reason of a container that the kubelet restarts when its back-off is over."""
LONGEST_BACKOFF: Final = 300.0
"""The kubelet's longest back-off before it restarts a container, in seconds (rules 6)."""


class OwnerView(NamedTuple):
    """The controller of an object: its owner reference with `controller: true`."""

    api_version: str
    kind: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class ContainerView(NamedTuple):
    """The status of a container or init container."""

    name: str
    waiting: str | None = None
    """`state.waiting.reason`; None if the container is not waiting, empty if it waits without a reason."""
    restarts: int | None = None
    """`restartCount`; None if missing."""
    last_exit: float | None = None
    """`lastState.terminated.finishedAt`, as an instant; None if missing."""
    init: bool = False
    backoff: float | None = None
    """The whole back-off that the kubelet names in `state.waiting.message`, in seconds; None if it names none."""

    @property
    def crash_loops(self) -> bool:
        """Whether the container waits in CrashLoopBackOff."""
        return self.waiting == CRASH_LOOP


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: OwnerView | None = None
    """None for a bare pod."""
    terminating: bool = False
    """Whether it has a deletionTimestamp."""
    containers: tuple[ContainerView, ...] = ()
    """Regular and init containers."""
    ready_since: float | None = None
    """`lastTransitionTime` of the condition Ready, an instant in whole seconds; None unless its status is True."""


class SliceEndpoint(NamedTuple):
    """One endpoint of an EndpointSlice."""

    ready: bool
    """`conditions.ready`; a missing value counts as true, as the API defines it."""
    pod: str | None = None
    """The name of the pod behind the endpoint (`targetRef`)."""


@dataclass(frozen=True, slots=True)
class SliceView:
    """An EndpointSlice."""

    namespace: str
    name: str
    service: str
    """Label `kubernetes.io/service-name`; empty if missing, in which case the slice belongs to no service."""
    resource_version: str
    """Compared only: a slice that has the same endpoints as before a gap may have lost them in between."""
    endpoints: tuple[SliceEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSelectors:
    """The pods that depend on a service."""

    __pydantic_config__: ClassVar = keys.KEYS

    pod_selectors: Annotated[tuple[keys.Selector, ...], Field(min_length=1)]
    """LabelSelectors; a pod that matches one of them depends on the service."""


_Dependants = Annotated[
    tuple[LabelSelector, ...],
    keys.WrittenAs(PodSelectors, lambda it: it.pod_selectors, PodSelectors),
]


@dataclass(frozen=True, slots=True)
class WeederPolicy:
    """The effective weeder file, defaults included; durations in seconds."""

    __pydantic_config__: ClassVar = keys.KEYS
    OBSOLETE: ClassVar = ("name", "namespace")

    services: Annotated[
        Mapping[keys.ServiceName, _Dependants],
        Field(alias="servicesAndDependantSelectors", min_length=1),
        keys.Needed(),
        AfterValidator(MappingProxyType),
        WrapSerializer(lambda services, serialize: serialize(dict(services))),
    ] = field(default_factory=lambda: MappingProxyType({}))
    """By the name of a Service: the pods that depend on it."""
    watch_duration: keys.Duration = 300.0
    """How long pods are watched for after a service became ready again; a back-off is never longer than 5m."""
    max_deletions_per_workload: keys.Count = 5
    """Pods of one owner deleted within `watchDuration` at most, or as many as it had pods if that is more: what crashes
    for a reason of its own is not deleted without end."""
    min_backoff_remaining: keys.DurationOrZero = 10.0
    """The back-off that a pod must have left to be deleted; one that starts as soon without us is left alone."""
    weed_bare_pods: keys.Switch = False
    """Whether pods without a controller are deleted, too; nothing creates them again."""


class ServiceKey(NamedTuple):
    """Names a service of one control plane."""

    namespace: str
    service: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.service}"


class Cause(StrEnum):
    """Why a recovery began."""

    BECAME_READY = "BecameReady"
    """The service was seen to change from not ready to ready."""
    STARTED = "Started"
    """This replica became leader, and the service had become ready shortly before."""
    GAP = "Gap"
    """The service became ready while its watch was interrupted."""
    ASKED = "Asked"
    """A person asked for it."""


@dataclass(frozen=True, slots=True)
class WeedRequest:
    """A person's request for a recovery."""

    author: str
    reason: str = ""
    """Empty if none was given."""
    despite: str | None = None
    """The pause that acted on the namespace at that time, if any."""
    overrides: frozenset[PauseDecision] = frozenset()
    """All pauses that covered it then, which the recovery overrides; a later or changed one stops it like any other."""


@dataclass(frozen=True, slots=True)
class RecoveryStart:
    """What a recovery starts with: for which service, why, and from when to when."""

    id: int
    """A number that counts the recoveries of this process."""
    key: ServiceKey
    cause: Cause
    began: float
    due: float
    """When it begins to weed; later than `began` if there were too many recoveries before it."""
    until: float
    asked: WeedRequest | None = None
    """The request of a person; None for an automatic recovery."""


class Phase(StrEnum):
    """The progress of a recovery."""

    WAITING = "Waiting"
    """Too many recoveries began within a short time, so it begins later."""
    OPENING = "Opening"
    """Its pods are being listed."""
    WATCHING = "Watching"
    ENDED = "Ended"


class End(StrEnum):
    """Why a recovery has ended."""

    COMPLETED = "Completed"
    """`watchDuration` has passed."""
    LOST = "ServiceLost"
    """The service is no longer ready."""
    REPLACED = "Replaced"
    """A newer recovery replaced it."""
    FORBIDDEN = "Forbidden"
    """The right to delete or watch pods is missing."""
    NOT_LEADER = "NotLeader"
    STOPPED = "Stopped"
    """The process is stopping."""


class KeepReason(StrEnum):
    """Why a pod is not deleted."""

    NOT_SELECTED = "NotSelected"
    TERMINATING = "Terminating"
    """The pod is being deleted already."""
    NOT_WAITING = "NotWaiting"
    """None of its containers waits in CrashLoopBackOff."""
    SHORT_BACKOFF = "ShortBackoff"
    """The kubelet restarts the container as soon without us."""
    BARE_POD = "BarePod"
    """No controller would recreate the pod."""
    ALREADY_DELETED = "AlreadyDeleted"
    """A deletion of this pod (by uid) was accepted before."""
    CAP_REACHED = "CapReached"
    """The maximum number of its owner's pods has been deleted."""
    PAUSED = "Paused"
    STALE = "Stale"
    """The watch of the services is stale, so the service may not be ready any more."""
    FORBIDDEN = "Forbidden"
    """The right to delete it is missing."""
    REFUSED = "Refused"
    """The API server refused the deletion or did not answer; it is retried while the container waits."""
    DROPPED = "Dropped"
    """Its turn had not come when the recovery ended."""
    NOT_LEADER = "NotLeader"


@dataclass(frozen=True, slots=True)
class Delete:
    """The judgement that a pod is to be deleted."""

    container: str
    """The container with the longest remaining back-off."""
    remaining: float | None
    """Remaining seconds of its back-off; None if unknown, which counts as long."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The judgement that a pod is to be left alone, with the reason."""

    reason: KeepReason
    message: str


Judgement = Delete | Keep


class DeletionResult(StrEnum):
    """The result of a deletion, as in the metric."""

    DELETED = "deleted"
    GONE = "gone"
    """404: the pod did not exist any more."""
    CONFLICT = "conflict"
    """The pod had changed since it was judged."""
    CAPPED = "capped"
    """The deletion was not requested, because its owner's cap is reached."""
    ERROR = "error"
    DRY_RUN = "dry-run"


@dataclass(frozen=True, slots=True)
class DeletedPod:
    """A pod that was deleted, or would have been but for a dry run."""

    pod: str
    uid: str
    owner: OwnerView | None
    at: float
    result: DeletionResult
    container: str
    remaining: float | None
    """Seconds of back-off that it was spared; None if unknown."""


@dataclass(frozen=True, slots=True)
class KeptPod:
    """A pod that matches a selector and is not deleted, with the latest reason."""

    pod: str
    at: float
    reason: KeepReason
    message: str


@dataclass(frozen=True, slots=True)
class RecoveryStatus:
    """A current or past recovery, as the API shows it."""

    id: int
    key: ServiceKey
    cause: Cause
    phase: Phase
    began: float
    """When the service became ready again, or this process learnt of it."""
    due: float
    """When it begins to delete pods: later than `began` if there were too many recoveries."""
    until: float
    """When `watchDuration` is over."""
    ended: float | None = None
    end: End | None = None
    trouble: str | None = None
    """Why it does not work, or why it ended; None if all is well."""
    deletions: tuple[DeletedPod, ...] = ()
    spared: tuple[KeptPod, ...] = ()
    queued: int = 0
    """Pods that wait for their turn; once it has ended, pods that were dropped."""
    asked: WeedRequest | None = None
    """The request of a person; None if it began automatically."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """A service of one control plane, with its recoveries."""

    key: ServiceKey
    ready: bool
    since: float | None
    """When it became ready or was lost; None if unknown."""
    failing: str | None = None
    """The unexpected error of its recovery, which is restarted; None if there is none."""
    recoveries: tuple[RecoveryStatus, ...] = ()
    """Newest first: the current one, if any, and some past ones."""
