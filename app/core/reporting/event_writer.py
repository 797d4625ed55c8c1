"""Writes notices as Kubernetes Events on the resources that they are about.

Events never delay an action. They wait in a queue, the most important first; if it is full, the least important one is
dropped. They are sent at a limited rate and concurrency on a budget of their own, so that neither the writes that bring
controllers back wait for Events, nor the other way round.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from app.core.clock import Clock
from app.core.errors import ClusterError, Forbidden, Throttled
from app.core.limits import AFTER_REFUSAL, Bucket, RefusalCount
from app.core.metrics import Metrics
from app.core.model.instants import rfc3339
from app.core.model.probing import NoticeKind
from app.core.model.workloads import Direction, ResourceRef
from app.core.ports import EVENTS_FEATURE, EmitEvent
from app.core.reporting.notices import (
    Notice,
    OverrideChanged,
    PodJudged,
    RecoveryBegan,
    ResourceScaled,
    Severity,
)

log = structlog.get_logger(__name__)

CONTROLLER: Final = "dependency-watchdog"
# Maximum length of the queue: the Events of 500 shoots that are scaled at once.
_MOST: Final = 2_000
_BURST, _PER_SECOND = 100, 200
"""Burst, and rate per second: an outage of 100 shoots causes about 400 Events, which are useful while somebody
investigates. One costs us a third of a millisecond of CPU, and the seed a small write."""
_IN_FLIGHT: Final = 10
# The most important reasons, in order; then all others, then those of pods, which come by the hundred.
_FIRST: Final = ("MeltdownProtectionStarted", "ScaledDown", "ScaledUp")
_RANKS: Final = len(_FIRST) + 2
# Time limit of one write in seconds.
_SEND: Final = 10.0
_AGAIN, _PATIENCE = 1.0, 60.0
"""Pause in seconds after a 429 without Retry-After; and for how long an Event is retried after 429s."""
_FORBIDDEN_FOR: Final = 3600.0
_REPEATS: Final = 300.0
_NOTE_BYTES: Final = 1024
_NAME: Final = 200
_REMEMBERED: Final = 5_000
# A warning in the log, but good news on the object.
_NORMAL: Final = frozenset({"MeltdownProtectionEnded"})
# After one of these, earlier Events of the resource are no longer repetitions.
_CHANGES: Final = frozenset(
    {
        "ScaledDown",
        "ScaledUp",
        "FoundAtZero",
        "MeltdownProtectionStarted",
        "MeltdownProtectionEnded",
        "OverrideSet",
        "OverrideEnded",
    }
)
_ACTIONS: Final = {Direction.DOWN: "ScaleDown", Direction.UP: "ScaleUp"}


_Subject = tuple[str, ResourceRef]
"""A resource and its namespace."""


class _Repeats:
    """Recognizes repetitions of Events within 5 min."""

    def __init__(self) -> None:
        self._told: OrderedDict[_Subject, dict[tuple[str, str], float]] = OrderedDict()

    def told(self, subject: _Subject, notice: Notice) -> bool:
        """Returns whether the same Event was written less than 5 min ago; remembers it if not."""
        known = self._told.setdefault(subject, {})
        self._told.move_to_end(subject)
        what = (str(notice.reason), notice.message)
        if (at := known.get(what)) is not None and notice.at - at < _REPEATS:
            return True
        recent = {k: v for k, v in known.items() if notice.at - v < _REPEATS}
        self._told[subject] = {what: notice.at} | ({} if notice.reason in _CHANGES else recent)
        self._forget(notice.at)
        return False

    def _forget(self, now: float) -> None:
        """Drops subjects of which nothing is recent: most are pods, which are gone by then."""
        while self._told:
            subject, known = next(iter(self._told.items()))
            recent = any(now - at < _REPEATS for at in known.values())
            if recent and len(self._told) <= _REMEMBERED:
                return
            del self._told[subject]


class _Queued(NamedTuple):
    """An Event in the queue."""

    rank: int
    """Its priority, 0 being the most important."""
    at: float
    """When it was queued."""
    kind: NoticeKind
    namespace: str
    body: dict[str, object]


class _Queue:
    """The queue: the most important Event first, then the oldest.

    Adding never blocks: if the queue is full, the newest of the least important Events is dropped.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: tuple[deque[_Queued], ...] = tuple(deque() for _ in range(_RANKS))
        self._number = asyncio.Semaphore(0)

    def put(self, queued: _Queued) -> bool:
        """Adds an Event; returns whether one was dropped, possibly this one."""
        self._waiting[queued.rank].append(queued)
        if sum(map(len, self._waiting)) > self._most:
            next(each for each in reversed(self._waiting) if each).pop()
            return True
        self._number.release()
        return False

    def put_back(self, queued: _Queued) -> None:
        """Puts an Event back to the front of its rank."""
        self._waiting[queued.rank].appendleft(queued)
        self._number.release()

    async def reserve(self) -> None:
        """Waits for an Event that no other worker has reserved."""
        await self._number.acquire()

    def take(self) -> _Queued:
        """Takes the most important Event that is queued now; a worker must have reserved one."""
        return next(each for each in self._waiting if each).popleft()

    @property
    def empty(self) -> bool:
        """Whether the queue is empty."""
        return not any(self._waiting)


