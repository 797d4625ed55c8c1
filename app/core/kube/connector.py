"""The API servers of the shoots, each by its kubeconfigs: what is known of them, and the pools of their connections."""

import asyncio
import hashlib
from dataclasses import dataclass, replace

from app.core.clock import Clock
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
from app.core.kube.shoot import KubeShoot, Link, ShootRequests
from app.core.metrics import Metrics
from app.core.model.shoots import Route, SecretView
from app.core.name_lookup import Lookups


@dataclass(frozen=True, slots=True)
class _KnownCredential:
    """What a Secret's content was found to be."""

    resource_version: str
    digest: bytes
    outcome: KubeShoot | CredentialRefused
    credential: ShootCredential | None = None
    link: Link | None = None


class KubeConnector:
    """Keeps one `KubeShoot` for each kubeconfig (`ports.ShootConnector`).

    The internal route keeps one connection to each server open.  The external one makes a new one for each request, to
    an address that was looked up and checked for it.
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
    ) -> None:
        """Opens the pools; needs a running event loop.

        Args:
            clock: tells when requests are sent.
            metrics: where requests, limits and refused kubeconfigs are counted.
            servers: which servers a kubeconfig may name.
            external: which servers one of the external route may name, and which addresses they may have.
            probe_timeout: seconds of one whole probe; no request takes longer.
            budget: the bytes that undecoded answers of all shoots may hold.
        """
        external, budget = external or ExternalServerPolicy(), budget or ByteBudget()
        self._clock, self._metrics = clock, metrics
        self._servers: dict[Route, Servers] = {Route.INTERNAL: servers, Route.EXTERNAL: external}
        for reason in REASONS:  # from 0 on: an increase is seen from the first one on
            metrics.credentials_rejected.labels(reason)
        self._requests = ShootRequests(probe_timeout)
        self._limits = ResponseLimits(first_byte_reused=min(3.0, probe_timeout / 3))
        outside = PinnedResolver(Lookups(), external.addresses)
        self._pools = {
            Route.INTERNAL: ConnectionPool("shoot", clock, metrics, connections=1, budget=budget),
            Route.EXTERNAL: ConnectionPool(
                "shoot", clock, metrics, budget=budget, resolver=outside
            ),
        }
        self._known: dict[tuple[str, Route], _KnownCredential] = {}
        self._queue = FairQueue()
        self._consumers: dict[str, Consumer] = {}
        """By namespace."""

    async def connect(self, secret: SecretView) -> KubeShoot:
        """The cluster of this Secret, by its route: the same while its content is, on connections made with its CA.

        Raises:
            CredentialRefused: the kubeconfig is one that may not be used, or there is none.
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
            if refused.reason == NO_TOKEN and before:  # it will be back, with the same CA perhaps
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
        context = await asyncio.to_thread(
            kubeconfig.client_context, credential.ca, credential.client, consumer
        )
        origin = f"https://{credential.host}:{credential.port}"
        pool = self._pools[secret.route]
        client = ApiClient(pool, origin, context, limits=self._limits, consumer=consumer)
        return Link(origin, client, self._count_hit)

    def _count_hit(self, limit: str) -> None:
        self._metrics.limit_hits.labels(limit).inc()

    def consumer(self, namespace: str) -> Consumer:
        """Who is charged for the time of the event loop that the answers of this shoot take."""
        return self._consumers.setdefault(namespace, Consumer(self._queue))

    def forget(self, namespace: str) -> None:
        """Closes what is open to the shoot of this namespace, by any route."""
        self._consumers.pop(namespace, None)
        for route in Route:
            known = self._known.pop((namespace, route), None)
            if known is not None and known.link is not None:
                known.link.client.close()

    async def close(self) -> None:
        """Closes everything that is open to any shoot."""
        self._known.clear()
        for pool in self._pools.values():
            await pool.close()


def _same(known: _KnownCredential, secret: SecretView) -> bool:
    if secret.resource_version and known.resource_version == secret.resource_version:
        return True
    return known.digest == _digest(secret)


def _digest(secret: SecretView) -> bytes:
    return b"" if secret.kubeconfig is None else hashlib.sha256(secret.kubeconfig).digest()
