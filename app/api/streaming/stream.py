"""One stream of events: its start, its events, and its end.

A stream without `Last-Event-ID` begins with the next change. With one it resumes after that event or, if the feed does
not remember it, begins with `gap`, a snapshot of everything, and `snapshot-end`. It ends with `end` and a reason when
the client is too slow, may not listen any more, the leadership changes, or the server stops.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import structlog
from starlette.types import Message, Receive, Send

from app.api.problems import Problem
from app.api.schemas import EventName, Gap, SnapshotEnd, StreamEnd
from app.api.streaming import changes
from app.api.streaming.publisher import Publisher
from app.core.clock import Clock
from app.core.errors import WatchdogError
from app.core.model.callers import Caller
from app.core.reporting.changes import Feed, Follower, FollowerTooSlow, Wanted

log = structlog.get_logger(__name__)

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


@dataclass(frozen=True, slots=True)
class Listening:
    """A caller's request for a stream."""

    caller: Caller
    wanted: Wanted
    last_id: str | None
    """`Last-Event-ID`: the newest event that the client knows."""
    review: Callable[[], Awaitable[None]]
    """Raises a `Problem` if the caller may not listen any more."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The parts that all streams share."""

    feed: Feed
    publisher: Publisher
    clock: Clock
    chance: Random


class _Over(Exception):
    """Ends the stream; `reason` goes to the client, and is None if that has disconnected."""

    def __init__(self, reason: str | None) -> None:
        self.reason = reason
        super().__init__(reason)


class EventStream:
    """Sends events to one client until one of several tasks ends the stream.

    Args:
        sources: The parts that all streams share.
        listening: The caller's request.
        head: The ASGI message that starts the answer.
        send: Takes `head` and the messages after it.
    """

    def __init__(self, sources: Sources, listening: Listening, head: Message, send: Send) -> None:
        self._sources, self._listening = sources, listening
        self._head, self._send = head, send
        self._started = False

    async def run(
        self, receive: Receive, ended: asyncio.Future[str], stopping: asyncio.Event
    ) -> None:
        """Send events until the stream ends.

        Args:
            receive: Delivers the client's disconnect.
            ended: Set to a reason when the stream must end.
            stopping: Set when the HTTP server stops.
        """
        reason: str | None = None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._speak())
                group.create_task(self._until_gone(receive))
                group.create_task(self._until_denied())
                group.create_task(self._until_ended(ended))
                group.create_task(self._until_stopping(stopping))
        except* _Over as over:
            reason = _reason(over)
        if reason is not None:
            await self._say_farewell(reason)

    # Sending.

    async def _speak(self) -> None:
        await self._sources.publisher.ready()
        await self._start()
        try:
            await self._tell()
        except (FollowerTooSlow, TimeoutError) as error:
            why = str(error) or f"nothing was read for {_STALLED:.0f} s"
            log.info("a stream was too slow", caller=self._listening.caller.name, why=why)
            raise _Over(f"too slow: {why}") from error

    async def _start(self) -> None:
        self._started = True
        await self._send(self._head)

    async def _tell(self) -> None:
        feed, last_id = self._sources.feed, self._listening.last_id
        after = feed.position if last_id is None else feed.resume(last_id)
        retry = self._sources.chance.uniform(*_RETRY)
        await self._say(changes.opening(retry, None if after is None else feed.id_of(after)))
        if after is not None:
            with feed.follow(self._listening.wanted, after) as follower:
                await self._follow(follower)
        with feed.follow(self._listening.wanted, feed.position) as follower:
            await self._say_snapshot(feed.id_of(feed.position))
            await self._follow(follower)

    async def _say_snapshot(self, name: str) -> None:
        """Send everything that exists.

        Only the end of the snapshot has an id: a client that loses the connection before that starts anew.
        """
        gap = Gap(reason="the events after the last one that you have seen are not remembered here")
        batch = [changes.sse_body(EventName.GAP, gap)]
        events = self._sources.publisher.snapshot(self._listening.wanted)
        size = 0
        for event in events:
            batch.append(event)
            size += len(event)
            if size >= _BATCH:
                await self._say(b"".join(batch))
                batch, size = [], 0
        end = changes.sse_body(EventName.SNAPSHOT_END, SnapshotEnd(items=len(events)))
        await self._say(b"".join([*batch, changes.with_id(name, end)]))

    async def _follow(self, follower: Follower) -> None:
        """Send events as they come; raises FollowerTooSlow or TimeoutError if the client does not keep up."""
        name_of = self._sources.feed.id_of
        while True:
            if batch := follower.take(_BATCH):
                events = (changes.with_id(name_of(each.number), each.body) for each in batch)
                await self._say(b"".join(events))
            elif not await follower.news(HEARTBEAT):
                await self._say(changes.heartbeat(name_of(follower.position)))

    async def _say(self, text: bytes, *, more: bool = True) -> None:
        message = {"type": "http.response.body", "body": text, "more_body": more}
        async with asyncio.timeout(_STALLED if more else _FAREWELL):
            await self._send(message)

    async def _say_farewell(self, reason: str) -> None:
        end = changes.sse_body(EventName.END, StreamEnd(reason=reason))
        try:
            if not self._started:
                await self._start()
            await self._say(end, more=False)
        except TimeoutError:
            log.debug(
                "a stream ended before its last event was read", caller=self._listening.caller.name
            )

    # The reasons to end it; each task raises `_Over`.

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        raise _Over(None)

    async def _until_denied(self) -> None:
        while True:
            # Spread, so that streams that began together are not all reviewed at the same moment.
            await self._sources.clock.sleep(self._sources.chance.uniform(0.9, 1.0) * REVIEW)
            try:
                await self._listening.review()
            except (Problem, WatchdogError) as error:
                raise _Over(str(error)) from error

    async def _until_ended(self, ended: asyncio.Future[str]) -> None:
        raise _Over(await asyncio.shield(ended))

    async def _until_stopping(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        raise _Over("the server is stopping")


def _reason(over: ExceptionGroup[_Over]) -> str | None:
    """The first reason; None if the client has disconnected."""
    reasons = [each.reason for each in over.exceptions if isinstance(each, _Over)]
    return None if None in reasons else reasons[0]
