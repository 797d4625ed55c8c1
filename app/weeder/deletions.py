"""What a recovery keeps of its pods: which of them wait for their deletion, and what became of each (rules 6)."""

from collections.abc import Set as AbstractSet
from typing import Final

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
from app.weeder.environment import RetryWait, RetryWaits

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
