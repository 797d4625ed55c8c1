"""What one recovery did and left, for the API: bounded, and small once it has ended."""

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
    Deletion,
    DeletionResult,
    Keep,
    KeepReason,
    ServiceKey,
    SparedPod,
    WeedOrder,
)
from app.weeder.environment import WeederEnvironment
from app.weeder.rules import readiness

_MOST: Final = 500
"""Deletions and spared pods that are kept of one recovery."""
_SILENT: Final = frozenset({KeepReason.NOT_SELECTED, KeepReason.NOT_WAITING})
"""What is of no interest once the recovery has ended: pods that were well all the time."""


class RecoveryLog:
    """The pods of one recovery."""

    def __init__(self) -> None:
        self.deletions: list[Deletion] = []
        self._spared: dict[str, SparedPod] = {}
        self._failed: dict[str, SparedPod] = {}
        """Pods that were to be deleted, and are still there: kept until something else becomes of them."""
        self.number = 0
        """How many were deleted, or would have been."""
        self._deleted: set[str] = set()
        self._capped: set[str] = set()
        self._owners: set[OwnerView] = set()

    @property
    def spared(self) -> tuple[SparedPod, ...]:
        """Those that are not deleted, by name, with the last reason."""
        both = self._failed | self._spared
        return tuple(both[name] for name in sorted(both))

    def names(self) -> AbstractSet[str]:
        """Of those that are not deleted."""
        return self._spared.keys() | self._failed.keys()

    def deleted(self, pod: PodView, delete: Delete, result: DeletionResult, at: float) -> Deletion:
        """A pod was deleted, or would have been."""
        found = Deletion(
            pod.name, pod.uid, pod.owner, at, result, delete.container, delete.remaining
        )
        self.deletions = [*self.deletions[1 - _MOST :], found]
        self.number += result is not DeletionResult.GONE
        self._deleted.add(pod.uid)
        self.gone(pod.name)
        return found

    def failed(self, name: str, why: Keep, at: float) -> None:
        """A pod that was to be deleted is not, for now or for good."""
        if name in self._failed or len(self._failed) < _MOST:
            self._failed[name] = SparedPod(name, at, why.reason, why.message)

    def dropped(self, name: str, why: Keep, at: float) -> None:
        """A pod was still queued when the recovery ended; one that was asked for in vain keeps the reason of that."""
        if name not in self._failed:
            self.failed(name, why, at)

    def skipped(self, pod: PodView, keep: Keep, at: float) -> None:
        """A pod is left alone; what became of one that was deleted here is told by its deletion."""
        if pod.uid in self._deleted or keep.reason is KeepReason.NOT_SELECTED:
            return
        self._failed.pop(pod.name, None)
        before = self._spared.get(pod.name)
        if before is not None and (before.reason, before.message) == (keep.reason, keep.message):
            return
        if before is None and len(self._spared) >= _MOST and not self._make_room(keep):
            return
        self._spared[pod.name] = SparedPod(pod.name, at, keep.reason, keep.message)

    def _make_room(self, keep: Keep) -> bool:
        """Whether there is some: one of no interest makes room for one of which somebody may ask."""
        if keep.reason in _SILENT:
            return False
        silent = (name for name, each in self._spared.items() if each.reason in _SILENT)
        if (first := next(silent, None)) is None:
            return False
        del self._spared[first]
        return True

    def unspared(self, name: str) -> None:
        """It is to be deleted after all."""
        self._spared.pop(name, None)

    def gone(self, name: str) -> None:
        """It is deleted, or there is no pod of this name any more."""
        self._spared.pop(name, None)
        self._failed.pop(name, None)

    def newly_capped(self, pod: PodView) -> bool:
        """Whether it is the first time that this pod was left alone for the cap of its owner."""
        if pod.uid in self._capped:
            return False
        self._capped.add(pod.uid)
        return True

    def first_of_owner(self, pod: PodView) -> bool:
        """Whether it is the first pod of its owner of which that is asked."""
        if pod.owner is None or pod.owner in self._owners:
            return pod.owner is None
        self._owners.add(pod.owner)
        return True

    def close(self) -> None:
        """The recovery has ended: only what one would ask about is kept."""
        kept = {k: v for k, v in self._spared.items() if v.reason not in _SILENT}
        self._spared = kept
        self._deleted.clear()
        self._capped.clear()
        self._owners.clear()


