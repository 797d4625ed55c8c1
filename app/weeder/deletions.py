"""The deletions of one recovery: which pods wait for one, sending it, and what became of each pod (rules 6, answers).

A deletion carries the uid and resourceVersion that were judged, so that only that version of the pod is deleted. None
is cancelled once it was sent, but for the end of the process: whether it was carried out decides what counts to the
caps.
"""

import asyncio
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from app.core import errors
from app.core.limits import Backoff, RefusalCount
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
from app.weeder import messages, rules
from app.weeder.environment import RetryWait, RetryWaits, WeederEnvironment
from app.weeder.rules import UNKNOWN, answer

if TYPE_CHECKING:
    from app.weeder.recovery import RecoveryRunner

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
        known = self._due.get(pod.name)
        self._due[pod.name] = (at if known is None else max(known[0], at), longest)

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
        """Notes why a pod is left alone, unless this recovery has deleted it already."""
        if pod.uid in self._deleted or keep.reason is KeepReason.NOT_SELECTED:
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
        """Forgets a pod that was deleted, or does not exist any more."""
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


class CalledOff(errors.WatchdogError):
    """A deletion was called off before it was sent, as something now forbids it."""


class Deletions:
    """Sends deletions, each in a task of its own that only the end of the process cancels."""

    def __init__(self, environment: WeederEnvironment, recovery: "RecoveryRunner") -> None:
        """Sends nothing yet; `recovery` is told what became of each pod, and may call a deletion off to the last."""
        self._env, self._recovery = environment, recovery
        self._refusals = RefusalCount()
        self._sending: dict[str, asyncio.Task[None]] = {}
        self.refusal: errors.Forbidden | None = None
        """The error that shows that the weeder has no right to delete pods: no more are sent."""
        self.failure: Exception | None = None
        """The unexpected error of a deletion, with which the recovery fails."""

    def on_its_way(self, pod: PodView) -> bool:
        """Whether a deletion of this pod is in flight."""
        return pod.uid in self._sending

    @property
    def settled(self) -> bool:
        """Whether each deletion that was sent has been answered."""
        return not self._sending

    async def settle(self) -> None:
        """Waits until each deletion that was sent has been answered."""
        if self._sending:
            await asyncio.wait(self._sending.values())

    def not_before(self) -> float:
        """The instant before which refusals forbid to send another deletion."""
        return self._refusals.next_at(on_their_way=bool(self._sending))

    def send(self, pod: PodView, delete: Delete) -> None:
        """Starts to delete a pod; in a dry run only reports it."""
        now = self._env.clock.now()
        if self._env.dry_run:
            self._env.records.enter(pod, now)
            self._done(pod, delete, DeletionResult.DRY_RUN)
            return
        self._env.records.sending(pod, now)
        job = self._env.tasks.once(lambda: self._delete(pod, delete, now), f"delete {pod.name}")
        self._sending[pod.uid] = job

    async def _delete(self, pod: PodView, delete: Delete, judged: float) -> None:
        error: errors.ClusterError | None = None
        sent = self._env.clock.now()

        def starting() -> None:
            self._recovery.check_may_send()
            ago = self._env.clock.now() - judged  # may be long if the process was frozen
            if rules.too_short(delete, self._env.policy, ago):
                raise CalledOff("it does not wait for long any more")

        try:
            await self._env.seed.delete_pod(
                pod.namespace,
                pod.name,
                uid=pod.uid,
                resource_version=pod.resource_version,
                starting=starting,
            )
        except errors.ClusterError as failure:
            error = failure
        except (CalledOff, errors.LeadershipLost):
            self._env.records.called_off(pod)
            self._recovery.called_off(pod, delete)
            return
        except Exception as failure:
            self.failure = failure  # the recovery fails with it
            self._env.records.answered(pod, UNKNOWN)
            raise
        finally:
            self._sending.pop(pod.uid, None)
            self._recovery.pod_changed(pod.name)
        self._answered(pod, delete, error, sent)

    def _answered(
        self, pod: PodView, delete: Delete, error: errors.ClusterError | None, sent: float
    ) -> None:
        now, found = self._env.clock.now(), answer(error)
        if isinstance(error, errors.Forbidden):
            if self._refusals.refused(sent, now):
                self.refusal = error
        elif error is None or isinstance(error, errors.NotFound | errors.Conflict):
            self._refusals.allowed()
        self._env.records.answered(pod, found)
        if found.next_version:
            self._recovery.queue.until_next_version(pod, now)
        if found.again:
            self._recovery.queue.failed(pod, now, found.retry_after)
        if error is None or found.result is DeletionResult.GONE:
            self._done(pod, delete, found.result)
        else:
            if not found.next_version:
                forbidden = isinstance(error, errors.Forbidden)
                reason = KeepReason.FORBIDDEN if forbidden else KeepReason.REFUSED
                self._recovery.log.failed(pod.name, Keep(reason, str(error)), now)
            messages.not_deleted(self._env, self._recovery.begun.key, pod, found.result, error)

    def _done(self, pod: PodView, delete: Delete, result: DeletionResult) -> None:
        deletion = self._recovery.log.deleted(pod, delete, result, self._env.clock.now())
        messages.deleted(self._env, self._recovery.begun, deletion)
