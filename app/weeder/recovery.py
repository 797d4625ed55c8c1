"""One recovery: a service is ready again, and for `watchDuration` pods that depend on it are weeded (rules 6).

`RecoveryRegistry.begin` begins one. It watches the pods of its namespace, judges those that change, and from time to
time all of them, and queues those that are to be deleted. Before each deletion it waits for a turn of the budget that
all namespaces share, and then judges the pod once more, as another recovery may have used up the cap meanwhile. When
its time is over, what is still queued is dropped, and deletions that were sent are finished.

A deletion carries the uid and resourceVersion that were judged, so that only that version of the pod is deleted. None
is cancelled once it was sent, except when the process ends: whether it was carried out decides what counts to the
caps.
"""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from app.core import errors
from app.core.limits import RefusalCount
from app.core.model.overrides import PauseDecision
from app.core.model.weeding import (
    Cause,
    Delete,
    DeletionResult,
    End,
    Judgement,
    Keep,
    KeepReason,
    Phase,
    PodView,
    RecoveryStart,
    RecoveryStatus,
    ServiceKey,
    WeedRequest,
)
from app.core.tasks import wait_until_set
from app.weeder import messages, rules
from app.weeder.deletions import DeletionQueue, RecoveryLog
from app.weeder.environment import WeederEnvironment
from app.weeder.rules import UNKNOWN, answer

if TYPE_CHECKING:
    from app.core.kube.reflector import Reflector

# Seconds after which all pods are judged again: caps become free as time passes, and no watch event tells of that.
_JUDGED_AGAIN: Final = 10.0
_SYNC_POLL: Final = 0.25


class CalledOff(errors.WatchdogError):
    """A deletion was called off before it was sent, as something now forbids it."""


