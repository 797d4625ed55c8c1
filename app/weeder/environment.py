"""What all recoveries share: the adapters to the seed, time, what was deleted, and the board on which it is told."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.pods import PodView
from app.core.model.selectors import LabelSelector
from app.core.model.weeding import Judgement, WeederPolicy
from app.core.ports import Leadership, Pauses, WeederSeed
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from app.weeder.rules import deletion
from app.weeder.rules.caps import Ledger
from app.weeder.rules.deletion import DeletionAnswer
from app.weeder.turns import DeletionTurns, Holds

# What was deleted, over all recoveries: the caps, and requests of which nobody knows what became of them.


class DeletionRecords:
    """Judges pods by what was deleted before."""

    def __init__(self, policy: WeederPolicy) -> None:
        self._policy = policy
        self._ledger = Ledger(policy.watch_duration, policy.max_deletions_per_workload)
        self._unanswered: dict[str, float] = {}
        self._in_flight: set[str] = set()
        self.holds = Holds()
        """What has to wait before it is asked for again."""

    def opened(self, now: float, pods: Iterable[PodView]) -> None:
        """A recovery begins with these pods."""
        self._ledger.opened(now, pods)

    def judge(self, pod: PodView, selectors: Sequence[LabelSelector], now: float) -> Judgement:
        """To delete it, or why not; one whose deletion got no answer may be asked for again."""
        again = pod.uid in self._unanswered and pod.uid not in self._in_flight
        deleted_before = (
            self._ledger.deleted_before_retry if again else self._ledger.deleted_before
        )(pod, now)
        return deletion.judge(pod, selectors, self._policy, deleted_before, now)

    def sending(self, pod: PodView, now: float) -> None:
        """Its deletion is about to be sent: it counts from now on."""
        self._in_flight.add(pod.uid)
        self._ledger.enter(pod, now)

    def pretended(self, pod: PodView, now: float) -> None:
        """It would be deleted, were this no dry run: it counts, so that it is told of once."""
        self._ledger.enter(pod, now)

    def called_off(self, pod: PodView) -> None:
        """Its deletion was not sent after all; unless an earlier request may have deleted it, it does not count."""
        self._in_flight.discard(pod.uid)
        if pod.uid not in self._unanswered:
            self._ledger.take_back(pod.uid)

    def answered(self, pod: PodView, found: DeletionAnswer, now: float) -> None:
        """What became of its deletion: one that may have happened counts, and may be asked for again."""
        self._in_flight.discard(pod.uid)
        if not found.counts:
            self.called_off(pod)
        elif found.again:
            self._forget_old(now)
            self._unanswered[pod.uid] = now
        else:
            self._unanswered.pop(pod.uid, None)

    def _forget_old(self, now: float) -> None:
        oldest = now - 2 * self._policy.watch_duration
        for uid in [uid for uid, at in self._unanswered.items() if at < oldest]:
            del self._unanswered[uid]


OPENINGS_A_SECOND: Final = 50.0
"""Requests that open recoveries, and pod reads at start (rules 6, budgets)."""


@dataclass(frozen=True, slots=True)
class WeederEnvironment:
    """Handed to everything in the weeder that does IO."""

    policy: WeederPolicy
    seed: WeederSeed
    leadership: Leadership
    pauses: Pauses
    clock: Clock
    tasks: Tasks
    board: NoticeBus
    metrics: Metrics
    book: DeletionRecords
    deletions: DeletionTurns
    openings: DeletionTurns
    dry_run: bool = False

    @classmethod
    def create(  # noqa: PLR0913  every part has its name
        cls,
        policy: WeederPolicy,
        seed: WeederSeed,
        leadership: Leadership,
        *,
        pauses: Pauses,
        clock: Clock,
        tasks: Tasks,
        board: NoticeBus,
        metrics: Metrics,
        deletions_a_second: float,
        dry_run: bool = False,
    ) -> "WeederEnvironment":
        """With books and budgets of its own."""
        deletions = DeletionTurns(clock, deletions_a_second)
        # Who waits longest for a deletion is let in first: else those that come late in each wave would stay out.
        openings = DeletionTurns(clock, OPENINGS_A_SECOND, before=deletions.served)
        return cls(
            policy,
            seed,
            leadership,
            pauses,
            clock,
            tasks,
            board,
            metrics,
            DeletionRecords(policy),
            deletions,
            openings,
            dry_run,
        )