# What a recovery begins with.


@dataclass(frozen=True, slots=True)
class RecoveryStart:
    """Which service came back, when, and how long it is weeded for."""

    id: int
    """Counts the recoveries of this process."""
    key: ServiceKey
    cause: Cause
    began: float
    due: float
    """When it begins to weed; later than `began` where there were too many before it."""
    until: float
    asked: WeedOrder | None = None
    """Who asked for it; None where nobody had to."""


# Since when a service is ready that became so while nobody looked: its pods know.


log = structlog.get_logger(__name__)

_WORKERS: Final = 8
_TRIES: Final = 5
_IN_PASSING: Final = 2
"""So many refusals are tried again (docs/decisions/0017)."""
_BACKOFF: Final = Backoff(first=1.0, most=10.0)


@dataclass(frozen=True, slots=True)
class Question:
    """Which service, and why it is asked for."""

    key: ServiceKey
    cause: Cause
    heard: float | None = None
    """After a gap: until when nothing was missed."""

    def until(self, since: float, now: float, watch_duration: float) -> float | None:
        """Until when it is to be weeded; None where it is left alone."""
        if self.cause is Cause.GAP:
            return readiness.after_gap(since, self.heard, now, watch_duration)
        return readiness.at_start(since, now, watch_duration)


@dataclass(slots=True)
class _Inquiry:
    """How far a question has come."""

    question: Question
    asked: float
    pods: deque[str] = field(default_factory=deque)
    """Those behind the service's ready endpoints that have not been read."""
    since: float | None = None
    """The earliest Ready transition of those that have."""
    failures: int = 0
    """Of reading the next one, in a row."""


class ReadySince:
    """Asks the pods behind services since when they are ready.

    One pod of a service, and then it is another service's turn: neither slices with thousands of pods, real or not,
    nor a server that asks for a long pause keep others waiting.
    """

    def __init__(
        self, environment: WeederEnvironment, found: Callable[[Question, float], None]
    ) -> None:
        """`found` is called with the instant, where it could be found."""
        self._env, self._found = environment, found
        self._questions: OrderedDict[ServiceKey, _Inquiry] = OrderedDict()
        """None of their pods has been read."""
        self._begun: deque[_Inquiry] = deque()
        self._more = asyncio.Event()

    def ask(self, question: Question) -> None:
        """Asks soon; of two questions about one service the first counts: it reaches further back."""
        self._questions.setdefault(question.key, _Inquiry(question, self._env.clock.now()))
        self._more.set()

    async def run(self) -> None:
        """Asks for ever."""
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
        """The first pod of every service goes before anybody's second."""
        if not self._questions:
            return self._begun.popleft()
        key, inquiry = self._questions.popitem(last=False)
        inquiry.pods.extend(readiness.pods_behind(self._env.seed.slices(key)))
        return inquiry

    def _go_on(self, inquiry: _Inquiry) -> None:
        self._begun.append(inquiry)
        self._more.set()

    async def _read_one(self, inquiry: _Inquiry) -> bool:
        """Reads the next pod; whether others are to be read.

        Raises:
            ClusterError: it could not be read.
        """
        question = inquiry.question
        if not inquiry.pods:
            return False
        if self._too_long_ago(question, inquiry.asked):
            inquiry.since = None  # it was ready when it was asked for, and before: no pod can make it later than that
            return False
        await self._env.openings.turn(question.key.namespace)
        pod = await self._env.seed.read_pod(question.key.namespace, inquiry.pods[0])
        inquiry.pods.popleft()
        inquiry.failures = 0
        found = readiness.became_ready([pod] if pod is not None else [])
        if found is not None and (inquiry.since is None or found < inquiry.since):
            inquiry.since = found
        over = inquiry.since is not None and self._too_long_ago(question, inquiry.since)
        return bool(inquiry.pods) and not over  # no other pod can make it later

    def _too_long_ago(self, question: Question, since: float) -> bool:
        now, duration = self._env.clock.now(), self._env.policy.watch_duration
        return question.until(since, now, duration) is None

    def _failed(self, inquiry: _Inquiry, error: ClusterError) -> None:
        """What fails in passing is tried again, as long as an answer could matter."""
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
