"""What all recoveries share: adapters to the seed, clock, the ledger of deletions, their rate, and the notice bus.

Namespaces share the rate fairly, in a sliding window: in no window are there more turns than it allows. The namespace
that was served longest ago is served next; one that was never served goes first, and none has two turns in one instant.
So a namespace with hundreds of pods cannot keep the first pod of another waiting, even if it comes a little earlier.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from app.core.clock import Clock
from app.core.fair_queue import RoundRobin
from app.core.metrics import Metrics
from app.core.model.weeding import PodView, WeederPolicy
from app.core.overrides.cache import OverrideCache
from app.core.ports import Leadership
from app.core.reporting.notices import NoticeBus
from app.core.tasks import Tasks
from app.weeder.rules import Ledger

# For how many namespaces the last turn is remembered; a seed has some hundreds.
_NAMESPACES: Final = 4096
NEVER: Final = float("-inf")
# Pause between two turns of one namespace, as a share of the time that the rate alone puts between two turns. Without
# it the first namespace would take all turns before others that the same outage woke arrive.
_REST: Final = 0.5
# Seconds by which instants may differ and count as the same.
_TICK: Final = 1e-6


class _Served(NamedTuple):
    """When a namespace had its last turn, and the one before that."""

    at: float
    before: float = NEVER


class FairRateLimiter(RoundRobin):
    """Hands out turns to namespaces; one that is not used is `returned` in the very instant in which it came."""

    def __init__(
        self,
        clock: Clock,
        per_second: float,
        *,
        before: Callable[[str], float] | None = None,
    ) -> None:
        """Sets the rate.

        Args:
            clock: the clock that the rate is measured by.
            per_second: turns a second, above 0.
            before: ranks namespaces before their last turn here does; the one with the lowest value is served first.
        """
        super().__init__()
        self._clock = clock
        self._most = max(int(per_second), 1)
        self._window = self._most / per_second
        self._rest = _REST / per_second
        self._before = before or (lambda _: 0.0)
        self._recent: deque[float] = deque()
        self._served: dict[str, _Served] = {}
        self._gives = False

    def served(self, namespace: str) -> float:
        """When this namespace had its last turn; `NEVER` if it had none."""
        found = self._served.get(namespace)
        return NEVER if found is None else found.at

    def give(self) -> None:
        """Gives turns once all that run in this turn of the event loop have asked: not who comes first, is first."""
        if not self._gives:
            self._gives = True
            asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        self._gives = False
        super().give()

    def missing(self) -> float:
        now = self._clock.now()
        while self._recent and self._recent[0] + self._window - now <= _TICK:
            self._recent.popleft()
        free_at = min(map(self.served, self._waiting)) + self._rest
        if len(self._recent) >= self._most:
            free_at = self._recent[0] + self._window
        return free_at - now if free_at - now > _TICK else 0.0

    def following(self) -> str:
        rested = self._clock.now() - self._rest + _TICK
        found = [each for each in self._waiting if self.served(each) <= rested]
        return min(found, key=lambda each: (self._before(each), self.served(each)))

    def given(self, key: str, /) -> None:
        now = self._clock.now()
        self._recent.append(now)
        self._remember(key, _Served(now, self.served(key)))

    def returned(self, key: str, /) -> None:
        """Takes the last turn of this namespace back: it counts neither to the rate nor as its last one."""
        turn = self._served[key]
        if turn.at in self._recent:
            self._recent.remove(turn.at)
        self._remember(key, _Served(turn.before))
        self.give()

    def _remember(self, namespace: str, turn: _Served) -> None:
        self._served.pop(namespace, None)
        if turn.at > NEVER:
            # Last in the order of insertion: the first is the oldest.
            self._served[namespace] = turn
        if len(self._served) > _NAMESPACES:
            del self._served[next(iter(self._served))]


_MOST_KEYS: Final = 10_000
_REMEMBERED: Final = 3600.0
"""Seconds after the end of a wait: what such a pod was, it is no more."""


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

    def put(self, pod: PodView, wait: RetryWait, now: float) -> None:
        """Makes the pod wait; the oldest are forgotten, where they ended long ago or there are too many."""
        self._of[pod.uid] = wait
        self._of.move_to_end(pod.uid)
        longest_ago = now - _REMEMBERED
        while len(self._of) > _MOST_KEYS or next(iter(self._of.values())).until < longest_ago:
            self._of.popitem(last=False)


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
