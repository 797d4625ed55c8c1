"""All streams of events: how many there may be, what they are told of, and the end of all of them."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from app.api.problems import Problem, ProblemType
from app.api.streaming import changes
from app.api.streaming.publisher import Publisher
from app.api.streaming.stream import EventStream, Listening, Sources
from app.api.views import Context
from app.core.clock import Clock
from app.core.errors import trimmed
from app.core.metrics import Metrics
from app.core.ports import SeedChange, Watched
from app.core.reporting.changes import Feed
from app.core.reporting.notices import Notice
from app.core.tasks import Tasks
from app.core.web.serving import stopping_of

MOST: Final = 200
MOST_EACH: Final = 10
"""Streams of one caller."""
_LOOP: Final = "events"
_SHOWN: Final = frozenset({Watched.CLUSTERS, Watched.DEPENDENTS})
"""What of the seed is part of what is told of a shoot; Machines change all the time."""
_BUSY: Final = {"Retry-After": "10"}
_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would keep events back until there are many
}


class EventStreams:
    """Everything behind GET /api/v1/events.

    Whoever makes it subscribes `note` to the notice board, `seed_changed` to the prober's seed and `leadership_changed`
    to the elections; starts it; and stops it before its server, so that no stream holds that up.
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
        """What each stream is made of."""
        self._open: set[asyncio.Future[str]] = set()
        """What ends each stream."""
        self._by_caller: Counter[str] = Counter()
        self._stopped: str | None = None

    # What may have changed.

    def start(self, tasks: Tasks) -> None:
        """Begins to listen; renders as soon as somebody else does."""
        self._context.overrides.subscribe(self._publisher.overrides_changed)
        _ = tasks.kept(self._publisher.run, _LOOP, self._failed)

    def note(self, notice: Notice) -> None:
        """Something happened: subscribe it to the board."""
        self._publisher.note(notice)

    def seed_changed(self, change: SeedChange) -> None:
        """A watch of the prober's seed showed something: subscribe it to the seed."""
        if change.what in _SHOWN:
            self.shoot_changed(change.namespace)

    def shoot_changed(self, namespace: str) -> None:
        """Something of this control plane may be another than it was."""
        self._publisher.shoot_changed(namespace)

    def leadership_changed(self) -> None:
        """This instance leads another set of loops, or may."""
        self._publisher.leadership_changed()

    def stop(self) -> None:
        """The process ends: so does every stream, at once, and no other begins."""
        self._stopped = "the process stops"
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
        """How many are open."""
        return len(self._open)

    def newest(self) -> str | None:
        """The id of the newest event, to go on from; None while nothing is told, as nobody listens."""
        feed = self.sources.feed
        return feed.id_of(feed.position) if self._publisher.rendering else None

    @contextmanager
    def place(self, caller: str) -> Iterator[asyncio.Future[str]]:
        """A place for one stream of this caller; what it yields says when that must end, and why.

        Raises:
            Problem: there are too many, or the process stops.
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
    """An answer that goes on for as long as its client listens."""

    media_type = changes.MEDIA_TYPE

    def __init__(self, streams: EventStreams, listening: Listening) -> None:
        self._streams, self._listening = streams, listening
        self.status_code, self.background = 200, None
        self.init_headers(_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        stream = EventStream(self._streams.sources, self._listening, head, send)
        with self._streams.place(self._listening.caller.name) as ended:
            await stream.run(receive, ended, stopping_of(scope))


async def streams_of(request: Request) -> EventStreams:
    """The streams that the application was given.

    Raises:
        Problem: it was given none.
    """
    found: EventStreams | None = request.app.state.streams
    if found is None:
        detail = "this process streams no events"
        raise Problem(ProblemType.FEATURE_OFF, detail, extra={"feature": _LOOP})
    return found
