"""`dwd events`: changes as they happen, in words; after a broken connection it resumes from the last complete event."""

import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rich.text import Text

from app.api import schemas
from app.cli import answers, operations, shoots
from app.cli.client import EVENT_STREAM, MAX_EVENT, ApiCall, lines_of
from app.cli.overrides import named, written_by
from app.cli.printing import Answer
from app.cli.problems import CommandFailed, Exit
from app.cli.session import Session, path
from app.cli.tables import change, said
from app.core.config.client_settings import EventsSettings
from app.core.limits import Backoff
from app.core.model.instants import rfc3339

_PACE: Final = Backoff(1.0, 30.0)
# Seconds after which a stream counts as steady: if it breaks then, the back-off starts anew.
_STEADY: Final = 60.0
_ID: Final = re.compile(rb"[ -~]{0,200}")
_RETRY: Final = re.compile(rb"[0-9]{1,6}")


async def events(session: Session, _: EventsSettings, shoot: str | None = None) -> None:
    """`dwd events`: show changes for ever; reconnects, once a stream has been opened.

    Raises:
        CommandFailed: The first stream cannot be opened, or a later one for a reason that will not pass.
    """
    reader, failures, connected = EventReader(), 0, False
    while True:
        began = session.clock.now()
        headers = {"Accept": EVENT_STREAM, "Last-Event-ID": reader.last_id}
        reader.broken()
        try:
            call = ApiCall("GET", "events", {"namespace": shoot}, headers=headers)
            async with session.client.stream(call) as stream:
                first, connected = not connected, True
                if shoot and first:
                    await _tell_if_unknown(session, shoot)
                async with aclosing(lines_of(stream)) as lines:
                    async for line in lines:
                        if (event := reader.feed(line)) is None:
                            continue
                        data = answers.decode(event.data)
                        at = rfc3339(session.clock.now())[11:19]
                        for_people = told(event.name, data, at)
                        shown = {"id": reader.last_id, "event": event.name, "data": data}
                        answer = Answer(shown, [for_people] if for_people else [])
                        session.printer.show(answer, one_of_many=True)
            trouble = "the stream has ended"
        except CommandFailed as error:
            if not (error.passing and connected):
                raise
            trouble = str(error)
        steady = session.clock.now() - began > _STEADY
        failures = 1 if steady else failures + 1
        # Longer each time, and with jitter, so that the clients of a lost server spread out.
        seconds = max(reader.retry or 0.0, _PACE.jittered(failures, session.chance.random()))
        session.printer.tell(f"dwd events: {trouble}; connecting again in {seconds:.0f}s")
        await session.clock.sleep(seconds)


async def _tell_if_unknown(session: Session, shoot: str) -> None:
    """Say that there is no such shoot, as nothing would ever be shown of a name that is mistyped."""
    # Not by `ask`, which may follow the answer to another process, and with it the stream.
    refused = await session.client.refused(path("shoots", shoot))
    if refused is not None and refused.code is Exit.NOT_FOUND:
        session.printer.tell(f"dwd events: {refused}; it is followed if it comes")


# A parser of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html); pure.


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
            CommandFailed: The event is longer than `MAX_EVENT`.
        """
        if not line:
            self.last_id, event, data = self._id, self._name, self._data
            self.broken()
            return Event(event or "message", b"\n".join(data)) if data else None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._size += len(value)
                if self._size > MAX_EVENT:
                    message = f"an event is longer than {MAX_EVENT >> 20} MiB"
                    raise CommandFailed(Exit.FAILED, message)
                self._data.append(value)
            case b"event":
                self._name = value.decode("utf-8", "replace")
            case b"id" if _ID.fullmatch(value):
                self._id = value.decode()
            case b"retry" if _RETRY.fullmatch(value):
                self.retry = int(value) / 1000
            case _:
                pass  # a comment, or a field of a newer format
        return None

    def broken(self) -> None:
        """Drop an incomplete event after the connection has broken."""
        self._id, self._name, self._data, self._size = self.last_id, "", [], 0


# The events in words.


class EventText(NamedTuple):
    """An event in words."""

    subject: str
    """The shoot or service that the event is about."""
    text: str
    style: str = ""


def told(name: str, data: object, clock: str) -> Text | None:
    """The line for an event; None for `snapshot-end`, which people need not see.

    Args:
        name: The name of the event.
        data: Its decoded JSON.
        clock: The time of day to show.
    """
    if name == "snapshot-end":
        return None
    words = _words(name, data)
    line = Text.assemble((clock, "dim"), "  ", (said(words.subject), "bold"), "  ")
    line.append(said(words.text), words.style)
    return line


def _words(name: str, data: object) -> EventText:
    match name:
        case "shoot":
            shoot = answers.of(schemas.Shoot, data)
            state = f"{shoot.state} ({shoot.reason}): {shoot.message}"
            text = "; ".join(filter(None, (state, shoots.endpoint_summary(shoot))))
            return EventText(shoot.namespace, text, shoots.STYLES.get(shoot.state, ""))
        case "shoot-gone":
            return EventText(answers.of(schemas.ShootGone, data).namespace or "?", "is gone", "dim")
        case "operation":
            return _operation(data)
        case "weeder":
            return _service(data)
        case "override":
            return _override(data)
        case "gap":
            why = f"{answers.of(schemas.Gap, data).reason}; the current state follows"
            return EventText("gap", why, "yellow")
        case "end":
            return EventText("end", answers.of(schemas.StreamEnd, data).reason, "yellow")
        case _:
            return EventText(name, "(unknown to this version of dwd)", "dim")


def _operation(data: object) -> EventText:
    operation = answers.of(schemas.Operation, data)
    steps = [
        f"{each.resource} {change(each.before, each.after)} {each.phase}"
        for each in operation.steps
        if each.phase not in {"Waiting", ""}
    ]
    what = f"scale {operation.direction} {operation.phase} ({operation.id})"
    words = "; ".join(filter(None, (what, operation.message, *steps)))
    return EventText(operation.namespace, words, operations.STYLES.get(operation.phase, ""))


def _service(data: object) -> EventText:
    service = answers.of(schemas.WeederChange, data)
    found = ["is ready" if service.ready else "is not ready"]
    if service.failing:
        found.append(f"failing: {service.failing}")
    if (newest := service.recovery) is not None:
        counts = f"{newest.deletions} deleted, {newest.queued} wait, {newest.spared} spared"
        trouble = f", {newest.trouble}" if newest.trouble else ""
        found.append(f"recovery {newest.end or newest.phase}: {counts}{trouble}")
    return EventText(f"{service.namespace}/{service.service}", "; ".join(found))


def _override(data: Any) -> EventText:  # noqa: ANN401 - JSON
    override = answers.of(schemas.OverrideChange, data)
    whom = override.namespace or "all shoots"
    what = f"{override.kind} of {override.resource}" if override.resource else override.kind
    by = f" by {override.author}" if override.author else ""
    if isinstance(override.after, bool | None):
        return EventText(whom, f"{what} {'set' if override.after else 'ended'}{by}", "yellow")
    decision: schemas.Pause | schemas.Hold
    if override.kind == schemas.OverrideKind.PAUSE:
        decision = pause = answers.of(schemas.Pause, data["after"])
        kind, name = str(pause.scope), named(pause)
    else:
        decision = hold = answers.of(schemas.Hold, data["after"])
        kind, name = str(hold.direction), ""
    if override.author and override.author == decision.author:
        by = f" by {written_by(decision)}"
    shown = f" {kind}" if kind else ""
    text = f"{what}{shown}{by} until {decision.until}: {decision.reason}{name}"
    return EventText(whom, text, "yellow")
