"""Faults of a shoot's nodes, its API server, the routes to it, and the targets of endpoint probes."""

import random
from collections.abc import Collection, Iterable
from dataclasses import replace

from app.core.model.shoots import Route
from app.simulation.kubelets import Kubelet, PathCut
from app.simulation.network import Manner, TargetAnswer
from app.simulation.parts import NOWHERE, Fault, Kubeconfigs, WorldParts
from app.simulation.shoot import ShootServer
from app.simulation.store import Object
from app.simulation.traffic import ConnectionLoss, Storage, Trouble


class ShootFaults:
    """Faults of a shoot's nodes, its API server and its kubeconfigs."""

    def __init__(self, parts: WorldParts, rng: random.Random) -> None:
        self._parts = parts
        self._rng = rng
        self._kubeconfigs = Kubeconfigs(parts)
        self._tokens = 1

    def path_cut(
        self,
        namespace: str,
        *,
        fraction: float = 1.0,
        nodes: Collection[str] | None = None,
        zone: str | None = None,
        how: ConnectionLoss = ConnectionLoss.SWALLOWED,
    ) -> Fault:
        """Nodes lose the path to their API server: some of them, or all together with our external route.

        Args:
            namespace: the shoot.
            fraction: the share of nodes, chosen at random; 1 includes nodes that join later.
            nodes: the nodes, in place of a share.
            zone: the zone of the nodes, in place of a share.
            how: what happens to connections on the external route if all nodes are cut off.
        """
        shoot = self._parts.shoots[namespace]
        if zone is None and nodes is None and fraction >= 1.0:
            return self._load_balancer_gone(shoot, how)
        if zone is not None:
            cut = PathCut(lambda kubelet: kubelet.zone == zone)
        else:
            names = frozenset(self._some(namespace, fraction) if nodes is None else nodes)
            cut = PathCut(lambda kubelet: kubelet.node in names)
        shoot.fleet.cut(cut)
        return Fault(lambda: shoot.fleet.mend(cut))

    def _load_balancer_gone(self, shoot: ShootServer, how: ConnectionLoss) -> Fault:
        cut = PathCut(lambda _: True)
        trouble = Trouble(lost=how, routes=frozenset({Route.EXTERNAL}))
        shoot.fleet.cut(cut)
        shoot.api.begin(trouble)

        def undo() -> None:
            shoot.fleet.mend(cut)
            shoot.api.end(trouble)

        return Fault(undo)

    def trouble(self, namespace: str, trouble: Trouble) -> Fault:
        """The shoot's API server has any `Trouble`."""
        shoot = self._parts.shoots[namespace]
        shoot.advance()
        shoot.api.begin(trouble)

        def undo() -> None:
            shoot.advance()
            shoot.api.end(trouble)

        return Fault(undo)

    def api_down(self, namespace: str) -> Fault:
        """The API server refuses connections."""
        return self.trouble(namespace, Trouble(refused=True))

    def api_hanging(self, namespace: str) -> Fault:
        """The API server accepts requests and does not answer."""
        return self.trouble(namespace, Trouble(silent=True))

    def storage_away(self, namespace: str, how: Storage = Storage.HANGS) -> Fault:
        """Consistent reads and renewals hang or fail; `/version` and cached reads work."""
        return self.trouble(namespace, Trouble(storage=how))

    def latency(self, namespace: str, seconds: float) -> Fault:
        """Each request takes `seconds` longer."""
        return self.trouble(namespace, Trouble(latency=seconds))

    def errors(self, namespace: str, rate: float) -> Fault:
        """A random share of requests fails with 500."""
        return self.trouble(namespace, Trouble(error_rate=rate))

    def throttled(self, namespace: str, retry_after: float | None = None) -> Fault:
        """Each of our requests gets 429."""
        return self.trouble(namespace, Trouble(throttled=True, retry_after=retry_after))

    def forbidden(self, namespace: str, verb: str, what: str) -> Fault:
        """Requests with this verb for this resource, such as list nodes, get 403."""
        return self.trouble(
            namespace, Trouble(forbidden=True, verbs=frozenset({verb}), what=frozenset({what}))
        )

    def kubelet_dead(self, namespace: str, node: str) -> Fault:
        """One kubelet stops."""
        fleet = self._parts.shoots[namespace].fleet
        fleet.die(node)

        def undo() -> None:
            if fleet.has(node):
                fleet.revive(node, self._parts.clock.now())

        return Fault(undo)

    def clock_off(self, namespace: str, node: str, seconds: float) -> Fault:
        """The clock of one node jumps by `seconds`, and back after the fault."""
        clock = self._kubelet(namespace, node).clock
        clock.step(seconds)

        def undo() -> None:
            self._parts.shoots[namespace].advance()
            clock.step(-seconds)

        return Fault(undo)

    def clock_drift(self, namespace: str, node: str, rate: float) -> Fault:
        """The clock of one node gains `rate` seconds per second; after the fault, its offset remains."""
        clock = self._kubelet(namespace, node).clock
        clock.drift(self._parts.clock.now(), rate)

        def undo() -> None:
            self._parts.shoots[namespace].advance()
            clock.drift(self._parts.clock.now(), 0.0)

        return Fault(undo)

    def rotate_token(self, namespace: str, *, overlap: float = 0.0) -> None:
        """Writes a new token into the Secrets; the previous tokens are accepted for another `overlap` seconds."""
        shoot = self._parts.shoots[namespace]
        self._tokens += 1
        token = f"{namespace}-{self._tokens}"
        shoot.retire(until=self._parts.clock.now() + overlap)
        shoot.accept(token)
        self._kubeconfigs.write_all(namespace)

    def rotate_ca(self, namespace: str) -> None:
        """Gives the API server a certificate of a new authority, and writes that authority into the Secrets."""
        shoot = self._parts.shoots[namespace]
        shoot.ca = self._parts.place.authority(namespace)
        self._kubeconfigs.write_all(namespace)

    def certificate_untrusted(self, namespace: str) -> Fault:
        """The API server presents a certificate that was not signed by the authority in the Secret."""
        shoot = self._parts.shoots[namespace]
        before, shoot.ca = shoot.ca, self._parts.place.authority(namespace)

        def undo() -> None:
            shoot.ca = before

        return Fault(undo)

    def kubeconfig_absent(self, namespace: str) -> Fault:
        """The Secret is deleted."""
        self._parts.store.delete(self._kubeconfigs.key(namespace, Route.INTERNAL))
        return Fault(lambda: self._kubeconfigs.create(namespace, Route.INTERNAL))

    def kubeconfig_without_token(self, namespace: str) -> Fault:
        """The user of the kubeconfig is empty, as just after creation."""
        return self._user(namespace, {})

    def kubeconfig_refused(self, namespace: str) -> Fault:
        """The kubeconfig names a command to run (`exec`)."""
        return self._user(namespace, {"exec": {"command": "true"}})

    def _user(self, namespace: str, user: Object) -> Fault:
        self._kubeconfigs.write(namespace, Route.INTERNAL, user=user)
        return Fault(lambda: self._kubeconfigs.write(namespace, Route.INTERNAL))

    def _kubelet(self, namespace: str, node: str) -> Kubelet:
        return self._parts.shoots[namespace].fleet.of(node)

    def _some(self, namespace: str, fraction: float) -> Iterable[str]:
        names = [kubelet.node for kubelet in self._parts.shoots[namespace].fleet.kubelets]
        return self._rng.sample(names, round(fraction * len(names)))


