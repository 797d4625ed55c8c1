"""`dwd events`: every change as it happens; takes up again where the connection breaks."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

import aiohttp

from app.cli import answers
from app.cli.client import EVENT_STREAM, Call
from app.cli.exits import CommandFailed, Exit
from app.cli.printing import Shown
from app.cli.session import Session
from app.cli.sse import MAX_EVENT, Event, EventTooLong, Reader
from app.cli.views import events as view
from app.core.config.client_settings import EventsSettings
from app.core.model.instants import rfc3339
from app.core.runtime.backoff import Backoff

_SILENCE: Final = 45.0
"""Seconds without a word after which a stream counts as broken: three heartbeats."""
_PACE: Final = Backoff(1.0, 30.0)
_STEADY: Final = 60.0
"""Seconds after which a stream that breaks is a new misfortune, and not the same one."""


async def events(session: Session, settings: EventsSettings, words: tuple[str, ...]) -> None:
    """Shows changes for ever.

    Raises:
        CommandFailed: there is no first stream, or none for a reason that will not pass.
    """
    del settings
    follower = _Follower(session, {"namespace": words[0]} if words else {})
    failures = 0
    while True:
        began = session.clock.now()
        try:
            await follower.follow()
            trouble = "the stream has ended"
        except CommandFailed as error:
            if not (error.passing and follower.connected):
                raise
            trouble = str(error)
        steady = session.clock.now() - began > _STEADY
        failures = 1 if steady else failures + 1
        await _pause(session, trouble, follower.reader, failures)


class _Follower:
    """Follows the events, from one connection to the next."""

    def __init__(self, session: Session, query: Mapping[str, str]) -> None:
        self._session, self._query = session, query
        self.reader = Reader()
        self.connected = False
        """Whether there ever was a stream."""

    async def follow(self) -> None:
        """Shows the events of one connection, from where the last one broke to its end."""
        headers = {"Accept": EVENT_STREAM}
        if self.reader.last_id is not None:
            headers["Last-Event-ID"] = self.reader.last_id
        self.reader.broken()
        call = Call("GET", "events", self._query, headers=headers)
        async with self._session.client.stream(call, _SILENCE) as stream:
            self.connected = True
            async with aclosing(_lines(stream)) as lines:
                async for line in lines:
                    self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = self.reader.feed(line)
        except EventTooLong as error:
            message = f"an event is longer than {MAX_EVENT >> 20} MiB"
            raise CommandFailed(Exit.FAILED, message) from error
        if event is not None:
            _show(self._session, event, self.reader)


async def _lines(stream: aiohttp.StreamReader) -> AsyncGenerator[bytes]:
    """Lines without their ends; the last one only if it is whole."""
    rest = bytearray()
    async for chunk in stream.iter_any():
        rest += chunk
        *whole, tail = rest.split(b"\n")
        rest = bytearray(tail)
        if len(rest) > MAX_EVENT:
            raise CommandFailed(Exit.FAILED, f"a line is longer than {MAX_EVENT >> 20} MiB")
        for line in whole:
            yield bytes(line).removesuffix(b"\r")


def _show(session: Session, event: Event, reader: Reader) -> None:
    data = answers.read(event.data)
    line = view.told(event.name, data, rfc3339(session.clock.now())[11:19])
    lines = [] if line is None else [line]
    shown = {"id": reader.last_id, "event": event.name, "data": data}
    session.printer.next(Shown(shown, lines))


async def _pause(session: Session, trouble: str, reader: Reader, failures: int) -> None:
    """Waits, longer each time, so that many that lost the same server do not come back at once."""
    least = reader.retry or 0.0
    seconds = max(least, _PACE.jittered(failures, session.chance.random()))
    session.printer.tell(f"dwd events: {trouble}; connecting again in {seconds:.0f}s")
    await session.clock.sleep(seconds)
