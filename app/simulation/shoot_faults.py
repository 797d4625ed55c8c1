"""What can happen to a shoot's nodes, its API server and the way in."""

import random
from collections.abc import Collection, Iterable
from dataclasses import replace

from app.core.model.shoots import Route
from app.simulation.kubeconfigs import NOWHERE, Kubeconfigs
from app.simulation.kubelets import Kubelet, PathCut
from app.simulation.network import Manner, TargetAnswer
from app.simulation.shoot import ShootServer
from app.simulation.stage import Fault, Stage
from app.simulation.store import Object
from app.simulation.traffic import ConnectionLoss, Storage, Trouble


class ShootFaults:
    """What can happen to a shoot's nodes, its API server and the way in."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        self._stage = stage
        self._rng = rng
        self._kubeconfigs = Kubeconfigs(stage)
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
        """Nodes lose the path to their API server: all of them, and we on the external route, or some of them only.

        Args:
            namespace: the shoot.
            fraction: which part of the nodes, chosen by chance; all: those that join later, too.
            nodes: these nodes instead.
            zone: those of this zone instead.
            how: what becomes of connections on the external route, where all nodes are cut off.
        """
        shoot = self._stage.shoots[namespace]
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
        """Anything that a `Trouble` can say of the shoot's API server."""
        shoot = self._stage.shoots[namespace]
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
        """The API server takes requests and does not answer."""
        return self.trouble(namespace, Trouble(silent=True))

    def storage_away(self, namespace: str, how: Storage = Storage.HANGS) -> Fault:
        """Consistent reads and renewals hang or fail; `/version` and cached reads go on."""
        return self.trouble(namespace, Trouble(storage=how))

    def latency(self, namespace: str, seconds: float) -> Fault:
        """Each request takes that much longer."""
        return self.trouble(namespace, Trouble(latency=seconds))

    def errors(self, namespace: str, rate: float) -> Fault:
        """Requests fail by chance, with 500."""
        return self.trouble(namespace, Trouble(error_rate=rate))

    def throttled(self, namespace: str, retry_after: float | None = None) -> Fault:
        """429 for each of our requests."""
        return self.trouble(namespace, Trouble(throttled=True, retry_after=retry_after))

    def forbidden(self, namespace: str, verb: str, what: str) -> Fault:
        """403 for requests with this verb for these resources, e.g. list nodes."""
        return self.trouble(
            namespace, Trouble(forbidden=True, verbs=frozenset({verb}), what=frozenset({what}))
        )

    def kubelet_dead(self, namespace: str, node: str) -> Fault:
        """One kubelet stops."""
        fleet = self._stage.shoots[namespace].fleet
        fleet.die(node)

        def undo() -> None:
            if fleet.has(node):
                fleet.revive(node, self._stage.clock.now())

        return Fault(undo)

    def clock_off(self, namespace: str, node: str, seconds: float) -> Fault:
        """The clock of one node jumps, and back at the end."""
        clock = self._kubelet(namespace, node).clock
        clock.step(seconds)

        def undo() -> None:
            self._stage.shoots[namespace].advance()
            clock.step(-seconds)

        return Fault(undo)

    def clock_drift(self, namespace: str, node: str, rate: float) -> Fault:
        """The clock of one node gains `rate` seconds a second; at the end it goes right, from where it is."""
        clock = self._kubelet(namespace, node).clock
        clock.drift(self._stage.clock.now(), rate)

        def undo() -> None:
            self._stage.shoots[namespace].advance()
            clock.drift(self._stage.clock.now(), 0.0)

        return Fault(undo)

    def rotate_token(self, namespace: str, *, overlap: float = 0.0) -> None:
        """A new token comes into the Secrets; the former ones are accepted for `overlap` seconds more."""
        shoot = self._stage.shoots[namespace]
        self._tokens += 1
        token = f"{namespace}-{self._tokens}"
        shoot.retire(until=self._stage.clock.now() + overlap)
        shoot.accept(token)
        self._kubeconfigs.write_all(namespace)

    def rotate_ca(self, namespace: str) -> None:
        """The API server gets a certificate of a new authority, and the Secrets name that."""
        shoot = self._stage.shoots[namespace]
        shoot.ca = self._stage.place.authority(namespace)
        self._kubeconfigs.write_all(namespace)

    def certificate_untrusted(self, namespace: str) -> Fault:
        """The API server shows a certificate that the Secret's authority does not vouch for."""
        shoot = self._stage.shoots[namespace]
        before, shoot.ca = shoot.ca, self._stage.place.authority(namespace)

        def undo() -> None:
            shoot.ca = before

        return Fault(undo)

    def kubeconfig_absent(self, namespace: str) -> Fault:
        """The Secret is deleted."""
        self._stage.store.delete(self._kubeconfigs.key(namespace, Route.INTERNAL))
        return Fault(lambda: self._kubeconfigs.create(namespace, Route.INTERNAL))

    def kubeconfig_without_token(self, namespace: str) -> Fault:
        """The user of the kubeconfig is empty, as just after creation."""
        return self._user(namespace, {})

    def kubeconfig_refused(self, namespace: str) -> Fault:
        """The kubeconfig asks for a command to be run."""
        return self._user(namespace, {"exec": {"command": "true"}})

    def _user(self, namespace: str, user: Object) -> Fault:
        self._kubeconfigs.write(namespace, Route.INTERNAL, user=user)
        return Fault(lambda: self._kubeconfigs.write(namespace, Route.INTERNAL))

    def _kubelet(self, namespace: str, node: str) -> Kubelet:
        return self._stage.shoots[namespace].fleet.of(node)

    def _some(self, namespace: str, fraction: float) -> Iterable[str]:
        names = [kubelet.node for kubelet in self._stage.shoots[namespace].fleet.kubelets]
        return self._rng.sample(names, round(fraction * len(names)))


