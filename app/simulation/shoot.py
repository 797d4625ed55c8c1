"""A simulated shoot: its API server, and the ports `ShootCluster` and `ShootConnector` on it."""

import base64
import json
import random
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from app.core.clock import Clock
from app.core.errors import (
    CertificateUntrusted,
    CredentialRefused,
    NameUnresolved,
    Unauthorized,
)
from app.core.fair_queue import Consumer, FairQueue
from app.core.model.instants import rfc3339
from app.core.model.nodes import LeaseReading, LeaseView, NodeView
from app.core.model.shoots import Route, SecretView
from app.simulation import manifests
from app.simulation.kubelets import Fleet, Kubelet
from app.simulation.network import Nowhere, ServerPlace
from app.simulation.store import Object, ObjectKey, Store
from app.simulation.traffic import ApiServer, Host, SimulatedRequest
from app.simulation.views import lease_view, node_view

VERSION: Final = "v1.33.3"
PAGE: Final = 500
_NO_NAME: Final = ".invalid"
LEASE_LIMIT: Final = 5.0
"""Seconds for all pages of Leases together (rules 3.2)."""
READ_LIMIT: Final = 8.0
"""Seconds for other requests: 3 s on the open connection, then 5 s on a new one (rules 3.2)."""


class ShootServer:
    """The API server of one shoot, with its nodes and their kubelets."""

    def __init__(
        self,
        namespace: str,
        clock: Clock,
        api: ApiServer,
        rng: random.Random,
        *,
        place: ServerPlace | None = None,
        routes: Iterable[Route] = (Route.INTERNAL,),
        lease_duration: int = 40,
    ) -> None:
        self._place = place or Nowhere()
        self.namespace = namespace
        self.api = api
        self.store = Store()
        self.lease_duration = lease_duration
        self.url = self._place.url(namespace)
        self._routes = tuple(routes)
        self._authorities: dict[Route, str] = {}
        self.ca = self._place.authority(namespace)
        self.clock_off = 0.0
        """Seconds by which the server's clock is ahead."""
        self._clock = clock
        self._tokens: dict[str, float] = {}
        self._not_ready: set[str] = set()
        self._fleet = Fleet(rng, api.renewal, self._renew, float(lease_duration))

    @property
    def fleet(self) -> Fleet:
        """The kubelets, advanced to now."""
        self.advance()
        return self._fleet

    @property
    def ca(self) -> str:
        """The certificate authority that signed the server's certificate."""
        return self.authority(Route.INTERNAL)

    @ca.setter
    def ca(self, authority: str) -> None:
        for route in self._routes:
            self.show(authority, route)

    def authority(self, route: Route) -> str:
        """Returns the authority that signed the certificate presented on a route."""
        return self._authorities[route]

    def show(self, authority: str, route: Route) -> None:
        """Presents certificates signed by `authority` on a route from now on."""
        self._authorities[route] = authority
        self._place.show(self.namespace, authority, route)

    @property
    def newest_token(self) -> str:
        """The most recently added token; KeyError if there is none."""
        return next(reversed(self._tokens))

    def advance(self) -> None:
        """Runs the kubelets up to now; to be called before the shoot's state is read or changed."""
        self._fleet.advance(self._clock.now())

    def retire(self, *, until: float) -> None:
        """Makes all current tokens expire at `until` at the latest."""
        for token, end in self._tokens.items():
            self._tokens[token] = min(end, until)

    def accept(self, token: str, *, until: float = float("inf")) -> None:
        """Accepts a token until the instant `until`."""
        self._tokens[token] = until

    def accepts(self, token: str) -> bool:
        return self._clock.now() < self._tokens.get(token, float("-inf"))

    def add_node(self, name: str, zone: str, *, phase: float, managed: bool = True) -> None:
        """Adds a node whose kubelet last renewed its Lease `phase` renewal intervals ago."""
        now = self._clock.now()
        node = manifests.born(manifests.node(zone, managed=managed), now)
        self.store.create(ObjectKey("Node", "", name), node)
        self.fleet.join(name, zone, now, phase=phase)

    def remove_node(self, name: str) -> None:
        """Removes a node with its kubelet and, as the garbage collector does, its Lease."""
        self.fleet.leave(name)
        self._not_ready.discard(name)
        self.store.delete(ObjectKey("Node", "", name))
        self.store.delete(ObjectKey("Lease", manifests.LEASES, name))

    def mark_not_ready(self, name: str) -> Object:
        """Sets the condition Ready to Unknown; the kubelet's next renewal sets it back to True."""
        self._not_ready.add(name)
        return self._set_ready(name, "Unknown")

    def leases(self) -> tuple[LeaseView, ...]:
        """Returns all Leases of nodes, as of now."""
        self.advance()
        return tuple(lease_view(obj) for obj in self.store.list("Lease", manifests.LEASES))

    def nodes(self) -> tuple[NodeView, ...]:
        """Returns all Nodes, as of now."""
        self.advance()
        return tuple(node_view(obj) for obj in self.store.list("Node"))

    def _renew(self, kubelet: Kubelet, sent: float) -> None:
        key = ObjectKey("Lease", manifests.LEASES, kubelet.node)
        shown = kubelet.clock.read(sent)
        if self.store.find(key) is None:
            lease = manifests.lease(shown, self.lease_duration, holder=kubelet.node)
            self.store.create(key, manifests.born(lease, self._clock.now()))
        else:
            self.store.patch(key, {"spec": {"renewTime": rfc3339(shown, micro=True)}})
        if kubelet.node in self._not_ready:
            self._not_ready.discard(kubelet.node)
            self._set_ready(kubelet.node, "True")

    def _set_ready(self, name: str, status: str) -> Object:
        key = ObjectKey("Node", "", name)
        before = self.store.get(key)["status"]["conditions"]
        others = [condition for condition in before if condition["type"] != "Ready"]
        conditions = [*others, {"type": "Ready", "status": status}]
        patch = {"status": {"conditions": conditions}}
        self.store.patch(key, patch, status=True)
        return patch


