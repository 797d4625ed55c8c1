"""Requests to a simulated API server: latency, troubles, and records of requests, open watches and writes.

Every request of a client passes `ApiServer.ask`: it takes half the latency, meets the troubles that apply to it, is
served at one instant, and takes the other half to return. Kubelets do not: `ApiServer.renewal` tells what theirs meet.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from app.core.clock import Clock
from app.core.errors import (
    Forbidden,
    ServerFault,
    Throttled,
    Unreachable,
)
from app.core.model.shoots import Route
from app.core.model.workloads import ResourceRef
from app.core.ports import Watched
from app.simulation.store import Object
from app.simulation.views import ref_of

if TYPE_CHECKING:
    from app.simulation.server.streams import StoreWatch

T = TypeVar("T")


class Host(StrEnum):
    """The owner of an API server."""

    SEED = "seed"
    SHOOT = "shoot"


class SimulatedRequest(NamedTuple):
    """The attributes of a request by which requests are counted and troubles apply."""

    host: Host
    verb: str
    """get, list, patch."""
    what: str
    """The plural resource, with its subresource; or `version`; or `contact` for one page of one Lease."""
    namespace: str = ""
    """The control-plane namespace, also for requests to a shoot's API server."""
    route: Route = Route.INTERNAL
    """The route to a shoot's API server."""

    @property
    def reflects(self) -> bool:
        """Whether it keeps a copy of the seed up to date: it opens a watch, or lists what that is to show."""
        live = (
            self.what == "machines" and self.namespace
        )  # of one shoot: a scale-down may need them as they are now
        listed = self.verb == "list" and not live
        return self.host is Host.SEED and (self.verb == "watch" or listed)


class RequestCount:
    """Counts requests, including failed ones."""

    def __init__(self) -> None:
        self.counts: Counter[SimulatedRequest] = Counter()
        self.connections: Counter[str] = Counter()
        """The number of new connections, by the shoot's namespace."""
        self.refused: Counter[tuple[str, Route]] = Counter()
        """The number of connections that were refused, so that no request was sent, by namespace and route."""

    def total(
        self,
        host: Host | None = None,
        verb: str | None = None,
        what: str | None = None,
        namespace: str | None = None,
        route: Route | None = None,
    ) -> int:
        """Returns the number of requests that match every given argument."""
        return sum(self._matching((host, verb, what, namespace, route)).values())

    def live(
        self, host: Host | None = None, verb: str | None = None, what: str | None = None
    ) -> int:
        """Returns the number of requests that match, without those that only keep the copies of watches up to date."""
        found = self._matching((host, verb, what, None, None))
        return sum(number for request, number in found.items() if not request.reflects)

    def _matching(self, wanted: tuple[object, ...]) -> dict[SimulatedRequest, int]:
        return {
            request: number
            for request, number in self.counts.items()
            if all(w is None or w == has for w, has in zip(wanted, request, strict=True))
        }

    def reset(self) -> None:
        self.counts.clear()
        self.connections.clear()
        self.refused.clear()


# The prober's watches by kind; None: of the weeder, of people's decisions or of endpoint probes. All other kinds may be
# those of dependents.
_WATCHED: Final[Mapping[str, Watched | None]] = {
    "Cluster": Watched.CLUSTERS,
    "Secret": Watched.SECRETS,
    "Machine": Watched.MACHINES,
    **dict.fromkeys(("Pod", "EndpointSlice", "Service", "Lease", "Event", "Pause", "ScaleRequest")),
}


def watched(kind: str) -> Watched | None:
    """Returns the prober's watch that delivers changes of a kind; None if there is none."""
    return _WATCHED.get(kind, Watched.DEPENDENTS)


