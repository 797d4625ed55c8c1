"""All recoveries: at most one under way for each service, and past ones for the API."""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from app.core.model.weeding import (
    Cause,
    End,
    RecoveryStart,
    RecoveryStatus,
    ServiceKey,
    WeedRequest,
)
from app.weeder import messages, rules
from app.weeder.environment import WeederEnvironment
from app.weeder.recovery import RecoveryRunner

# How many past recoveries of a service are kept.
_PAST: Final = 5
# For how many services past recoveries are kept: those that became ready last.
_SERVICES: Final = 1_000


@dataclass(slots=True)
class _ServiceRecoveries:
    """The recoveries of one service."""

    current: RecoveryRunner | None = None
    task: asyncio.Task[None] | None = None
    past: deque[RecoveryRunner | RecoveryStatus] = field(
        default_factory=lambda: deque(maxlen=_PAST)
    )
    """The oldest first; of those that are over only what the API shows is kept."""
    begun: deque[float] = field(default_factory=lambda: deque(maxlen=16))
    """When the last of them began to weed; those that ended while they still waited do not count."""

    @property
    def running(self) -> RecoveryRunner | None:
        """The recovery that has not ended; None if there is none."""
        return self.current if self.current is not None and self.current.running else None

    def leave(self) -> None:
        """Moves the current recovery to the past."""
        past = [
            each.status() if isinstance(each, RecoveryRunner) and each.over else each
            for each in self.past
        ]
        self.past.clear()
        self.past.extend(past if self.current is None else [*past, self.current])
        self.current = self.task = None

    def newest_first(self) -> list[RecoveryStatus]:
        found = ([self.current] if self.current else []) + list(reversed(self.past))
        return [each.status() if isinstance(each, RecoveryRunner) else each for each in found]


class RecoveryRegistry:
    """All recoveries of the process."""

    def __init__(self, environment: WeederEnvironment) -> None:
        self._env = environment
        self._stories: OrderedDict[ServiceKey, _ServiceRecoveries] = OrderedDict()
        self._ids = count(1)
        self._unsettled: list[RecoveryRunner] = []
        """Recoveries that have ended, with deletions that are not answered yet."""
        self._stopped = False

    def running(self, key: ServiceKey) -> RecoveryRunner | None:
        """The recovery of this service that waits or is under way; None if there is none."""
        story = self._stories.get(key)
        return None if story is None else story.running

    def begin(
        self, key: ServiceKey, cause: Cause, seconds: float, asked: WeedRequest | None = None
    ) -> RecoveryRunner | None:
        """Begins a recovery, which replaces the one that is under way for the service.

        After too many within a short time it waits first (`rules.recovery_wait`).

        Args:
            key: the service.
            cause: why the recovery begins.
            seconds: how long its dependants are weeded, after the wait.
            asked: the request, if a person asked for it.

        Returns:
            The recovery; None if the process is ending.
        """
        if self._stopped:
            return None
        replaced = self.running(key)
        waited = replaced.begun.due if replaced is not None and replaced.waiting else None
        self.end(key, End.REPLACED)
        story = self._story(key)
        now = self._env.clock.now()
        due = now + rules.recovery_wait(tuple(story.begun), now, self._env.policy.watch_duration)
        if asked is not None and waited is not None:
            due = min(due, waited)  # asking again must not postpone a recovery that waits already
        begun = RecoveryStart(next(self._ids), key, cause, now, due, due + seconds, asked)
        recovery = RecoveryRunner(self._env, begun, lambda: self._opened(story, begun))
        messages.began(self._env, begun)
        story.current = recovery
        story.task = self._env.tasks.kept(
            recovery.run, f"weed {key}", lambda error: self._failed(recovery, error)
        )
        return recovery

    def _story(self, key: ServiceKey) -> _ServiceRecoveries:
        story = self._stories.setdefault(key, _ServiceRecoveries())
        self._stories.move_to_end(key)
        if len(self._stories) > _SERVICES:
            others = ((each, known) for each, known in self._stories.items() if each != key)
            idle = (each for each, known in others if not self._counts(known))
            if (oldest := next(idle, None)) is not None:
                del self._stories[oldest]
        return story

    def _counts(self, story: _ServiceRecoveries) -> bool:
        """Whether a recovery is under way, or counts towards the wait of the next: such services are always kept."""
        if story.running is not None:
            return True
        window = self._env.policy.watch_duration
        return bool(story.begun) and self._env.clock.now() - story.begun[-1] < window

    def _opened(self, story: _ServiceRecoveries, begun: RecoveryStart) -> None:
        """Called when a recovery begins to weed: it counts towards the wait of the next ones, once."""
        now = self._env.clock.now()
        if not story.begun or story.begun[-1] < begun.began:
            story.begun.append(now)
            self._env.metrics.weeder_recoveries.labels(begun.key.service).inc()

    def _failed(self, recovery: RecoveryRunner, error: Exception) -> None:
        recovery.crashed(error)
        messages.failed(self._env, recovery.begun.key, error)

    def end(self, key: ServiceKey, why: End) -> None:
        """Ends the recovery of a service; deletions that were sent are finished."""
        story = self._stories.get(key)
        if story is None or story.current is None:
            return
        story.current.finish(why)
        if story.task is not None:
            story.task.cancel()
        self._unsettled = [each for each in (*self._unsettled, story.current) if not each.settled]
        story.leave()

    def end_all(self, why: End) -> None:
        for key in tuple(self._stories):
            self.end(key, why)

    def judge_again(self) -> None:
        """Makes all recoveries judge their pods again, as a pause or another obstacle has changed."""
        for story in self._stories.values():
            if story.current is not None:
                story.current.judge_again()

    async def stop(self) -> None:
        """Ends all recoveries for good; returns when each deletion that was sent has been answered."""
        self._stopped = True
        self.end_all(End.STOPPED)
        for each in self._unsettled:
            await each.settle()

    def recoveries(self, key: ServiceKey) -> tuple[RecoveryStatus, ...]:
        """The recoveries of a service, newest first."""
        story = self._stories.get(key)
        return () if story is None else tuple(story.newest_first())

    def services(self) -> tuple[ServiceKey, ...]:
        """The services that have recoveries, under way or past."""
        return tuple(self._stories)
