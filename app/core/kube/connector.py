"""Creates and keeps one `KubeShoot` for each kubeconfig Secret, and owns the connection pools."""

import asyncio
import hashlib
from dataclasses import dataclass, replace

from app.core.bounded_tls import BoundedContext
from app.core.clock import Clock, stopwatch
from app.core.errors import CredentialRefused
from app.core.fair_queue import Consumer, FairQueue
from app.core.kube import kubeconfig
from app.core.kube.byte_budget import ByteBudget
from app.core.kube.client import ApiClient, ResponseLimits
from app.core.kube.connections import ConnectionPool, PinnedResolver
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
from app.core.kube.network import Network
from app.core.kube.shoot import KubeShoot, Link, ShootRequests
from app.core.metrics import Metrics
from app.core.model.shoots import Route, SecretView
from app.core.name_lookup import Lookups


@dataclass(frozen=True, slots=True)
class _KnownCredential:
    """The result of parsing a Secret."""

    resource_version: str
    digest: bytes
    outcome: KubeShoot | CredentialRefused
    credential: ShootCredential | None = None
    link: Link | None = None


class KubeConnector:
    """Keeps one `KubeShoot` for each kubeconfig (`ports.ShootConnector`).

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
        self._clock, self._metrics, self._network = clock, metrics, network
        self._servers: dict[Route, Servers] = {Route.INTERNAL: servers, Route.EXTERNAL: external}
        # starts the series at 0: `increase()` does not see the first count of a new series
        for reason in REASONS:
            metrics.credentials_rejected.labels(reason)
        self._requests = ShootRequests(probe_timeout)
        self._limits = ResponseLimits(first_byte_reused=min(3.0, probe_timeout / 3))
        outside = PinnedResolver(network or Lookups(), external.addresses)
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

    async def connect(self, secret: SecretView) -> KubeShoot:
        """Returns the shoot of this Secret and route; the same object while the content is the same.

        Connections are kept as long as the server, its CA and the client certificate stay the same.

        Raises:
            CredentialRefused: the kubeconfig is not accepted, or is missing.
        """
        place = secret.namespace, secret.route
        known = self._known.get(place)
        if known is None or not _same(known, secret):
            known = await self._learn(secret, known)
        if known.resource_version != secret.resource_version:
            known = replace(known, resource_version=secret.resource_version)
        self._known[place] = known
        if isinstance(known.outcome, CredentialRefused):
            raise CredentialRefused(known.outcome.reason, str(known.outcome)) from known.outcome
        return known.outcome

    async def _learn(self, secret: SecretView, before: _KnownCredential | None) -> _KnownCredential:
        digest = _digest(secret)
        try:
            credential = self._parse(secret)
            link = await self._link(credential, before, secret)
        except CredentialRefused as refused:
            self._metrics.credentials_rejected.labels(refused.reason).inc()
            # the token will be back, perhaps with the same CA
            if refused.reason == NO_TOKEN and before:
                return replace(before, digest=digest, outcome=refused)
            if before and before.link:
                before.link.client.close()
            return _KnownCredential(secret.resource_version, digest, refused)
        shoot = KubeShoot(link, credential.token, self._clock, self._requests, secret.route)
        return _KnownCredential(secret.resource_version, digest, shoot, credential, link)

    def _parse(self, secret: SecretView) -> ShootCredential:
        if secret.kubeconfig is None:
            raise CredentialRefused(NO_KUBECONFIG, "the Secret has no key kubeconfig")
        return parse_kubeconfig(secret.kubeconfig, secret.namespace, self._servers[secret.route])

    async def _link(
        self, credential: ShootCredential, before: _KnownCredential | None, secret: SecretView
    ) -> Link:
        if before and before.link and before.credential:
            if credential.same_server(before.credential):
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
        return Link(origin, client, self._count_hit)

    def _count_hit(self, limit: str) -> None:
        self._metrics.limit_hits.labels(limit).inc()

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


def _same(known: _KnownCredential, secret: SecretView) -> bool:
    if secret.resource_version and known.resource_version == secret.resource_version:
        return True
    return known.digest == _digest(secret)


def _digest(secret: SecretView) -> bytes:
    return b"" if secret.kubeconfig is None else hashlib.sha256(secret.kubeconfig).digest()
