"""What passes between the loops and what is outside: states of watches, changes, permissions, callbacks.

The adapters are classes of `app.core.kube`, for API servers real or simulated (docs/decisions/0044), and of
`app.core.handlers`. The loops are handed them, name their types for the type checker alone, and never make one. A
protocol is here only where there are two implementations, or where an adapter calls back.

Conventions that hold for all adapters: instants are those of `Clock`, durations are seconds; "from the watch" means
that a method reads local memory and sends nothing; "live" means one request to the API server. Every method may raise
a `ClusterError` (`app.core.errors`), and otherwise only what its docstring names or its callbacks raise: an adapter
translates what its HTTP client or decoder raises.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, NamedTuple, Protocol

from app.core.model.endpoints import EndpointProbeSpec, ProbeOutcome, Ran, TargetAddress
from app.core.model.overrides import Pause
from app.core.model.weeding import ServiceKey


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
"""Called when the budget lets a write go, before it has its connection: some seconds before it is sent, at most.

It raises an error to forbid the write. After a 401 it is called again.
"""


EmitEvent = Callable[[str, dict[str, object]], Awaitable[None]]
"""Creates an `events.k8s.io/v1` object in a namespace; raises a `ClusterError` if it was not created."""


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


# Features that are off without some of these permissions, as log, metrics and API name them.


EVENTS_FEATURE: Final = "events"
"""The feature that is off without the right to write Events."""
REVIEW_FEATURE: Final = "token-review"
"""The feature that is off without the right to have callers reviewed."""
ADDRESS_FEATURE: Final = "leader-address"
"""The feature that is off without the rights to the leader's EndpointSlice."""
PODS_FEATURE: Final = "endpoint-pods"
"""The feature that is off without the rights to watch the pods of endpoint probes."""
EXEC_FEATURE: Final = "endpoint-exec"
"""The feature that is off without the rights to run commands in containers."""


# Endpoint probes.


class Handlers(Protocol):
    """Runs endpoint probes of all types."""

    async def run(self, probe: EndpointProbeSpec, address: TargetAddress) -> Ran:
        """Runs the probe once and returns its result after `timeoutSeconds` at the latest.

        Never raises because of anything that the target does.
        """
        ...


class Frame(NamedTuple):
    """One message of an exec stream (subprotocols `v4.channel.k8s.io` and `v5.channel.k8s.io`)."""

    channel: int
    """1 is stdout, 2 is stderr, 3 is the final status: a `Status` object as JSON."""
    data: bytes


CountRun = Callable[[str, ProbeOutcome, float], None]
"""Counts a run of an endpoint probe: in which namespace, how it ended, and after how many seconds.

Called after each, hundreds of times a second, so it has to be cheap. An error is repeated, so one that persists counts
as three runs (rules 5).
"""


class PauseWrite(NamedTuple):
    """The API's Pause before and after a write."""

    before: Pause | None
    after: Pause


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
