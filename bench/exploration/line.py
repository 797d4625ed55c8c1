"""The way of a process's requests to an API server and back, with every boundary at which a process can die.

The bytes are those of the real adapter: `Line` hears them at the client's ends of a process's connections, and
`ServedLines` stands between the API servers and what they answer. A server works on a write that its client has given
up, or does not: that is drawn.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from aiohttp import web

from app.core.errors import ClusterError
from app.core.model import workloads as ann
from app.core.model.shoots import Route
from app.core.model.workloads import Patch, ResourceRef
from app.simulation.memory import MemoryTransport, Wiretap
from app.simulation.network import SEED
from app.simulation.server.options import VERBS, RequestedObject, parse
from app.simulation.server.servers import Handle, ServerWatcher
from app.simulation.traffic import ApiServer, Host, SimulatedRequest
from bench.exploration.hearing import Answer, Hearing
from bench.exploration.timeline import Machine

T = TypeVar("T")

_WORKED_ON: Final = 0.5
"""How often a server works on a write that its client has given up."""
_OF_STATUS: Final = {200: "ok", 201: "ok", 401: "Unauthorized", 403: "Forbidden", 429: "Throttled"}
_LAST: Final = b"0\r\n\r\n"
"""The last chunk of a stream."""
_HTML: Final = b"text/html"
GIVEN_UP: Final = "given up"
"""What came of a request whose client waits no longer."""


class Boundary(StrEnum):
    """The points on a request's way at which the process that made it can die."""

    ABOUT_TO_SEND = "about to send"
    SENT = "sent"
    CARRIED_OUT = "carried out"
    ANSWERED = "answered"


class Passage(NamedTuple):
    """A request passes a boundary."""

    process: str
    number: int
    """Of the request, among those of its process."""
    boundary: Boundary
    request: SimulatedRequest
    consistent: bool
    outcome: str = ""
    """What it came to, at the last boundary."""


class Sending(NamedTuple):
    """A write that a process is sending now."""

    process: str
    namespace: str
    ref: ResourceRef
    patch: Patch
    connected_ago: float = 0.0
    """Seconds since its connection was made."""

    @property
    def down(self) -> bool:
        """Whether it scales to 0, or notes that something is going to be."""
        return self.patch.replicas == 0 or ann.MELTDOWN in {
            key for key, value in self.patch.annotations.items() if value is not None
        }

    @property
    def up(self) -> bool:
        """Whether it scales up."""
        return bool(self.patch.replicas)

    @property
    def marks(self) -> bool:
        """Whether it only says whether the dependent is to be ignored: somebody asks for that, of any process."""
        return self.patch.replicas is None and self.patch.annotations.keys() == {ann.IGNORE_SCALING}


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it is in the bytes of its head and its body."""

    request: SimulatedRequest
    target: RequestedObject | None
    consistent: bool
    body: Mapping[str, Any] | None
    """None: there is none."""
    connected_ago: float = 0.0
    """Seconds since its connection was made."""


class Watcher(Protocol):
    """Hears of every passage, at its instant."""

    def passed(self, passage: Passage) -> None:
        """A request of a process passes a boundary."""
        ...

    def asks(self, process: str, sent: Sent) -> None:
        """A process is about to send this."""
        ...

    def serves(self, process: str, sent: Sent, serve: Callable[[], Any]) -> Any:  # noqa: ANN401  whatever it serves
        """Serves this for a process: returns what `serve` returns."""
        ...

    def connecting(self, process: str, namespace: str, route: Route) -> None:
        """A process connects to a shoot."""
        ...

    def refused(self, process: str, namespace: str, route: Route, error: OSError) -> None:
        """It, or the seed, could not be connected to."""
        ...


@dataclass(slots=True, eq=False)
class _Call:
    """One request on its way."""

    number: int
    sent: Sent
    outcome: str = ""
    """What the server says that it came to."""
    answered: bool = False
    ended: bool = False
    """Whether its answer has arrived, all of it."""
    answer: Answer | None = None
    """Hears what it says of the overrides; None: it is about something else."""


@dataclass(slots=True, eq=False)
class _Connection:
    """One connection, at the client's end."""

    name: str
    route: Route
    made_at: float
    waiting: bytes = b""
    """What is written of a request whose head or body is not complete yet."""
    call: _Call | None = None
    """The last one."""
    begins: _Call | None = None
    """The one whose last bytes are being sent."""


