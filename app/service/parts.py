"""What a process is made of: what all its parts share, the adapters to its cluster, and what the operator asked for."""

import platform
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from app.core.clock import Clock
from app.core.config.settings import ServiceSettings
from app.core.metrics import Metrics
from app.core.model.policy import ConfigWarning, Loop, ProberPolicy
from app.core.model.weeding import WeederPolicy
from app.core.ports import (
    AccessReviewer,
    EventSink,
    Leadership,
    OverridesStore,
    Pauses,
    Permission,
    Preparation,
    Reviewer,
    SeedCluster,
    ShootConnector,
    WeederSeed,
)
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from app.prober.environment import EndpointAdapters


@dataclass(frozen=True, slots=True)
class Core:
    """What everything in a process shares."""

    clock: Clock
    tasks: Tasks
    metrics: Metrics
    board: NoticeBus
    chance: random.Random

    @classmethod
    def create(cls, *, per_shoot_metrics: bool = True) -> "Core":
        """A new one; needs a running event loop."""
        clock = Clock.system()
        metrics = Metrics(per_shoot=per_shoot_metrics)
        chance = random.Random()  # noqa: S311 - it spreads load and keeps no secret
        return cls(clock, Tasks(clock), metrics, NoticeBus(), chance)


class Election(Leadership, Protocol):
    """Who leads, and what keeps us from finding out."""

    @property
    def leader_identity(self) -> str | None:
        """Who leads, as far as we know."""
        ...

    @property
    def trouble(self) -> str | None:
        """What keeps us from reading or writing the Lease; None while all is well."""
        ...

    def prepare(self, prepared: Callable[[], Preparation]) -> None:
        """`prepared` says how far this process is, should it come to lead."""
        ...


class Rights(Protocol):
    """Which rights the configuration needs, and who to ask for them."""

    @property
    def reviewer(self) -> AccessReviewer:
        """Says which of them are missing."""
        ...

    async def needed(self) -> tuple[Permission, ...]:
        """All of them; may ask the seed how it serves the dependents, and raise a `ClusterError`."""
        ...


class Scan(Protocol):
    """Finds objects that carry the meltdown key and are not configured."""

    async def __call__(self) -> Sequence[str]:
        """Each as `namespace/Kind/name`; raises a `ClusterError`."""
        ...


class LeaderAddressView(Protocol):
    """Where the API of the leader is."""

    @property
    def off(self) -> str | None:
        """Why the feature `leader-address` is off; None while it is on."""
        ...

    def address(self) -> str | None:
        """`host:port`, from memory; None where it is not known."""
        ...


async def _nothing() -> None:
    """There is nothing to do."""


def _no_features() -> Mapping[str, str]:
    """None that could be off."""
    return {}


@dataclass(frozen=True, slots=True)
class ProberAdapters:
    """What the prober needs of a seed and its shoots."""

    seed: SeedCluster
    connector: ShootConnector
    leadership: Election
    scan: Scan | None = None
    endpoints: EndpointAdapters | None = None
    """What endpoint probes need; None where none are configured."""
    features_off: Callable[[], Mapping[str, str]] = _no_features
    """Features of the prober alone that are off, and why."""


@dataclass(frozen=True, slots=True)
class WeederAdapters:
    """What the weeder needs of a seed."""

    seed: WeederSeed
    leadership: Election
    pauses: Pauses | None = None
    """What may not be weeded; None: what the overrides say."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The adapters to one seed, real or simulated; one for each loop that runs here, and what they share."""

    prober: ProberAdapters | None = None
    weeder: WeederAdapters | None = None
    begin: Callable[[], Awaitable[None]] = _nothing
    """Opens the watches and takes part in the elections."""
    end: Callable[[], Awaitable[None]] = _nothing
    """Leaves the elections, and releases the Leases."""
    identity: str = field(default_factory=platform.node)
    """Which replica this is."""
    home: str = "garden"
    """The own namespace, where the ConfigMap of the overrides is."""
    overrides: OverridesStore | None = None
    """Where pauses and holds are kept; None: there are none."""
    leader: LeaderAddressView | None = None
    """Where the leader of this process's first loop is; None: nobody asks, or is told."""
    reviewer: Reviewer | None = None
    """Who says who a caller is; None: nobody can be asked."""
    rights: Rights | None = None
    events: EventSink | None = None
    troubles: Callable[[], Mapping[str, str]] = field(default=dict)
    """What the watches suffer from now, by name."""
    close: Callable[[], Awaitable[None]] = _nothing
    """Closes every connection, when nothing uses them any more."""

    @property
    def elections(self) -> Mapping[Loop, Election]:
        """Who leads each loop that runs here; the prober comes first."""
        found: dict[Loop, Election] = {}
        if self.prober is not None:
            found[Loop.PROBER] = self.prober.leadership
        if self.weeder is not None:
            found[Loop.WEEDER] = self.weeder.leadership
        return found


@dataclass(frozen=True, slots=True)
class Configured:
    """What the operator asked for; a loop without a policy does not run."""

    settings: ServiceSettings
    version: str
    prober: ProberPolicy | None = None
    weeder: WeederPolicy | None = None
    warnings: tuple[ConfigWarning, ...] = ()
    workers: int = 1
    deletions_a_second: float = 20.0
    dry_run: bool = False
