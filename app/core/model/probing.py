"""What a probe saw, what was decided, and the words for both; they are the words of the API, logs and metrics too."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
        """The scaling run that it asks for; None for HOLD."""
        return _DIRECTIONS.get(self)


_DIRECTIONS = {Verdict.SCALE_UP: Direction.UP, Verdict.SCALE_DOWN: Direction.DOWN}


class VerdictReason(StrEnum):
    """Why a verdict is what it is; a HOLD always has one that says what is missing."""

    # what the leases say
    LEASES_RENEWED = "LeasesRenewed"
    SOME_LEASES_EXPIRED = "SomeLeasesExpired"
    """Fewer than the limit: no outage of the path."""
    LEASES_EXPIRED = "LeasesExpired"
    UNKNOWN_LEASES = "UnknownLeases"
    NO_CANDIDATES = "NoCandidates"
    ONE_CANDIDATE = "OneCandidate"
    FEW_CANDIDATES = "FewCandidates"
    NO_NODES = "NoNodes"
    # what the two paths say (endpoint mode)
    EXTERNAL_REACHABLE = "ExternalReachable"
    EXTERNAL_UNREACHABLE = "ExternalUnreachable"
    # what holds back
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
    # a probe that failed
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
    """The verdict would be SCALE DOWN, and what people decided keeps it back."""
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
    """What a lease counts as."""

    FRESH = "Fresh"
    EXPIRED = "Expired"
    UNKNOWN = "Unknown"


class Exclusion(StrEnum):
    """Why a node, or the lease of one, does not count."""

    NOT_MANAGED = "NotManaged"
    UNHEALTHY_CONDITION = "UnhealthyCondition"
    NO_MACHINE = "NoMachine"
    MACHINE_FAILED = "MachineFailed"
    MACHINE_TERMINATING = "MachineTerminating"
    IN_PLACE_UPDATE = "InPlaceUpdate"
    NO_NODE = "NoNode"
    """A lease whose node is gone."""


class RequestKind(StrEnum):
    """The kinds of request that a probe is made of, as in the metrics."""

    API_SERVER = "apiserver"
    LEASE = "lease"
    INTERNAL = "internal"
    """Endpoint mode: the API server by the way of the control plane."""
    EXTERNAL = "external"
    """Endpoint mode: the API server by the way of the nodes."""
    ENDPOINT = "endpoint"
    """A run of an endpoint probe."""


class ProbeResult(StrEnum):
    """How one of them ended, as in the metrics."""

    SUCCESS = "success"
    FAILURE = "failure"
    """What it asks about is not well: no answer, or leases that ask for a scale-down."""
    ERROR = "error"
    THROTTLED = "throttled"


@dataclass(frozen=True, slots=True)
class Failure:
    """A probe that did not end in a reading."""

    reason: VerdictReason
    message: str
    """Trimmed, without control characters, without anything that the shoot may have planted."""
    probe: RequestKind = RequestKind.API_SERVER
    retry_after: float | None = None
    """What a 429 asked for, seconds."""
    at_once_when_credentials_change: bool = False
    """A changed Secret may mend it: then look at once."""


@dataclass(frozen=True, slots=True)
class LeaseCounts:
    """How many leases of a group count as what."""

    total: int = 0
    expired: int = 0
    unknown: int = 0

    @property
    def expired_fraction(self) -> float:
        """f; 0 where there are none."""
        return self.expired / self.total if self.total else 0.0

    @property
    def doubtful_fraction(self) -> float:
        """f⁺: expired and unknown together."""
        return (self.expired + self.unknown) / self.total if self.total else 0.0


class Judgement(NamedTuple):
    """What one lease counts as, and until when; a tuple, as thousands are made a second."""

    name: str
    state: LeaseState
    renew_time: float | None
    offset: float
    """The learnt offset of its node's clock, seconds."""
    age: float | None
    """Corrected; None without renewTime."""
    late: bool
    """renewTime older than the expiry time, corrections not applied."""
    expires_at: float | None
    """When it would count as expired if it were not renewed any more; None = never."""
    known_at: float | None = None
    """Of a lease that was not seen to move yet: when it will have been watched long enough; None where it has."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The leases of one reading, counted: all that a verdict is taken from."""

    candidates: LeaseCounts
    """N and what of it is expired or unknown."""
    with_machine: LeaseCounts | None
    """N′; None where Machines were not read."""
    nodes_read: bool
    judgements: tuple[Judgement, ...]
    """Of the candidate leases."""
    excluded: Mapping[Exclusion, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PathReading:
    """A probe of endpoint mode in which the internal path answered: all that a verdict is taken from."""

    external: Failure | None = None
    """Why the external path does not lead to the API server; None where it does, or was not tried."""
    counting: str | None = None
    """What the internal path lacks to be healthy, so that the external one was not tried; None where nothing."""


@dataclass(frozen=True, slots=True)
class PathView:
    """The last attempt to reach the API server on one route."""

    route: Route
    at: float
    """When it had ended."""
    seconds: float
    failure: Failure | None = None
    """Why there was no version; None where there was."""
    counted: bool = True
    """Whether it says that the path is well, or is not; False where it says nothing of it."""

    @property
    def result(self) -> ProbeResult:
        """As the metrics have it."""
        if self.failure is None:
            return ProbeResult.SUCCESS
        if self.failure.retry_after is not None:
            return ProbeResult.THROTTLED
        return ProbeResult.FAILURE if self.counted else ProbeResult.ERROR


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its reason."""

    verdict: Verdict
    reason: VerdictReason
    message: str
    would_be: Verdict
    """What the leases, or the two paths, alone asked for; differs only where something holds back."""