@dataclass(slots=True, eq=False)
class Line(Wiretap):
    """All requests of one process."""

    process: str
    machine: Machine
    watcher: Watcher
    hearing: Hearing | None = None
    """Of what it is told of the overrides."""
    _connections: dict[MemoryTransport, _Connection] = field(default_factory=dict)
    _made: int = 0

    def call(self, end: MemoryTransport) -> _Call | None:
        """The last request on a connection."""
        found = self._connections.get(end)
        return None if found is None else found.call

    def connecting(self, name: str, route: Route) -> None:
        """A connection is being made."""
        if name != SEED:
            self.watcher.connecting(self.process, name, route)

    def refused(self, name: str, route: Route, error: OSError) -> None:
        """It could not be made."""
        self.watcher.refused(self.process, name, route, error)

    def connected(self, end: MemoryTransport, name: str, route: Route) -> None:
        """It was made."""
        self._connections[end] = _Connection(name, route, self.machine.time())

    def sending(self, end: MemoryTransport, data: bytes) -> None:
        """The client is about to send this."""
        connection = self._connections[end]
        connection.waiting += data
        connected_ago = self.machine.time() - connection.made_at
        found = _request(connection.waiting, connection.name, connection.route, connected_ago)
        if found is None:
            return
        connection.waiting = b""
        self._made += 1
        call = connection.call = connection.begins = _Call(self._made, found)
        if self.hearing is not None and found.request.host is Host.SEED:
            more = found.request.what.startswith("more ")
            call.answer = self.hearing.answer_to(found.request.verb, found.target, more=more)
        self.watcher.asks(self.process, found)
        self.note(call, Boundary.ABOUT_TO_SEND)

    def sent(self, end: MemoryTransport) -> None:
        """It is on its way."""
        connection = self._connections[end]
        call, connection.begins = connection.begins, None
        if call is not None:
            self.note(call, Boundary.SENT)

    def received(self, end: MemoryTransport, data: bytes) -> None:
        """The first bytes of an answer arrive."""
        call = self._connections[end].call
        if call is None:
            return
        call.ended = data.endswith(_LAST)
        if call.answer is not None:
            call.answer.take(data)
        if not call.answered:
            call.answered = True
            self.note(call, Boundary.ANSWERED, call.outcome or _outcome(data))

    def lost(self, end: MemoryTransport, *, given_up: bool) -> None:
        """The connection is gone, and with it what was to come."""
        call = self._connections.pop(end).call
        if call is not None and not call.answered and self.machine.alive:
            call.answered = True
            self.note(call, Boundary.ANSWERED, GIVEN_UP if given_up else "Unreachable")

    def open_watches(self, plural: str) -> Counter[str]:
        """How many watches of a resource of the seed are open, by namespace."""
        calls = [each.call for each in self._connections.values()]
        asked = [each.sent.request for each in calls if each is not None and not each.ended]
        about = (Host.SEED, "watch", plural)
        return Counter(each.namespace for each in asked if each[:3] == about)

    def note(self, call: _Call, boundary: Boundary, outcome: str = "") -> None:
        """A request passes a boundary."""
        sent = call.sent
        self.watcher.passed(
            Passage(self.process, call.number, boundary, sent.request, sent.consistent, outcome)
        )


def _request(data: bytes, name: str, route: Route, connected_ago: float) -> Sent | None:
    """Returns the request in these bytes; None while they are not all of it."""
    head, found, rest = data.partition(b"\r\n\r\n")
    if not found:
        return None
    length = head.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0]
    if len(rest) < int(length or b"0"):
        return None
    method, address, _ = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    body = json.loads(rest) if rest else None
    return Sent(*_asked(method, address, name, route), body, connected_ago)