class OpenWatches:
    """All open watches of the seed, counted by kind."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        """The maximum number of watches open at the same time, by kind."""
        self._stalled: set[str] = set()
        self._served: list[tuple[str, StoreWatch]] = []

    def open_now(self, kind: str) -> int:
        """Returns the number of open watches of a kind."""
        return len(self._of(kind))

    @contextmanager
    def serving(self, kind: str, stream: "StoreWatch") -> Iterator[None]:
        """Counts a watch as long as it is open."""
        served = (kind, stream)
        self._served.append(served)
        self.most[kind] = max(self.most[kind], self.open_now(kind))
        try:
            yield
        finally:
            self._served.remove(served)

    def cut(self, kind: str) -> None:
        """Breaks the connections of all watches of a kind; pending events are lost."""
        for stream in self._of(kind):
            stream.cut()

    def end(self, kind: str) -> None:
        """Ends all watches of a kind, which is served no longer."""
        for stream in self._of(kind):
            stream.end()

    def _of(self, kind: str) -> "list[StoreWatch]":
        return [stream for each, stream in self._served if each == kind]

    def stall(self, what: str) -> None:
        """Stops delivery to the watches of a kind, or of all kinds of a `Watched`, while they stay open."""
        self._stalled.add(what)

    def go_on(self, what: str) -> None:
        """Ends `stall`; pending events are delivered."""
        self._stalled.discard(what)

    def stalled(self, kind: str) -> bool:
        """Returns whether watches of a kind deliver nothing."""
        return kind in self._stalled or watched(kind) in self._stalled


@dataclass(frozen=True, slots=True)
class Write:
    """One accepted write."""

    at: float
    """When it was sent."""
    namespace: str
    ref: ResourceRef
    patch: Mapping[str, object]
    """The request body; empty for a deletion."""
    by: str
    """The component that sent the write."""
    verb: str = "patch"
    """patch, scale, create or delete."""


class Journal:
    """The last 100,000 accepted writes in order, without renewals of Leases."""

    def __init__(self) -> None:
        self._writes: deque[Write] = deque(maxlen=100_000)

    @property
    def writes(self) -> tuple[Write, ...]:
        return tuple(self._writes)

    def enter(
        self, at: float, obj: Object, patch: Object, by: str, verb: str = "patch", place: str = ""
    ) -> None:
        """Adds a write to an object, of its own namespace unless it is entered under another `place`."""
        metadata = obj["metadata"]
        place = place or metadata["namespace"] or metadata["name"]
        self._writes.append(Write(at, place, ref_of(obj), patch, by, verb))

    def clear(self) -> None:
        self._writes.clear()

    def of(
        self, by: str, namespace: str | None = None, name: str | None = None
    ) -> tuple[Write, ...]:
        """Returns the writes of one component, optionally only those in a namespace or to objects of a name."""
        return tuple(
            write
            for write in self._writes
            if write.by == by
            and namespace in (None, write.namespace)
            and name in (None, write.ref.name)
        )


class Storage(StrEnum):
    """How an API server behaves without its storage."""

    HANGS = "Hangs"
    FAILS = "Fails"


class ConnectionLoss(StrEnum):
    """What happens to connections over a path that is cut."""

    SWALLOWED = "Swallowed"
    """Packets are dropped: neither an answer nor a refusal."""
    REFUSED = "Refused"
    """Nothing listens on the port."""
    RESET = "Reset"
    """Connections are accepted, then reset."""


@dataclass(frozen=True, slots=True, eq=False)
class Trouble:
    """A malfunction of an API server or of a path to it; every field left at its default works normally."""

    refused: bool = False
    """The server is down: connections are refused."""
    silent: bool = False
    """The server accepts requests and does not answer; when the trouble ends, it serves those that wait."""
    storage: Storage | None = None
    """The storage is away: this affects consistent reads and writes, but neither `/version` nor the watch cache."""
    latency: float = 0.0
    """Additional seconds for each of our requests."""
    error_rate: float = 0.0
    """The share of requests that is answered with 500."""
    throttled: bool = False
    """Whether each of our requests gets 429; kubelets have their own share under API priority and fairness."""
    retry_after: float | None = None
    forbidden: bool = False
    """403."""
    lost: ConnectionLoss | None = None
    """Our path to the server is cut, not that of kubelets."""
    page: int | None = None
    """Something in front of the server, such as a load balancer, answers with an HTML page of this status."""
    verbs: frozenset[str] = frozenset()
    """The verbs affected; empty for all."""
    what: frozenset[str] = frozenset()
    """The resources affected; empty for all."""
    routes: frozenset[Route] = frozenset()
    """The routes affected; empty for all."""
    reflected: bool = False
    """Whether only requests are affected that keep copies of the seed up to date."""

    def hits(self, request: SimulatedRequest) -> bool:
        """Returns whether the trouble affects a request."""
        return (
            (not self.verbs or request.verb in self.verbs)
            and (not self.what or request.what in self.what)
            and (not self.routes or request.route in self.routes)
            and (not self.reflected or request.reflects)
        )

    @property
    def limited(self) -> bool:
        """Whether only some of our requests are affected, and no kubelet."""
        return bool(self.verbs or self.what or self.routes or self.reflected)

    def meets(self, route: Route) -> bool:
        """Returns whether the trouble affects everything on a route."""
        some = self.verbs or self.what or self.reflected
        return not some and (not self.routes or route in self.routes)


class Renewal(StrEnum):
    """What happens to a kubelet's request to renew its Lease."""

    ANSWERED = "Answered"
    FAILED = "Failed"
    HELD = "Held"
    """No answer yet; it comes if the trouble ends in time."""
    LOST = "Lost"
    """No answer will come."""


