"""Notices as Kubernetes Events on the dependents, never in the way of an action (metrics.md).

Events wait in a queue that is never waited for: one that is full drops.  One task sends them at a bounded rate.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from app.core.errors import ClusterError, Forbidden, Throttled
from app.core.model.instants import rfc3339
from app.core.model.workloads import Direction, ResourceRef
from app.core.ports import EventSink
from app.core.records.notices import Kind, Notice, Severity
from app.core.runtime.clock import Clock
from app.core.runtime.metrics import Metrics

log = structlog.get_logger(__name__)

FEATURE: Final = "events"
CONTROLLER: Final = "dependency-watchdog"
_QUEUE: Final = 1_000
_OF_WEEDING: Final = 500
"""Where so many wait, those of pods are dropped: they come by the hundred, and never in the way of the prober's."""
_BURST, _PER_SECOND = 25, 5
_SEND: Final = 10.0
"""Seconds that one write may take."""
_AGAIN, _PATIENCE = 1.0, 60.0
"""Seconds until one for which there was no room is tried again, and after which it is given up."""
_FORBIDDEN_FOR: Final = 3600.0
_REPEATS: Final = 300.0
_NOTE_BYTES: Final = 1024
_NAME: Final = 200
_REMEMBERED: Final = 5_000
_NORMAL: Final = frozenset({"MeltdownProtectionEnded"})
"""Told as a warning in the log, good news on the object."""
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
"""After one of these, what was told of the resource before is news again."""
_ACTIONS: Final = {Direction.DOWN: "ScaleDown", Direction.UP: "ScaleUp"}


class _Pace:
    """So many at once, then so many a second."""

    def __init__(self, burst: int, per_second: float) -> None:
        self._apart = 1 / per_second
        self._ahead = (burst - 1) / per_second
        self._due = 0.0

    def turn(self, now: float) -> float:
        """Takes the next place; returns the seconds to wait for it."""
        self._due = max(self._due, now)
        wait = max(self._due - self._ahead - now, 0.0)
        self._due += self._apart
        return wait


class _Subject(NamedTuple):
    namespace: str
    resource: ResourceRef


class _Repeats:
    """What was told of each resource in the last 5 min."""

    def __init__(self) -> None:
        self._told: OrderedDict[_Subject, dict[tuple[str, str], float]] = OrderedDict()

    def told(self, subject: _Subject, notice: Notice) -> bool:
        """Whether the same was told already; remembers it where it was not."""
        known = self._told.setdefault(subject, {})
        self._told.move_to_end(subject)
        what = (str(notice.reason), notice.message)
        if (at := known.get(what)) is not None and notice.at - at < _REPEATS:
            return True
        recent = {k: v for k, v in known.items() if notice.at - v < _REPEATS}
        self._told[subject] = {what: notice.at} | ({} if notice.reason in _CHANGES else recent)
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        return False


class _Queued(NamedTuple):
    """An Event that waits; those of weeding come last, else they go in the order in which they came."""

    weeding: bool
    number: int
    kind: Kind
    namespace: str
    body: dict[str, object]


