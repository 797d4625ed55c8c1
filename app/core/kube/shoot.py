"""The API server of one shoot (`ShootCluster`), the hot path of probing, and what connects to it (`ShootConnector`).

A probe in the steady state is two small requests on one connection that stays open. Everything a shoot sends is
limited: time, bytes of an answer, number of Leases and Nodes (threat T7).
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from app.core.bounded_tls import BoundedContext
from app.core.clock import Clock, stopwatch
from app.core.errors import (
    ClusterError,
    CredentialRefused,
    LimitExceeded,
    NotKnownYet,
    Unauthorized,
)
from app.core.fair_queue import Consumer, FairQueue
from app.core.kube import kubeconfig
from app.core.kube.client import ApiClient, ApiRequest, Decoding, Reply, ResponseLimits
from app.core.kube.connections import (
    ByteBudget,
    ConnectionPool,
    Network,
    PinnedResolver,
    RequestedRight,
)
from app.core.kube.decoding import shoot_objects
from app.core.kube.decoding.envelope import RawPage
from app.core.kube.kubeconfig import (
    NO_KUBECONFIG,
    NO_TOKEN,
    REASONS,
    ExternalServerPolicy,
    ServerPolicy,
    Servers,
    ShootCredential,
    parse_kubeconfig,
)
from app.core.kube.seed import SeedCluster
from app.core.metrics import Metrics
from app.core.model.shoots import LeaseReading, LeaseView, NodeView, Route, SecretView
from app.core.ports import Watched

T = TypeVar("T")

LEASES_WITHIN: Final = 5.0
"""Time limit of a request for Leases in seconds: a later answer says nothing about now."""
PAGE: Final = 500
MAX_LEASES: Final = 10_000
MAX_NODES: Final = 10_000
_READ_WITHIN: Final = 5.0
"""Seconds within which a Secret must be read live, its turn in the budget included."""
_READ_AGAIN: Final = 60.0
"""Seconds after which one that is refused (401) is read live again."""
PAGED_FOR: Final = 3600.0
"""Seconds for which Nodes are read in pages after they did not fit into one answer."""

# Maximum bytes of an answer with one object, so that no shoot can use up the byte budget of all with these.
_MAX_SMALL: Final = 1 << 20
# Maximum bytes of a page of 500 Leases, which have less than a kilobyte each unless somebody plays tricks.
_MAX_LEASE_PAGE: Final = 8 << 20

_VERSION: Final = RequestedRight("get", "/version")
_LEASES: Final = RequestedRight("list", "leases", "kube-node-lease")
_NODES: Final = RequestedRight("list", "nodes")
_LEASES_PATH: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class ShootRequests:
    """The requests that every shoot gets, created once because hundreds of probes per second send the same."""

    def __init__(self, within: float) -> None:
        """Creates the requests; `within` is the time limit of a whole probe in seconds."""
        self.within = within
        self.leases_within = min(LEASES_WITHIN, within)
        self.version = ApiRequest(_VERSION, "/version", within, most=_MAX_SMALL, keep_url=True)
        self.first_leases = self._leases(PAGE, _MAX_LEASE_PAGE)
        self.one_lease = self._leases(1, _MAX_SMALL)

    def version_in(self, within: float | None) -> ApiRequest:
        """Returns the request for `/version` with this time limit; None stands for that of a probe."""
        if within is None or within >= self.within:
            return self.version
        return replace(self.version, within=within)

    def _leases(self, limit: int, most: int) -> ApiRequest:
        path = f"{_LEASES_PATH}?limit={limit}"
        return ApiRequest(_LEASES, path, self.leases_within, most=most, keep_url=True)

    def more_leases(self, continues: str) -> ApiRequest:
        """Returns the request for the page after the one with this continue token."""
        params = _page_params(continues)
        return ApiRequest(_LEASES, _LEASES_PATH, self.leases_within, params, most=_MAX_LEASE_PAGE)

    def nodes(self, params: dict[str, str]) -> ApiRequest:
        """Returns the request for one page of Nodes, or all."""
        return ApiRequest(_NODES, "/api/v1/nodes", self.within, params)


@dataclass(slots=True)
class Link:
    """What survives a change of the token: the connections to one server, and what was learnt about it."""

    origin: str
    client: ApiClient
    credential: ShootCredential
    """The one that it was made with; of those that came later only the token differs."""
    nodes_paged_until: float = float("-inf")


class ShootCluster:
    """The API server of one shoot with one credential."""

    def __init__(
        self,
        link: Link,
        token: str | None,
        clock: Clock,
        requests: ShootRequests,
        route: Route = Route.INTERNAL,
    ) -> None:
        self._link, self._token = link, token
        self._clock, self._requests = clock, requests
        self._always_new = route is Route.EXTERNAL

    def __repr__(self) -> str:
        return f"ShootCluster({self._link.origin})"

    async def version(self, *, new_connection: bool = False, within: float | None = None) -> str:
        """Sends `GET /version` and returns `gitVersion`.

        Raises:
            BadAnswer: the server is not an API server.
            NameUnresolved: the server's name has no address, or none was found in time.
            AddressForbidden: its addresses are not allowed.
            ClusterError: there was no answer, or a refusal.
        """
        request = self._requests.version_in(within)
        reply = await self._call(request, shoot_objects.version, new_connection=new_connection)
        return reply.value

    async def leases(self, *, new_connection: bool = False) -> LeaseReading:
        """Lists all node Leases consistently, in pages of 500.

        Raises:
            LimitExceeded: there are more than 10,000.
            ClusterError: a page could not be read.
        """
        requests = self._requests

        def page(continues: str) -> Awaitable[Reply[RawPage[LeaseView]]]:
            request = requests.more_leases(continues) if continues else requests.first_leases
            return self._leases(request, new_connection=new_connection)

        return LeaseReading(*await self._in_pages(_LEASES, MAX_LEASES, page))

    async def contact(self) -> float:
        """Reads one page of one Lease, consistently, and returns when the request was sent.

        Raises:
            ClusterError: the read failed.
        """
        return (await self._leases(self._requests.one_lease)).sent

    async def _leases(
        self, request: ApiRequest, *, new_connection: bool = False
    ) -> Reply[RawPage[LeaseView]]:
        return await self._call(request, shoot_objects.leases, new_connection=new_connection)

    async def nodes(self, *, consistent: bool = False) -> tuple[NodeView, ...]:
        """Lists all Nodes, on connections that are closed afterwards: answers and buffers are large.

        Reads one page from the API server's watch cache, or consistent pages of 500 if `consistent`, and for an hour
        after the Nodes did not fit into one answer.

        Raises:
            LimitExceeded: there are too many.
            ClusterError: a page could not be read.
        """
        if not consistent and self._clock.now() >= self._link.nodes_paged_until:
            try:
                found = (await self._nodes({"resourceVersion": "0"})).value.items
            except LimitExceeded as error:
                if error.limit != "size":
                    raise
                self._link.nodes_paged_until = self._clock.now() + PAGED_FOR
            else:
                if len(found) > MAX_NODES:
                    raise self._too_many(_NODES, MAX_NODES)
                return found
        found, _, _ = await self._in_pages(
            _NODES, MAX_NODES, lambda continues: self._nodes(_page_params(continues))
        )
        return found

    async def _in_pages(
        self,
        asked: RequestedRight,
        most: int,
        page: Callable[[str], Awaitable[Reply[RawPage[T]]]],
    ) -> tuple[tuple[T, ...], float, float]:
        """Reads all pages; returns the items, when the first was sent, and when the last was there."""
        found: list[T] = []
        continues, sent = "", 0.0
        for number in range(most // PAGE):
            reply = await page(continues)
            found += reply.value.items
            continues = reply.value.continues
            sent = sent if number else reply.sent
            if len(found) > most:
                break
            if not continues:
                return tuple(found), sent, reply.received
        raise self._too_many(asked, most)

    async def _nodes(self, params: dict[str, str]) -> Reply[RawPage[NodeView]]:
        request = self._requests.nodes(params)
        return await self._call(request, shoot_objects.nodes, new_connection=True)

    async def _call(
        self, request: ApiRequest, decode: Decoding[T], *, new_connection: bool = False
    ) -> Reply[T]:
        new = new_connection or self._always_new
        return await self._link.client.call(request, decode, self._token, new_connection=new)

    def _too_many(self, asked: RequestedRight, most: int) -> ClusterError:
        return self._link.client.counted(LimitExceeded("count", f"{asked}: more than {most}"))


def _page_params(continues: str) -> dict[str, str]:
    params = {"limit": str(PAGE)}
    return params | {"continue": continues} if continues else params


@dataclass(frozen=True, slots=True)
class _KnownCredential:
    """The result of parsing a Secret."""

    secret: SecretView
    outcome: ShootCluster | CredentialRefused
    link: Link | None = None


class ShootConnector:
    """Keeps one `ShootCluster` for each kubeconfig.

    The internal route keeps one connection to each server open. The external route makes a new connection for each
    request, to an address that was resolved and checked for it.
    """

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        servers: ServerPolicy,
        *,
        external: ExternalServerPolicy | None = None,
        probe_timeout: float = 30.0,
        budget: ByteBudget | None = None,
        network: Network | None = None,
    ) -> None:
        """Creates the pools; needs a running event loop.

        Args:
            clock: timestamps requests.
            metrics: counts requests, limits that were hit, and refused kubeconfigs.
            servers: which servers an internal kubeconfig may name.
            external: which servers an external kubeconfig may name, and which addresses they may have.
            probe_timeout: time limit of a whole probe in seconds, which also limits each request.
            budget: bytes that the undecoded answers of all shoots may hold.
            network: makes the connections; None: that of the machine.
        """
        external, budget = external or ExternalServerPolicy(), budget or ByteBudget()
        self.clock, self._metrics, self._network = clock, metrics, network
        self._servers: dict[Route, Servers] = {Route.INTERNAL: servers, Route.EXTERNAL: external}
        # starts the series at 0: `increase()` does not see the first count of a new series
        for reason in REASONS:
            metrics.credentials_rejected.labels(reason)
        self._requests = ShootRequests(probe_timeout)
        self._limits = ResponseLimits(first_byte_reused=min(3.0, probe_timeout / 3))
        outside = PinnedResolver(network, external)
        self._pools = {
            Route.INTERNAL: ConnectionPool(
                "shoot", clock, metrics, connections=1, budget=budget, network=network
            ),
            Route.EXTERNAL: ConnectionPool(
                "shoot", clock, metrics, budget=budget, resolver=outside, network=network
            ),
        }
        self._known: dict[tuple[str, Route], _KnownCredential] = {}
        self._queue = FairQueue()
        self._consumers: dict[str, Consumer] = {}

    async def connect(self, secret: SecretView) -> ShootCluster:
        """Returns the shoot of this Secret and route; the same object while the content is the same.

        Connections are kept as long as the server, its CA and the client certificate stay the same.

        Raises:
            CredentialRefused: the kubeconfig is not accepted, or is missing.
        """
        place = secret.namespace, secret.route
        known = self._known.get(place)
        if known is None or not (
            (secret.resource_version and secret.resource_version == known.secret.resource_version)
            or secret.kubeconfig == known.secret.kubeconfig
        ):
            known = await self._learn(secret, known)
        elif secret.resource_version != known.secret.resource_version:
            known = replace(known, secret=secret)
        self._known[place] = known
        if isinstance(known.outcome, CredentialRefused):
            raise CredentialRefused(known.outcome.reason, str(known.outcome)) from known.outcome
        return known.outcome

    async def _learn(self, secret: SecretView, before: _KnownCredential | None) -> _KnownCredential:
        try:
            servers = self._servers[secret.route]
            credential = parse_kubeconfig(secret.kubeconfig, secret.namespace, servers)
            link = await self._link(credential, before, secret)
        except CredentialRefused as refused:
            self._metrics.credentials_rejected.labels(refused.reason).inc()
            # the token will be back, perhaps with the same CA
            if refused.reason == NO_TOKEN and before:
                return replace(before, secret=secret, outcome=refused)
            if before and before.link:
                before.link.client.close()
            return _KnownCredential(secret, refused)
        shoot = ShootCluster(link, credential.token, self.clock, self._requests, secret.route)
        return _KnownCredential(secret, shoot, link)

    async def _link(
        self, credential: ShootCredential, before: _KnownCredential | None, secret: SecretView
    ) -> Link:
        if before and before.link:
            if credential.same_server(before.link.credential):
                return before.link
            before.link.client.close()
        consumer = self.consumer(secret.namespace)
        context = (
            await _context(credential, consumer)
            if self._network is None
            else await self._network.trusting(credential.ca, credential.client, consumer)
        )
        origin = f"https://{credential.host}:{credential.port}"
        pool = self._pools[secret.route]
        client = ApiClient(pool, origin, context, limits=self._limits, consumer=consumer)
        return Link(origin, client, credential)

    def session(
        self, seed: SeedCluster, namespace: str, route: Route, secret_name: str
    ) -> "ShootSession":
        """Returns what requests of this shoot and route are made with, by the Secret that `seed` has of this name."""
        return ShootSession(self, seed, namespace, route, secret_name)

    def consumer(self, namespace: str) -> Consumer:
        """Returns the consumer that is charged for the event-loop time which this shoot's answers take."""
        return self._consumers.setdefault(namespace, Consumer(self._queue))

    def forget(self, namespace: str) -> None:
        """Closes all connections to the shoot of this namespace, on all routes."""
        self._consumers.pop(namespace, None)
        for route in Route:
            known = self._known.pop((namespace, route), None)
            if known is not None and known.link is not None:
                known.link.client.close()

    async def close(self) -> None:
        """Closes all connections to all shoots."""
        self._known.clear()
        for pool in self._pools.values():
            await pool.close()


