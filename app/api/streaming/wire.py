"""The format of server-sent events; pure.  Bodies are made once, and shared by all streams."""

from typing import Final

from app.api.schemas.base import Schema

MEDIA_TYPE: Final = "text/event-stream"


def body(event: str, data: Schema) -> bytes:
    """An event without its id; JSON has no line breaks outside of its strings, and escapes those inside."""
    json = data.model_dump_json(by_alias=True)
    return f"event: {event}\ndata: {json}\n\n".encode()


def with_id(name: str, event: bytes) -> bytes:
    """The event, after which a client that resumes names this id."""
    return f"id: {name}\n".encode() + event


def opening(retry: float, name: str | None) -> bytes:
    """What comes first: how many seconds to wait before connecting again, and where a client is to resume.

    A block without data is no event, but its id counts.
    """
    first = f"retry: {retry * 1000:.0f}\n\n".encode()
    return first if name is None else with_id(name, first)


def heartbeat(name: str) -> bytes:
    """A comment, so that those in between keep the connection; and the id, as what a filter hides moves it on."""
    return f": heartbeat\nid: {name}\n\n".encode()
