"""The parts that a process is built from: shared infrastructure, adapters to the cluster, and the configuration."""

import platform
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from app.core.clock import Clock
from app.core.config.settings import SeedSettings
from app.core.errors import ConfigWarning
from app.core.metrics import Metrics
from app.core.model.policy import Loop, ProberPolicy
from app.core.model.weeding import WeederPolicy
from app.core.ports import EmitEvent, Permission
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from app.prober.environment import EndpointAdapters

if TYPE_CHECKING:
    from app.core.kube.custom_objects import CustomObjects
    from app.core.kube.election import LeaseElection, SoleOwner
    from app.core.kube.leader_slice import LeaderAddress, LeaderAddressOff
    from app.core.kube.reviews import Reviewer
    from app.core.kube.seed import SeedCluster
    from app.core.kube.shoot import ShootConnector
    from app.core.kube.weeder_view import WeederSeed
    from app.core.model.overrides import Pause, ScaleRequest


@dataclass(frozen=True, slots=True)
class Core:
    """Infrastructure that all parts of a process share."""

    clock: Clock
    tasks: Tasks
    metrics: Metrics
    notice_bus: NoticeBus
    chance: random.Random

    @classmethod
    def create(cls, *, per_shoot_metrics: bool = True) -> "Core":
        """Create it with the system's clock; needs a running event loop."""
        clock = Clock.system()
        metrics = Metrics(per_shoot=per_shoot_metrics)
        chance = random.Random()  # noqa: S311 - it spreads load and keeps no secret
        return cls(clock, Tasks(clock), metrics, NoticeBus(), chance)


Election: TypeAlias = "LeaseElection | SoleOwner"
"""Leadership as seen by this process, with what hinders the election."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The permissions that the configuration needs (rules 4.4), and the reviewer that finds the missing ones."""

    reviewer: "Reviewer"
    needed: Callable[[], Awaitable[tuple[Permission, ...]]]
    """All needed permissions; may ask the seed how it serves the dependents, and raise a `ClusterError`."""


Scan = Callable[[], Awaitable[Sequence[str]]]
"""Finds objects that carry the meltdown key and are not configured: `namespace/Kind/name`; raises a `ClusterError`."""


LeaderAddressView: TypeAlias = "LeaderAddress | LeaderAddressOff"
"""The address of the leader's API, or why that feature is off."""


async def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class ProberAdapters:
    """The prober's adapters to a seed and its shoots."""

    seed: "SeedCluster"
    connector: "ShootConnector"
    leadership: Election
    scan: Scan | None = None
    endpoints: EndpointAdapters | None = None
    """Adapters for endpoint probes; None if none are configured."""
    features_off: Callable[[], Mapping[str, str]] = field(default=dict)
    """Reasons by name of the features of the prober alone that are off."""


@dataclass(frozen=True, slots=True)
class WeederAdapters:
    """The weeder's adapters to a seed."""

    seed: "WeederSeed"
    leadership: Election


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The adapters to one seed, real or simulated: those of each loop that runs here, and the shared ones."""

    prober: ProberAdapters | None = None
    weeder: WeederAdapters | None = None
    begin: Callable[[], Awaitable[None]] = _nothing
    """Opens the watches and enters the elections."""
    end: Callable[[], Awaitable[None]] = _nothing
    """Leaves the elections and releases the Leases."""
    identity: str = field(default_factory=platform.node)
    """Identity of this replica, as written into the Lease."""
    home: str = "garden"
    """The process's own namespace: a Pause in it is of all shoots."""
    pauses: "CustomObjects[Pause]"
    requests: "CustomObjects[ScaleRequest] | None" = None
    """The ScaleRequests; None where the prober does not run, as the weeder has no right to them."""
    leader: "LeaderAddressView | None" = None
    """Address of the leader of this process's first loop; None: it is neither read nor published."""
    reviewer: "Reviewer | None" = None
    """Sends token and access reviews; None: callers cannot be reviewed."""
    rights: Rights | None = None
    events: EmitEvent | None = None
    troubles: Callable[[], Mapping[str, str]] = field(default=dict)
    """Current troubles of the watches, by name."""
    close: Callable[[], Awaitable[None]] = _nothing
    """Closes every connection; called last, when all tasks have ended."""

    @property
    def elections(self) -> Mapping[Loop, Election]:
        """The election of each loop that runs here; the prober's comes first."""
        found: dict[Loop, Election] = {}
        if self.prober is not None:
            found[Loop.PROBER] = self.prober.leadership
        if self.weeder is not None:
            found[Loop.WEEDER] = self.weeder.leadership
        return found


@dataclass(frozen=True, slots=True)
class Configured:
    """The configuration from flags and files; a loop without a policy does not run."""

    settings: SeedSettings
    version: str
    prober: ProberPolicy | None = None
    weeder: WeederPolicy | None = None
    warnings: tuple[ConfigWarning, ...] = ()
