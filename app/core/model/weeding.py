"""The vocabulary of the weeder: what the operator configured, what it decided, what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from app.core.model.pods import OwnerView
from app.core.model.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class WeederPolicy:
    """The weeder file; durations in seconds."""

    services: Mapping[str, tuple[LabelSelector, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """`servicesAndDependantSelectors`: the selectors of the pods that depend on each service."""
    watch_duration: float = 300.0
    max_deletions_per_workload: int = 5
    min_backoff_remaining: float = 10.0
    weed_bare_pods: bool = False


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
    """We began to lead, and it had become ready only just before."""
    GAP = "Gap"
    """It became ready while its watch was interrupted."""
    ASKED = "Asked"
    """A person asked for it."""


@dataclass(frozen=True, slots=True)
class WeedOrder:
    """Who asked for a recovery by hand, and why."""

    author: str
    reason: str = ""
    """Empty where none was given."""
    despite: str | None = None
    """The pause that covered the namespace then, and that it goes on in spite of; a later one holds it as any other."""


class Phase(StrEnum):
    """How far a recovery has come."""

    WAITING = "Waiting"
    """There were too many within a short time: it begins later."""
    OPENING = "Opening"
    """Its pods are being listed."""
    WATCHING = "Watching"
    ENDED = "Ended"


class End(StrEnum):
    """Why a recovery has ended."""

    COMPLETED = "Completed"
    """`watchDuration` is over."""
    LOST = "ServiceLost"
    """The service is no longer ready."""
    REPLACED = "Replaced"
    """By a newer one."""
    FORBIDDEN = "Forbidden"
    """We have no right to delete pods, or to watch them."""
    NOT_LEADER = "NotLeader"
    STOPPED = "Stopped"
    """The process ends."""


class KeepReason(StrEnum):
    """Why a pod is not deleted."""

    NOT_SELECTED = "NotSelected"
    TERMINATING = "Terminating"
    """It is being deleted already."""
    NOT_WAITING = "NotWaiting"
    """None of its containers waits in CrashLoopBackOff."""
    SHORT_BACKOFF = "ShortBackoff"
    """It will be started again as soon without us."""
    BARE_POD = "BarePod"
    """Nobody would make it anew."""
    ALREADY_DELETED = "AlreadyDeleted"
    """A deletion of this very pod was accepted."""
    CAP_REACHED = "CapReached"
    """So many of its owner's pods were deleted already."""
    PAUSED = "Paused"
    STALE = "Stale"
    """The services' watch has had no contact for long: it is not known whether the service is still ready."""
    FORBIDDEN = "Forbidden"
    """The right to delete it is missing."""
    REFUSED = "Refused"
    """The API server did not delete it, or did not answer: it is asked for again while it waits."""
    DROPPED = "Dropped"
    """It still waited for its turn when the recovery ended."""
    NOT_LEADER = "NotLeader"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete it."""

    container: str
    """The container with the longest remaining back-off."""
    remaining: float | None
    """Seconds that it would still wait; None where that is not known, which counts as long."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Leave it, and why."""

    reason: KeepReason
    message: str


Judgement = Delete | Keep


class DeletionResult(StrEnum):
    """What became of a deletion, as the metric counts it."""

    DELETED = "deleted"
    GONE = "gone"
    """404: there was nothing left to delete."""
    CONFLICT = "conflict"
    """It had changed since it was judged."""
    CAPPED = "capped"
    """It was not asked for, as its owner's cap is reached."""
    ERROR = "error"
    DRY_RUN = "dry-run"


@dataclass(frozen=True, slots=True)
class Deletion:
    """One pod that was deleted, or would have been in a dry run."""

    pod: str
    uid: str
    owner: OwnerView | None
    at: float
    result: DeletionResult
    container: str
    remaining: float | None
    """Seconds of back-off that it was spared; None where that was not known."""


@dataclass(frozen=True, slots=True)
class SparedPod:
    """One pod that matches a selector and is not deleted, with the last reason why."""

    pod: str
    at: float
    reason: KeepReason
    message: str


@dataclass(frozen=True, slots=True)
class RecoveryStatus:
    """One recovery, running or past, as the API shows it."""

    id: int
    key: ServiceKey
    cause: Cause
    phase: Phase
    began: float
    """When the service became ready again, or we learnt of it."""
    due: float
    """When it begins to delete: later than `began` where there were too many recoveries."""
    until: float
    """When it ends by itself."""
    ended: float | None = None
    end: End | None = None
    trouble: str | None = None
    """What keeps it from working now, or made it end; None while all is well."""
    deletions: tuple[Deletion, ...] = ()
    spared: tuple[SparedPod, ...] = ()
    queued: int = 0
    """Pods that wait for their turn; of an ended one, those that were dropped."""
    asked: WeedOrder | None = None
    """Who asked for it; None where nobody had to."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """A service of one control plane, and what was done after it came back."""

    key: ServiceKey
    ready: bool
    since: float | None
    """When it became ready, or was lost; None where that is not known."""
    failing: str | None = None
    """The unexpected error of its recovery, which is started again; None where there is none."""
    recoveries: tuple[RecoveryStatus, ...] = ()
    """Newest first; the running one, if any, and some past ones."""
