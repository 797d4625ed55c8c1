"""A client of the stream of events, straight on the application, and what it needs to run."""

import asyncio
import json
import random
from dataclasses import dataclass, field, replace
from typing import Any

from app.api.stream import EventStreams
from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.callers import Caller, Role
from app.core.model.probing import NoticeKind
from app.core.reporting.notices import OverrideChanged
from app.core.tasks import Tasks
from tests.api.fakes import application, context
from tests.support.notices import OF_KIND


@dataclass(frozen=True)
class Event:
    """One block of a stream."""

    name: str
    """Empty: it is none that a client is told of."""
    data: dict[str, Any]
    id: str | None
    at: float = 0.0


def parsed(text: str, at: float = 0.0) -> list[Event]:
    """The blocks of a text, as the specification of EventSource reads them."""
    found = []
    for block in text.split("\n\n")[:-1]:
        fields = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            assert name not in fields, "no field comes twice"
            fields[name] = value.removeprefix(" ")
        assert fields.keys() <= {"", "id", "event", "data", "retry"}
        data = json.loads(fields.get("data", "{}"))
        found.append(Event(fields.get("event", ""), data, fields.get("id"), at))
    return found


class Client:
    """One connection; `reads` false: it takes nothing any more."""

    def __init__(self, app, clock, query="", last_id=None, caller="tester"):
        headers = [(b"host", b"localhost")]
        if last_id is not None:
            headers.append((b"last-event-id", last_id.encode("latin-1")))
        self.scope = {
            "type": "http", "method": "GET", "path": "/api/v1/events", "raw_path": b"/api/v1/events",
            "query_string": query.encode(), "headers": headers, "http_version": "1.1", "scheme": "http",
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "root_path": "",
            "state": {"caller": Caller(caller, Role.ADMIN)},
        }  # fmt: skip
        self.app, self.clock = app, clock
        self.status, self.headers, self.complete = None, {}, False
        self.text = ""
        self.arrived: list[Event] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self._left = asyncio.Event()
        self._asked = False
        self.task = asyncio.ensure_future(app(self.scope, self._receive, self._send))

    async def _receive(self):
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        await self.reading.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            return
        assert not self.complete
        self.text += message["body"].decode()
        self.complete = not message.get("more_body", False)
        if self.status == 200:
            self.arrived += parsed(message["body"].decode(), self.clock.now())

    @property
    def events(self) -> list[Event]:
        """Those that have a name: comments and bare ids are none."""
        return [each for each in self.arrived if each.name]

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.events]

    @property
    def last_id(self) -> str | None:
        """What a browser would send when it connects again."""
        return next((each.id for each in reversed(self.arrived) if each.id is not None), None)

    def data(self, name: str) -> list[dict[str, Any]]:
        return [each.data for each in self.events if each.name == name]

    @property
    def problem(self) -> Any:
        return json.loads(self.text)

    async def leave(self):
        self._left.set()
        await self.task


@dataclass
class Harness:
    """The application with its streams, on facts that a test changes."""

    given: object
    streams: EventStreams
    app: object
    clock: Clock
    tasks: Tasks
    metrics: Metrics
    clients: list[Client] = field(default_factory=list)

    @classmethod
    def create(cls, *, most_each=10, start=True, seed=7, prober=None, clock=None, **facts):
        clock = clock or Clock.of_loop()
        tasks, metrics = Tasks(clock), Metrics()
        given = context(**facts)
        if prober is not None:  # a real one
            given = replace(given, prober=prober, overrides=prober.overrides)
        streams = EventStreams(given, clock, random.Random(seed), metrics, most_each)
        # Clients say by themselves who they are.
        app = application(
            given, now=clock.now, metrics=metrics, streams=streams, authentication=lambda app: app
        )
        harness = cls(given, streams, app, clock, tasks, metrics)
        if start:
            streams.start(tasks)
        return harness

    def begin(self, *args, **more) -> Client:
        """A client that has just sent its request."""
        client = Client(self.app, self.clock, *args, **more)
        self.clients.append(client)
        return client

    async def listen(self, *args, **more) -> Client:
        """A client whose stream has begun."""
        client = self.begin(*args, **more)
        await self.run(0.3)
        return client

    async def run(self, seconds):
        await self.clock.sleep(seconds)

    def note(self, kind, namespace, **facts):
        of = OverrideChanged if kind is NoticeKind.OVERRIDE and facts else OF_KIND[kind]
        self.streams.publisher.note(of(namespace, self.clock.now(), "Reason", "text", **facts))

    def look(self, *namespaces):
        for each in namespaces:
            self.note(NoticeKind.LOOK, each)

    async def close(self):
        for each in self.clients:
            if not each.task.done():
                await each.leave()
        await self.tasks.stop()
