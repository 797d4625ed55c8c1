"""One watch: streams the changes since a version, with bookmarks, until its timeout."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from app.core.clock import Clock
from app.core.errors import Expired
from app.simulation.definitions import ServedResource
from app.simulation.server import answers
from app.simulation.server.options import ListOptions, RequestedObject
from app.simulation.server.reading import chooser
from app.simulation.store import Happened, Object, Store, StoreEvent

Render = Callable[[Object], dict[str, Any]]
Send = Callable[[bytes], Awaitable[None]]

# The duration of a watch without `timeoutSeconds`, in seconds.
_LONGEST: Final = 1800.0
# Seconds between two bookmarks.
_BOOKMARKS: Final = 60.0
# Seconds before the end of a watch at which a last bookmark is sent.
_BEFORE_END: Final = 2.0
# Seconds from the end of its kind to the end of a watch.
_WITHDRAWN: Final = 1.0
# Seconds between checks whether a stalled watch may continue.
_LOOK: Final = 0.5
# Seconds after its end in which a client may still read the watch.
_GRACE: Final = 5.0
MOST_WAITING: Final = 50_000
"""The number of undelivered changes at which a watch is cut, as a real server does with a slow client."""


@dataclass(frozen=True, slots=True)
class Watching:
    """The subject of a watch."""

    resource: ServedResource
    target: RequestedObject
    options: ListOptions
    render: Render
    """The shape in which objects are sent."""


class StoreWatch:
    """One watch of one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        watching: Watching,
        stalled: Callable[[], bool],
        mute: Callable[[], bool] = lambda: False,
        delay: float = 0.0,
    ) -> None:
        """Subscribes to the store; `close` unsubscribes.

        Args:
            store: what is watched.
            clock: says when bookmarks and the end are due.
            watching: what it is about.
            stalled: whether the server delivers nothing now.
            mute: whether not even the end of the watch gets through.
            delay: seconds from a change to its delivery.

        Raises:
            Invalid: a selector cannot be understood.
        """
        self._store, self._clock, self._watching = store, clock, watching
        self._stalled, self._mute, self._delay = stalled, mute, delay
        options = watching.options
        self._chooses = chooser(options.labels, options.fields, watching.resource)
        self._waiting: deque[tuple[float, bytes]] = deque()
        """What is to be delivered, and when at the earliest."""
        self._more = asyncio.Event()
        self._cut = self._withdrawn = False
        self._over = False
        """Whether the watch ends after the pending changes."""
        self._known = options.version or 0
        """The latest version that the client knows."""
        self._newest = 0
        """The version of the last change of this kind, selected or not."""
        self._begin(options)
        store.subscribe(self._heard)

    def cut(self) -> None:
        """Breaks the connection; pending changes are lost."""
        self._cut = True
        self._more.set()

    def end(self) -> None:
        """Ends the watch soon, after what is pending: its kind is served no longer."""
        self._withdrawn = True
        self._more.set()

    def close(self) -> None:
        """Unsubscribes from the store."""
        self._store.unsubscribe(self._heard)

    async def run(self, send: Send) -> None:
        """Sends pending and new changes, until the end of the watch.

        Raises:
            ConnectionError: the connection is cut: by a fault, or as its client does not keep up.
        """
        begun = self._clock.now()
        end = begun + float(self._watching.options.timeout or _LONGEST)
        bookmark = min(begun + _BOOKMARKS, end - _BEFORE_END)
        while not self._over and (now := self._clock.now()) < end:
            if self._cut:
                raise ConnectionResetError
            if self._withdrawn:
                end, self._withdrawn = min(end, now + _WITHDRAWN), False
            stalled = self._stalled()
            if not stalled:
                if now >= bookmark:
                    self._bookmark()
                    bookmark = min(now + _BOOKMARKS, max(end - _BEFORE_END, now + _BEFORE_END))
                await self._flush(send, end)
            following = min(bookmark, end, self._waiting[0][0] if self._waiting else end)
            await self._pause(now + _LOOK if stalled else following)
        while self._mute():
            await self._clock.sleep(_LOOK)
        if not self._stalled():
            await self._flush(send, end)

    async def _flush(self, send: Send, end: float) -> None:
        """Sends pending changes; gives up on a client that has not read them a while after the end of the watch."""
        self._more.clear()
        now, due = self._clock.now(), list[bytes]()
        while self._waiting and self._waiting[0][0] <= now:
            due.append(self._waiting.popleft()[1])
        if due:
            try:
                async with asyncio.timeout(end + _GRACE - self._clock.now()):
                    await send(b"".join(due))
            except TimeoutError as error:
                raise ConnectionResetError from error

    async def _pause(self, until: float) -> None:
        """Returns when there is more to send, or at an instant."""
        try:
            async with asyncio.timeout(max(until - self._clock.now(), 0.001)):
                if self._stalled():
                    await asyncio.Event().wait()
                await self._more.wait()
        except TimeoutError:
            return

    def _begin(self, options: ListOptions) -> None:
        if not options.version or options.initial_events:
            for obj in self._store.list(self._kind, self._watching.target.namespace or None):
                if self._chooses(obj):
                    self._queue("ADDED", obj)
            if options.initial_events:
                self._bookmark(initial=True)
            return
        try:
            missed = self._store.since(options.version, self._kind)
        except Expired as error:
            status = answers.status(error, 410)
            self._append(_line("ERROR", status), 0.0)
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
            return  # a watch may begin at a version in the future
        self._newest = event.version
        if namespace not in ("", event.key.namespace):
            return
        for word, obj in self._told(event):
            self._queue(word, obj, self._delay)
            self._more.set()

    def _told(self, event: StoreEvent) -> Iterator[tuple[str, Object]]:
        """Returns the event that a change is for a watch with selectors, which may differ from what happened."""
        before = event.before is not None and self._chooses(event.before)
        after = event.happened is not Happened.DELETED and self._chooses(event.object)
        if after:
            yield ("MODIFIED" if before else "ADDED"), event.object
        elif before and event.before is not None:
            # the last selected state, with the version at which it stopped matching
            version = {"resourceVersion": event.object["metadata"]["resourceVersion"]}
            metadata = {**event.before["metadata"], **version}
            yield "DELETED", {**event.before, "metadata": metadata}

    def _append(self, line: bytes, delay: float) -> None:
        self._waiting.append((self._clock.now() + delay, line))

    def _queue(self, word: str, obj: Object, delay: float = 0.0) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self.cut()
            return
        self._append(_line(word, self._watching.render(obj)), delay)
        self._known = max(self._known, int(obj["metadata"]["resourceVersion"]))

    def _bookmark(self, *, initial: bool = False) -> None:
        """Sends a bookmark; as on a real server, only if the client does not know that version yet."""
        if not (initial or (self._watching.options.bookmarks and self._newest > self._known)):
            return
        self._known, resource = self._store.version, self._watching.resource
        metadata: dict[str, Any] = {"resourceVersion": str(self._known)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kept = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        self._append(_line("BOOKMARK", kept), 0.0 if initial else self._delay)


def _line(word: str, obj: object) -> bytes:
    return msgspec.json.encode({"type": word, "object": obj}) + b"\n"