# What can happen to the targets of endpoint probes, and to the seed's way out.


class EndpointFaults:
    """What can happen to hosts and pods that are probed."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def seed_network_cut(self) -> Fault:
        """The seed's way out swallows everything, probes of hosts and external routes; what is inside goes on."""
        self._stage.network.cut()
        return Fault(self._stage.network.mend)

    def canary_down(self, host: str) -> Fault:
        """A host says nothing any more, whoever asks."""
        return self.target_answers(host, TargetAnswer.SWALLOWS)

    def target_answers(
        self, target: str, answer: TargetAnswer, *, namespace: str = "", after: float = 0.0
    ) -> Fault:
        """A host, or the pod of this name, answers so.

        Args:
            target: which.
            answer: how.
            namespace: for whose probes; empty: for all.
            after: seconds that it takes longer than others.
        """
        manner = Manner(answer, after)
        self._stage.hosts.begin(manner, target, namespace)
        return Fault(lambda: self._stage.hosts.end(manner, target, namespace))

    def target_slow(self, target: str, seconds: float, *, namespace: str = "") -> Fault:
        """A host is well, and takes so many seconds to say so."""
        return self.target_answers(target, TargetAnswer.WELL, namespace=namespace, after=seconds)


# What can happen to one of our routes to a shoot's API server; its nodes have ways of their own.
#
# `ShootFaults.path_cut` of all nodes is the load balancer: nodes and the external route lose it together.


class RouteFaults:
    """What can happen to our routes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._kubeconfigs = Kubeconfigs(stage)

    def route_trouble(self, namespace: str, route: Route, trouble: Trouble) -> Fault:
        """Anything that a `Trouble` can say, for requests that come by this route."""
        api, limited = (
            self._stage.shoots[namespace].api,
            replace(trouble, routes=frozenset({route})),
        )
        api.begin(limited)
        return Fault(lambda: api.end(limited))

    def route_cut(
        self, namespace: str, route: Route, how: ConnectionLoss = ConnectionLoss.SWALLOWED
    ) -> Fault:
        """Our way by this route is cut; the nodes have theirs."""
        return self.route_trouble(namespace, route, Trouble(lost=how))

    def page_instead(
        self, namespace: str, status: int = 503, *, route: Route = Route.EXTERNAL
    ) -> Fault:
        """Something before the API server answers by itself, with an HTML page of this status."""
        return self.route_trouble(namespace, route, Trouble(page=status))

    def credentials_wrong(self, namespace: str, route: Route) -> Fault:
        """The Secret of this route has a token that nobody accepts: 401."""
        return self._wrong_user(namespace, route, {"token": "of-nobody"})

    def secret_without_token(self, namespace: str, route: Route) -> Fault:
        """The user in the kubeconfig of this route is empty."""
        return self._wrong_user(namespace, route, {})

    def _wrong_user(self, namespace: str, route: Route, user: Object) -> Fault:
        self._kubeconfigs.write(namespace, route, user=user)
        return Fault(lambda: self._kubeconfigs.write(namespace, route))

    def secret_absent(self, namespace: str, route: Route) -> Fault:
        """The Secret of this route is deleted."""
        self._stage.store.delete(self._kubeconfigs.key(namespace, route))
        return Fault(lambda: self._kubeconfigs.create(namespace, route))

    def route_untrusted(self, namespace: str, route: Route) -> Fault:
        """What answers on this route has a certificate that the Secret's authority does not vouch for."""
        shoot = self._stage.shoots[namespace]
        before = shoot.authority(route)
        shoot.show(self._stage.place.authority(namespace), route)
        return Fault(lambda: shoot.show(before, route))

    def name_gone(self, namespace: str) -> Fault:
        """The name in the external kubeconfig has no address."""
        self._kubeconfigs.write(namespace, Route.EXTERNAL, server=NOWHERE)
        return Fault(lambda: self._kubeconfigs.write(namespace, Route.EXTERNAL))
