"""Follows the readiness of services: begins a recovery when one becomes ready, ends it when it is lost.

A service that became ready while this instance did not lead, or during a gap in the watch, gets a recovery for what is
left of its time. Its pods tell since when it has been ready (`ReadySince`).
"""

from collections.abc import Collection

from app.core.errors import LeadershipLost, NotFound, NotKnownYet, Refused
from app.core.model.weeding import (
    Cause,
    End,
    RecoveryStatus,
    ServiceKey,
    ServiceStatus,
    WeedRequest,
)
from app.core.ports import Preparation, Relisted
from app.weeder.environment import WeederEnvironment
from app.weeder.recovery_log import Question, ReadySince
from app.weeder.registry import RecoveryRegistry
from app.weeder.rules import readiness
from app.weeder.rules.readiness import Readiness, ReadinessChange
from app.weeder.selector_check import SelectorCheck


class WeederController:
    """Keeps which services are ready, and begins and ends their recoveries; a `ServiceListener`."""

    def __init__(self, environment: WeederEnvironment, registry: RecoveryRegistry) -> None:
        self._env, self._registry = environment, registry
        self._known: dict[ServiceKey, Readiness] = {}
        self._listed = False
        self._began = False
        self._past = ReadySince(environment, self._begin_late)

    async def run(self) -> None:
        """Subscribes to services, leadership and pauses, and runs for ever."""
        self._env.seed.subscribe(self)
        self._env.leadership.subscribe(self._leadership_changed)
        self._env.pauses.subscribe(self._registry.judge_again)
        if self._env.seed.watch_state().synced and not self._listed:
            self.services_relisted(Relisted(None, tuple(self._env.seed.services())))
        await self._past.run()

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
                self._known[key] = readiness.first_seen(self._env.seed.slices(key))
            self._take_up()
            return
        for key in relisted.changed:
            if self._step(key, Cause.GAP) is ReadinessChange.NONE and self._ready(key):
                self._doubt(key, relisted.since)

    def _doubt(self, key: ServiceKey, heard: float | None) -> None:
        """Handles a service that was and is ready, but may have been lost in between, during a gap.

        The leader asks its pods now; a standby forgets since when it is ready, so that it asks when it takes over.
        """
        if self._began:
            self._past.ask(Question(key, Cause.GAP, heard))
        else:
            self._known[key] = Readiness(ready=True, since=None)

    def _step(self, key: ServiceKey, cause: Cause) -> ReadinessChange:
        now, slices = self._env.clock.now(), self._env.seed.slices(key)
        after, change = readiness.step(self._known.get(key), slices, now)
        self._known[key] = after
        if not slices:
            del self._known[key]
        match change:
            case ReadinessChange.BECAME_READY if self._began:
                self._registry.begin(key, cause, self._env.policy.watch_duration)
            case ReadinessChange.LOST:
                self._registry.end(key, End.LOST)
            case ReadinessChange.BECAME_READY | ReadinessChange.NONE:
                pass
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
                self._past.ask(Question(key, Cause.STARTED))
            else:
                self._begin_late(Question(key, Cause.STARTED), known.since)

    def _begin_late(self, question: Question, since: float) -> None:
        """Begins a recovery, for what is left of its time, for a service that became ready unseen at `since`."""
        key, now = question.key, self._env.clock.now()
        self._learn(key, since)
        running = self._registry.running(key)
        if not self._began or not self._ready(key):
            return
        if running is not None and since <= running.begun.began:
            return  # the recovery that runs began because of this
        until = question.until(since, now, self._env.policy.watch_duration)
        if until is not None:
            self._registry.begin(key, question.cause, until - now)

    def _learn(self, key: ServiceKey, since: float) -> None:
        """Notes since when a service is ready, as its pods have told, if that was not known."""
        known = self._known.get(key)
        if known is not None and known.ready and known.since is None:
            self._known[key] = Readiness(ready=True, since=since)

    # Requests of people.

    def weed_now(self, key: ServiceKey, *, author: str, reason: str, force: bool) -> RecoveryStatus:
        """Begins a recovery for a person, with the same rules, caps and waits; it replaces one that runs.

        With `force` it overrides the pause that covers the namespace now, but no later or changed one.

        Raises:
            LeadershipLost, NotFound, NotKnownYet, Refused: as `check_weed_now`.
        """
        asked = WeedRequest(author, reason, self.check_weed_now(key, force=force))
        seconds = self._env.policy.watch_duration
        recovery = self._registry.begin(key, Cause.ASKED, seconds, asked)
        if recovery is None:
            raise LeadershipLost("this process is ending")
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
            raise LeadershipLost("only the leader of the weeder deletes pods")
        if key not in self._known:
            raise NotFound(
                f"nothing is known about {key}: it is not configured, or has no EndpointSlices"
            )
        if not self._ready(key):
            raise Refused(f"{key.service} is not ready: what depends on it would crash again")
        return self._despite(key.namespace, force=force)

    def _despite(self, namespace: str, *, force: bool) -> str | None:
        """The pause that a forced recovery overrides; None if there is none."""
        if not self._env.pauses.synced:
            raise NotKnownYet("the overrides have not been read yet; retry in a moment")
        paused = self._env.pauses.paused(namespace)
        if paused is not None and not force:
            raise Refused(f"{paused}; with force the pods are deleted despite it")
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
        _ = tasks.shared(self._env.openings.run, "weeder openings")
        _ = tasks.shared(self._env.deletions.run, "weeder deletions")
        _ = tasks.shared(self.controller.run, "weeder controller")
        _ = tasks.shared(self.selectors.run, "weeder selectors")

    def prepared(self) -> Preparation:
        """How far this process is prepared to lead: EndpointSlices and overrides listed."""
        listed = self._env.seed.watch_state().synced and self._env.pauses.synced
        return Preparation.COMPLETE if listed else Preparation.NONE

    async def stop(self) -> None:
        """Ends all recoveries; deletions that were sent are finished first."""
        await self.registry.stop()
