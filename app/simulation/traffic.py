"""The way of a request to a simulated API server: latency, what goes wrong there, and the books that are kept."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import NamedTuple, TypeVar

from app.core.clock import Clock
from app.core.errors import (
    BadAnswer,
    ClusterError,
    Forbidden,
    ServerFault,
    Throttled,
    Unreachable,
)
from app.core.model.shoots import Route
from app.core.model.workloads import ResourceRef
from app.simulation.network import SeedNetwork

T = TypeVar("T")


class Host(StrEnum):
    """Whose API server is asked."""

    SEED = "seed"
    SHOOT = "shoot"


class SimulatedRequest(NamedTuple):
    """What is asked for, as the books have it."""

    host: Host
    verb: str
    """get, list, patch."""
    what: str
    """The resource in the plural, with its subresource; `version`; `contact` for one page of one Lease."""
    namespace: str = ""
    """The control-plane namespace, for a shoot's API server too."""
    route: Route = Route.INTERNAL
    """How a shoot's API server is asked."""


class RequestCount:
    """How many requests were sent, failed ones too."""

    def __init__(self) -> None:
        self.counts: Counter[SimulatedRequest] = Counter()
        self.connections: Counter[str] = Counter()
        """How many requests to a shoot asked for a connection of their own, by its namespace."""

    def total(
        self,
        host: Host | None = None,
        verb: str | None = None,
        what: str | None = None,
        namespace: str | None = None,
        route: Route | None = None,
    ) -> int:
        """The number of requests that have all that is given."""
        wanted = (host, verb, what, namespace, route)
        return sum(
            number
            for request, number in self.counts.items()
            if all(w is None or w == has for w, has in zip(wanted, request, strict=True))
        )

    def reset(self) -> None:
        """Starts counting anew."""
        self.counts.clear()
        self.connections.clear()


@dataclass(frozen=True, slots=True)
class Write:
    """One write that was accepted."""

    at: float
    """When the server accepted it."""
    namespace: str
    ref: ResourceRef
    patch: Mapping[str, object]
    """The body of the request; empty for a deletion."""
    by: str
    """The component that wrote."""
    sent: float
    """When the writer sent it."""
    verb: str = "patch"
    """patch, scale, create or delete."""


class Journal:
    """All accepted writes, in their order, but for the renewals of Leases; the last 100 000 of them."""

    def __init__(self) -> None:
        self._writes: deque[Write] = deque(maxlen=100_000)

    @property
    def writes(self) -> tuple[Write, ...]:
        """All of them."""
        return tuple(self._writes)

    def add(self, write: Write) -> None:
        """Keeps one more."""
        self._writes.append(write)

    def of(
        self, by: str, namespace: str | None = None, name: str | None = None
    ) -> tuple[Write, ...]:
        """Those of one component; of one namespace and of one object where these are given."""
        return tuple(
            write
            for write in self._writes
            if write.by == by
            and namespace in (None, write.namespace)
            and name in (None, write.ref.name)
        )


class Storage(StrEnum):
    """How an API server behaves whose storage is away."""

    HANGS = "Hangs"
    FAILS = "Fails"


class ConnectionLoss(StrEnum):
    """What becomes of connections whose way is cut."""

    SWALLOWED = "Swallowed"
    """Packets vanish: no answer, not even a refusal."""
    REFUSED = "Refused"
    """Nobody listens."""
    RESET = "Reset"
    """They are accepted, and cut."""


@dataclass(frozen=True, slots=True, eq=False)
class Trouble:
    """Something that is wrong with an API server; what is not named is right."""

    refused: bool = False
    """It is down: connections are refused."""
    silent: bool = False
    """It accepts requests and does not answer, until it goes on where it was."""
    storage: Storage | None = None
    """Its storage is away: consistent reads and writes suffer, `/version` and its watch cache do not."""
    latency: float = 0.0
    """Seconds on top, for each request of ours."""
    error_rate: float = 0.0
    """Which fraction of requests is answered with 500."""
    throttled: bool = False
    """429 for each request of ours; kubelets have a share of their own."""
    retry_after: float | None = None
    forbidden: bool = False
    """403."""
    lost: ConnectionLoss | None = None
    """Our way to it is cut, that of kubelets is not."""
    page: int | None = None
    """Something before it answers by itself, with an HTML page of this status."""
    verbs: frozenset[str] = frozenset()
    """Only requests with these verbs suffer; empty: all."""
    what: frozenset[str] = frozenset()
    """Only requests for these suffer; empty: all."""
    routes: frozenset[Route] = frozenset()
    """Only requests that come by these suffer; empty: all."""

    def hits(self, request: SimulatedRequest) -> bool:
        """Whether this request suffers from it."""
        return (
            (not self.verbs or request.verb in self.verbs)
            and (not self.what or request.what in self.what)
            and (not self.routes or request.route in self.routes)
        )

    @property
    def limited(self) -> bool:
        """Whether it is the trouble of some requests of ours, and of nobody else."""
        return bool(self.verbs or self.what or self.routes)

    def meets(self, route: Route) -> bool:
        """Whether it meets whatever comes by this route."""
        return not (self.verbs or self.what) and (not self.routes or route in self.routes)


class Renewal(StrEnum):
    """What a kubelet's request to renew meets."""

    ANSWERED = "Answered"
    FAILED = "Failed"
    HELD = "Held"
    """No answer yet; there will be one if the trouble ends in time."""
    LOST = "Lost"
    """No answer will come."""


