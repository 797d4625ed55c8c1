"""What one recovery did and what it left alone, and since when services that became ready unseen have been ready.

`RecoveryLog` is bounded, and small once the recovery has ended. `ReadySince` reads the pods behind a service to find
out when it became ready, after a start, a change of leader or a gap in the watch (rules 6, At the start, Gaps).
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

import structlog

from app.core.errors import ClusterError, Forbidden
from app.core.limits import Backoff
from app.core.model.pods import OwnerView, PodView
from app.core.model.weeding import (
    Cause,
    Delete,
    DeletedPod,
    DeletionResult,
    Keep,
    KeepReason,
    KeptPod,
    ServiceKey,
    WeedRequest,
)
from app.weeder.environment import WeederEnvironment
from app.weeder.rules import readiness

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


@dataclass(frozen=True, slots=True)
class RecoveryStart:
    """What a recovery starts with: for which service, why, and from when to when."""

    id: int
    """A number that counts the recoveries of this process."""
    key: ServiceKey
    cause: Cause
    began: float
    due: float
    """When it begins to weed; later than `began` if there were too many recoveries before it."""
    until: float
    asked: WeedRequest | None = None
    """The request of a person; None for an automatic recovery."""


log = structlog.get_logger(__name__)

_WORKERS: Final = 8
_TRIES: Final = 5
# After how many refusals in a row a request is sent again: an API server that has just started refuses for a moment
# what it is about to allow (rules 6).
_IN_PASSING: Final = 2
_BACKOFF: Final = Backoff(first=1.0, most=10.0)


@dataclass(frozen=True, slots=True)
class Question:
    """For which service it is to be found out since when it is ready, and why."""

    key: ServiceKey
    cause: Cause
    heard: float | None = None
    """After a gap: the last contact before it."""

    def until(self, since: float, now: float, watch_duration: float) -> float | None:
        """Until when to weed for a service that became ready at `since`; None to leave it alone."""
        if self.cause is Cause.GAP:
            return readiness.after_gap(since, self.heard, now, watch_duration)
        return readiness.at_start(since, now, watch_duration)


@dataclass(slots=True)
class _Inquiry:
    """The progress of one question."""

    question: Question
    asked: float
    pods: deque[str] = field(default_factory=deque)
    """The names of pods behind the service's ready endpoints that have not been read yet."""
    since: float | None = None
    """The earliest Ready transition of the pods that have been read."""
    failures: int = 0
    """How many times in a row reading the next pod has failed."""


class ReadySince:
    """Finds out since when services have been ready, by reading the pods behind them.

    After one pod of a service it is the turn of another service. So neither slices with thousands of pods, real or
    not, nor a server that asks for a long pause keep other services waiting.
    """

    def __init__(
        self, environment: WeederEnvironment, found: Callable[[Question, float], None]
    ) -> None:
        """`found` is called with the question and the instant at which the service became ready, if that was found."""
        self._env, self._found = environment, found
        self._questions: OrderedDict[ServiceKey, _Inquiry] = OrderedDict()
        """Questions of which no pod has been read yet."""
        self._begun: deque[_Inquiry] = deque()
        self._more = asyncio.Event()

    def ask(self, question: Question) -> None:
        """Queues a question; if one about this service is queued already, that stays, as it reaches further back."""
        self._questions.setdefault(question.key, _Inquiry(question, self._env.clock.now()))
        self._more.set()

    async def run(self) -> None:
        """Works on questions, for ever."""
        await asyncio.gather(*(self._work() for _ in range(_WORKERS)))

    async def _work(self) -> None:
        while True:
            while not self._questions and not self._begun:
                self._more.clear()
                await self._more.wait()
            inquiry = self._next()
            try:
                goes_on = await self._read_one(inquiry)
            except ClusterError as error:
                self._failed(inquiry, error)
                continue
            if goes_on:
                self._go_on(inquiry)
            elif inquiry.since is not None:
                self._found(inquiry.question, inquiry.since)

    def _next(self) -> _Inquiry:
        """The inquiry to work on next: the first pod of every service goes before the second pod of any."""
        if not self._questions:
            return self._begun.popleft()
        key, inquiry = self._questions.popitem(last=False)
        inquiry.pods.extend(readiness.pods_behind(self._env.seed.slices(key)))
        return inquiry

    def _go_on(self, inquiry: _Inquiry) -> None:
        self._begun.append(inquiry)
        self._more.set()

    async def _read_one(self, inquiry: _Inquiry) -> bool:
        """Reads the next pod; returns whether others are still to be read.

        Raises:
            ClusterError: the pod could not be read.
        """
        question = inquiry.question
        if not inquiry.pods:
            return False
        if self._too_long_ago(question, inquiry.asked):
            # The service was ready when the question was asked, so no pod can show a later instant.
            inquiry.since = None
            return False
        await self._env.openings.turn(question.key.namespace)
        pod = await self._env.seed.read_pod(question.key.namespace, inquiry.pods[0])
        inquiry.pods.popleft()
        inquiry.failures = 0
        found = readiness.became_ready([pod] if pod is not None else [])
        if found is not None and (inquiry.since is None or found < inquiry.since):
            inquiry.since = found
        over = inquiry.since is not None and self._too_long_ago(question, inquiry.since)
        # The earliest transition counts, so no other pod can make it later.
        return bool(inquiry.pods) and not over

    def _too_long_ago(self, question: Question, since: float) -> bool:
        now, duration = self._env.clock.now(), self._env.policy.watch_duration
        return question.until(since, now, duration) is None

    def _failed(self, inquiry: _Inquiry, error: ClusterError) -> None:
        """Schedules another try after an error that may be transient, as long as an answer could matter."""
        inquiry.failures += 1
        pause = error.retry_after or _BACKOFF.delay(inquiry.failures)
        most = _IN_PASSING + 1 if isinstance(error, Forbidden) else _TRIES
        if inquiry.failures < most and pause < self._env.policy.watch_duration:
            asyncio.get_running_loop().call_later(pause, self._go_on, inquiry)
            return
        key = inquiry.question.key
        log.warning(
            "not known since when a service is ready; its dependants are left alone",
            namespace=key.namespace,
            service=key.service,
            error=str(error),
        )
