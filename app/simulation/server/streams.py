"""One watch: what changed since a version, as it changes, with bookmarks, until its time is over."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from app.core.clock import Clock
from app.core.errors import Expired
from app.simulation.server import answers
from app.simulation.server.catalog import ServedResource
from app.simulation.server.options import ListOptions, RequestedObject
from app.simulation.server.reading import chooser
from app.simulation.store import Happened, Object, Store, StoreEvent

Render = Callable[[Object], dict[str, Any]]
Send = Callable[[bytes], Awaitable[None]]

_LONGEST: Final = 1800.0
"""Seconds that a watch lasts for which no end was asked."""
_BOOKMARKS: Final = 60.0
"""Seconds between two bookmarks."""
_BEFORE_END: Final = 2.0
"""Seconds before the end of a watch at which there is a bookmark in any case."""
_LOOK: Final = 0.5
"""How often a stalled watch looks whether it may go on, seconds."""
_GRACE: Final = 5.0
"""Seconds after its end in which a watch may still be read."""
MOST_WAITING: Final = 50_000
"""Changes that a watch may be behind before it is cut, as a real server does to a slow reader."""


class TooSlow(Exception):
    """Whoever watches does not keep up."""


@dataclass(frozen=True, slots=True)
class Watching:
    """What a watch is about."""

    resource: ServedResource
    target: RequestedObject
    options: ListOptions
    render: Render
    """How objects are shown."""


class StoreWatch:
    """One watch of one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        watching: Watching,
        stalled: Callable[[], bool],
        mute: Callable[[], bool] = lambda: False,
    ) -> None:
        """Begins to listen; `close` ends that.

        Args:
            store: what is watched.
            clock: says when bookmarks and the end are due.
            watching: what it is about.
            stalled: whether the server delivers nothing now.
            mute: whether not even the end of the watch gets through.

        Raises:
            Invalid: a selector cannot be understood.
        """
        self._store, self._clock, self._watching = store, clock, watching
        self._stalled, self._mute = stalled, mute
        options = watching.options
        self._chooses = chooser(options.labels, options.fields, watching.resource)
        self._waiting: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._overrun = False
        self._over = False
        """Whether nothing comes after what is waiting."""
        self._known = options.version or 0
        """The version that whoever watches knows of."""
        self._newest = 0
        """The version of the last change of this kind, chosen or not."""
        self._begin(options)
        store.subscribe(self._heard)

    @property
    def about(self) -> str:
        """What is watched: the resource in the plural."""
        return self._watching.resource.plural

    def close(self) -> None:
        """Listens no more."""
        self._store.unsubscribe(self._heard)

    async def run(self, send: Send) -> None:
        """Sends what there is and what comes, until the end of the watch.

        Raises:
            TooSlow: more is waiting than is kept, or what was sent is not taken.
        """
        begun = self._clock.now()
        end = begun + float(self._watching.options.timeout or _LONGEST)
        bookmark = min(begun + _BOOKMARKS, end - _BEFORE_END)
        while not self._over and (now := self._clock.now()) < end:
            if self._overrun:
                raise TooSlow
            stalled = self._stalled()
            if not stalled:
                if now >= bookmark:
                    self._bookmark()
                    bookmark = min(now + _BOOKMARKS, max(end - _BEFORE_END, now + _BEFORE_END))
                await self._flush(send, end)
            await self._pause(now + _LOOK if stalled else min(bookmark, end))
        while self._mute():
            await self._clock.sleep(_LOOK)
        if not self._stalled():
            await self._flush(send, end)

    async def _flush(self, send: Send, end: float) -> None:
        """Sends what is waiting; who has not taken it a while after the end of the watch never will."""
        self._more.clear()
        if self._waiting:
            batch = b"".join(self._waiting)
            self._waiting.clear()
            try:
                async with asyncio.timeout(end + _GRACE - self._clock.now()):
                    await send(batch)
            except TimeoutError as error:
                raise TooSlow from error

    async def _pause(self, until: float) -> None:
        """Until there is more to send, or an instant."""
        try:
            async with asyncio.timeout(max(until - self._clock.now(), 0.001)):
                if self._stalled():
                    await asyncio.Event().wait()
                await self._more.wait()
        except TimeoutError:
            return

    def _begin(self, options: ListOptions) -> None:
        if options.version is None or options.version == 0 or options.initial_events:
            for obj in self._store.list(self._kind, self._watching.target.namespace or None):
                if self._chooses(obj):
                    self._queue("ADDED", obj)
            if options.initial_events:
                self._bookmark(initial=True)
            return
        try:
            missed = self._store.since(options.version, [self._kind])
        except Expired as error:
            status = answers.status(error, 410)
            self._waiting.append(_line("ERROR", status))
            self._over = True
            return
        for event in missed:
            self._heard(event)

    @property
    def _kind(self) -> str:
        return self._watching.resource.kind

    def _heard(self, event: StoreEvent) -> None:
        namespace = self._watching.target.namespace
        if event.key.kind != self._kind or event.version <= (self._watching.options.version or 0):
            return  # a watch may begin at a version that is not reached yet
        self._newest = event.version
        if namespace not in ("", event.key.namespace):
            return
        for word, obj in self._told(event):
            self._queue(word, obj)
            self._more.set()

    def _told(self, event: StoreEvent) -> Iterator[tuple[str, Object]]:
        """What a change is to a watch that sees chosen objects only."""
        before = event.before is not None and self._chooses(event.before)
        after = event.happened is not Happened.DELETED and self._chooses(event.object)
        if after:
            yield ("MODIFIED" if before else "ADDED"), event.object
        elif before:
            yield "DELETED", _last(event)

    def _queue(self, word: str, obj: Object) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._overrun = True
            return
        self._waiting.append(_line(word, self._watching.render(obj)))
        self._known = max(self._known, int(obj["metadata"]["resourceVersion"]))

    def _bookmark(self, *, initial: bool = False) -> None:
        """Tells how far the watch has come; as on a real server, only where that is news."""
        if not (initial or (self._watching.options.bookmarks and self._newest > self._known)):
            return
        self._known = self._store.version
        metadata: dict[str, Any] = {"resourceVersion": str(self._store.version)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        resource = self._watching.resource
        kept = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        self._waiting.append(_line("BOOKMARK", kept))


def _last(event: StoreEvent) -> Object:
    """What was chosen, as it was last, at the version at which it no longer is."""
    before = event.before or event.object
    version = event.object["metadata"]["resourceVersion"]
    return {**before, "metadata": {**before["metadata"], "resourceVersion": version}}


def _line(word: str, obj: object) -> bytes:
    return msgspec.json.encode({"type": word, "object": obj}) + b"\n"
