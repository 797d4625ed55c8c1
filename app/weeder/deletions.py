"""Deletions: which pods of a recovery wait for theirs, at which rate they go, and what became of each (rules 6).

Namespaces share the rate fairly, in a sliding window: in no window are there more turns than it allows. The namespace
that was served longest ago is served next; one that was never served goes first, and none has two turns in one instant.
So a namespace with hundreds of pods cannot keep the first pod of another waiting, even if it comes a little earlier.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.core.clock import Clock
from app.core.fair_queue import RoundRobin
from app.core.limits import Backoff
from app.core.model.weeding import (
    Delete,
    DeletedPod,
    DeletionResult,
    Keep,
    KeepReason,
    KeptPod,
    OwnerView,
    PodView,
)

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


_AGAIN: Final = Backoff(first=1.0, most=30.0)
# Seconds between two judgements of a pod whose deletion met a conflict.
_BETWEEN_JUDGEMENTS: Final = 1.0


class DeletionQueue:
    """The pods of one recovery that wait for their deletion."""

    def __init__(self, waits: RetryWaits) -> None:
        self._due: dict[str, tuple[float, float]] = {}
        self._waits = waits

    def __len__(self) -> int:
        return len(self._due)

    def add(self, pod: PodView, delete: Delete, now: float) -> None:
        """Queues a pod, to be deleted as soon as its wait is over; not in a version that is known to be outdated."""
        wait = self._waits.of(pod)
        if wait is not None and wait.version == pod.resource_version:
            self._due.pop(pod.name, None)
            return
        at = now if wait is None else max(now, wait.until)
        longest = float("inf") if delete.remaining is None else delete.remaining
        self._due[pod.name] = (at, longest)

    def names(self) -> AbstractSet[str]:
        """The names of all pods in the queue."""
        return self._due.keys()

    def drop(self, name: str) -> None:
        """Removes a pod that is not to be deleted any more, or whose deletion is being sent."""
        self._due.pop(name, None)

    def first(self, now: float) -> str | None:
        """The pod to delete next: of those that are due, the one with the longest back-off; None if none is due."""
        due = [(-longest, name) for name, (at, longest) in self._due.items() if at <= now]
        return min(due)[1] if due else None

    def due(self, name: str, now: float) -> bool:
        """Whether this pod is queued and due."""
        return name in self._due and self._due[name][0] <= now

    def next_at(self) -> float | None:
        """When the first pod is due; None if the queue is empty."""
        return min((at for at, _ in self._due.values()), default=None)

    def until_next_version(self, pod: PodView, now: float) -> None:
        """Makes the pod wait for its next version, as this one is outdated; for a second at least."""
        until = now + _BETWEEN_JUDGEMENTS
        self._waits.put(pod, RetryWait(until, version=pod.resource_version), now)

    def failed(self, pod: PodView, now: float, retry_after: float | None) -> None:
        """Makes the pod wait for another try: as long as the server asks, otherwise 1 s, doubling to 30 s."""
        before = self._waits.of(pod)
        failures = 1 if before is None else before.failures + 1
        pause = retry_after or _AGAIN.delay(failures)
        self._waits.put(pod, RetryWait(now + pause, failures), now)


# How many deletions, and how many spared pods, are kept of one recovery.
_MOST: Final = 500
# Reasons of pods that were well all the time: of no interest once the recovery has ended.
_SILENT: Final = frozenset({KeepReason.NOT_SELECTED, KeepReason.NOT_WAITING})


class RecoveryLog:
    """What became of the pods of one recovery."""

    def __init__(self) -> None:
        self.deletions: list[DeletedPod] = []
        self._spared: dict[str, KeptPod] = {}
        self._failed: dict[str, KeptPod] = {}
        """Pods that were to be deleted and are still there; kept until something else becomes of them."""
        self.number = 0
        """How many pods were deleted, or would have been in a dry run."""
        self._deleted: set[str] = set()
        self._capped: set[str] = set()
        self._owners: set[OwnerView] = set()

    @property
    def spared(self) -> tuple[KeptPod, ...]:
        """The pods that were not deleted, sorted by name, each with the last reason."""
        both = self._failed | self._spared
        return tuple(both[name] for name in sorted(both))

    def names(self) -> AbstractSet[str]:
        """The names of the pods that were not deleted."""
        return self._spared.keys() | self._failed.keys()

    def deleted(
        self, pod: PodView, delete: Delete, result: DeletionResult, at: float
    ) -> DeletedPod:
        """Notes a pod that was deleted, was gone already, or would have been deleted in a dry run."""
        found = DeletedPod(
            pod.name, pod.uid, pod.owner, at, result, delete.container, delete.remaining
        )
        self.deletions = [*self.deletions[1 - _MOST :], found]
        self.number += result is not DeletionResult.GONE
        self._deleted.add(pod.uid)
        self.gone(pod.name)
        return found

    def failed(self, name: str, why: Keep, at: float) -> None:
        """Notes a pod whose deletion failed, for now or for good."""
        if name in self._failed or len(self._failed) < _MOST:
            self._failed[name] = KeptPod(name, at, why.reason, why.message)

    def dropped(self, name: str, why: Keep, at: float) -> None:
        """Notes a pod that was still queued at the end; one whose deletion has failed keeps that reason."""
        if name not in self._failed:
            self.failed(name, why, at)

    def skipped(self, pod: PodView, keep: Keep, at: float) -> None:
        """Notes why a pod is left alone, unless this recovery has deleted it already, or no selector matches it."""
        if keep.reason is KeepReason.NOT_SELECTED:
            self.gone(pod.name)
            return
        if pod.uid in self._deleted:
            return
        self._failed.pop(pod.name, None)
        before = self._spared.get(pod.name)
        if before is not None and (before.reason, before.message) == (keep.reason, keep.message):
            return
        if before is None and len(self._spared) >= _MOST and not self._make_room(keep):
            return
        self._spared[pod.name] = KeptPod(pod.name, at, keep.reason, keep.message)

    def _make_room(self, keep: Keep) -> bool:
        """Removes a pod of no interest for one that somebody may ask about; returns False if there is none."""
        if keep.reason in _SILENT:
            return False
        silent = (name for name, each in self._spared.items() if each.reason in _SILENT)
        if (first := next(silent, None)) is None:
            return False
        del self._spared[first]
        return True

    def unspared(self, name: str) -> None:
        """Forgets why a pod was left alone, as it is to be deleted now."""
        self._spared.pop(name, None)

    def gone(self, name: str) -> None:
        """Forgets a pod that was deleted, does not exist any more, or is not selected."""
        self._spared.pop(name, None)
        self._failed.pop(name, None)

    def newly_capped(self, pod: PodView) -> bool:
        """Whether this pod is left alone because of its owner's cap for the first time."""
        if pod.uid in self._capped:
            return False
        self._capped.add(pod.uid)
        return True

    def first_of_owner(self, pod: PodView) -> bool:
        """Whether this method is called for the first time for a pod of this owner; always True for a bare pod."""
        if pod.owner is None or pod.owner in self._owners:
            return pod.owner is None
        self._owners.add(pod.owner)
        return True

    def close(self) -> None:
        """Called at the end of the recovery: keeps only what somebody may ask about."""
        kept = {k: v for k, v in self._spared.items() if v.reason not in _SILENT}
        self._spared = kept
        self._deleted.clear()
        self._capped.clear()
        self._owners.clear()


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
