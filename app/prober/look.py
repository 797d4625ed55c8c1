"""One look: what it depends on, what it saw, and who looks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

from app.core.model.policy import ProberPolicy
from app.core.model.probing import Failure, Judgement, PathReading, PathView, Probe, Tally
from app.core.model.shoots import Route, ShootView
from app.prober.rules import candidates
from app.prober.rules.candidates import Candidacy, PoolConditions
from app.prober.rules.consecutive import Stakes
from app.prober.rules.timings import Timings


@dataclass(frozen=True, slots=True)
class Subject:
    """What of the shoot the look depends on; a change takes effect at the next look."""

    namespace: str
    timings: Timings
    conditions: PoolConditions

    @classmethod
    def of(cls, namespace: str, shoot: ShootView, policy: ProberPolicy) -> Self:
        """What of a Shoot there is to know."""
        grace = shoot.node_monitor_grace or policy.grace
        return cls(namespace, Timings(grace), candidates.pool_conditions(shoot.workers))


@dataclass(frozen=True, slots=True)
class Look:
    """What a look saw."""

    started: float
    ended: float
    result: Tally | PathReading | Failure
    probes: Mapping[Probe, float] = field(default_factory=dict)
    """Seconds that each kind of request took, of those that were made."""
    known: tuple[Judgement, ...] = ()
    """Of every lease that was read, candidate or not."""
    paths: Mapping[Route, PathView] = field(default_factory=dict)
    """Endpoint mode: the attempts that were made, the last on each route."""


class Observer(Protocol):
    """Looks at one shoot, in lease mode or in endpoint mode; decides nothing but what must be read."""

    async def look(
        self, subject: Subject, stakes: Stakes, *, with_nodes: bool = False, counts: bool = True
    ) -> Look:
        """One look; never raises for anything that a cluster may do.

        Args:
            subject: what of the shoot it depends on.
            stakes: what a verdict would lead to.
            with_nodes: Nodes are read in any case, where there are any to be read.
            counts: it may count towards a threshold.
        """
        ...

    async def confirm(self, subject: Subject, first: Look) -> Look:
        """Looks once more, before what `first` saw takes anything down."""
        ...

    async def contact(self, subject: Subject) -> Failure | None:
        """Makes contact with the shoot's storage between two looks; the failure where there was none."""
        ...

    async def live_where_stale(self, subject: Subject, *, down: bool) -> Subject | Failure:
        """Reads live what a verdict needs of watches that are stale: the subject now, or why not to act."""
        ...

    @property
    def candidacy(self) -> Candidacy | None:
        """Which nodes count, as of the last reading that had Nodes."""
        ...

    @property
    def paths(self) -> tuple[PathView, ...] | None:
        """The last attempt on each route; None in lease mode."""
        ...

    def gap_at(self, subject: Subject) -> float | None:
        """When there will be a gap, if there is no contact before; None where there will be none."""
        ...

    def next_contact(self, last: float, look_at: float, subject: Subject) -> float | None:
        """When to make contact before the look at `look_at`, from a contact or look at `last`; None: not before it."""
        ...
