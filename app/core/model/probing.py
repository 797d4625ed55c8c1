"""Results of probes and the verdicts on them; the words are also those of the API, logs and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from app.core.model.shoots import Route
from app.core.model.workloads import Direction


class Verdict(StrEnum):
    """What a probe leads to."""

    SCALE_UP = "ScaleUp"
    SCALE_DOWN = "ScaleDown"
    HOLD = "Hold"

    @property
    def direction(self) -> Direction | None:
        """The direction of the scaling run that it asks for; None for HOLD."""
        return _DIRECTIONS.get(self)


_DIRECTIONS = {Verdict.SCALE_UP: Direction.UP, Verdict.SCALE_DOWN: Direction.DOWN}


class VerdictReason(StrEnum):
    """The reason of a verdict; that of a HOLD says what is missing."""

    # lease mode: what the leases say
    LEASES_RENEWED = "LeasesRenewed"
    SOME_LEASES_EXPIRED = "SomeLeasesExpired"
    """Fewer than the limit: no outage of the path."""
    LEASES_EXPIRED = "LeasesExpired"
    UNKNOWN_LEASES = "UnknownLeases"
    NO_CANDIDATES = "NoCandidates"
    ONE_CANDIDATE = "OneCandidate"
    FEW_CANDIDATES = "FewCandidates"
    NO_NODES = "NoNodes"
    # endpoint mode: what the two paths say
    EXTERNAL_REACHABLE = "ExternalReachable"
    EXTERNAL_UNREACHABLE = "ExternalUnreachable"
    # what keeps a verdict from being acted on
    COUNTING = "Counting"
    GATED = "Gated"
    NOT_CONFIRMED = "NotConfirmed"
    INITIAL_DELAY = "InitialDelay"
    HELD = "Held"
    PAUSED = "Paused"
    IGNORED = "Ignored"
    """Every dependent that is up has ignore-scaling."""
    NOT_SYNCED = "NotSynced"
    NOT_LEADER = "NotLeader"
    # why a probe failed
    UNREACHABLE = "Unreachable"
    NAME_UNRESOLVED = "NameUnresolved"
    CERTIFICATE_UNTRUSTED = "CertificateUntrusted"
    CREDENTIALS_INVALID = "CredentialsInvalid"
    CREDENTIALS_MISSING = "CredentialsMissing"
    CREDENTIALS_REFUSED = "CredentialsRefused"
    THROTTLED = "Throttled"
    LEASES_UNREADABLE = "LeasesUnreadable"
    NODES_UNREADABLE = "NodesUnreadable"
    STALE_READING = "StaleReading"
    TOO_SLOW = "TooSlow"
    TOO_LARGE = "TooLarge"
    BAD_ANSWER = "BadAnswer"
    SEED_STALE = "SeedStale"
    INTERNAL_ERROR = "InternalError"


class ShootState(StrEnum):
    """The state of a shoot, from worst to best."""

    UNPROTECTED = "Unprotected"
    """The verdict would be SCALE DOWN, but a pause, a hold or ignore-scaling prevents it."""
    PROTECTED = "Protected"
    PROTECTING = "Protecting"
    RECOVERING = "Recovering"
    UNREACHABLE = "Unreachable"
    FAILING = "Failing"
    SUSPECT = "Suspect"
    PENDING = "Pending"
    HEALTHY = "Healthy"
    NOT_PROBED = "NotProbed"


class LeaseState(StrEnum):
    """How a lease is judged."""

    FRESH = "Fresh"
    EXPIRED = "Expired"
    UNKNOWN = "Unknown"


class Exclusion(StrEnum):
    """Why a node, or its lease, does not count."""

    NOT_MANAGED = "NotManaged"
    UNHEALTHY_CONDITION = "UnhealthyCondition"
    NO_MACHINE = "NoMachine"
    MACHINE_FAILED = "MachineFailed"
    MACHINE_TERMINATING = "MachineTerminating"
    IN_PLACE_UPDATE = "InPlaceUpdate"
    NO_NODE = "NoNode"
    """The node of the lease does not exist."""


class RequestKind(StrEnum):
    """The kinds of request that a probe consists of, as in the metrics."""

    API_SERVER = "apiserver"
    LEASE = "lease"
    INTERNAL = "internal"
    """Endpoint mode: the API server on the path that the control plane uses."""
    EXTERNAL = "external"
    """Endpoint mode: the API server on the path that the nodes use."""
    ENDPOINT = "endpoint"
    """A run of an endpoint probe."""


class ProbeResult(StrEnum):
    """How a request of a probe ended, as in the metrics."""

    SUCCESS = "success"
    FAILURE = "failure"
    """The target is not healthy: no answer, or leases that ask for a scale-down."""
    ERROR = "error"
    THROTTLED = "throttled"


@dataclass(frozen=True, slots=True)
class Failure:
    """The result of a probe that did not learn what it asked for."""

    reason: VerdictReason
    message: str
    """Trimmed, without control characters, and without text that the shoot may have planted."""
    kind: RequestKind = RequestKind.API_SERVER
    """Of the request that failed, as the metrics name it."""
    retry_after: float | None = None
    """The pause that a 429 asked for, in seconds."""
    at_once_when_credentials_change: bool = False
    """Whether a changed Secret may resolve it, so that the next probe follows at once."""


@dataclass(frozen=True, slots=True)
class LeaseCounts:
    """Leases of a group, counted by how they are judged."""

    total: int = 0
    expired: int = 0
    unknown: int = 0

    @property
    def expired_fraction(self) -> float:
        """The share f (rules 4.1), 0 if there are no leases."""
        return self.expired / self.total if self.total else 0.0

    @property
    def doubtful_fraction(self) -> float:
        """The share f⁺ of rules 4.1: expired and unknown leases together."""
        return (self.expired + self.unknown) / self.total if self.total else 0.0


class Judgement(NamedTuple):
    """How one lease is judged, and until when; a tuple, because thousands are created per second."""

    name: str
    state: LeaseState
    renew_time: float | None
    offset: float
    """The learnt offset of its node's clock, in seconds."""
    age: float | None
    """The corrected age in seconds; None without `renewTime`."""
    late: bool
    """Whether `renewTime` is older than the expiry time, without corrections."""
    expires_at: float | None
    """When it would be expired if it were not renewed any more; None stands for never."""
    known_at: float | None = None
    """When a lease that has not been seen to move will have been watched long enough; None if it has."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The counted leases of one reading, which are all that a verdict in lease mode depends on."""

    candidates: LeaseCounts
    """N of rules 4.1, and how many of them are expired or unknown."""
    with_machine: LeaseCounts | None
    """N′ of rules 4.1; None if Machines were not read."""
    nodes_read: bool
    judgements: tuple[Judgement, ...]
    """Those of the candidate leases."""
    excluded: Mapping[Exclusion, int] = field(default_factory=dict)

    @property
    def leases(self) -> dict[str, int]:
        """How many leases are fresh, expired, unknown and excluded, as log and metrics name it."""
        found = self.candidates
        return {
            "fresh": found.total - found.expired - found.unknown,
            "expired": found.expired,
            "unknown": found.unknown,
            "excluded": sum(self.excluded.values()),
        }