class RecoveryRunner:
    """Weeds the dependants of one service."""

    def __init__(
        self, environment: WeederEnvironment, begun: RecoveryStart, opened: Callable[[], None]
    ) -> None:
        """Prepares the recovery; `opened` is called once, when its turn to list the pods has come."""
        self._env, self.begun, self._opened = environment, begun, opened
        self._selectors = environment.policy.services[begun.key.service]
        self._phase = Phase.WAITING if begun.due > begun.began else Phase.OPENING
        self.log = RecoveryLog()
        self.queue = DeletionQueue(environment.retry_waits)
        self._sending: dict[str, asyncio.Task[None]] = {}
        """The deletions that were sent and are not answered yet, by uid of the pod."""
        self._refusals = RefusalCount()
        self._may_not_delete: errors.Forbidden | None = None
        """The error that shows that the weeder has no right to delete pods: no more are sent."""
        self._crash: Exception | None = None
        """The unexpected error of a deletion, with which the recovery fails."""
        self._changed_pods: set[str] = set()
        self._awake = asyncio.Event()
        self._judged_all_at = -math.inf
        self._watch: Reflector[PodView] | None = None
        self._trouble: str | None = None
        """Why the last watch did not work when it ended; None if it did."""
        self._ended_by: errors.Forbidden | None = None
        """The refusal that has ended it: the weeder has no right to watch or to delete pods."""
        self._ended: tuple[float, End] | None = None
        self._counted = self._told_end = False
        self.failing: str | None = None
        """The unexpected error after which it was started again; None once it works again."""

    @property
    def running(self) -> bool:
        return self._ended is None

    @property
    def over(self) -> bool:
        """Whether its status does not change any more: it has ended, as have its watch and its deletions."""
        return self._ended is not None and self._watch is None and self.settled

    @property
    def waiting(self) -> bool:
        """Whether it still waits to begin, as there were too many recoveries of this service before it."""
        return self._phase is Phase.WAITING

    async def run(self) -> None:
        """Weeds until its time is over; may be called again after it has raised an unexpected error."""
        clock, begun = self._env.clock, self.begun
        await clock.sleep_until(begun.due)
        if clock.now() >= begun.until:  # it was started again after failures, too late
            self.finish(End.COMPLETED)
            return
        self._phase, self._crash, end = Phase.OPENING, None, End.COMPLETED
        watch = self._watch = self._env.seed.watch_pods(
            begun.key.namespace,
            self._selectors[0] if len(self._selectors) == 1 else None,
            self.pod_changed,
            self._admitted,
        )
        self._env.metrics.weeder_watches.inc()
        try:
            async with asyncio.timeout(begun.until - clock.now()), asyncio.TaskGroup() as both:
                both.create_task(watch.run())
                both.create_task(self._weed(watch))
        except TimeoutError:
            pass  # its time is over; what the tasks raise comes as a group
        except ExceptionGroup as failed:
            error = failed.exceptions[0]  # which has cancelled the other task
            if not isinstance(error, errors.Forbidden):
                raise error from None
            self._ended_by, end = error, End.FORBIDDEN
        finally:
            self._watch, self._trouble = None, watch.trouble
            self._env.metrics.weeder_watches.dec()
        self.finish(end)

    async def _admitted(self) -> None:
        await self._env.opening_turns.wait(self.begun.key.namespace)
        if self._phase is Phase.OPENING and not self._counted:
            self._counted = True
            self._opened()

    def finish(self, end: End) -> None:
        """Ends the recovery; what is still queued is dropped, and reported. Further calls do nothing."""
        if self._ended is not None:
            return
        self._ended, self._phase = (self._env.clock.now(), end), Phase.ENDED
        for name in self.queue.names():
            self._drop(name)
        self.log.close()
        if self.settled:
            self._tell_end()
        else:
            _ = self._env.tasks.once(self.settle, f"end of weeding {self.begun.key}")

    def _drop(self, name: str) -> None:
        reason = KeepReason.DROPPED if self._may_not_delete is None else KeepReason.FORBIDDEN
        keep = Keep(reason, "it still waited for its turn when the recovery ended")
        self.log.dropped(name, keep, self._env.clock.now())

    def _tell_end(self) -> None:
        if not self._told_end:
            self._told_end = True
            messages.ended(self._env, self.status(), deleted=self.log.number)

    def crashed(self, error: Exception) -> None:
        """Notes and reports an unexpected error, after which the recovery will be started again."""
        self.failing = f"the recovery failed and is started again: {type(error).__name__}"
        messages.failed(self._env, self.begun.key, error)

    @property
    def settled(self) -> bool:
        """Whether each deletion that was sent has been answered."""
        return not self._sending

    async def settle(self) -> None:
        """Waits, after the end, until each deletion that was sent has been answered; then reports the end."""
        if self._sending:
            await asyncio.wait(self._sending.values())
        self._tell_end()

    # Judging.

    def pod_changed(self, name: str) -> None:
        """Makes the recovery judge this pod again, as it has changed, or its deletion was answered."""
        self._changed_pods.add(name)
        self._awake.set()

    def judge_again(self) -> None:
        """Makes the recovery judge all pods again, as a pause or another obstacle has changed."""
        self._judged_all_at = -math.inf
        self._awake.set()

    async def _weed(self, watch: "Reflector[PodView]") -> None:
        while not watch.state.synced:
            await self._sleep(_SYNC_POLL)
        self._phase, self.failing, self._judged_all_at = Phase.WATCHING, None, -math.inf
        pods = watch.of(self.begun.key.namespace).values()
        found = [pod for pod in pods if rules.selected(pod, self._selectors)]
        self._env.ledger.opened(self._env.clock.now(), found)
        while True:
            self._judge_pods(watch)
            due_at = self._judged_all_at + _JUDGED_AGAIN
            if (at := self.queue.next_at()) is not None:
                due_at = min(due_at, max(at, self._not_before()))
            if (wait := due_at - self._env.clock.now()) > 0:
                await self._sleep(wait)
                continue
            await self._env.deletion_turns.wait(self.begun.key.namespace)
            self._judge_pods(watch)
            if not self._send_first(watch):
                self._env.deletion_turns.returned(self.begun.key.namespace)

    def _judge_pods(self, watch: "Reflector[PodView]") -> None:
        """Judges the pods that have changed; from time to time all, those included that are gone without an event.

        Raises:
            Forbidden: the weeder has no right to delete pods.
            Exception: the unexpected error of a deletion.
        """
        if (trouble := self._may_not_delete or self._crash) is not None:
            raise trouble
        now, pods = self._env.clock.now(), watch.of(self.begun.key.namespace)
        names, self._changed_pods = self._changed_pods, set()
        if now - self._judged_all_at >= _JUDGED_AGAIN:
            self._judged_all_at = now
            names |= pods.keys() | self.queue.names() | self.log.names()
        for name in sorted(names):
            if (pod := pods.get(name)) is None:
                self.queue.drop(name)
                self.log.gone(name)
            elif pod.uid not in self._sending:
                self._note(pod, self._judge(pod, now), now)

    def _judge(self, pod: PodView, now: float) -> Judgement:
        before = self._env.ledger.deleted_before(pod, now)
        judged = rules.judge(pod, self._selectors, self._env.policy, before, now)
        return (self._held() or judged) if isinstance(judged, Delete) else judged

    def _held(self) -> Keep | None:
        """Why nothing may be deleted now; None if deletions are allowed."""
        if not self._env.leadership.leading:
            return Keep(KeepReason.NOT_LEADER, "this instance is not the leader")
        if self._env.seed.watch_state().stale(self._env.clock.now()):
            return Keep(KeepReason.STALE, "it is not known whether the service is still ready")
        if not self._env.pauses.synced:
            return Keep(KeepReason.PAUSED, "it is not known yet what is paused")
        asked = self.begun.asked
        despite = frozenset[PauseDecision]() if asked is None else asked.overrides
        paused = self._env.pauses.paused(self.begun.key.namespace, despite=despite)
        return None if paused is None else Keep(KeepReason.PAUSED, paused)

    def _note(self, pod: PodView, judged: Judgement, now: float) -> None:
        if isinstance(judged, Delete):
            self.queue.add(pod, judged, now)
            self.log.unspared(pod.name)
            return
        self.queue.drop(pod.name)
        self.log.skipped(pod, judged, now)
        if judged.reason is KeepReason.CAP_REACHED and self.log.newly_capped(pod):
            first = self.log.first_of_owner(pod)
            messages.capped(self._env, self.begun.key, pod, judged, event=first)

    # Deleting.

    def _not_before(self) -> float:
        """The instant before which refusals forbid to send another deletion."""
        return self._refusals.next_at(on_their_way=bool(self._sending))

    def _send_first(self, watch: "Reflector[PodView]") -> bool:
        """Sends the most urgent deletion that is due; returns False if there is none."""
        now, pods = self._env.clock.now(), watch.of(self.begun.key.namespace)
        # A deletion may have been refused while this one waited for its turn.
        if now < self._not_before():
            return False
        while (name := self.queue.first(now)) is not None:
            pod = pods[name]
            # Another recovery may have used up the cap, or have been told to wait with this very pod.
            judged = self._judge(pod, now)
            self._note(pod, judged, now)
            if isinstance(judged, Delete) and self.queue.due(name, now):
                self.queue.drop(name)
                self._send(pod, judged)
                return True
        return False

    def _send(self, pod: PodView, delete: Delete) -> None:
        """Starts to delete a pod; in a dry run only reports it."""
        now = self._env.clock.now()
        if self._env.dry_run:
            self._env.ledger.enter(pod, now)
            self._done(pod, delete, DeletionResult.DRY_RUN)
            return
        self._env.ledger.sending(pod, now)
        job = self._env.tasks.once(lambda: self._delete(pod, delete, now), f"delete {pod.name}")
        self._sending[pod.uid] = job

    async def _delete(self, pod: PodView, delete: Delete, judged: float) -> None:
        error: errors.ClusterError | None = None
        sent = self._env.clock.now()
        try:
            await self._env.seed.delete_pod(
                pod.namespace,
                pod.name,
                uid=pod.uid,
                resource_version=pod.resource_version,
                starting=lambda: self._check_may_send(delete, judged),
            )
        except errors.ClusterError as failure:
            error = failure
        except (CalledOff, errors.LeadershipLost):
            self._env.ledger.called_off(pod)
            if self._ended is not None:  # nobody judges the pod again
                self.queue.add(pod, delete, self._env.clock.now())
                self._drop(pod.name)
            return
        except Exception as failure:
            self._crash = failure  # the recovery fails with it
            self._env.ledger.answered(pod, UNKNOWN)
            raise
        finally:
            self._sending.pop(pod.uid, None)
            self.pod_changed(pod.name)
        self._answered(pod, delete, error, sent)

    def _check_may_send(self, delete: Delete, judged: float) -> None:
        """Raises CalledOff if a deletion that the budget lets go, and was `judged` then, is not allowed any more."""
        # If the process was frozen, the judgement is long ago, and the time may be over although nothing has ended.
        now = self._env.clock.now()
        if self._ended is not None or now >= self.begun.until or self._may_not_delete is not None:
            raise CalledOff("the recovery has ended")
        if (held := self._held()) is not None:
            raise CalledOff(held.message)
        if rules.too_short(delete, self._env.policy, now - judged):
            raise CalledOff("it does not wait for long any more")

    def _answered(
        self, pod: PodView, delete: Delete, error: errors.ClusterError | None, sent: float
    ) -> None:
        now, found = self._env.clock.now(), answer(error)
        if isinstance(error, errors.Forbidden):
            if self._refusals.refused(sent, now):
                self._may_not_delete = error
        elif error is None or isinstance(error, errors.NotFound | errors.Conflict):
            self._refusals.allowed()
        self._env.ledger.answered(pod, found)
        if found.next_version:
            self.queue.until_next_version(pod, now)
        if found.again:
            self.queue.failed(pod, now, found.retry_after)
        if error is None or found.result is DeletionResult.GONE:
            self._done(pod, delete, found.result)
            return
        if not found.next_version:
            forbidden = isinstance(error, errors.Forbidden)
            reason = KeepReason.FORBIDDEN if forbidden else KeepReason.REFUSED
            self.log.failed(pod.name, Keep(reason, str(error)), now)
        messages.not_deleted(self._env, self.begun.key, pod, found.result, error)

    def _done(self, pod: PodView, delete: Delete, result: DeletionResult) -> None:
        deletion = self.log.deleted(pod, delete, result, self._env.clock.now())
        messages.deleted(self._env, self.begun, deletion)

    async def _sleep(self, seconds: float) -> None:
        """Returns after `seconds`, or when something wakes the loop."""
        await wait_until_set(self._awake, max(seconds, 0.001))
        self._awake.clear()

    # What the API shows.

    def status(self) -> RecoveryStatus:
        """The recovery as the API shows it."""
        begun, ended = self.begun, self._ended
        watch = self._trouble if self._watch is None else self._watch.trouble
        return RecoveryStatus(
            id=begun.id,
            key=begun.key,
            cause=begun.cause,
            phase=self._phase,
            began=begun.began,
            due=begun.due,
            until=begun.until,
            ended=None if ended is None else ended[0],
            end=None if ended is None else ended[1],
            trouble=watch if self._ended_by is None else str(self._ended_by),
            deletions=tuple(self.log.deletions),
            spared=self.log.spared,
            queued=len(self.queue),
            asked=begun.asked,
        )


