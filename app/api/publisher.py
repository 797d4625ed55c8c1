"""The publisher of the event stream: renders what may have changed, and publishes what has, while any stream is open.

A notice, a watch or an override only signals a topic. The publisher reads what is there now, compares it with what was
published last, and publishes the difference to the feed (`app.core.reporting.changes`), once for all streams.

Signals arrive at any rate; the publisher collects them for a moment, so that changes that belong together, and the
notice that names who had a resource ignored, are published together. A turn is at most every 0.2 s, whatever the
number of signals. Rendering starts with the first stream and goes on for a minute after the last one, so that a client
that reconnects within that time can resume from its last event.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from app.api import presenting
from app.api.context import Context, RenderedShoot
from app.api.schemas import (
    AuditChange,
    EventName,
    Hold,
    Operation,
    OverrideChange,
    OverrideKind,
    Pause,
    Schema,
    ShootGone,
    WeederChange,
)
from app.core.clock import Clock
from app.core.model import overrides, workloads
from app.core.model.instants import rfc3339
from app.core.model.overrides import ALL_SHOOTS
from app.core.model.policy import Loop
from app.core.model.scaling_runs import ScalingRunStatus
from app.core.model.weeding import ServiceKey
from app.core.reporting.changes import ChangeKind, Feed, Wanted
from app.core.reporting.notices import (
    Notice,
    OverrideChanged,
    OverrideNotice,
    ScalingNotice,
    WeedingNotice,
)
from app.core.tasks import wait_until_set

# The format of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).


MEDIA_TYPE: Final = "text/event-stream"


def sse_event(event: EventName, data: Schema | bytes) -> bytes:
    """An event without its id; `data` is a schema, or the JSON of one.

    One `data` line is enough: compact JSON has no line breaks, as those in strings are escaped.
    """
    json = data if isinstance(data, bytes) else data.model_dump_json(by_alias=True).encode()
    return f"event: {event}\ndata: ".encode() + json + b"\n\n"


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


# What is published: topics, and what is there now of each.


class Topic(NamedTuple):
    """What a signal is about: a shoot, a service, the overrides of a shoot or (None) of all shoots, and so on."""

    kind: ChangeKind
    namespace: str | None = None
    service: str = ""


OPERATIONS: Final = Topic(ChangeKind.OPERATION)
AUDIT: Final = Topic(ChangeKind.AUDIT)
# The order in which the topics of one turn are published.
_ORDER: Final = (
    ChangeKind.OVERRIDE,
    ChangeKind.SHOOT,
    ChangeKind.OPERATION,
    ChangeKind.WEEDER,
    ChangeKind.AUDIT,
)


IgnoringAuthors = Mapping[tuple[Topic, bool], str]
"""Who had resources of a shoot ignored (True), or scaled again (False), as notices named them."""


class StreamEvent(NamedTuple):
    """One rendered event; the feed gives it an id."""

    kind: ChangeKind
    namespace: str | None
    body: bytes


class Change(NamedTuple):
    """A thing that is new, has changed or is gone since it was last published.

    Of a topic there are several things by name: scaling runs by id, overrides by kind and resource.
    """

    topic: Topic
    name: str
    before: Any
    after: Any
    ended_by: str | None = None
    """Who asked this process to end a pause or hold that is gone, if anybody did."""


class Published:
    """What was last published of each topic, for the loops that this instance leads."""

    def __init__(self, context: Context, led: frozenset[Loop]) -> None:
        self._overrides, self._now = context.overrides, context.process.now
        self._service = context.override_service
        self._prober = context.prober if Loop.PROBER in led else None
        self._weeders = context.weeders if Loop.WEEDER in led else None
        self._known: dict[Topic, Mapping[str, Any]] = {}
        self._acting: dict[Topic, Mapping[str, overrides.Pause | overrides.Hold]] = {}
        """The pause and the hold that act, as last published."""

    def changes(self, topic: Topic) -> Iterator[Change]:
        """Read what is there of a topic now; returns what differs from what was last published."""
        acted = self._acting.pop(topic, {})
        before, after = self._known.get(topic, {}), self._there(topic)
        if after and topic != AUDIT:
            self._known[topic] = after
        else:
            self._known.pop(topic, None)
        return (
            Change(
                topic,
                name,
                before.get(name),
                after.get(name),
                self._ended_by(acted[name]) if name in acted and name not in after else None,
            )
            for name in {**before, **after}
            if before.get(name) != after.get(name)
        )

    def _ended_by(self, gone: overrides.Pause | overrides.Hold) -> str | None:
        """Returns who asked this process to end it; None if it expired, or was ended without this process."""
        now = self._now()
        match gone:
            case overrides.Pause():
                return self._service.ended_by(gone.id.uid) if gone.in_force(now) else None
            case overrides.Hold():
                over = gone.done and now >= gone.until
                return None if over else self._service.ended_by(gone.operation)

    def snapshot(self) -> Iterator[StreamEvent]:
        """An event for everything that exists and is not over, as last published."""
        for topic in sorted(self._known, key=lambda each: _IN_SNAPSHOT.index(each.kind)):
            for name, there in self._known[topic].items():
                if not _lasts(there):
                    continue
                event = rendered(Change(topic, name, None, there), {})
                if event is not None:
                    yield event

    def everything(self) -> set[Topic]:
        """The topics of all that there is."""
        found = {OPERATIONS}
        if self._prober is not None:
            names = (each.namespace for each in self._prober.shoots.summaries())
            found |= {Topic(ChangeKind.SHOOT, each) for each in names}
        if self._weeders is not None:
            found |= {Topic(ChangeKind.WEEDER, *each.key) for each in self._weeders.statuses()}
        return found | self.of_overrides(found)

    def of_overrides(self, more: set[Topic]) -> set[Topic]:
        """All topics that overrides may be about, and the shoots, which show those of all shoots, too."""
        known = {*self._known, *more}
        namespaces = {each.namespace for each in known}.union(self._overrides.with_requests())
        overrides = {Topic(ChangeKind.OVERRIDE, each) for each in (None, *namespaces)}
        return overrides | {each for each in self._known if each.kind is ChangeKind.SHOOT}

    def running(self) -> set[Topic]:
        """Topics with a scaling run or a recovery under way: not every step of these causes a notice."""
        kinds = {ChangeKind.OPERATION, ChangeKind.WEEDER}
        return {
            topic
            for topic, there in self._known.items()
            if topic.kind in kinds and any(_lasts(each) for each in there.values())
        }

    # What is there now, by name.

    def _there(self, topic: Topic) -> Mapping[str, Any]:
        prober, namespace = self._prober, topic.namespace
        match topic.kind:
            case ChangeKind.OVERRIDE:
                return self._decisions(topic)
            case ChangeKind.WEEDER:
                key = ServiceKey(namespace or "", topic.service)
                service = None if self._weeders is None else self._weeders.status(key)
                return {} if service is None else {"": presenting.weeder_change(service)}
            case ChangeKind.OPERATION:
                # Runs that have ended are the same objects as before, so that comparing them costs next to nothing.
                runs = () if prober is None else prober.scaling_runs.operations()
                return {each.id: each for each in runs}
            case ChangeKind.AUDIT:
                # One event, whatever the number of attempts: a flood of refused ones must not push others out of the
                # feed.
                return {"": AuditChange(time=rfc3339(self._now()))}
            case ChangeKind.SHOOT:
                if prober is None or namespace is None:
                    return {}
                status = prober.shoots.status(namespace)
                if status is None:
                    prober.rendered.forget(namespace)
                    return {}
                return {"": prober.shoot_json(status)}

    def _decisions(self, topic: Topic) -> Mapping[str, Pause | Hold | bool]:
        """Overrides as they are shown: what else changes in an object, such as its resourceVersion, is no event."""
        acting: dict[str, overrides.Pause | overrides.Hold | None]
        if (namespace := topic.namespace) is None:
            acting = {OverrideKind.PAUSE: self._overrides.global_pause()}
        else:
            effective = self._overrides.effective(namespace)
            acting = {OverrideKind.PAUSE: effective.pause, OverrideKind.HOLD: effective.hold}
        if there := {kind: each for kind, each in acting.items() if each is not None}:
            self._acting[topic] = there
        found: dict[str, Pause | Hold | bool] = {
            kind: presenting.pause(each, namespace)
            if isinstance(each, overrides.Pause)
            else Hold.of(each)
            for kind, each in there.items()
        }
        # Only the prober's leader knows the annotation ignore-scaling of dependents, which have the names of resources.
        status = None
        if self._prober is not None and namespace is not None:
            status = self._prober.shoots.status(namespace)
        for ref, view in {} if status is None else status.resources.items():
            ignored = None if view is None else workloads.ignore_scaling(view.annotations)
            if ignored is workloads.Ignore.YES:
                found[str(ref)] = True
        return found


def rendered(change: Change, authors: IgnoringAuthors) -> StreamEvent | None:
    """The event about a change; None for a scaling run that is forgotten, or a service that is followed no more."""
    (kind, namespace, _), after = change.topic, change.after
    data: Schema | bytes
    match kind, after:
        case ChangeKind.OVERRIDE, _:
            event, data = EventName.OVERRIDE, _override(change, authors)
        case _, RenderedShoot(json=json):
            event, data = EventName.SHOOT, json
        case ChangeKind.SHOOT, None:
            event, data = EventName.SHOOT_GONE, ShootGone(namespace=namespace or "")
        case _, ScalingRunStatus():
            event, data, namespace = EventName.OPERATION, Operation.of(after), after.namespace
        case _, WeederChange():
            event, data = EventName.WEEDER, after
        case _, AuditChange():
            event, data = EventName.AUDIT, after
        case _:
            return None
    return StreamEvent(kind, namespace, sse_event(event, data))


_IN_SNAPSHOT: Final = (
    ChangeKind.SHOOT,
    ChangeKind.OPERATION,
    ChangeKind.WEEDER,
    ChangeKind.OVERRIDE,
)


def _lasts(there: object) -> bool:
    """Whether it belongs into a snapshot: scaling runs and recoveries do while they are under way."""
    match there:
        case ScalingRunStatus():
            return there.running
        case WeederChange():
            return there.recovery is not None and there.recovery.ended is None
        case _:
            return True


def _override(change: Change, authors: IgnoringAuthors) -> OverrideChange:
    """The data of its event; a new pause or hold names its own author."""
    after = change.after
    of_kind = change.name in {OverrideKind.PAUSE, OverrideKind.HOLD}
    kind = OverrideKind(change.name) if of_kind else OverrideKind.IGNORE_SCALING
    if isinstance(after, Pause | Hold):
        author: str | None = after.author
    elif of_kind:
        author = change.ended_by
    else:
        author = authors.get((change.topic, after is not None))
    return OverrideChange(
        namespace=change.topic.namespace,
        kind=kind,
        resource=None if of_kind else change.name,
        author=author,
        before=change.before,
        after=after,
    )


# Seconds from the first signal of a change to the rendering, in which related signals are collected.
_GATHER: Final = 0.05
# Seconds from a rendering until the next signal is waited for.
_PAUSE: Final = 0.15
# Seconds after which running operations and recoveries are rendered again without any signal.
_AGAIN: Final = 1.0
# Seconds for which rendering goes on after the last stream has ended, so that clients can resume.
_LINGER: Final = 60.0
# Topics that are rendered before the event loop has a pause: a few milliseconds of work.
_SLICE: Final = 20
# Length of that pause in seconds.
_YIELD_SECONDS: Final = 0.002


class Publisher:
    """Publishes changes to the feed while a stream is open.

    Args:
        context: The loops, process and overrides to render.
        feed: Takes the events.
        clock: The clock.
        broken: Called with a reason when the events that streams have seen have no continuation, so that all streams
            must end and start anew.
    """

    def __init__(
        self, context: Context, feed: Feed, clock: Clock, broken: Callable[[str], None]
    ) -> None:
        self._context, self._feed, self._clock, self._broken = context, feed, clock, broken
        self._pending: dict[Topic, None] = {}
        """Topics that may have changed since the last rendering, in the order of their signals."""
        self._authors: dict[tuple[Topic, bool], str] = {}
        """The `IgnoringAuthors` since then."""
        self._changed = asyncio.Event()
        self._published: Published | None = None
        """None while nothing is rendered."""
        self.ready = asyncio.Event()
        """Set while changes are published, which begins when everything has been rendered once: only then can a client
        that knows the newest event resume from it."""
        self._listeners = 0
        self._listened = asyncio.Event()
        self._idle_since = 0.0

    # Who listens.

    def join(self) -> None:
        """Count one more stream; `leave` must follow."""
        self._listeners += 1
        self._listened.set()

    def leave(self) -> None:
        """Count one stream less."""
        self._listeners -= 1
        if not self._listeners:
            self._listened.clear()
            self._idle_since = self._clock.now()

    def snapshot(self, wanted: Wanted) -> list[bytes]:
        """Events for everything `wanted` as last published; the feed continues it from its current position."""
        known = () if self._published is None else self._published.snapshot()
        return [each.body for each in known if wanted.covers(each.kind, each.namespace)]

    # Signals that something may have changed; ignored while nothing is rendered.

    def signal(self, *topics: Topic) -> None:
        """Render these topics in the next turn."""
        if self._published is not None:
            self._pending.update(dict.fromkeys(topics))
            self._changed.set()

    def note(self, notice: Notice) -> None:
        """Take a notice as a signal; subscribe it to the notice bus."""
        namespace = notice.namespace
        shoot = Topic(ChangeKind.SHOOT, namespace)
        match notice:
            case OverrideNotice():
                of = None if namespace == ALL_SHOOTS else namespace
                self.signal(shoot, decided := Topic(ChangeKind.OVERRIDE, of))
                if not isinstance(notice, OverrideChanged) or notice.author is None:
                    return
                if notice.override == OverrideKind.IGNORE_SCALING and decided in self._pending:
                    self._authors[decided, notice.action != "EndOverride"] = notice.author
            case WeedingNotice():
                self.signal(Topic(ChangeKind.WEEDER, namespace, notice.service))
            case ScalingNotice():
                self.signal(shoot, OPERATIONS)
            case _:
                self.signal(shoot)

    def shoot_changed(self, namespace: str) -> None:
        """Take a change that a watch has shown, or of its Pauses or ScaleRequests, as a signal."""
        self.signal(Topic(ChangeKind.SHOOT, namespace), Topic(ChangeKind.OVERRIDE, namespace))

    def overrides_changed(self, namespace: str | None) -> None:
        """Take a change of Pauses or ScaleRequests as a signal: in one control plane, or (None) in any."""
        if namespace is not None:
            self.shoot_changed(namespace)
        elif self._published is not None:
            self.signal(*self._published.of_overrides(set(self._pending)))
        self.signal(OPERATIONS)

    def audit_changed(self) -> None:
        """Take an attempt to change something as a signal."""
        self.signal(AUDIT)

    def leadership_changed(self) -> None:
        """Wake up to check whether this instance still leads the same loops."""
        self._changed.set()

    # The loop.

    async def run(self) -> None:
        """Publish for ever, whenever a stream is open."""
        while True:
            await self._listened.wait()
            try:
                led, self._pending, self._authors = self._leading(), {}, {}
                self._published = published = Published(self._context, led)
                # What is there at the beginning is not published: it is the state from which streams see changes.
                await self._render(published, published.everything(), None)
                self.ready.set()
                while self._listeners or self._clock.now() - self._idle_since < _LINGER:
                    if self._leading() != led:
                        self._broken("another instance leads now, or this one does")
                        break
                    await self._turn(published)
            finally:
                # The feed must know that it misses changes from here on.
                self._published = None
                self.ready.clear()
                self._feed.interrupt()

    def _leading(self) -> frozenset[Loop]:
        leaders = self._context.process.leaders
        return frozenset(loop for loop, each in leaders.items() if each.leading)

    async def _turn(self, published: Published) -> None:
        if await wait_until_set(self._changed, _AGAIN):
            await self._clock.sleep(_GATHER)
        pending, self._pending = self._pending, {}
        authors, self._authors = self._authors, {}
        self._changed.clear()
        pending.update(dict.fromkeys(published.running()))
        await self._render(published, pending, authors)
        await self._clock.sleep(_PAUSE)

    async def _render(
        self, published: Published, pending: Iterable[Topic], authors: IgnoringAuthors | None
    ) -> None:
        """Compare these topics with what was published last, and publish what differs (authors None: nothing)."""
        topics = sorted(pending, key=lambda each: _ORDER.index(each.kind))
        for number, topic in enumerate(topics, start=1):
            for change in published.changes(topic):
                event = None if authors is None else rendered(change, authors)
                if event is not None:
                    self._feed.publish(*event)
            if number % _SLICE == 0:
                await self._clock.sleep(_YIELD_SECONDS)
