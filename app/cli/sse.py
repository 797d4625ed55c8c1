"""Server-sent events: lines in, events out; pure.

The format is that of https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from dataclasses import dataclass
from typing import Final

MAX_EVENT: Final = 8 << 20
"""Bytes of one event: no change is that large."""
_MAX_ID: Final = 200


class EventTooLong(Exception):
    """An event without end."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    name: str
    data: bytes


class Reader:
    """Makes events of lines; knows where to take up again."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        """For `Last-Event-ID`."""
        self.retry: float | None = None
        """Seconds to wait before connecting again, where the server said."""
        self._id: str | None = None
        """Counts when its block is whole: an event that was cut off comes again."""
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, line: bytes) -> Event | None:
        """Takes a line without its end; returns the event that it completes.

        Raises:
            EventTooLong: there is no end of it.
        """
        if not line:
            return self._complete()
        name, _, value = line.partition(b":")
        self._take(name, value.removeprefix(b" "))
        return None

    def broken(self) -> None:
        """The connection is gone, and with it what was not complete."""
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
                pass  # a comment, or something newer

    def _complete(self) -> Event | None:
        self.last_id, name, data = self._id, self._name, self._data
        self.broken()
        return Event(name or "message", b"\n".join(data)) if data else None
