"""What all recoveries share: the doors to the seed, time, what was deleted, and the board on which it is told."""

from dataclasses import dataclass
from typing import Final

from app.core.model.weeding import WeederPolicy
from app.core.ports import Ownership
from app.core.reporting.notices import NoticeBoard
from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.tasks import Tasks
from app.core.weeding_ports import Pauses, WeederSeed
from app.weeder.book import Book
from app.weeder.turns import Turns

OPENINGS_A_SECOND: Final = 50.0
"""Requests that open recoveries, and pod reads at start (rules 6, budgets)."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Handed to everything in the weeder that does IO."""

    policy: WeederPolicy
    seed: WeederSeed
    ownership: Ownership
    pauses: Pauses
    clock: Clock
    tasks: Tasks
    board: NoticeBoard
    metrics: Metrics
    book: Book
    deletions: Turns
    openings: Turns
    dry_run: bool = False

    @classmethod
    def create(  # noqa: PLR0913  every part has its name
        cls,
        policy: WeederPolicy,
        seed: WeederSeed,
        ownership: Ownership,
        *,
        pauses: Pauses,
        clock: Clock,
        tasks: Tasks,
        board: NoticeBoard,
        metrics: Metrics,
        deletions_a_second: float,
        dry_run: bool = False,
    ) -> "Environment":
        """With books and budgets of its own."""
        deletions = Turns(clock, deletions_a_second)
        # Who waits longest for a deletion is let in first: else those that come late in each wave would stay out.
        openings = Turns(clock, OPENINGS_A_SECOND, before=deletions.served)
        return cls(
            policy,
            seed,
            ownership,
            pauses,
            clock,
            tasks,
            board,
            metrics,
            Book(policy),
            deletions,
            openings,
            dry_run,
        )
