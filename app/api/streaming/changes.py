"""Events about shoots, scaling runs and services of the weeder: what differs from what was last published."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from app.api import presenting
from app.api.context import ProberView
from app.api.schemas import AuditChange, EventName, Operation, Schema, ShootGone, WeederChange
from app.core.model.instants import rfc3339
from app.core.model.scaling_runs import ScalingRunStatus
from app.core.model.weeding import ServiceKey
from app.core.reporting.changes import ChangeKind
from app.prober.scaling.operations import ManualScaling
from app.weeder.controller import WeederController

# The format of server-sent events; pure. Each body is rendered once and shared by all streams.


MEDIA_TYPE: Final = "text/event-stream"


def sse_body(event: str, data: Schema) -> bytes:
    """An event without its id.

    One `data` line is enough: compact JSON has no line breaks, as those in strings are escaped.
    """
    json = data.model_dump_json(by_alias=True)
    return f"event: {event}\ndata: {json}\n\n".encode()


def with_id(name: str, event: bytes) -> bytes:
    """The event with its id, which a client sends as `Last-Event-ID` when it reconnects."""
    return f"id: {name}\n".encode() + event


def opening(retry: float, name: str | None) -> bytes:
    """The first block of a stream: how long to wait before a reconnect, and the id to resume from.

    A block without data is not dispatched as an event, but clients remember its id.

    Args:
        retry: In seconds.
        name: The id to resume from; None: there is nothing to resume from yet.
    """
    first = f"retry: {retry * 1000:.0f}\n\n".encode()
    return first if name is None else with_id(name, first)


def heartbeat(name: str) -> bytes:
    """A comment that keeps proxies from closing an idle connection, with the id of the stream's current position.

    The position moves on over events that the filter of a stream hides.
    """
    return f": heartbeat\nid: {name}\n\n".encode()


# Events on their way from the publisher to the feed.


class StreamEvent(NamedTuple):
    """One rendered event; the feed gives it an id."""

    kind: ChangeKind
    namespace: str | None
    body: bytes


# Fields that may change with each probe or endpoint probe; a change of these alone is no event.
_UNEVENTFUL: Final[dict[str, Any]] = {
    "probe": {"last_time", "next_time", "duration_seconds", "count"},
    "leases": {"as_of", "candidates_as_of"},
    "endpoint_probes": {"__all__": {"last_time", "last_result", "message"}},
    "gates": {"__all__": {"message"}},
}


class _Shown(NamedTuple):
    """The last rendering of a shoot, with the digest of all fields but `_UNEVENTFUL`."""

    digest: bytes
    body: bytes


class ShootNews:
    """Events about shoots: `shoot` and `shoot-gone`."""

    def __init__(self, prober: ProberView) -> None:
        self._prober = prober
        self._shown: dict[str, _Shown] = {}

    @property
    def rendered(self) -> set[str]:
        """Namespaces of the shoots that were rendered and still exist."""
        return set(self._shown)

    def namespaces(self) -> set[str]:
        """Namespaces of all shoots."""
        return {each.namespace for each in self._prober.shoots.summaries()}

    def draw(self, namespace: str) -> Iterable[StreamEvent]:
        """Render one shoot; returns its event, or nothing if it has not changed."""
        status, before = self._prober.shoots.status(namespace), self._shown.get(namespace)
        if status is None:
            return () if before is None else (self._gone(namespace),)
        effective = self._prober.overrides.effective(namespace)
        endpoints = self._prober.endpoints_of(namespace)
        shoot = presenting.shoot(status, self._prober.policy, effective, endpoints)
        eventful = shoot.model_dump_json(by_alias=True, exclude=_UNEVENTFUL)
        digest = blake2b(eventful.encode(), digest_size=16).digest()
        body = sse_body(EventName.SHOOT, shoot)
        self._shown[namespace] = _Shown(digest, body)
        if before is not None and before.digest == digest:
            return ()
        return (StreamEvent(ChangeKind.SHOOT, namespace, body),)

    def _gone(self, namespace: str) -> StreamEvent:
        del self._shown[namespace]
        body = sse_body(EventName.SHOOT_GONE, ShootGone(namespace=namespace))
        return StreamEvent(ChangeKind.SHOOT, namespace, body)

    def snapshot(self) -> Iterable[StreamEvent]:
        """An event for each shoot as it was last rendered."""
        for namespace, shown in self._shown.items():
            yield StreamEvent(ChangeKind.SHOOT, namespace, shown.body)


# Scaling runs.


class OperationNews:
    """Events about scaling runs: `operation`."""

    def __init__(self, view: ManualScaling) -> None:
        self._view = view
        self._told: dict[str, ScalingRunStatus] = {}

    @property
    def running(self) -> bool:
        """Whether one was under way when they were last rendered: not every step causes a notice."""
        return any(each.running for each in self._told.values())

    def draw(self) -> Iterable[StreamEvent]:
        """Events for the scaling runs that are new or have changed, each rendered when it is asked for."""
        now = {each.id: each for each in self._view.operations()}
        before, self._told = self._told, now
        # Runs that have ended are the same objects as before, so that comparing them costs next to nothing.
        return (_told(each) for name, each in now.items() if before.get(name) != each)

    def snapshot(self) -> Iterable[StreamEvent]:
        """An event for each scaling run that is under way."""
        return [_told(each) for each in self._told.values() if each.running]


def _told(operation: ScalingRunStatus) -> StreamEvent:
    shown = Operation.of(operation)
    return StreamEvent(
        ChangeKind.OPERATION, operation.namespace, sse_body(EventName.OPERATION, shown)
    )


# Attempts to change something.


def attempted(now: float) -> StreamEvent:
    """The event that there are new records of the audit."""
    return StreamEvent(
        ChangeKind.AUDIT, None, sse_body(EventName.AUDIT, AuditChange(time=rfc3339(now)))
    )


# Services of the weeder.


class WeederNews:
    """Events about services and their newest recovery: `weeder`."""

    def __init__(self, view: WeederController) -> None:
        self._view = view
        self._told: dict[ServiceKey, WeederChange] = {}

    def keys(self) -> set[ServiceKey]:
        """All services that have recoveries."""
        return {each.key for each in self._view.statuses()}

    @property
    def rendered(self) -> set[ServiceKey]:
        """Services that were rendered."""
        return set(self._told)

    @property
    def running(self) -> set[ServiceKey]:
        """Services with a running recovery when last rendered: not every change in a recovery causes a notice."""
        return {key for key, told in self._told.items() if _runs(told)}

    def draw(self, key: ServiceKey) -> Iterable[StreamEvent]:
        """Render one service; returns its event, or nothing if it has not changed."""
        status = self._view.status(key)
        if status is None:
            self._told.pop(key, None)
            return ()
        change = presenting.weeder_change(status)
        if self._told.get(key) == change:
            return ()
        self._told[key] = change
        return (_told_of_weeder(change),)

    def snapshot(self) -> Iterable[StreamEvent]:
        """An event for each service with a running recovery."""
        return [_told_of_weeder(each) for each in self._told.values() if _runs(each)]


def _runs(change: WeederChange) -> bool:
    return change.recovery is not None and change.recovery.ended is None


def _told_of_weeder(change: WeederChange) -> StreamEvent:
    return StreamEvent(ChangeKind.WEEDER, change.namespace, sse_body(EventName.WEEDER, change))