class Credential(NamedTuple):
    """The parts of a kubeconfig that the simulation uses."""

    ca: str
    token: str
    server: str = ""

    @classmethod
    def parse(cls, kubeconfig: bytes | None) -> Self:
        """Parses a kubeconfig written by `manifests.kubeconfig`.

        Raises:
            CredentialRefused: it is absent, malformed, has no token, or names a command to run.
        """
        if kubeconfig is None:
            raise CredentialRefused("no-kubeconfig", "the Secret has no key kubeconfig")
        try:
            content: dict[str, Any] = json.loads(kubeconfig)
            user = content["users"][0]["user"]
            cluster = content["clusters"][0]["cluster"]
            ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
            server = cluster["server"]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise CredentialRefused("malformed", "the kubeconfig is malformed") from error
        if "exec" in user:
            raise CredentialRefused("exec", "users[0].user.exec is not accepted")
        if not user.get("token"):
            raise CredentialRefused("no-token", "users[0].user has no token yet")
        return cls(ca, user["token"], server)


class SimulatedShoot:
    """A `ShootCluster`: one shoot, reached with one kubeconfig."""

    def __init__(
        self,
        clock: Clock,
        server: ShootServer,
        credential: Credential,
        route: Route = Route.INTERNAL,
    ) -> None:
        self._clock = clock
        self._server = server
        self._credential = credential
        self._route = route

    async def version(self, *, new_connection: bool = False, within: float | None = None) -> str:
        """Reads `/version`, which works without storage; the external route always opens a new connection.

        Raises:
            NameUnresolved: the server's name cannot be resolved.
        """
        host = urlsplit(self._credential.server).hostname or ""
        if host.endswith(_NO_NAME):
            raise NameUnresolved("the server's name cannot be resolved")
        if new_connection or self._route is Route.EXTERNAL:
            self._server.api.requests.connections[self._server.namespace] += 1
        limit = READ_LIMIT if within is None else min(within, READ_LIMIT)
        return await self._server.api.ask(
            self._request("get", "version"), self._version, consistent=False, limit=limit
        )

    async def leases(self, *, new_connection: bool = False) -> LeaseReading:
        """Lists Leases consistently, which hangs or fails without storage; all pages show the instant of the first."""
        if new_connection:
            self._server.api.requests.connections[self._server.namespace] += 1
        sent = self._clock.now()
        leases: tuple[LeaseView, ...] = ()
        pages = 1
        while pages > 0:
            spent = self._clock.now() - sent
            read = await self._server.api.ask(
                self._request("list", "leases"), self._leases, limit=LEASE_LIMIT - spent
            )
            if not leases:
                leases, pages = read, -(-len(read) // PAGE)
            pages -= 1
        return LeaseReading(leases, sent, self._clock.now())

    async def contact(self) -> float:
        """Reads one page of one Lease consistently, which hangs or fails without storage; returns when it was sent."""
        sent = self._clock.now()
        await self._server.api.ask(
            self._request("list", "contact"), self._authenticate, limit=LEASE_LIMIT
        )
        return sent

    async def nodes(self, *, consistent: bool = False) -> tuple[NodeView, ...]:
        """Lists Nodes: from the watch cache, which works without storage, unless `consistent`."""
        self._server.api.requests.connections[self._server.namespace] += 1
        return await self._server.api.ask(
            self._request("list", "nodes"), self._nodes, consistent=consistent, limit=READ_LIMIT
        )

    def _request(self, verb: str, what: str) -> SimulatedRequest:
        return SimulatedRequest(Host.SHOOT, verb, what, self._server.namespace, self._route)

    def _authenticate(self) -> None:
        if self._credential.ca != self._server.authority(self._route):
            raise CertificateUntrusted("certificate signed by unknown authority")
        if not self._server.accepts(self._credential.token):
            raise Unauthorized("Unauthorized", status=401)

    def _version(self) -> str:
        self._authenticate()
        return VERSION

    def _leases(self) -> tuple[LeaseView, ...]:
        self._authenticate()
        return self._server.leases()

    def _nodes(self) -> tuple[NodeView, ...]:
        self._authenticate()
        return self._server.nodes()


class SimulatedConnector:
    """A `ShootConnector`: returns the shoot of a Secret."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._servers: dict[str, ShootServer] = {}
        self._open: dict[tuple[str, Route], tuple[Credential, SimulatedShoot]] = {}
        self._queue = FairQueue()
        self._consumers: dict[str, Consumer] = {}

    def serve(self, server: ShootServer) -> None:
        """Makes a shoot reachable."""
        self._servers[server.namespace] = server

    @property
    def connected(self) -> frozenset[str]:
        """The namespaces of the shoots with open connections."""
        return frozenset(namespace for namespace, _ in self._open)

    async def connect(self, secret: SecretView) -> SimulatedShoot:
        """Returns the shoot of a Secret, by its route; the same object while the kubeconfig is unchanged.

        Raises:
            CredentialRefused: the kubeconfig is not acceptable.
        """
        return self.shoot_of(secret)

    def shoot_of(self, secret: SecretView) -> SimulatedShoot:
        """Does the same as `connect`, synchronously.

        Raises:
            CredentialRefused: the kubeconfig is not acceptable.
        """
        credential = Credential.parse(secret.kubeconfig)
        place = secret.namespace, secret.route
        known = self._open.get(place)
        if known is not None and known[0] == credential:
            return known[1]
        server = self._servers[secret.namespace]
        shoot = SimulatedShoot(self._clock, server, credential, secret.route)
        self._open[place] = (credential, shoot)
        return shoot

    def consumer(self, namespace: str) -> Consumer:
        """Returns the account that is charged for the time spent on this shoot; in a simulation, only on evaluation."""
        return self._consumers.setdefault(namespace, Consumer(self._queue))

    def forget(self, namespace: str) -> None:
        """Closes the connections to a shoot, by any route."""
        for route in Route:
            self._open.pop((namespace, route), None)
