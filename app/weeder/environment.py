"""What all recoveries share: adapters to the seed, clock, the ledger of deletions, budgets, and the notice bus."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.weeding import WeederPolicy
from app.core.overrides.cache import OverrideCache
from app.core.ports import Leadership
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from app.weeder.deletions import FairRateLimiter, RetryWaits
from app.weeder.rules import Ledger

if TYPE_CHECKING:
    from app.core.kube.weeder_view import WeederSeed


OPENINGS_A_SECOND: Final = 50.0
"""How many lists and watches of pods may be opened, and pods be read at the start, in a second (rules 6, budgets)."""


@dataclass(slots=True)
class WeederEnvironment:
    """What everything in the weeder that does IO is given; its ledger and budgets are its own."""

    policy: WeederPolicy
    seed: "WeederSeed"
    leadership: Leadership
    pauses: OverrideCache
    clock: Clock
    tasks: Tasks
    notice_bus: NoticeBus
    metrics: Metrics
    deletions_a_second: float
    dry_run: bool = False
    ledger: Ledger = field(init=False)
    retry_waits: RetryWaits = field(init=False, default_factory=RetryWaits)
    """The pods that have to wait before their deletion is tried again."""
    deletion_turns: FairRateLimiter = field(init=False)
    opening_turns: FairRateLimiter = field(init=False)

    def __post_init__(self) -> None:
        policy = self.policy
        self.ledger = Ledger(policy.watch_duration, policy.max_deletions_per_workload)
        self.deletion_turns = FairRateLimiter(self.clock, self.deletions_a_second)
        # The namespace that was longest without a deletion opens first: otherwise those that come late in each wave
        # would never get in.
        self.opening_turns = FairRateLimiter(
            self.clock, OPENINGS_A_SECOND, before=self.deletion_turns.served
        )