class EventWriter:
    """Writes Events while this instance leads.

    Args:
        sink: where they go.
        leading: whether this instance leads.
        uid_of: the uid of a dependent; `kubectl describe` shows only Events that have it.
        identity: which replica reports.
        clock: for the hour after a refusal.
        metrics: says whether the feature is off.
    """

    def __init__(
        self,
        sink: EventSink,
        *,
        leading: Callable[[], bool],
        uid_of: Callable[[str, ResourceRef], str | None],
        identity: str,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._sink, self._leading, self._uid_of = sink, leading, uid_of
        self._identity, self._clock, self._metrics = identity, clock, metrics
        self._queue: asyncio.PriorityQueue[_Queued] = asyncio.PriorityQueue(_QUEUE)
        self._pace = _Pace(_BURST, _PER_SECOND)
        self._repeats = _Repeats()
        self._retry_at: float | None = None
        self._dropped = 0
        self._number = 0
        self._failing = False
        self.off: str | None = None
        """Why the feature is off; None while it is on."""

    def note(self, notice: Notice) -> None:
        """Queues an Event for `notice`, where it is worth one: subscribe it to the board, never in a dry run."""
        if not notice.event or notice.resource is None or not self._open(notice.kind):
            return
        if self._repeats.told(_Subject(_place(notice), notice.resource), notice):
            return
        weeding = notice.kind is Kind.WEED
        if self._queue.full() or (weeding and self._queue.qsize() >= _OF_WEEDING):
            self._dropped += 1
            return
        self._number += 1
        body = self._event(notice, notice.resource)
        self._queue.put_nowait(_Queued(weeding, self._number, notice.kind, _place(notice), body))

    def _open(self, kind: Kind) -> bool:
        """Whether it may be written: by the leader, but for what a person asked this very replica for."""
        waits = self._retry_at is not None and self._clock.now() < self._retry_at
        return (kind is Kind.OVERRIDE or self._leading()) and not waits

    def _event(self, notice: Notice, resource: ResourceRef) -> dict[str, object]:
        return event(
            notice,
            resource,
            uid=notice.resource_uid or self._uid_of(_place(notice), resource),
            identity=self._identity,
            number=self._number,
        )

    async def run(self) -> None:
        """Sends what is queued, for ever."""
        while True:
            queued = await self._queue.get()
            await self._clock.sleep(self._pace.turn(self._clock.now()))
            await self._send_with_patience(queued)
            self._tell_dropped()

    async def _send_with_patience(self, queued: _Queued) -> None:
        """Sends it once there is room: after a start, or in an outage, everything else asks first."""
        late = self._clock.now() + _PATIENCE
        while self._open(queued.kind):
            try:
                await self._send(queued.namespace, queued.body)
            except Throttled as error:
                if self._clock.now() >= late:
                    self._failed(queued.namespace, error)
                    return
                await self._clock.sleep(max(error.retry_after or 0.0, _AGAIN))
            else:
                return

    async def _send(self, namespace: str, body: dict[str, object]) -> None:
        """Sends it once.

        Raises:
            Throttled: there is no room for it now.
        """
        try:
            async with asyncio.timeout(_SEND):
                await self._sink.emit(namespace, body)
        except Throttled:
            raise
        except Forbidden as error:
            self._refused(error)
        except (ClusterError, TimeoutError) as error:
            self._failed(namespace, error)
        else:
            self._sent()

    def _sent(self) -> None:
        self._failing, self._retry_at = False, None
        if self.off is not None:
            self.off = None
            self._metrics.feature_off.labels(FEATURE).set(0)
            log.info("Events are written again", feature=FEATURE)

    def _refused(self, error: Forbidden) -> None:
        """Off, told once, and tried again after an hour."""
        self._retry_at = self._clock.now() + _FORBIDDEN_FOR
        if self.off is None:
            log.warning(
                "Events are forbidden; the feature is off", feature=FEATURE, error=str(error)
            )
        self.off = str(error)
        self._metrics.feature_off.labels(FEATURE).set(1)

    def _failed(self, namespace: str, error: Exception) -> None:
        """Lost, as actions matter more; the first loss of a row is told."""
        tell = log.debug if self._failing else log.warning
        self._failing = True
        tell("an Event could not be written", namespace=namespace, error=str(error) or "timed out")

    def _tell_dropped(self) -> None:
        if self._dropped and self._queue.empty():
            log.warning("Events were dropped, as there were too many", number=self._dropped)
            self._dropped = 0


def event(
    notice: Notice, resource: ResourceRef, *, uid: str | None, identity: str, number: int
) -> dict[str, object]:
    """The `events.k8s.io/v1` object for `notice`, within the limits that the API sets."""
    stamp = f"{max(int(notice.at * 1e6), 0):x}.{number:x}"
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
        "action": _action(notice),
        "reason": str(notice.reason)[:128],
        "regarding": _regarding(_place(notice), resource, uid),
        "note": _note(notice.message if notice.note is None else notice.note),
        "type": _type(notice),
    }


def _place(notice: Notice) -> str:
    """The namespace of the resource that it is about."""
    return notice.namespace if notice.about_namespace is None else notice.about_namespace


def _action(notice: Notice) -> str:
    """What was done, or was about to be done, to the resource."""
    named = notice.numbers.get("action")
    return str(named or _ACTIONS.get(notice.numbers.get("direction", ""), "Probe"))


def _regarding(namespace: str, resource: ResourceRef, uid: str | None) -> dict[str, str]:
    found = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": namespace,
        "name": resource.name,
    }
    return found if uid is None else {**found, "uid": uid}


def _note(message: str) -> str:
    """At most 1024 bytes of UTF-8, without half a character at the end."""
    text = "".join(c if c.isprintable() else " " for c in message[:_NOTE_BYTES])
    return text.encode("utf-8", "replace")[:_NOTE_BYTES].decode("utf-8", "ignore")


def _type(notice: Notice) -> str:
    troubling = notice.severity in {Severity.WARNING, Severity.ERROR}
    return "Warning" if troubling and notice.reason not in _NORMAL else "Normal"