class EventWriter:
    """Writes Events while this replica leads.

    Args:
        emit: creates an Event.
        leading: returns whether this replica leads.
        uid_of: returns the uid of a dependent; `kubectl describe` shows only Events that have it.
        identity: names this replica as the reporting instance.
        clock: times retries and pauses.
        metrics: exports whether the feature is off, and how many Events were lost.
    """

    def __init__(
        self,
        emit: EmitEvent,
        *,
        leading: Callable[[], bool],
        uid_of: Callable[[str, ResourceRef], str | None],
        identity: str,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._emit, self._leading, self._uid_of = emit, leading, uid_of
        self._identity, self._clock, self._metrics = identity, clock, metrics
        self._queue = _Queue(_MOST)
        self._pace = Bucket(_PER_SECOND, _BURST, clock.now())
        self._throttled = False
        """Whether the last answer was a 429."""
        self._resumes = 0.0
        """Instant before which nothing is sent."""
        self._repeats = _Repeats()
        self._retry_at: float | None = None
        self._too_many = metrics.events_lost.labels("queue")
        self._not_taken = metrics.events_lost.labels("seed")
        self._dropped = 0
        """Number of dropped Events since that was last logged."""
        self._number = 0
        self._failing = False
        self._refusals = RefusalCount()
        self.off: str | None = None
        """Why the feature is off; None while it is on."""

    def note(self, notice: Notice) -> None:
        """Queues an Event for `notice` if it needs one; a subscriber of the bus, except in a dry run."""
        if notice.event is None or notice.resource is None or not self._open(notice.kind):
            return
        resource, place = notice.resource, _place(notice)
        if self._repeats.told((place, resource), notice):
            return
        self._number += 1
        uid = notice.resource_uid or self._uid_of(place, resource)
        body = event(notice, resource, uid=uid, identity=self._identity, number=self._number)
        rank = _FIRST.index(notice.reason) if notice.reason in _FIRST else len(_FIRST)
        if notice.kind is NoticeKind.WEED:
            rank = _RANKS - 1
        if self._queue.put(_Queued(rank, self._clock.now(), notice.kind, place, body)):
            self._too_many.inc()
            self._dropped += 1

    def _open(self, kind: NoticeKind) -> bool:
        """Whether an Event may be written: by the leader, but by any replica for an override that it was asked for."""
        waits = self._retry_at is not None and self._clock.now() < self._retry_at
        return (kind is NoticeKind.OVERRIDE or self._leading()) and not waits

    async def run(self) -> None:
        """Sends queued Events until it is cancelled."""
        await asyncio.gather(*(self._work() for _ in range(_IN_FLIGHT)))

    async def _work(self) -> None:
        while True:
            await self._queue.reserve()
            await self._turn()
            queued = self._queue.take()
            if self._open(queued.kind):
                await self._send(queued)
            if self._dropped and self._queue.empty:
                log.warning("Events were dropped, as there were too many", number=self._dropped)
                self._dropped = 0

    async def _turn(self) -> None:
        """Waits until an Event may be sent; after a 429 only one at a time, until one is accepted."""
        await self._clock.sleep(self._pace.owe(self._clock.now()))
        while (pause := self._resumes - self._clock.now()) > 0:
            await self._clock.sleep(pause)
        if self._throttled:
            self._resumes = self._clock.now() + _AGAIN

    async def _send(self, queued: _Queued) -> None:
        sent = self._clock.now()
        try:
            async with asyncio.timeout(_SEND):
                await self._emit(queued.namespace, queued.body)
        except Throttled as error:
            self._no_room(queued, error)
        except Forbidden as error:
            self._refused(queued, sent, error)
        except (ClusterError, TimeoutError) as error:
            self._failed(queued.namespace, error)
        else:
            self._sent()

    def _no_room(self, queued: _Queued, error: Throttled) -> None:
        """Puts the Event back and pauses all sending."""
        now = self._clock.now()
        if now - queued.at >= _PATIENCE:
            self._failed(queued.namespace, error)
            return
        self._pause(queued, max(error.retry_after or 0.0, _AGAIN))

    def _pause(self, queued: _Queued, seconds: float) -> None:
        self._throttled = True
        self._resumes = max(self._resumes, self._clock.now() + seconds)
        self._queue.put_back(queued)

    def _sent(self) -> None:
        self._failing, self._throttled, self._retry_at = False, False, None
        self._refusals.allowed()
        if self.off is not None:
            self.off = None
            self._metrics.feature(EVENTS_FEATURE, off=False)
            log.info("Events are written again", feature=EVENTS_FEATURE)

    def _refused(self, queued: _Queued, sent: float, error: Forbidden) -> None:
        """At the third in a row it switches the feature off, logs that once, and retries after an hour."""
        now = self._clock.now()
        if not self._refusals.refused(sent, now):
            self._pause(queued, AFTER_REFUSAL * self._refusals.count)
            return
        self._retry_at = now + _FORBIDDEN_FOR
        if self.off is None:
            log.warning(
                "Events are forbidden; the feature is off", feature=EVENTS_FEATURE, error=str(error)
            )
        self.off = str(error)
        self._metrics.feature(EVENTS_FEATURE, off=True)

    def _failed(self, namespace: str, error: Exception) -> None:
        """Drops the Event, because actions matter more; logs the first of consecutive losses."""
        self._not_taken.inc()
        tell = log.debug if self._failing else log.warning
        self._failing = True
        tell("an Event could not be written", namespace=namespace, error=str(error) or "timed out")


def event(
    notice: Notice, resource: ResourceRef, *, uid: str | None, identity: str, number: int
) -> dict[str, object]:
    """Returns the `events.k8s.io/v1` object for `notice`, within the limits of the API."""
    stamp = f"{max(int(notice.at * 1e6), 0):x}.{number:x}"
    regarding = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": _place(notice),
        "name": resource.name,
    }
    # What was done to the resource, or was about to be done.
    action = "Probe"
    if isinstance(notice, OverrideChanged | RecoveryBegan | PodJudged):
        action = notice.action or action
    elif isinstance(notice, ResourceScaled):
        action = _ACTIONS[notice.direction]
    troubling = notice.severity in {Severity.WARNING, Severity.ERROR}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{resource.name[:_NAME].rstrip('.-')}.{stamp}",
            "namespace": _place(notice),
        },
        "eventTime": rfc3339(notice.at, micro=True),
        "reportingController": CONTROLLER,
        "reportingInstance": identity[:128] or CONTROLLER,
        "action": str(action),
        "reason": str(notice.reason)[:128],
        "regarding": regarding if uid is None else {**regarding, "uid": uid},
        "note": _note(notice.event or ""),
        "type": "Warning" if troubling and notice.reason not in _NORMAL else "Normal",
    }


def _place(notice: Notice) -> str:
    """The namespace of the resource that the notice is about."""
    return notice.namespace if notice.about_namespace is None else notice.about_namespace


def _note(message: str) -> str:
    """Cuts the text to 1024 bytes of UTF-8, without half a character at the end."""
    text = "".join(c if c.isprintable() else " " for c in message[:_NOTE_BYTES])
    return text.encode("utf-8", "replace")[:_NOTE_BYTES].decode("utf-8", "ignore")