class ShootSession:
    """Requests to one shoot on one route, with the credentials that its kubeconfig Secret has now (rules 3, step 1).

    The watch of Secrets may lag behind a rotation: after a 401 the Secret is read live, once, and the request repeated
    if that is another kubeconfig. The one that was read live is then used until the watch shows a change.
    """

    def __init__(
        self,
        connector: ShootConnector,
        seed: SeedCluster,
        namespace: str,
        route: Route,
        secret_name: str,
    ) -> None:
        self._connector, self._seed = connector, seed
        self._namespace, self._route, self._name = namespace, route, secret_name
        self._used: SecretView | None = None
        """The Secret that was used last."""
        self._live: SecretView | None = None
        """The Secret as read live when the watch lagged behind; dropped when the watch shows a change."""
        self._outdated: str | None = None
        """The resourceVersion that the watch showed at that time."""
        self._read: tuple[SecretView | None, float] = None, -math.inf
        """What was used when the Secret was last read live, and when that was."""

    async def request(self, call: Callable[[ShootCluster], Awaitable[T]]) -> T:
        """Makes a request, and repeats it once with the live Secret after a 401.

        Raises:
            NotKnownYet: the Secrets have not been listed yet.
            CredentialRefused: there is no kubeconfig, or it is not accepted.
            ClusterError: the request failed.
        """
        shoot = await self._connect(self._current())
        try:
            return await call(shoot)
        except Unauthorized:
            live = await self._read_live()
            if live is None or not self.take(live):
                raise
        return await call(await self._connect(live))

    async def _read_live(self) -> SecretView | None:
        """The Secret, read live; None if that fails, or was done for the same one within a minute.

        Where nobody renews it that goes on for hours, perhaps at hundreds of shoots: then from what others leave.
        """
        (used, at), now = self._read, self._connector.clock.now()
        again = used == self._used
        if again and now - at < _READ_AGAIN:
            return None
        self._read = self._used, now
        try:
            async with asyncio.timeout(_READ_WITHIN):
                return await self._seed.read_secret(self._namespace, route=self._route, spare=again)
        except (ClusterError, TimeoutError):
            return None

    def take(self, live: SecretView) -> bool:
        """Uses `live` from now on; returns False, and does nothing, if its kubeconfig is the one that was used."""
        if self._used is not None and live.kubeconfig == self._used.kubeconfig:
            return False
        watched = self._seed.secret(self._namespace, self._route)
        self._live, self._outdated = live, None if watched is None else watched.resource_version
        return True

    def _current(self) -> SecretView | None:
        watched = self._seed.secret(self._namespace, self._route)
        if self._live is not None and watched is not None:
            if watched.resource_version == self._outdated:
                return self._live
            self._live = self._outdated = None
        return watched

    async def _connect(self, secret: SecretView | None) -> ShootCluster:
        self._used = secret
        if secret is not None and secret.kubeconfig:
            return await self._connector.connect(secret)
        if secret is not None:
            raise CredentialRefused(NO_KUBECONFIG, f"there is no kubeconfig in Secret {self._name}")
        if not self._seed.watch_state(Watched.SECRETS).synced:
            raise NotKnownYet("the kubeconfig Secrets of the seed have not been listed yet")
        raise CredentialRefused(NO_KUBECONFIG, f"there is no Secret {self._name}")


async def _context(credential: ShootCredential, consumer: Consumer) -> BoundedContext:
    """Creates the TLS context in a thread, and charges what that takes, refused or not."""
    taken = 0.0

    def create() -> BoundedContext:
        nonlocal taken
        begun = stopwatch()
        try:
            return kubeconfig.client_context(credential.ca, credential.client, consumer)
        finally:
            taken = stopwatch() - begun

    try:
        return await asyncio.to_thread(create)
    finally:
        consumer.charge(taken, beside=True)
