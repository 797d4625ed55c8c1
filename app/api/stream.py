"""GET /api/v1/events: all streams of server-sent events of a process, and each one of them.

A stream without `Last-Event-ID` begins with the next change. With one it resumes after that event or, if the feed does
not remember it, begins with `gap`, a snapshot of everything, and `snapshot-end`. It ends with `end` and a reason when
the client is too slow, may not listen any more, the leadership changes, or the server stops.

All streams share each event that the publisher (`app.api.publisher`) has rendered, so that a further stream costs a
position in the feed and what its socket buffers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Annotated, Any, Final, NoReturn

import structlog
from fastapi import Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict
from starlette.types import Receive, Scope, Send

from app.api import dependencies as deps
from app.api import publisher
from app.api.auth.authentication import still_authenticated
from app.api.auth.authorization import Call
from app.api.context import Context
from app.api.problems import Problem, ProblemType
from app.api.publisher import Publisher, sse_event, with_id
from app.api.schemas import EventName, Gap, SnapshotEnd, StreamEnd
from app.core.clock import Clock
from app.core.errors import WatchdogError, trimmed
from app.core.metrics import Metrics
from app.core.model.callers import Caller
from app.core.model.policy import Loop
from app.core.ports import SeedChange, Watched
from app.core.reporting.changes import USUAL, ChangeKind, Feed, Follower, FollowerTooSlow, Wanted
from app.core.tasks import Tasks, cancelled

log = structlog.get_logger(__name__)

MOST: Final = 200
"""Streams of all callers together."""
MOST_EACH: Final = 10
"""Streams of one caller."""
HEARTBEAT: Final = 15.0
"""Longest silence of a stream in seconds."""
REVIEW: Final = 60.0
"""Seconds between reviews of the caller, so that a revoked token or right ends its streams."""
# Seconds that a client may take to read one batch; the server aborts a connection that reads nothing even sooner.
_STALLED: Final = 30.0
# Seconds for the final event: a stop of the process must not wait for a slow client.
_FAREWELL: Final = 0.3
# Bytes that are sent at once, which bounds what a client that does not read keeps in our memory (threat T15).
_BATCH: Final = 65_536
# Range of seconds after which clients reconnect; random, so that they do not all come at once.
_RETRY: Final = (1.0, 5.0)
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

    The service subscribes the `publisher` to notices, elections and results of endpoint probes, and `seed_changed` to
    the prober's seed, then calls `start`. It calls `stop` before it stops the HTTP server, which would
    otherwise wait for the streams.

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
        self.clock, self.chance = clock, chance
        self.feed = Feed(f"{chance.getrandbits(32):08x}")
        self.publisher = Publisher(context, self.feed, clock, self._end_all)
        self._open: dict[asyncio.Future[str | None], str] = {}
        """One future for each open stream, with its caller; its result is the reason to end that stream."""
        self._stopped: str | None = None

    # Signals.

    def start(self, tasks: Tasks) -> None:
        """Start the publisher, which renders nothing until the first stream begins."""
        self._context.overrides.subscribe(self.publisher.overrides_changed)
        self._context.audit.subscribe(self.publisher.audit_changed)
        _ = tasks.kept(self.publisher.run, _LOOP, self._failed)

    def seed_changed(self, change: SeedChange) -> None:
        """Take a change in a watch of the prober's seed as a signal."""
        if change.what in _SHOWN:
            self.publisher.shoot_changed(change.namespace)

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
        return self.feed.id_of(self.feed.position) if self.publisher.ready.is_set() else None

    @contextmanager
    def place(self, caller: str) -> Iterator[asyncio.Future[str | None]]:
        """Take one of the caller's streams; yields a future that is set to a reason when the stream must end.

        Raises:
            Problem: There are too many streams, or the process stops.
        """
        self._check(caller)
        ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._open[ended] = caller
        self.publisher.join()
        try:
            yield ended
        finally:
            self.publisher.leave()
            del self._open[ended]

    def _check(self, caller: str) -> None:
        if self._stopped is not None:
            raise Problem(ProblemType.NOT_THE_LEADER, self._stopped, headers=_BUSY)
        if len(self._open) >= MOST:
            detail = f"{MOST} streams of events are open, more are not served"
            raise Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=_BUSY)
        if sum(each == caller for each in self._open.values()) >= self._most_each:
            detail = f"{trimmed(caller, 100)} has {self._most_each} streams of events open already"
            raise Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers=_BUSY)


