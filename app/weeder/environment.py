"""What all recoveries share: adapters to the seed, clock, records of deletions, budgets, and the notice bus."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.pods import PodView
from app.core.model.selectors import LabelSelector
from app.core.model.weeding import Judgement, WeederPolicy
from app.core.overrides.cache import WeederPauses
from app.core.ports import Leadership
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from app.weeder import rules
from app.weeder.rate_limiter import FairRateLimiter
from app.weeder.rules import DeletionAnswer, Ledger

_MOST_KEYS: Final = 10_000


@dataclass(frozen=True, slots=True)
class RetryWait:
    """Until when, and after how many failures, a pod has to wait."""

    until: float
    failures: int = 0
    version: str | None = None
    """A resourceVersion that is outdated: only another one is asked for again."""


class RetryWaits:
    """The waits of pods, by uid; shared by all recoveries, as two of them may want to delete the same pod."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, RetryWait] = OrderedDict()

    def of(self, pod: PodView) -> RetryWait | None:
        """The wait of this pod; None if it need not wait."""
        return self._of.get(pod.uid)

    def put(self, pod: PodView, wait: RetryWait) -> None:
        """Makes the pod wait; beyond `_MOST_KEYS` entries the oldest is forgotten."""
        self._of[pod.uid] = wait
        self._of.move_to_end(pod.uid)
        if len(self._of) > _MOST_KEYS:
            self._of.popitem(last=False)


if TYPE_CHECKING:
    from app.core.kube.weeder_view import WeederSeed


class DeletionRecords:
    """The deletions of all recoveries: judges pods by the caps, and by requests whose outcome is not known."""

    def __init__(self, policy: WeederPolicy) -> None:
        self._policy = policy
        self._ledger = Ledger(policy.watch_duration, policy.max_deletions_per_workload)
        self._unanswered: dict[str, float] = {}
        self._in_flight: set[str] = set()
        self.retry_waits = RetryWaits()
        """The pods that have to wait before their deletion is tried again."""

    def opened(self, now: float, pods: Iterable[PodView]) -> None:
        """Records the pods that a recovery finds at its start."""
        self._ledger.opened(now, pods)

    def judge(self, pod: PodView, selectors: Sequence[LabelSelector], now: float) -> Judgement:
        """Decides whether to delete the pod; one whose deletion got no answer may be deleted again."""
        again = pod.uid in self._unanswered and pod.uid not in self._in_flight
        deleted_before = (
            self._ledger.deleted_before_retry if again else self._ledger.deleted_before
        )(pod, now)
        return rules.judge(pod, selectors, self._policy, deleted_before, now)

    def sending(self, pod: PodView, now: float) -> None:
        """Counts a deletion that is about to be sent."""
        self._in_flight.add(pod.uid)
        self._ledger.enter(pod, now)

    def pretended(self, pod: PodView, now: float) -> None:
        """Counts a deletion that a dry run does not send, so that it is reported only once."""
        self._ledger.enter(pod, now)

    def called_off(self, pod: PodView) -> None:
        """Stops counting a deletion that was not sent, unless an earlier request may have deleted the pod."""
        self._in_flight.discard(pod.uid)
        if pod.uid not in self._unanswered:
            self._ledger.take_back(pod.uid)

    def answered(self, pod: PodView, found: DeletionAnswer, now: float) -> None:
        """Records the answer to a deletion; one that may have been carried out counts, and may be sent again."""
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
"""How many recoveries may open, and pods be read at the start, in a second (rules 6, budgets)."""


@dataclass(slots=True)
class WeederEnvironment:
    """What everything in the weeder that does IO is given; its records and budgets are its own."""

    policy: WeederPolicy
    seed: "WeederSeed"
    leadership: Leadership
    pauses: WeederPauses
    clock: Clock
    tasks: Tasks
    notice_bus: NoticeBus
    metrics: Metrics
    deletions_a_second: float
    dry_run: bool = False
    records: DeletionRecords = field(init=False)
    deletions: FairRateLimiter = field(init=False)
    openings: FairRateLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.records = DeletionRecords(self.policy)
        self.deletions = FairRateLimiter(self.clock, self.deletions_a_second)
        # The namespace that was longest without a deletion opens first: otherwise those that come late in each wave
        # would never get in.
        self.openings = FairRateLimiter(self.clock, OPENINGS_A_SECOND, before=self.deletions.served)
