"""The publisher: renders what may have changed and publishes what has, once for all streams, while any is open.

Signals arrive at any rate; the publisher collects them for a moment, so that changes that belong together, and the
notice that names their author, are published together. A turn is at most every 0.2 s, whatever the number of signals.
Rendering starts with the first stream and goes on for a minute after the last one, so that a client that reconnects
within that time can resume from its last event.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, assert_never

from app.api.context import Context
from app.api.streaming.changes import (
    OperationNews,
    ShootNews,
    StreamEvent,
    WeederNews,
    attempted,
)
from app.api.streaming.override_events import OverrideAction, OverrideNews, action_of
from app.core.clock import Clock
from app.core.model.overrides import ALL_SHOOTS
from app.core.model.policy import Loop
from app.core.model.probing import NoticeKind
from app.core.model.weeding import ServiceKey
from app.core.reporting.changes import Feed, Wanted
from app.core.reporting.notices import Notice

# Seconds from the first signal of a change to the rendering, in which related signals are collected.
_GATHER: Final = 0.05
# Seconds from a rendering until the next signal is waited for.
_PAUSE: Final = 0.15
# Seconds after which running operations and recoveries are rendered again without any signal.
_AGAIN: Final = 1.0
# Seconds for which rendering goes on after the last stream has ended, so that clients can resume.
_LINGER: Final = 60.0
# Subjects that are rendered before the event loop has a pause: a few milliseconds of work.
_SLICE: Final = 20
# Length of that pause in seconds.
_YIELD_SECONDS: Final = 0.002


@dataclass(slots=True)
class _PendingChanges:
    """What may have changed since the last rendering."""

    shoots: set[str] = field(default_factory=set)
    services: set[ServiceKey] = field(default_factory=set)
    overrides: dict[str | None, dict[OverrideAction, str]] = field(default_factory=dict)
    """Control planes (None for all of them) whose overrides may have changed, with the authors that notices named."""
    scaling_runs: bool = False
    audit: bool = False


class _Subjects:
    """Everything that is rendered, for the loops that this instance leads."""

    def __init__(self, context: Context, led: frozenset[Loop]) -> None:
        prober = context.prober if Loop.PROBER in led else None
        weeders = context.weeders if Loop.WEEDER in led else None
        self.shoots = None if prober is None else ShootNews(prober)
        self.operations = None if prober is None else OperationNews(prober.scaling_runs)
        self.weeders = None if weeders is None else WeederNews(weeders)
        self.overrides = OverrideNews(context.overrides, None if prober is None else prober.shoots)
        self._now = context.process.now

    def all_changes(self) -> _PendingChanges:
        """Changes that cover everything."""
        shoots = set[str]() if self.shoots is None else self.shoots.namespaces()
        services = set[ServiceKey]() if self.weeders is None else self.weeders.keys()
        found = _PendingChanges(shoots, services, scaling_runs=True)
        self.add_overrides(found)
        return found

    def add_running(self, pending: _PendingChanges) -> None:
        """Add running operations and recoveries, which change without a signal."""
        if self.operations is not None:
            pending.scaling_runs |= self.operations.running
        if self.weeders is not None:
            pending.services |= self.weeders.running

    def add_overrides(self, pending: _PendingChanges) -> None:
        """Add all control planes that overrides may be about, and the shoots, which show those of all shoots, too."""
        if self.shoots is not None:
            pending.shoots |= self.shoots.rendered
        services = set[ServiceKey]() if self.weeders is None else self.weeders.rendered
        weeded = {each.namespace for each in (*services, *pending.services)}
        for namespace in (None, *(pending.shoots | weeded | self.overrides.namespaces())):
            pending.overrides.setdefault(namespace, {})

    def draw(self, pending: _PendingChanges) -> Iterable[Iterable[StreamEvent]]:
        """Render what `pending` names, lazily; yields the events of one subject at a time."""
        for namespace, authors in pending.overrides.items():
            yield self.overrides.draw(namespace, authors)
        if self.shoots is not None:
            yield from map(self.shoots.draw, pending.shoots)
        if self.operations is not None and pending.scaling_runs:
            yield self.operations.draw()
        if self.weeders is not None:
            yield from map(self.weeders.draw, pending.services)
        if pending.audit:
            # One event, whatever the number of attempts: a flood of refused ones must not push others out of the feed.
            yield (attempted(self._now()),)

    def snapshot(self) -> Iterable[StreamEvent]:
        """An event for everything that exists, as last rendered."""
        for each in (self.shoots, self.operations, self.weeders, self.overrides):
            if each is not None:
                yield from each.snapshot()


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
        self._pending, self._changed = _PendingChanges(), asyncio.Event()
        self._subjects: _Subjects | None = None
        """None while nothing is rendered."""
        self._led: frozenset[Loop] = frozenset()
        self._ready = asyncio.Event()
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

    @property
    def rendering(self) -> bool:
        """Whether changes are being published, so that a client that knows the newest event can resume from it."""
        return self._ready.is_set()

    async def ready(self) -> None:
        """Wait until everything has been rendered once; from then on changes are published."""
        await self._ready.wait()

    def snapshot(self, wanted: Wanted) -> list[bytes]:
        """Events for everything `wanted` as last published; the feed continues it from its current position."""
        told = () if self._subjects is None else self._subjects.snapshot()
        return [each.body for each in told if wanted.covers(each.kind, each.namespace)]

    # Signals that something may have changed; ignored while nothing is rendered.

    def note(self, notice: Notice) -> None:
        """Take a notice as a signal; subscribe it to the notice bus."""
        if self._subjects is None:
            return
        namespace = notice.namespace
        match notice.kind:
            case NoticeKind.LOOK | NoticeKind.VERDICT | NoticeKind.LIFECYCLE:
                self._pending.shoots.add(namespace)
            case NoticeKind.SCALE:
                self._pending.shoots.add(namespace)
                self._pending.scaling_runs = True
            case NoticeKind.OVERRIDE:
                self._note_override(notice)
            case NoticeKind.WEED:
                service = str(notice.numbers.get("service", ""))
                self._pending.services.add(ServiceKey(namespace, service))
            case _:
                assert_never(notice.kind)
        self._changed.set()

    def _note_override(self, notice: Notice) -> None:
        namespace = None if notice.namespace == ALL_SHOOTS else notice.namespace
        authors = self._pending.overrides.setdefault(namespace, {})
        if (author := notice.numbers.get("author")) is not None:
            authors[action_of(notice.numbers)] = str(author)
        self._pending.shoots.add(notice.namespace)

    def shoot_changed(self, namespace: str) -> None:
        """Take a change that a watch has shown as a signal."""
        if self._subjects is not None:
            self._pending.shoots.add(namespace)
            self._pending.overrides.setdefault(namespace, {})
            self._changed.set()

    def overrides_changed(self, namespace: str | None) -> None:
        """Take a change of Pauses or ScaleRequests as a signal: in one control plane, or (None) in any."""
        if self._subjects is None:
            return
        if namespace is None:
            self._subjects.add_overrides(self._pending)
        else:
            self._pending.shoots.add(namespace)
            self._pending.overrides.setdefault(namespace, {})
        self._pending.scaling_runs = True
        self._changed.set()

    def audit_changed(self) -> None:
        """Take an attempt to change something as a signal."""
        if self._subjects is not None:
            self._pending.audit = True
            self._changed.set()

    def leadership_changed(self) -> None:
        """Wake up to check whether this instance still leads the same loops."""
        self._changed.set()

    # The loop.

    async def run(self) -> None:
        """Publish for ever, whenever a stream is open."""
        while True:
            await self._listened.wait()
            try:
                subjects = await self._begin()
                while self._going_on():
                    await self._turn(subjects)
            finally:
                self._rest()

    async def _begin(self) -> _Subjects:
        """Render everything without publishing it: that is the state from which the first stream sees changes."""
        self._led = self._leading()
        self._pending = _PendingChanges()
        self._subjects = subjects = _Subjects(self._context, self._led)
        await self._draw(subjects, subjects.all_changes(), tell=False)
        self._ready.set()
        return subjects

    def _rest(self) -> None:
        """Stop rendering; the feed must know that it misses changes from here on."""
        self._subjects = None
        self._ready.clear()
        self._feed.interrupt()

    def _leading(self) -> frozenset[Loop]:
        leaders = self._context.process.leaders
        return frozenset(loop for loop, each in leaders.items() if each.leading)

    def _going_on(self) -> bool:
        if self._leading() != self._led:
            self._broken("another instance leads now, or this one does")
            return False
        return bool(self._listeners) or self._clock.now() - self._idle_since < _LINGER

    async def _turn(self, subjects: _Subjects) -> None:
        if await self._wait_for_change():
            await self._clock.sleep(_GATHER)
        pending, self._pending = self._pending, _PendingChanges()
        self._changed.clear()
        subjects.add_running(pending)
        await self._draw(subjects, pending)
        await self._clock.sleep(_PAUSE)

    async def _wait_for_change(self) -> bool:
        """Wait for a signal; False if none came within `_AGAIN`."""
        try:
            async with asyncio.timeout(_AGAIN):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _draw(
        self, subjects: _Subjects, pending: _PendingChanges, *, tell: bool = True
    ) -> None:
        for number, news in enumerate(subjects.draw(pending), start=1):
            for told in news if tell else ():
                self._feed.publish(*told)
            if number % _SLICE == 0:
                await self._clock.sleep(_YIELD_SECONDS)