# All recoveries: at most one under way for each service, and past ones for the API.

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
    opened_at: deque[float] = field(default_factory=lambda: deque(maxlen=16))
    """When the last of them began to weed; those that ended while they still waited do not count."""

    @property
    def running(self) -> RecoveryRunner | None:
        """The recovery that has not ended; None if there is none."""
        return self.current if self.current is not None and self.current.running else None

    def leave(self, ended: RecoveryRunner) -> None:
        """Moves the current recovery, which has ended, to the past."""
        for number, each in enumerate(self.past):
            if isinstance(each, RecoveryRunner) and each.over:
                self.past[number] = each.status()
        self.past.append(ended)
        self.current = self.task = None


class RecoveryRegistry:
    """All recoveries of the process."""

    def __init__(self, environment: WeederEnvironment) -> None:
        self._env = environment
        self._services: OrderedDict[ServiceKey, _ServiceRecoveries] = OrderedDict()
        self._ids = count(1)
        self._unsettled: list[RecoveryRunner] = []
        """Recoveries that have ended, with deletions that are not answered yet."""
        self._stopped = False

    def running(self, key: ServiceKey) -> RecoveryRunner | None:
        """The recovery of this service that waits or is under way; None if there is none."""
        service = self._services.get(key)
        return None if service is None else service.running

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
        service = self._service(key)
        now = self._env.clock.now()
        due = now + rules.recovery_wait(
            tuple(service.opened_at), now, self._env.policy.watch_duration
        )
        if asked is not None and waited is not None:
            due = min(due, waited)  # asking again must not postpone a recovery that waits already
        begun = RecoveryStart(next(self._ids), key, cause, now, due, due + seconds, asked)
        recovery = RecoveryRunner(self._env, begun, lambda: self._opened(service, begun))
        messages.began(self._env, begun)
        service.current = recovery
        service.task = self._env.tasks.kept(recovery.run, f"weed {key}", recovery.crashed)
        return recovery

    def _service(self, key: ServiceKey) -> _ServiceRecoveries:
        service = self._services.setdefault(key, _ServiceRecoveries())
        self._services.move_to_end(key)
        if len(self._services) > _SERVICES:
            # Where a recovery is under way, or counts towards the wait of the next, the service is always kept.
            now, window = self._env.clock.now(), self._env.policy.watch_duration
            for each, known in self._services.items():
                counts = bool(known.opened_at) and now - known.opened_at[-1] < window
                if each != key and known.running is None and not counts:
                    del self._services[each]
                    break
        return service

    def _opened(self, service: _ServiceRecoveries, begun: RecoveryStart) -> None:
        """Called when a recovery begins to weed: it counts towards the wait of the next ones."""
        service.opened_at.append(self._env.clock.now())
        self._env.metrics.weeder_recoveries.labels(begun.key.service).inc()

    def end(self, key: ServiceKey, why: End) -> None:
        """Ends the recovery of a service; deletions that were sent are finished."""
        service = self._services.get(key)
        if service is None or (ended := service.current) is None:
            return
        ended.finish(why)
        if service.task is not None:
            service.task.cancel()
        self._unsettled = [each for each in (*self._unsettled, ended) if not each.settled]
        service.leave(ended)

    def end_all(self, why: End) -> None:
        for key in tuple(self._services):
            self.end(key, why)

    def judge_again(self) -> None:
        """Makes all recoveries judge their pods again, as a pause or another obstacle has changed."""
        for service in self._services.values():
            if service.current is not None:
                service.current.judge_again()

    async def stop(self) -> None:
        """Ends all recoveries for good; returns when each deletion that was sent has been answered."""
        self._stopped = True
        self.end_all(End.STOPPED)
        for each in self._unsettled:
            await each.settle()

    def recoveries(self, key: ServiceKey) -> tuple[RecoveryStatus, ...]:
        """The recoveries of a service, newest first."""
        if (service := self._services.get(key)) is None:
            return ()
        found = ([service.current] if service.current else []) + list(reversed(service.past))
        return tuple(each.status() if isinstance(each, RecoveryRunner) else each for each in found)

    def services(self) -> tuple[ServiceKey, ...]:
        """The services that have recoveries, under way or past."""
        return tuple(self._services)