@dataclass(slots=True)
class ApiServer:
    """The front of one API server: each request goes through `ask`."""

    host: Host
    clock: Clock
    rng: random.Random
    requests: RequestCount
    latency: float = 0.02
    """Seconds for one request, there and back."""
    network: SeedNetwork | None = None
    """What the external route goes through."""
    _troubles: list[Trouble] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """`listener` is called whenever a trouble has begun or ended."""
        self._listeners.append(listener)
        if self.network is not None:
            self.network.subscribe(listener)

    def begin(self, trouble: Trouble) -> None:
        """From now on this is wrong."""
        self._troubles.append(trouble)
        self._wake()

    def end(self, trouble: Trouble) -> None:
        """From now on this is right again."""
        self._troubles.remove(trouble)
        self._wake()

    async def ask(
        self,
        request: SimulatedRequest,
        serve: Callable[[], T],
        *,
        consistent: bool = True,
        limit: float | None = 10.0,
    ) -> T:
        """Brings `request` to the server; `serve` makes the answer, at the instant at which the server has it.

        Args:
            request: what to count it as.
            serve: reads or writes the store; may raise a ClusterError.
            consistent: whether the storage has to be there.
            limit: seconds after which the client gives up; None: it is not known here.

        Raises:
            ClusterError: what the network, the server or `serve` did instead.
        """
        self.requests.counts[request] += 1
        try:
            async with asyncio.timeout(limit):
                if self.network is not None and request.route is Route.EXTERNAL:
                    await self.network.through()
                await self._travel(request)
                await self._while_troubled(request, _says_nothing)
                self._refuse(request)
                if consistent:
                    await self._reach_storage(request)
                answer = serve()
                await self._travel(request)
                return answer
        except TimeoutError as error:
            raise Unreachable(f"no answer within {limit:g} s") from error

    def renewal(self, rng: random.Random) -> Renewal:
        """What a kubelet's request meets now; latency and 429 are not for kubelets."""
        for trouble in self._troubles:
            if trouble.limited:
                continue  # only some requests of ours
            if trouble.silent or trouble.storage is Storage.HANGS:
                return Renewal.HELD
            if trouble.refused or trouble.storage is Storage.FAILS:
                return Renewal.FAILED
            if rng.random() < trouble.error_rate:
                return Renewal.FAILED
        return Renewal.ANSWERED

    def loss(self, route: Route = Route.INTERNAL) -> ConnectionLoss | None:
        """What becomes of connections that come by this route, whatever is asked for; None: they are taken."""
        if self.network is not None and self.network.down and route is Route.EXTERNAL:
            return ConnectionLoss.SWALLOWED
        for trouble in self._troubles:
            if trouble.meets(route) and (trouble.refused or trouble.lost):
                return trouble.lost or ConnectionLoss.REFUSED
        return None

    def page(self, route: Route) -> int | None:
        """The status of what something before it answers with to all that comes by this route."""
        pages = (each.page for each in self._troubles if each.meets(route))
        return next((page for page in pages if page is not None), None)

    def forbids(self, request: SimulatedRequest) -> bool:
        """Whether it would answer this request with 403."""
        return any(trouble.forbidden for trouble in self._suffered(request))

    @property
    def writable(self) -> bool:
        """Whether components of the control plane can write."""
        return not any(
            trouble.silent or trouble.refused or trouble.storage
            for trouble in self._troubles
            if not trouble.limited
        )

    def _suffered(self, request: SimulatedRequest) -> list[Trouble]:
        return [trouble for trouble in self._troubles if trouble.hits(request)]

    async def _travel(self, request: SimulatedRequest) -> None:
        extra = sum(trouble.latency for trouble in self._suffered(request))
        await self.clock.sleep((self.latency + extra) / 2)

    async def _while_troubled(
        self, request: SimulatedRequest, by: Callable[[Trouble], bool]
    ) -> None:
        while any(by(trouble) for trouble in self._suffered(request)):
            await self._changed.wait()

    def _refuse(self, request: SimulatedRequest) -> None:
        for trouble in self._suffered(request):
            if trouble.refused or trouble.lost is ConnectionLoss.REFUSED:
                raise Unreachable("connection refused")
            if trouble.lost is ConnectionLoss.RESET:
                raise Unreachable("connection reset")
            if trouble.page is not None:
                raise _page(trouble.page)
            if trouble.forbidden:
                raise Forbidden(f"forbidden: cannot {request.verb} {request.what}", status=403)
            if trouble.throttled:
                raise Throttled("too many requests", status=429, retry_after=trouble.retry_after)
            if self.rng.random() < trouble.error_rate:
                raise ServerFault("internal error", status=500)

    async def _reach_storage(self, request: SimulatedRequest) -> None:
        if any(trouble.storage is Storage.FAILS for trouble in self._suffered(request)):
            raise ServerFault("etcdserver: request timed out", status=500)
        await self._while_troubled(request, lambda trouble: trouble.storage is Storage.HANGS)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        for listener in self._listeners:
            listener()


def _says_nothing(trouble: Trouble) -> bool:
    return trouble.silent or trouble.lost is ConnectionLoss.SWALLOWED


def _page(status: int) -> ClusterError:
    error = ServerFault if status >= HTTPStatus.INTERNAL_SERVER_ERROR else BadAnswer
    return error("an HTML page, and no API server", status=status)
