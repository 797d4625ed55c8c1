"""All streams of events of a process: their number, the signals that drive them, and their common end."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from app.api.context import Context
from app.api.problems import Problem, ProblemType
from app.api.streaming import changes
from app.api.streaming.publisher import Publisher
from app.api.streaming.stream import EventStream, Listening, Sources
from app.core.clock import Clock
from app.core.errors import trimmed
from app.core.metrics import Metrics
from app.core.ports import SeedChange, Watched
from app.core.reporting.changes import Feed
from app.core.reporting.notices import Notice
from app.core.tasks import Tasks
from app.core.web.serving import stopping_of

MOST: Final = 200
"""Streams of all callers together."""
MOST_EACH: Final = 10
"""Streams of one caller."""
_LOOP: Final = "events"
# Kinds whose changes show in an event about a shoot; Machines do not, and change all the time.
_SHOWN: Final = frozenset({Watched.CLUSTERS, Watched.DEPENDENTS})
_BUSY: Final = {"Retry-After": "10"}
_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # otherwise nginx buffers events until there are many
}


class EventStreams:
    """The streams behind GET /api/v1/events.

    The service subscribes `note` to the notice bus, `seed_changed` to the prober's seed and `leadership_changed` to the
    elections, then calls `start`. It calls `stop` before it stops the HTTP server, which would otherwise wait for the
    streams.

    Args:
        context: The loops, process and overrides to render.
        clock: The clock.
        chance: Spreads reconnects and reviews, and makes event ids unique to this process.
        metrics: Counts failures of the rendering.
        most_each: Most streams of one caller.
    """

    def __init__(
        self,
        context: Context,
        clock: Clock,
        chance: Random,
        metrics: Metrics,
        most_each: int = MOST_EACH,
    ) -> None:
        self._context, self._metrics, self._most_each = context, metrics, most_each
        metrics.runner_failures.labels(_LOOP)
        feed = Feed(f"{chance.getrandbits(32):08x}")
        self._publisher = Publisher(context, feed, clock, self._end_all)
        self.sources = Sources(feed, self._publisher, clock, chance)
        """The parts that all streams share."""
        self._open: set[asyncio.Future[str]] = set()
        """One future for each open stream; its result is the reason to end that stream."""
        self._by_caller: Counter[str] = Counter()
        self._stopped: str | None = None

    # Signals.

    def start(self, tasks: Tasks) -> None:
        """Start the publisher, which renders nothing until the first stream begins."""
        self._context.overrides.subscribe(self._publisher.overrides_changed)
        self._context.audit.subscribe(self._publisher.audit_changed)
        _ = tasks.kept(self._publisher.run, _LOOP, self._failed)

    def note(self, notice: Notice) -> None:
        """Take a notice as a signal that something changed."""
        self._publisher.note(notice)

    def seed_changed(self, change: SeedChange) -> None:
        """Take a change in a watch of the prober's seed as a signal."""
        if change.what in _SHOWN:
            self.shoot_changed(change.namespace)

    def shoot_changed(self, namespace: str) -> None:
        """Signal that a shoot may have changed."""
        self._publisher.shoot_changed(namespace)

    def leadership_changed(self) -> None:
        """Signal that this instance may have won or lost the leadership of a loop."""
        self._publisher.leadership_changed()

    def stop(self) -> None:
        """End all streams at once, and refuse new ones, as the process stops."""
        self._stopped = "the process is stopping"
        self._end_all(self._stopped)

    def _failed(self, error: Exception) -> None:
        self._metrics.runner_failures.labels(_LOOP).inc()
        self._end_all(
            f"the rendering of events failed and is started again: {type(error).__name__}"
        )

    def _end_all(self, reason: str) -> None:
        for each in self._open:
            if not each.done():
                each.set_result(reason)

    # The streams.

    def __len__(self) -> int:
        """Number of open streams."""
        return len(self._open)

    def newest(self) -> str | None:
        """The id of the newest event, for a client to resume from; None while nothing is published."""
        feed = self.sources.feed
        return feed.id_of(feed.position) if self._publisher.rendering else None

    @contextmanager
    def place(self, caller: str) -> Iterator[asyncio.Future[str]]:
        """Take one of the caller's streams; yields a future that is set to a reason when the stream must end.

        Raises:
            Problem: There are too many streams, or the process stops.
        """
        self._check(caller)
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open.add(ended)
        self._by_caller[caller] += 1
        self._publisher.join()
        try:
            yield ended
        finally:
            self._publisher.leave()
            self._open.discard(ended)
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]

    def _check(self, caller: str) -> None:
        if self._stopped is not None:
            raise Problem(ProblemType.NOT_THE_LEADER, self._stopped, headers=_BUSY)
        if len(self._open) >= MOST:
            detail = f"{MOST} streams of events are open, more are not served"
            raise Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=_BUSY)
        if self._by_caller[caller] >= self._most_each:
            detail = f"{trimmed(caller, 100)} has {self._most_each} streams of events open already"
            raise Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=_BUSY)


class EventResponse(Response):
    """The answer that streams events to one client."""

    media_type = changes.MEDIA_TYPE

    def __init__(self, streams: EventStreams, listening: Listening) -> None:
        self._streams, self._listening = streams, listening
        self.status_code, self.background = 200, None
        self.init_headers(_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        stream = EventStream(self._streams.sources, self._listening, head, send)
        with self._streams.place(self._listening.caller.name) as ended:
            await stream.run(receive, ended, stopping_of(scope))


async def streams_of(request: Request) -> EventStreams:
    """The streams of the application; a dependency of the route.

    Raises:
        Problem: The application has none: the feature is off.
    """
    found: EventStreams | None = request.app.state.streams
    if found is None:
        detail = "this process streams no events"
        raise Problem(ProblemType.FEATURE_OFF, detail, extra={"feature": _LOOP})
    return found