@lru_cache(maxsize=4_096)
def _asked(
    method: str, address: str, name: str, route: Route
) -> tuple[SimulatedRequest, RequestedObject | None, bool]:
    url = urlsplit(address)
    path, query = unquote(url.path), dict(parse_qsl(url.query, keep_blank_values=True))
    target = parse(path)
    host = Host.SEED if name == SEED else Host.SHOOT
    verb = _verb(method, target, query)
    place = (
        name if host is Host.SHOOT else "" if target is None else target.namespace or target.name
    )
    request = SimulatedRequest(host, verb, _what(path, target, query), place, route)
    consistent = verb not in {"watch", "list"} or (
        verb == "list" and "resourceVersion" not in query
    )
    return request, target, consistent and target is not None


def _verb(method: str, target: RequestedObject | None, query: Mapping[str, str]) -> str:
    if method in VERBS:
        return VERBS[method]
    if target is None or target.name:
        return "get"
    return "watch" if query.get("watch") else "list"


def _what(path: str, target: RequestedObject | None, query: Mapping[str, str]) -> str:
    if target is None:
        return path.strip("/")
    if target.plural == "leases" and query.get("limit") == "1" and not query.get("continue"):
        return "contact"
    if query.get("continue"):
        return f"more {target.plural}"
    return target.plural + (f"/{target.part}" if target.part else "")


def _outcome(data: bytes) -> str:
    """What an answer says that came from somewhere before the server's own work."""
    status = int(data[9:12])
    if status == 200 and _HTML in data:
        return "BadAnswer"
    return _OF_STATUS.get(status) or ("ServerFault" if status >= 500 else "BadAnswer")


# At the servers.

_END: Final[ContextVar[MemoryTransport | None]] = ContextVar("end", default=None)


class ServedLines(ServerWatcher):
    """What the API servers of a world do for processes."""

    def __init__(self, watcher: Watcher, chance: random.Random | None = None) -> None:
        """`chance` draws whether a write is worked on that was given up; None: always."""
        self.watcher, self._chance = watcher, chance
        self._lines: dict[str, Line] = {}

    def joins(self, line: Line) -> None:
        """A process starts."""
        self._lines[line.process] = line

    def handler(self, handle: Handle) -> Handle:
        """Answers each request knowing whose it is."""

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            transport = request.transport
            _ = _END.set(transport.peer if isinstance(transport, MemoryTransport) else None)
            if request.method not in VERBS:
                return await _reported(handle(request))
            work = asyncio.ensure_future(_reported(handle(request)))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                if self._chance is not None and self._chance.random() >= _WORKED_ON:
                    work.cancel()
                work.add_done_callback(_seen)
                raise

        return answer

    def api(self, api: ApiServer) -> ApiServer:
        """An API server whose work is noted."""
        return cast("ApiServer", _NotedApi(self, api))

    def whose(self) -> tuple[Line, _Call] | None:
        """The request that is answered now; None: nobody's of ours."""
        end = _END.get()
        if end is None:
            return None
        line = self._lines.get(end.get_extra_info("peername")[0])
        call = None if line is None else line.call(end)
        return None if line is None or call is None else (line, call)


async def _reported(answer: Awaitable[web.StreamResponse]) -> web.StreamResponse:
    """Answers a request; reports what is a mistake of the simulation itself, which aiohttp answers with 500."""
    try:
        return await answer
    except ConnectionError:
        raise  # its client is gone, in the middle of the request
    except Exception as error:
        context = {"message": "a request could not be served", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
        raise


def _seen(work: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more: its failure is of no interest."""
    if not work.cancelled():
        work.exception()


class _NotedApi:
    """An `ApiServer` whose work is noted."""

    def __init__(self, lines: ServedLines, api: ApiServer) -> None:
        self._lines, self._api = lines, api

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the server has
        return getattr(self._api, name)

    async def ask(
        self,
        request: SimulatedRequest,
        serve: Callable[[], T],
        *,
        consistent: bool = True,
    ) -> T:
        """Serves a request, as `ApiServer.ask` does."""
        found = self._lines.whose()
        if found is None:
            return await self._api.ask(request, serve, consistent=consistent)
        line, call = found

        def carry_out() -> T:
            answer: T = self._lines.watcher.serves(line.process, call.sent, serve)
            line.note(call, Boundary.CARRIED_OUT)
            return answer

        try:
            answer = await self._api.ask(request, carry_out, consistent=consistent)
        except ClusterError as error:
            call.outcome = type(error).__name__
            raise
        call.outcome = "ok"
        return answer