@dataclass(frozen=True, slots=True)
class PathReading:
    """A probe in endpoint mode whose internal path answered: all that a verdict in that mode depends on."""

    external: Failure | None = None
    """Why the external path did not reach the API server; None if it did, or was not tried."""
    counting: str | None = None
    """What the internal path lacks to be healthy, so that the external one was not tried; None if nothing."""


@dataclass(frozen=True, slots=True)
class PathView:
    """The last attempt to reach the API server on one route."""

    route: Route
    at: float
    """When it ended."""
    seconds: float
    failure: Failure | None = None
    """Why it failed; None if it succeeded."""
    counted: bool = True
    """Whether it counts as success or failure of the path; False if it says nothing about it."""

    @property
    def result(self) -> ProbeResult:
        """The result as in the metrics."""
        if self.failure is None:
            return ProbeResult.SUCCESS
        if self.failure.retry_after is not None:
            return ProbeResult.THROTTLED
        return ProbeResult.FAILURE if self.counted else ProbeResult.ERROR


@dataclass(frozen=True, slots=True)
class Reading:
    """What a probe has found out, in either mode: the counted leases, the two paths, or why it failed."""

    started: float
    ended: float
    result: Tally | PathReading | Failure
    probes: Mapping[RequestKind, float] = field(default_factory=dict)
    """Seconds that each kind of request took; only those that were made."""
    known: tuple[Judgement, ...] = ()
    """The judgements of all leases that were read, candidates or not."""
    paths: Mapping[Route, PathView] = field(default_factory=dict)
    """Endpoint mode: the last attempt that this probe made on each route."""
    leases_asked: float | None = None
    """Lease mode: when the leases that were judged were asked for."""

    @property
    def as_of(self) -> float:
        """The instant that the result speaks of; what is decided on it is as old as that."""
        return self.ended if self.leases_asked is None else self.leases_asked

    def followed_by(self, second: "Reading") -> "Reading":
        """The second reading of the same probe, which spans both."""
        return replace(
            second,
            started=self.started,
            probes={**self.probes, **second.probes},
            paths={**self.paths, **second.paths},
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its reason."""

    verdict: Verdict
    reason: VerdictReason
    message: str
    would_be: Verdict
    """The verdict on the leases or the two paths alone; differs from `verdict` only if something prevents that."""


class NoticeKind(StrEnum):
    """The kind of a notice, as the history shows it."""

    LOOK = "Look"
    """A probe, or a contact that failed."""
    VERDICT = "Verdict"
    SCALE = "Scale"
    OVERRIDE = "Override"
    LIFECYCLE = "Lifecycle"
    WEED = "Weed"
    """What the weeder did (rules 6)."""
