"""`dwd events`: changes as they happen; after a broken connection it resumes from the last complete event."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import aiohttp

from app.cli import answers
from app.cli.client import EVENT_STREAM, ApiCall
from app.cli.printing import Answer
from app.cli.problems import CommandFailed, Exit
from app.cli.session import Session
from app.cli.views import events as view
from app.core.config.client_settings import EventsSettings
from app.core.limits import Backoff
from app.core.model.instants import rfc3339

# A parser of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html); pure.


MAX_EVENT: Final = 8 << 20
"""Most bytes of one event; real ones are far smaller."""
_MAX_ID: Final = 200


class EventTooLong(Exception):
    """An event is longer than `MAX_EVENT`."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    name: str
    data: bytes


class EventReader:
    """Parses lines into events, and keeps the position to resume from."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        """The value for `Last-Event-ID`."""
        self.retry: float | None = None
        """Seconds to wait before a reconnect, if the server has said so."""
        self._id: str | None = None
        """Becomes `last_id` when its block is complete, so that an event that was cut off is sent again."""
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, line: bytes) -> Event | None:
        """Parse a line without its end; returns an event if the line completes one.

        Raises:
            EventTooLong: The event is longer than `MAX_EVENT`.
        """
        if not line:
            return self._complete()
        name, _, value = line.partition(b":")
        self._take(name, value.removeprefix(b" "))
        return None

    def broken(self) -> None:
        """Drop an incomplete event after the connection has broken."""
        self._id, self._name, self._data, self._size = self.last_id, "", [], 0

    def _take(self, name: bytes, value: bytes) -> None:
        match name:
            case b"data":
                self._size += len(value)
                if self._size > MAX_EVENT:
                    raise EventTooLong
                self._data.append(value)
            case b"event":
                self._name = value.decode("utf-8", "replace")
            case b"id" if (
                len(value) <= _MAX_ID and value.isascii() and value.decode().isprintable()
            ):
                self._id = value.decode()
            case b"retry" if value.isdigit() and len(value) < len(b"1000000"):
                self.retry = int(value) / 1000
            case _:
                pass  # a comment, or a field of a newer format

    def _complete(self) -> Event | None:
        self.last_id, name, data = self._id, self._name, self._data
        self.broken()
        return Event(name or "message", b"\n".join(data)) if data else None


SILENCE: Final = 45.0
"""Seconds of silence after which a stream counts as broken: three heartbeats of the server."""
_PACE: Final = Backoff(1.0, 30.0)
# Seconds after which a stream counts as steady: if it breaks then, the back-off starts anew.
_STEADY: Final = 60.0


async def events(session: Session, settings: EventsSettings, words: tuple[str, ...]) -> None:
    """`dwd events`: show changes for ever; reconnects, once a stream has been opened.

    Raises:
        CommandFailed: The first stream cannot be opened, or a later one for a reason that will not pass.
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
    """Follows events across connections."""

    def __init__(self, session: Session, query: Mapping[str, str]) -> None:
        self._session, self._query = session, query
        self.reader = EventReader()
        self.connected = False
        """Whether a stream was ever opened."""

    async def follow(self) -> None:
        """Show the events of one connection, which resumes where the last one broke."""
        headers = {"Accept": EVENT_STREAM}
        if self.reader.last_id is not None:
            headers["Last-Event-ID"] = self.reader.last_id
        self.reader.broken()
        call = ApiCall("GET", "events", self._query, headers=headers)
        async with self._session.client.stream(call, SILENCE) as stream:
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
    """Split the stream into lines without their ends; an incomplete last line is dropped."""
    rest = bytearray()
    async for chunk in stream.iter_any():
        rest += chunk
        *whole, tail = rest.split(b"\n")
        rest = bytearray(tail)
        if len(rest) > MAX_EVENT:
            raise CommandFailed(Exit.FAILED, f"a line is longer than {MAX_EVENT >> 20} MiB")
        for line in whole:
            yield bytes(line).removesuffix(b"\r")


def _show(session: Session, event: Event, reader: EventReader) -> None:
    data = answers.read(event.data)
    line = view.told(event.name, data, rfc3339(session.clock.now())[11:19])
    lines = [] if line is None else [line]
    shown = {"id": reader.last_id, "event": event.name, "data": data}
    session.printer.next(Answer(shown, lines))


async def _pause(session: Session, trouble: str, reader: EventReader, failures: int) -> None:
    """Wait before a reconnect: longer each time, and with jitter, so that the clients of a lost server spread out."""
    least = reader.retry or 0.0
    seconds = max(least, _PACE.jittered(failures, session.chance.random()))
    session.printer.tell(f"dwd events: {trouble}; connecting again in {seconds:.0f}s")
    await session.clock.sleep(seconds)