class EventStream(Response):
    """The answer that sends events to one client until there is a reason to end the stream.

    Args:
        streams: Has the parts that all streams share.
        caller: Who listens.
        wanted: The filter.
        last_id: `Last-Event-ID`: the newest event that the client knows.
        review: Raises a `Problem` if the caller may not listen any more.
    """

    media_type = publisher.MEDIA_TYPE

    def __init__(
        self,
        streams: EventStreams,
        caller: Caller,
        wanted: Wanted,
        last_id: str | None,
        review: Callable[[], Awaitable[None]],
    ) -> None:
        self._streams, self._caller, self._wanted = streams, caller, wanted
        self._last_id, self._review = last_id, review
        self._started = False
        self.status_code, self.background = 200, None
        self.init_headers(_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as in the base
        self._send = send
        with self._streams.place(self._caller.name) as ended:
            # Each returns a reason to end the stream, which the client is told; None: it has left.
            until: list[Coroutine[Any, Any, str | None]]
            until = [self._too_slow(), _gone(receive), self._denied()]
            tasks = [asyncio.ensure_future(each) for each in until]
            try:
                over, _ = await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
                reasons = [each.result() for each in over]
            finally:
                await cancelled(*tasks)
            if None not in reasons:
                await self._say_farewell(str(reasons[0]))

    # Sending.

    async def _too_slow(self) -> str:
        """Send events until the client does not keep up."""
        await self._streams.publisher.ready.wait()
        await self._start()
        try:
            await self._tell()
        except (FollowerTooSlow, TimeoutError) as error:
            why = str(error) or f"nothing was read for {_STALLED:.0f} s"
            log.info("a stream was too slow", caller=self._caller.name, why=why)
            return f"too slow: {why}"

    async def _start(self) -> None:
        self._started = True
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await self._send(head)

    async def _tell(self) -> NoReturn:
        feed, last_id = self._streams.feed, self._last_id
        after = feed.position if last_id is None else feed.resume(last_id)
        retry = self._streams.chance.uniform(*_RETRY)
        await self._say(publisher.opening(retry, None if after is None else feed.id_of(after)))
        if after is not None:
            with feed.follow(self._wanted, after) as follower:
                await self._follow(follower)
        with feed.follow(self._wanted, feed.position) as follower:
            await self._say_snapshot(feed.id_of(feed.position))
            await self._follow(follower)

    async def _say_snapshot(self, name: str) -> None:
        """Send everything that exists.

        Only the end of the snapshot has an id: a client that loses the connection before that starts anew.
        """
        gap = Gap(reason="the events after the last one that you have seen are not remembered here")
        batch = [sse_event(EventName.GAP, gap)]
        events = self._streams.publisher.snapshot(self._wanted)
        size = 0
        for event in events:
            batch.append(event)
            size += len(event)
            if size >= _BATCH:
                await self._say(b"".join(batch))
                batch, size = [], 0
        end = sse_event(EventName.SNAPSHOT_END, SnapshotEnd(items=len(events)))
        await self._say(b"".join([*batch, with_id(name, end)]))

    async def _follow(self, follower: Follower) -> NoReturn:
        """Send events as they come; raises FollowerTooSlow or TimeoutError if the client does not keep up."""
        name_of, now = self._streams.feed.id_of, self._streams.clock.now
        sent_at = now()
        while True:
            if batch := follower.take(_BATCH):
                events = (with_id(name_of(each.number), each.body) for each in batch)
                await self._say(b"".join(events))
            elif await follower.news(sent_at + HEARTBEAT - now()):
                continue  # the filter may hide all of it, so it does not count as sent
            else:
                await self._say(publisher.heartbeat(name_of(follower.position)))
            sent_at = now()

    async def _say(self, text: bytes, *, more: bool = True) -> None:
        message = {"type": "http.response.body", "body": text, "more_body": more}
        async with asyncio.timeout(_STALLED if more else _FAREWELL):
            await self._send(message)

    async def _say_farewell(self, reason: str) -> None:
        end = sse_event(EventName.END, StreamEnd(reason=reason))
        try:
            if not self._started:
                await self._start()
            await self._say(end, more=False)
        except TimeoutError:
            log.debug("a stream ended before its last event was read", caller=self._caller.name)

    async def _denied(self) -> str:
        while True:
            # Spread, so that streams that began together are not all reviewed at the same moment.
            await self._streams.clock.sleep(self._streams.chance.uniform(0.9, 1.0) * REVIEW)
            try:
                await self._review()
            except (Problem, WatchdogError) as error:
                return str(error)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


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


# The call.


router = deps.api_router("events")

_EXAMPLE: Final = """\
retry: 2000
id: 5f3a9c01-41

id: 5f3a9c01-42
event: shoot-gone
data: {"namespace":"shoot--acme--prod"}

: heartbeat
id: 5f3a9c01-42

"""
_LAST_EVENT: Final = (
    "The id of the newest event that the caller has seen; what followed it comes first. If that is no longer "
    "remembered, as after a change of leader, a `gap` comes, then the current state of everything, then `snapshot-end`."
)


class EventQuery(BaseModel):
    """The filter of a stream."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    namespace: deps.Name | None = None
    """Only events of this control plane, and those that concern all."""
    kind: list[ChangeKind] = []
    """Only events of one of these kinds. Without it all but `audit`, which needs the right to read the audit, too."""


async def any_leader(context: deps.AnyContext) -> None:
    """Require that this instance leads a loop; a stream has the events of the loops that its instance leads.

    Raises:
        Problem: 503: it is a standby; the problem names the leader.
    """
    if any(deps.leads(context, each) for each in Loop):
        return
    if Loop.PROBER in context.process.leaders:
        await deps.leading_prober(context)
    await deps.leading_weeder(context)


@router.get(
    "/api/v1/events",
    status_code=200,
    response_class=EventStream,
    dependencies=[deps.allowed(Call.LIST), Depends(any_leader)],
    responses={
        200: {
            "description": "A stream of `shoot`, `shoot-gone`, `operation`, `weeder`, `override`, of `audit` where "
            "that is asked for, and of `gap`, `snapshot-end` and `end`; the data of each are one JSON object.",
            "content": {publisher.MEDIA_TYPE: {"schema": {"type": "string"}, "example": _EXAMPLE}},
        }
    },
)
async def stream_events(
    request: Request,
    context: deps.AnyContext,
    streams: Annotated[EventStreams, Depends(streams_of)],
    query: Annotated[EventQuery, Query()],
    last_event_id: Annotated[str | None, Header(description=_LAST_EVENT)] = None,
) -> Response:
    """Every change of a shoot, scaling run, recovery and override, as it happens.

    Without `Last-Event-ID` it begins with the next change: ask for the lists once the answer has begun.
    """
    wanted = Wanted(query.namespace, frozenset(query.kind) or USUAL)
    calls = [Call.LIST, *([Call.READ_AUDIT] if ChangeKind.AUDIT in wanted.kinds else [])]
    for each in calls[1:]:
        await context.authority.check(deps.caller_of(request), each)
    review = partial(_review, request, context, calls)
    return EventStream(streams, deps.caller_of(request), wanted, last_event_id, review)


async def _review(request: Request, context: Context, calls: Sequence[Call]) -> None:
    """Raise a `Problem` unless the token still belongs to the same caller, and that may still listen."""
    await still_authenticated(request)
    for each in calls:
        await context.authority.check(deps.caller_of(request), each, again=True)