@dataclass(slots=True)
class ApiServer:
    """The front end of one API server: each request passes `ask`."""

    clock: Clock
    rng: random.Random
    requests: RequestCount
    latency: float = 0.02
    """Seconds for one request, both ways together."""
    _troubles: list[Trouble] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` whenever a trouble has begun or ended."""
        self._listeners.append(listener)

    def begin(self, trouble: Trouble) -> None:
        """Puts a trouble into effect."""
        self._troubles.append(trouble)
        self._wake()

    def end(self, trouble: Trouble) -> None:
        """Ends a trouble."""
        self._troubles.remove(trouble)
        self._wake()

    async def ask(
        self,
        request: SimulatedRequest,
        serve: Callable[[], T],
        *,
        consistent: bool = True,
    ) -> T:
        """Sends a request to the server; `serve` produces the answer at the instant at which the request arrives.

        Args:
            request: what is asked for.
            serve: reads or writes the store; may raise a ClusterError.
            consistent: whether the request needs the storage.

        Raises:
            ClusterError: the network, the server or `serve` failed.
        """
        self.requests.counts[request] += 1
        await self._travel(request)
        await self._while_troubled(
            request, lambda each: each.silent or each.lost is ConnectionLoss.SWALLOWED
        )
        self._refuse(request)
        if consistent:
            if any(trouble.storage is Storage.FAILS for trouble in self._suffered(request)):
                raise ServerFault("etcdserver: request timed out", status=500)
            await self._while_troubled(request, lambda each: each.storage is Storage.HANGS)
        answer = serve()
        await self._travel(request)
        return answer

    def renewal(self, rng: random.Random) -> Renewal:
        """Returns what a kubelet's request meets now; latency and 429 do not affect kubelets."""
        for trouble in self._troubles:
            if trouble.limited:
                continue  # affects only some of our requests
            if trouble.silent or trouble.storage is Storage.HANGS:
                return Renewal.HELD
            if trouble.refused or trouble.storage is Storage.FAILS:
                return Renewal.FAILED
            if rng.random() < trouble.error_rate:
                return Renewal.FAILED
        return Renewal.ANSWERED

    def loss(self, route: Route = Route.INTERNAL) -> ConnectionLoss | None:
        """Returns what happens to all connections on a route; None if they are accepted."""
        for trouble in self._troubles:
            if trouble.meets(route) and (trouble.refused or trouble.lost):
                return trouble.lost or ConnectionLoss.REFUSED
        return None

    def page(self, route: Route) -> int | None:
        """Returns the status of the page that something in front answers with on a route; None if there is none."""
        pages = (each.page for each in self._troubles if each.meets(route))
        return next((page for page in pages if page is not None), None)

    def forbids(self, request: SimulatedRequest) -> bool:
        """Returns whether the server would answer a request with 403."""
        return any(trouble.forbidden for trouble in self._suffered(request))

    def troubles(self, request: SimulatedRequest) -> bool:
        """Returns whether something is wrong with requests like this one."""
        return bool(self._suffered(request))

    @property
    def writable(self) -> bool:
        """Whether components of the control plane can write to the server."""
        return not any(
            trouble.silent or trouble.refused or trouble.storage
            for trouble in self._troubles
            if not trouble.limited
        )

    def _suffered(self, request: SimulatedRequest) -> list[Trouble]:
        return [trouble for trouble in self._troubles if trouble.hits(request)]

    async def _travel(self, request: SimulatedRequest) -> None:
        extra = sum([trouble.latency for trouble in self._suffered(request)])
        await self.clock.sleep((self.latency + extra) / 2)

    async def _while_troubled(
        self, request: SimulatedRequest, by: Callable[[Trouble], bool]
    ) -> None:
        while self._troubles and any(by(trouble) for trouble in self._suffered(request)):
            await self._changed.wait()

    def _refuse(self, request: SimulatedRequest) -> None:
        for trouble in self._suffered(request):
            if trouble.refused or trouble.lost is ConnectionLoss.REFUSED:
                raise Unreachable("connection refused")
            if trouble.lost is ConnectionLoss.RESET:
                raise Unreachable("connection reset")
            if trouble.forbidden:
                raise Forbidden(f"forbidden: cannot {request.verb} {request.what}", status=403)
            if trouble.throttled:
                raise Throttled("too many requests", status=429, retry_after=trouble.retry_after)
            if self.rng.random() < trouble.error_rate:
                raise ServerFault("internal error", status=500)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        for listener in self._listeners:
            listener()
