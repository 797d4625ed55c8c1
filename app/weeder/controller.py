"""Follows the readiness of services: begins a recovery when one becomes ready, ends it when it is lost.

A service that became ready while this instance did not lead, or during a gap in the watch, gets a recovery for what is
left of its time. Its pods tell since when it has been ready (`ReadySince`).

`SelectorCheck` looks whether each selector still matches pods: a renamed label must not silently switch weeding off.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import structlog

from app.core import errors
from app.core.limits import TRANSIENT_REFUSALS, Backoff
from app.core.model.names import LabelSelector
from app.core.model.weeding import (
    Cause,
    End,
    RecoveryStatus,
    ServiceKey,
    ServiceStatus,
    WeedRequest,
)
from app.core.ports import Preparation, Relisted
from app.weeder import rules
from app.weeder.environment import WeederEnvironment
from app.weeder.recovery import RecoveryRegistry
from app.weeder.rules import Readiness, ReadinessChange

log = structlog.get_logger(__name__)

_WORKERS: Final = 8
_BACKOFF: Final = Backoff(first=1.0, most=30.0)


@dataclass(slots=True)
class Question:
    """For which service it is to be found out since when it is ready, and why, and what has been found out so far."""

    key: ServiceKey
    cause: Cause
    heard: float | None = None
    """After a gap: the last contact before it."""
    asked: float = 0.0
    """When it was asked."""
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
        self._queue: asyncio.PriorityQueue[tuple[bool, int, Question]] = asyncio.PriorityQueue()
        """The first pod of every service goes before the second pod of any; else whoever came first."""
        self._number = count()
        self._asked: set[ServiceKey] = set()
        """The services of questions of which no pod has been read yet."""

    def ask(self, question: Question) -> None:
        """Queues a question; if one about this service is queued already, that stays, as it reaches further back."""
        if question.key not in self._asked:
            self._asked.add(question.key)
            question.asked = self._env.clock.now()
            self._enqueue(question, begun=False)

    def _enqueue(self, question: Question, *, begun: bool = True) -> None:
        self._queue.put_nowait((begun, next(self._number), question))

    async def run(self) -> None:
        """Works on questions, for ever."""
        await asyncio.gather(*(self._work() for _ in range(_WORKERS)))

    async def _work(self) -> None:
        while True:
            begun, _, question = await self._queue.get()
            if not begun:
                self._asked.discard(question.key)
                question.pods.extend(rules.pods_behind(self._env.seed.slices(question.key)))
            try:
                goes_on = await self._read_one(question)
            except errors.ClusterError as error:
                self._failed(question, error)
                continue
            if goes_on:
                self._enqueue(question)
            elif question.since is not None:
                self._found(question, question.since)

    async def _read_one(self, question: Question) -> bool:
        """Reads the next pod; returns whether others are still to be read.

        Raises:
            ClusterError: the pod could not be read.
        """
        if not question.pods:
            return False
        if self.until(question, question.asked) is None:
            # The service was ready when the question was asked, so no pod can show a later instant.
            question.since = None
            return False
        await self._env.opening_turns.wait(question.key.namespace)
        pod = await self._env.seed.read_pod(question.key.namespace, question.pods[0])
        question.pods.popleft()
        question.failures = 0
        found = None if pod is None else pod.ready_since
        if found is not None and (question.since is None or found < question.since):
            question.since = found
        over = question.since is not None and self.until(question, question.since) is None
        # The earliest transition counts, so no other pod can make it later.
        return bool(question.pods) and not over

    def until(self, question: Question, since: float) -> float | None:
        """Until when to weed for the service if it became ready at `since`; None to leave it alone."""
        now, duration = self._env.clock.now(), self._env.policy.watch_duration
        return rules.weeds_until(since, question.heard, now, duration)

    def _failed(self, question: Question, error: errors.ClusterError) -> None:
        """Schedules another try after an error that may be transient, as long as an answer could matter."""
        question.failures += 1
        pause = error.retry_after or _BACKOFF.delay(question.failures)
        refused = isinstance(error, errors.Forbidden) and question.failures > TRANSIENT_REFUSALS
        next_at = self._env.clock.now() + pause
        # The service was ready when the question was asked, so no answer can be later.
        if not refused and next_at < question.asked + self._env.policy.watch_duration:
            asyncio.get_running_loop().call_later(pause, self._enqueue, question)
            return
        log.warning(
            "not known since when a service is ready; its dependants are left alone",
            namespace=question.key.namespace,
            service=question.key.service,
            error=str(error),
        )


class WeederController:
    """Keeps which services are ready, and begins and ends their recoveries; a `ServiceListener`."""

    def __init__(self, environment: WeederEnvironment, registry: RecoveryRegistry) -> None:
        self._env, self._registry = environment, registry
        self._known: dict[ServiceKey, Readiness] = {}
        self._listed = False
        self._began = False
        self._ready_since = ReadySince(environment, self._begin_late)

    async def run(self) -> None:
        """Subscribes to services, leadership and pauses, and runs for ever."""
        self._env.seed.subscribe(self)
        self._env.leadership.subscribe(self._leadership_changed)
        self._env.pauses.subscribe(lambda _namespace: self._registry.judge_again())
        if self._env.seed.watch_state().synced and not self._listed:
            self.services_relisted(Relisted(None, tuple(self._env.seed.services())))
        await self._ready_since.run()

    # What the watch tells.

    def service_changed(self, key: ServiceKey) -> None:
        """Called when a slice of this service was added, changed or deleted."""
        if self._listed:
            self._step(key, Cause.BECAME_READY)

    def services_relisted(self, relisted: Relisted) -> None:
        """Called when all slices were listed: the first time, or after a gap in the watch."""
        if not self._listed:
            self._listed = True
            for key in self._env.seed.services():
                self._known[key] = rules.first_seen(self._env.seed.slices(key))
            self._take_up()
            return
        for key in relisted.changed:
            if self._step(key, Cause.GAP) is not ReadinessChange.NONE or not self._ready(key):
                continue
            # It was and is ready, but may have been lost in between. The leader asks its pods now; a standby forgets
            # since when it is ready, so that it asks when it takes over.
            if self._began:
                self._ready_since.ask(Question(key, Cause.GAP, relisted.since))
            else:
                self._known[key] = Readiness(ready=True, since=None)

    def _step(self, key: ServiceKey, cause: Cause) -> ReadinessChange:
        now, slices = self._env.clock.now(), self._env.seed.slices(key)
        after, change = rules.next_readiness(self._known.get(key), slices, now)
        self._known[key] = after
        if not slices:
            del self._known[key]
        if change is ReadinessChange.LOST:
            self._registry.end(key, End.LOST)
        elif change is ReadinessChange.BECAME_READY and self._began:
            self._registry.begin(key, cause, self._env.policy.watch_duration)
        return change

    def _ready(self, key: ServiceKey) -> bool:
        known = self._known.get(key)
        return known is not None and known.ready

    # Leadership.

    def _leadership_changed(self) -> None:
        if self._env.leadership.leading:
            self._take_up()
        elif self._began:
            self._began = False
            self._registry.end_all(End.NOT_LEADER)

    def _take_up(self) -> None:
        """Begins to lead once the services are listed: weeds for those that have become ready only a moment ago."""
        if self._began or not self._listed or not self._env.leadership.leading:
            return
        self._began = True
        for key, known in self._known.items():
            if not known.ready:
                continue
            if known.since is None:
                self._ready_since.ask(Question(key, Cause.STARTED))
            else:
                self._begin_late(Question(key, Cause.STARTED), known.since)

    def _begin_late(self, question: Question, since: float) -> None:
        """Begins a recovery, for what is left of its time, for a service that became ready unseen at `since`."""
        key, now = question.key, self._env.clock.now()
        if not self._ready(key):
            return
        if self._known[key].since is None:
            self._known[key] = Readiness(ready=True, since=since)
        running = self._registry.running(key)
        if not self._began:
            return
        if running is not None and since <= running.begun.began:
            return  # the recovery that runs began because of this
        if (until := self._ready_since.until(question, since)) is not None:
            self._registry.begin(key, question.cause, until - now)

    # Requests of people.

    def weed_now(self, key: ServiceKey, *, author: str, reason: str, force: bool) -> RecoveryStatus:
        """Begins a recovery for a person, with the same rules, caps and waits; it replaces one that runs.

        With `force` it overrides the pauses that cover the namespace now, but no later or changed one.

        Raises:
            LeadershipLost, NotFound, NotKnownYet, Refused: as `check_weed_now`.
        """
        despite = self.check_weed_now(key, force=force)
        asked = WeedRequest(author, reason, despite, self._env.pauses.keeping_off(key.namespace))
        seconds = self._env.policy.watch_duration
        recovery = self._registry.begin(key, Cause.ASKED, seconds, asked)
        if recovery is None:
            raise errors.LeadershipLost("this process is ending")
        return recovery.status()

    def check_weed_now(self, key: ServiceKey, *, force: bool) -> str | None:
        """Checks that a person may begin a recovery now; returns the pause that `force` overrides, if there is one.

        Raises:
            LeadershipLost: this instance is not the leader, or the process is ending.
            NotFound: nothing is known of the service.
            NotKnownYet: the overrides have not been read yet.
            Refused: the service is not ready, or a pause covers its namespace.
        """
        if not self._began:
            raise errors.LeadershipLost("only the leader of the weeder deletes pods")
        if key not in self._known:
            raise errors.NotFound(
                f"nothing is known about {key}: it is not configured, or has no EndpointSlices"
            )
        if not self._ready(key):
            raise errors.Refused(
                f"{key.service} is not ready: what depends on it would crash again"
            )
        if not self._env.pauses.synced:
            raise errors.NotKnownYet("the overrides have not been read yet; retry in a moment")
        paused = self._env.pauses.paused(key.namespace)
        if paused is not None and not force:
            raise errors.Refused(f"{paused}; with force the pods are deleted despite it")
        return paused

    # What the API shows.

    def namespaces(self) -> Collection[str] | None:
        """The namespaces that have a configured service, or had recoveries; None before the first list."""
        if not self._listed:
            return None
        return {key.namespace for key in (*self._known, *self._registry.services())}

    def status(self, key: ServiceKey) -> ServiceStatus | None:
        """The status of one service; None if nothing is known of it."""
        known, recoveries = self._known.get(key), self._registry.recoveries(key)
        if known is None and not recoveries:
            return None
        running = self._registry.running(key)
        return ServiceStatus(
            key,
            ready=known is not None and known.ready,
            since=None if known is None else known.since,
            failing=None if running is None else running.failing,
            recoveries=recoveries,
        )

    def statuses(self) -> list[ServiceStatus]:
        """The status of each service that has recoveries, running or past."""
        found = (self.status(key) for key in self._registry.services())
        return [each for each in found if each is not None]


class WeederRunner:
    """The weeder of one process: its parts put together, to be started and stopped."""

    def __init__(self, environment: WeederEnvironment) -> None:
        self._env = environment
        self.registry = RecoveryRegistry(environment)
        self.controller = WeederController(environment, self.registry)
        self.selectors = SelectorCheck(environment)

    def start(self) -> None:
        """Starts the background loops."""
        tasks = self._env.tasks
        _ = tasks.shared(self.controller.run, "weeder controller")
        _ = tasks.shared(self.selectors.run, "weeder selectors")

    def prepared(self) -> Preparation:
        """How far this process is prepared to lead: EndpointSlices and overrides listed."""
        listed = self._env.seed.watch_state().synced and self._env.pauses.synced
        return Preparation.COMPLETE if listed else Preparation.NONE

    async def stop(self) -> None:
        """Ends all recoveries; deletions that were sent are finished first."""
        await self.registry.stop()


_HOUR: Final = 3600.0
_AFTER_FAILURE: Final = 60.0
_POLL: Final = 5.0


class SelectorCheck:
    """Checks all selectors hourly, on the leader; reports one that has matched nothing for an hour."""

    def __init__(self, environment: WeederEnvironment) -> None:
        self._env = environment
        self._empty_since: dict[tuple[str, int], float] = {}
        self._reported: set[tuple[str, int]] = set()

    def troubles(self) -> tuple[str, ...]:
        """The selectors that match nothing, in words, for `/readyz?verbose` and the API."""
        return tuple(
            f"{service}, selector {number}: no pod matches"
            for service, number in sorted(self._reported)
        )

    async def run(self) -> None:
        """Checks for ever."""
        while True:
            while not self._env.leadership.leading:
                await self._env.clock.sleep(_POLL)
            pause = _HOUR
            for service, selectors in self._env.policy.services.items():
                for number, selector in enumerate(selectors):
                    try:
                        await self._check(service, number, selector)
                    except errors.ClusterError as error:
                        log.warning(
                            "a selector could not be checked", service=service, error=str(error)
                        )
                        pause = _AFTER_FAILURE
            await self._env.clock.sleep(pause)

    async def _check(self, service: str, number: int, selector: LabelSelector) -> None:
        matches = await self._env.seed.any_pod(selector)
        self._env.metrics.weeder_selector_matches.labels(service, str(number)).set(int(matches))
        which, now = (service, number), self._env.clock.now()
        if matches:
            self._empty_since.pop(which, None)
            self._reported.discard(which)
        elif now - self._empty_since.setdefault(which, now) >= _HOUR:
            self._reported.add(which)
            log.warning(
                "a selector has matched no pod anywhere for an hour: what it should select is not weeded",
                service=service,
                selector=number,
                labels=str(selector) or "(all pods)",
            )
