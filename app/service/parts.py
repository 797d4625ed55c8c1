"""What a process is made of: what all its parts share, the doors to its cluster, and what the operator asked for."""

import platform
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from app.core.config.settings import ServiceSettings
from app.core.model.policy import ConfigWarning, ProberPolicy
from app.core.ports import (
    AccessReviewer,
    EventSink,
    Ownership,
    Permission,
    SeedCluster,
    ShootConnector,
)
from app.core.records.notices import NoticeBoard
from app.core.runtime.clock import Clock
from app.core.runtime.metrics import Metrics
from app.core.runtime.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Core:
    """What everything in a process shares."""

    clock: Clock
    tasks: Tasks
    metrics: Metrics
    board: NoticeBoard
    chance: random.Random

    @classmethod
    def create(cls, *, per_shoot_metrics: bool = True) -> "Core":
        """A new one; needs a running event loop."""
        clock = Clock.system()
        metrics = Metrics(per_shoot=per_shoot_metrics)
        chance = random.Random()  # noqa: S311 - it spreads load and keeps no secret
        return cls(clock, Tasks(clock), metrics, NoticeBoard(), chance)


class Election(Ownership, Protocol):
    """Who leads, and what keeps us from finding out."""

    @property
    def leader_identity(self) -> str | None:
        """Who leads, as far as we know."""
        ...

    @property
    def trouble(self) -> str | None:
        """What keeps us from reading or writing the Lease; None while all is well."""
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


async def _nothing() -> None:
    """There is nothing to close."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The doors to one seed and its shoots, real or simulated."""

    seed: SeedCluster
    connector: ShootConnector
    ownership: Election
    begin: Callable[[], Awaitable[None]]
    """Opens the watches and takes part in the election."""
    end: Callable[[], Awaitable[None]]
    """Leaves the election, and releases the Lease."""
    identity: str = field(default_factory=platform.node)
    """Which replica this is."""
    rights: Rights | None = None
    events: EventSink | None = None
    scan: Scan | None = None
    troubles: Callable[[], Mapping[str, str]] = field(default=dict)
    """What the watches suffer from now, by name."""
    close: Callable[[], Awaitable[None]] = _nothing
    """Closes every connection, when nothing uses them any more."""


@dataclass(frozen=True, slots=True)
class Configured:
    """What the operator asked for."""

    settings: ServiceSettings
    policy: ProberPolicy
    version: str
    warnings: tuple[ConfigWarning, ...] = ()
    workers: int = 1
    dry_run: bool = False
