"""One stream of events: where it begins, what it says, and when it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import structlog
from starlette.types import Message, Receive, Send

from app.api.problems import Problem
from app.api.schemas.events import EventName, Gap, SnapshotEnd, StreamEnd
from app.api.streaming import changes
from app.api.streaming.publisher import Publisher
from app.core.clock import Clock
from app.core.errors import WatchdogError
from app.core.model.callers import Caller
from app.core.reporting.changes import Feed, Follower, FollowerTooSlow, Wanted

log = structlog.get_logger(__name__)

HEARTBEAT: Final = 15.0
"""Seconds of silence at most."""
REVIEW: Final = 60.0
"""Seconds after which the caller is reviewed again."""
_STALLED: Final = 30.0
"""Seconds that a client may take for one batch; its connection is aborted sooner, where it takes nothing at all."""
_FAREWELL: Final = 0.3
_BATCH: Final = 65_536
"""Bytes that are handed over at once: all that a client that reads nothing can make us keep for it."""
_RETRY: Final = (1.0, 5.0)
"""Seconds after which clients connect again: not all at once."""


@dataclass(frozen=True, slots=True)
class Listening:
    """What a caller asks for."""

    caller: Caller
    wanted: Wanted
    last_id: str | None
    """The newest event that it knows of."""
    review: Callable[[], Awaitable[None]]
    """Returns where the caller may still listen; raises a `Problem` where not."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What all streams share."""

    feed: Feed
    publisher: Publisher
    clock: Clock
    chance: Random


class _Over(Exception):
    """The stream has come to its end; `reason` is for the client, None where it is gone."""

    def __init__(self, reason: str | None) -> None:
        self.reason = reason
        super().__init__(reason)


class EventStream:
    """Says what has changed until its client leaves, may listen no more, or is told that this was all."""

    def __init__(self, sources: Sources, listening: Listening, head: Message, send: Send) -> None:
        """`head` is the start of the answer, `send` takes it and all that follows."""
        self._sources, self._listening = sources, listening
        self._head, self._send = head, send
        self._started = False

    async def run(
        self, receive: Receive, ended: asyncio.Future[str], stopping: asyncio.Event
    ) -> None:
        """Answers the request until its client leaves, `ended` says why it must end, or the server is `stopping`."""
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

    # What it says.

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
        """All that is there: only what comes after it has ids, so that who loses it begins anew."""
        gap = Gap(reason="what came after the last event that you know is not remembered here")
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
        """Ends with Outrun, or TimeoutError, where the client does not keep up."""
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
            log.debug("a stream ended unheard", caller=self._listening.caller.name)

    # What ends it.

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        raise _Over(None)

    async def _until_denied(self) -> None:
        while True:
            # A little sooner each time, so that streams that began together are not all reviewed at once.
            await self._sources.clock.sleep(self._sources.chance.uniform(0.9, 1.0) * REVIEW)
            try:
                await self._listening.review()
            except (Problem, WatchdogError) as error:
                raise _Over(str(error)) from error

    async def _until_ended(self, ended: asyncio.Future[str]) -> None:
        raise _Over(await asyncio.shield(ended))

    async def _until_stopping(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        raise _Over("the server stops")


def _reason(over: ExceptionGroup[_Over]) -> str | None:
    """That of the first that spoke; nothing where one of them says that nobody hears."""
    reasons = [each.reason for each in over.exceptions if isinstance(each, _Over)]
    return None if None in reasons else reasons[0]
