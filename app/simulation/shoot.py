"""A simulated shoot: what is behind its API server."""

import random
from collections.abc import Iterable
from typing import Final

from app.core.clock import Clock
from app.core.model.instants import rfc3339
from app.core.model.shoots import LeaseView, NodeView, Route
from app.simulation import manifests
from app.simulation.kubelets import Fleet, Kubelet
from app.simulation.network import ServerPlace
from app.simulation.store import Object, ObjectKey, Store
from app.simulation.traffic import ApiServer
from app.simulation.views import lease_views, node_views

VERSION: Final = "v1.33.3"


class ShootServer:
    """The API server of one shoot, with its nodes and their kubelets."""

    def __init__(
        self,
        namespace: str,
        clock: Clock,
        api: ApiServer,
        rng: random.Random,
        *,
        place: ServerPlace,
        routes: Iterable[Route] = (Route.INTERNAL,),
        lease_duration: int = 40,
    ) -> None:
        self._place = place
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
        return lease_views(self.store.list("Lease", manifests.LEASES))

    def nodes(self) -> tuple[NodeView, ...]:
        """Returns all Nodes, as of now."""
        self.advance()
        return node_views(self.store.list("Node"))

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