# Targets of endpoint probes, and the seed's network to the outside.


class EndpointFaults:
    """Faults of hosts and pods that are probed."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts

    def seed_network_cut(self) -> Fault:
        """The seed's network drops everything to the outside: probes of hosts and external routes; the inside works."""
        self._parts.network.cut()
        return Fault(self._parts.network.mend)

    def canary_down(self, host: str) -> Fault:
        """A host does not answer probes of any namespace."""
        return self.target_answers(host, TargetAnswer.SWALLOWS)

    def target_answers(
        self, target: str, answer: TargetAnswer, *, namespace: str = "", after: float = 0.0
    ) -> Fault:
        """A target behaves as given.

        Args:
            target: a host, or the name of a pod.
            answer: its behaviour.
            namespace: the namespace whose probes are affected; empty for all.
            after: additional seconds until the answer.
        """
        manner = Manner(answer, after)
        self._parts.hosts.begin(manner, target, namespace)
        return Fault(lambda: self._parts.hosts.end(manner, target, namespace))

    def target_slow(self, target: str, seconds: float, *, namespace: str = "") -> Fault:
        """A host passes after a delay of `seconds`."""
        return self.target_answers(target, TargetAnswer.WELL, namespace=namespace, after=seconds)


# Our routes to a shoot's API server; its nodes have paths of their own.
#
# `ShootFaults.path_cut` of all nodes is an outage of the load balancer, which nodes and the external route share.


class RouteFaults:
    """Faults of our routes to a shoot."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts
        self._kubeconfigs = Kubeconfigs(parts)

    def route_trouble(self, namespace: str, route: Route, trouble: Trouble) -> Fault:
        """Requests by a route meet any `Trouble`."""
        api, limited = (
            self._parts.shoots[namespace].api,
            replace(trouble, routes=frozenset({route})),
        )
        api.begin(limited)
        return Fault(lambda: api.end(limited))

    def route_cut(
        self, namespace: str, route: Route, how: ConnectionLoss = ConnectionLoss.SWALLOWED
    ) -> Fault:
        """A route of ours is cut; the paths of the nodes work."""
        return self.route_trouble(namespace, route, Trouble(lost=how))

    def page_instead(
        self, namespace: str, status: int = 503, *, route: Route = Route.EXTERNAL
    ) -> Fault:
        """Something in front of the API server answers with an HTML page of this status."""
        return self.route_trouble(namespace, route, Trouble(page=status))

    def credentials_wrong(self, namespace: str, route: Route) -> Fault:
        """The Secret of a route has an invalid token, so that requests get 401."""
        return self._wrong_user(namespace, route, {"token": "of-nobody"})

    def secret_without_token(self, namespace: str, route: Route) -> Fault:
        """The user in the kubeconfig of a route is empty."""
        return self._wrong_user(namespace, route, {})

    def _wrong_user(self, namespace: str, route: Route, user: Object) -> Fault:
        self._kubeconfigs.write(namespace, route, user=user)
        return Fault(lambda: self._kubeconfigs.write(namespace, route))

    def secret_absent(self, namespace: str, route: Route) -> Fault:
        """The Secret of a route is deleted."""
        self._parts.store.delete(self._kubeconfigs.key(namespace, route))
        return Fault(lambda: self._kubeconfigs.create(namespace, route))

    def route_untrusted(self, namespace: str, route: Route) -> Fault:
        """A route leads to a certificate that was not signed by the authority in the Secret."""
        shoot = self._parts.shoots[namespace]
        before = shoot.authority(route)
        shoot.show(self._parts.place.authority(namespace), route)
        return Fault(lambda: shoot.show(before, route))

    def name_gone(self, namespace: str) -> Fault:
        """The host name in the external kubeconfig cannot be resolved."""
        self._kubeconfigs.write(namespace, Route.EXTERNAL, server=NOWHERE)
        return Fault(lambda: self._kubeconfigs.write(namespace, Route.EXTERNAL))
