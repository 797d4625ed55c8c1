"""The deletions of one recovery: sending them, and what their answers mean for the next ones (rules 6, answers).

A deletion carries the uid and resourceVersion that were judged, so that only that version of the pod is deleted. None
is cancelled once it was sent: whether it was carried out decides what counts to the caps.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from app.core.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    LeadershipLost,
    NotFound,
    WatchdogError,
)
from app.core.model.pods import PodView
from app.core.model.weeding import Delete, DeletionResult, Keep, KeepReason
from app.weeder import messages
from app.weeder.deletion_queue import DeletionQueue
from app.weeder.environment import WeederEnvironment
from app.weeder.recovery_log import RecoveryLog, RecoveryStart
from app.weeder.rules import deletion
from app.weeder.rules.deletion import UNKNOWN, answer

# After how many refusals (403) in a row a deletion is tried again: an API server that has just started refuses for a
# moment what it is about to allow, and its restart must not end a recovery (rules 6).
_TRANSIENT_REFUSALS: Final = 2
# Seconds from a refusal to the next try.
_PAUSE: Final = 2.0


class RefusalCount:
    """Counts refusals in a row, and says when to try again; refusals of requests in flight at once count as one."""

    def __init__(self) -> None:
        self._count = 0
        self._last = -math.inf

    def refused(self, sent: float, now: float) -> bool:
        """Counts the refusal of a deletion that was sent at `sent`; returns whether to give up."""
        if sent >= self._last:
            self._count += 1
            self._last = now
        return self._count > _TRANSIENT_REFUSALS

    def allowed(self) -> None:
        """Resets the count, as a deletion was not refused."""
        self._count = 0

    def next_at(self, *, on_their_way: bool) -> float:
        """When the next deletion may be sent; after a refusal there is one at a time, so not while one is in flight."""
        if not self._count:
            return -math.inf
        return math.inf if on_their_way else self._last + _PAUSE


class CalledOff(WatchdogError):
    """A deletion was called off before it was sent, as something now forbids it."""


class Deletions:
    """Sends deletions, each in a task of its own that is never cancelled."""

    def __init__(
        self,
        environment: WeederEnvironment,
        begun: RecoveryStart,
        queue: DeletionQueue,
        recovery_log: RecoveryLog,
        *,
        starting: Callable[[], None],
        answered: Callable[[str], None],
    ) -> None:
        """Keeps what it needs; sends nothing.

        Args:
            environment: the adapters, and the records of deletions.
            begun: the start of the recovery that the deletions belong to.
            queue: is told which pods have to wait for another try.
            recovery_log: is told what became of each pod.
            starting: called right before a deletion is sent; raises CalledOff if it is not allowed any more.
            answered: called with the name of each pod whose deletion is no longer in flight.
        """
        self._env, self._begun = environment, begun
        self._queue, self._recovery_log = queue, recovery_log
        self._starting, self._on_answer = starting, answered
        self._refusals = RefusalCount()
        self._sending: dict[str, asyncio.Task[None]] = {}
        self.refusal: Forbidden | None = None
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
            self._env.records.pretended(pod, now)
            self._done(pod, delete, DeletionResult.DRY_RUN)
            return
        self._env.records.sending(pod, now)
        job = self._env.tasks.once(lambda: self._delete(pod, delete, now), f"delete {pod.name}")
        self._sending[pod.uid] = job

    async def _delete(self, pod: PodView, delete: Delete, judged: float) -> None:
        error: ClusterError | None = None
        sent = self._env.clock.now()

        def starting() -> None:
            self._starting()
            ago = self._env.clock.now() - judged  # may be long if the process was frozen
            if deletion.too_short(delete, self._env.policy, ago):
                raise CalledOff("it does not wait for long any more")

        try:
            await self._env.seed.delete_pod(
                pod.namespace,
                pod.name,
                uid=pod.uid,
                resource_version=pod.resource_version,
                starting=starting,
            )
        except ClusterError as failure:
            error = failure
        except (CalledOff, LeadershipLost):
            self._env.records.called_off(pod)
            return
        except Exception as failure:
            self.failure = failure  # the recovery fails with it
            self._env.records.answered(pod, UNKNOWN, self._env.clock.now())
            raise
        finally:
            self._sending.pop(pod.uid, None)
            self._on_answer(pod.name)
        self._note_refusal(error, sent)
        self._answered(pod, delete, error)

    def _note_refusal(self, error: ClusterError | None, sent: float) -> None:
        if isinstance(error, Forbidden):
            if self._refusals.refused(sent, self._env.clock.now()):
                self.refusal = error
        elif error is None or isinstance(error, NotFound | Conflict):
            self._refusals.allowed()

    def _answered(self, pod: PodView, delete: Delete, error: ClusterError | None) -> None:
        now, found = self._env.clock.now(), answer(error)
        self._env.records.answered(pod, found, now)
        if found.next_version:
            self._queue.until_next_version(pod, now)
        if found.again:
            self._queue.failed(pod, now, found.retry_after)
        if error is None or found.result is DeletionResult.GONE:
            self._done(pod, delete, found.result)
        else:
            if not found.next_version:
                self._recovery_log.failed(pod.name, _failure(error), now)
            messages.not_deleted(self._env, self._begun.key, pod, found.result, error)

    def _done(self, pod: PodView, delete: Delete, result: DeletionResult) -> None:
        deletion = self._recovery_log.deleted(pod, delete, result, self._env.clock.now())
        messages.deleted(self._env, self._begun, deletion)


def _failure(error: ClusterError) -> Keep:
    """The reason for which a pod whose deletion failed is still there."""
    reason = KeepReason.FORBIDDEN if isinstance(error, Forbidden) else KeepReason.REFUSED
    return Keep(reason, str(error))
