"""The faults of a simulated world: each method begins one and returns the `Fault` that ends it.

with world.faults.path_cut("shoot--local--a"):
    await clock.sleep(60)
"""

import random
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from app.core.errors import ClusterError
from app.core.model.instants import rfc3339
from app.core.model.shoots import Route
from app.core.model.weeding import ServiceKey
from app.core.model.workloads import ResourceRef
from app.core.ports import Watched
from app.simulation.handlers import Manner, TargetAnswer
from app.simulation.identities import GARDENLET
from app.simulation.memory import MemoryPlace, MemoryPort
from app.simulation.network import SEED
from app.simulation.shoot import NodeClock, PathCut
from app.simulation.store import Object, ObjectKey
from app.simulation.traffic import ApiServer, ConnectionLoss, Storage, Trouble, watched

if TYPE_CHECKING:
    from app.simulation.builders import World

NOWHERE: Final = "https://api.gone.invalid"
"""A server whose name cannot be resolved (RFC 2606)."""
_OVERRIDES: Final = ("Pause", "ScaleRequest")
_OF_OVERRIDES: Final = frozenset(
    {"pauses", "scalerequests", "pauses/status", "scalerequests/status"}
)
_OF_THE_PROBER: Final = ("Cluster", "Secret", "Machine", "Deployment", "StatefulSet")
_TO_WATCH: Final = frozenset({"list", "watch"})


class PodWatched(StrEnum):
    """The kinds that the weeder watches."""

    SLICES = "EndpointSlice"
    PODS = "Pod"


class Fault(ExitStack):
    """A fault in effect, until it is lifted; a context manager that lifts it on exit."""

    def __init__(self, *undo: Callable[[], object]) -> None:
        """Remembers what ends it, in this order."""
        super().__init__()
        for each in reversed(undo):
            self.callback(each)

    def lift(self) -> None:
        """Ends the fault; further calls have no effect."""
        self.close()


def _plurals(kinds: Iterable[str]) -> frozenset[str]:
    """Returns the resources of these kinds, as in requests."""
    return frozenset(f"{kind.lower()}s" for kind in kinds)


def _trouble(api: ApiServer, trouble: Trouble) -> Fault:
    api.begin(trouble)
    return Fault(lambda: api.end(trouble))


class _Acting:
    """What faults of the seed's API server have in common."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def seed_trouble(self, trouble: Trouble) -> Fault:
        """The seed's API server has any `Trouble`."""
        return _trouble(self._world.api, trouble)

    def _stalled(self, *what: str) -> Fault:
        watches = self._world.watches
        for each in what:
            watches.stall(each)
        return Fault(*(partial(watches.go_on, each) for each in what))

    def _watch_cut(self, *kinds: str, expired: bool) -> Fault:
        """Watches of these kinds break, and new ones are refused; `expired`: they miss what happens meanwhile."""
        trouble = self.seed_trouble(Trouble(refused=True, verbs=_TO_WATCH, what=_plurals(kinds)))
        self._break(kinds)

        def undo() -> None:
            for kind in kinds if expired else ():
                self._world.store.compact(kind)
            trouble.lift()

        return Fault(undo)

    def _break(self, kinds: Collection[str]) -> None:
        for kind in kinds:
            self._world.watches.cut(kind)


class PodFaults(_Acting):
    """Faults of pods, services and the weeder's watches of them."""

    def workload_broken(self, namespace: str, name: str) -> Fault:
        """The containers of a workload crash after each start; after the fault, the next start succeeds."""
        kubelet, key = self._world.seed_pods.kubelet, (namespace, name)
        kubelet.broken.add(key)
        kubelet.recheck(key, better=False)
        return Fault(lambda: kubelet.broken.discard(key), lambda: kubelet.recheck(key, better=True))

    def service_unready(self, namespace: str, service: str) -> Fault:
        """The readiness probes of the pods behind a service fail."""
        self._probes(namespace, service, fail=True)
        return Fault(lambda: self._probes(namespace, service, fail=False))

    def service_flaps(self, namespace: str, service: str, *, every: float = 5.0) -> Fault:
        """The readiness probes of the pods behind a service alternately fail and succeed, for `every` seconds each."""
        flaps = True

        def turn(*, fail: bool) -> None:
            if flaps:
                self._probes(namespace, service, fail=fail)
                self._world.timers.after(every, lambda: turn(fail=not fail))

        def undo() -> None:
            nonlocal flaps
            flaps = False
            self._probes(namespace, service, fail=False)

        turn(fail=True)
        return Fault(undo)

    def _probes(self, namespace: str, service: str, *, fail: bool) -> None:
        kubelet = self._world.seed_pods.kubelet
        for workload in self._world.seed_pods.behind[ServiceKey(namespace, service)]:
            (kubelet.unready.add if fail else kubelet.unready.discard)(workload.key)
            kubelet.probe(workload.key)

    def slices_gone(self, namespace: str, service: str) -> Fault:
        """The slices of a service are deleted and not written again."""
        return self._marked(self._world.seed_pods.endpoints.away, ServiceKey(namespace, service))

    def readiness_untold(self, namespace: str, service: str) -> Fault:
        """The endpoints of a service have no `conditions.ready`, which counts as true."""
        return self._marked(self._world.seed_pods.endpoints.untold, ServiceKey(namespace, service))

    def _marked(self, those: set[ServiceKey], service: ServiceKey) -> Fault:
        sync = self._world.seed_pods.endpoints.sync
        those.add(service)
        sync(service)
        return Fault(lambda: those.discard(service), lambda: sync(service))

    def pod_watch_stalled(self, what: PodWatched) -> Fault:
        """Watches of a kind, new ones too, deliver nothing and do not break; other requests work."""
        return self._stalled(what.value)

    def pod_watch_cut(self, what: PodWatched, *, expired: bool = False) -> Fault:
        """Watches of a kind break, and new ones are refused.

        Args:
            what: the kind.
            expired: whether the server's log no longer has the missed changes afterwards.
        """
        return self._watch_cut(what.value, expired=expired)

    def pods_forbidden(self, *verbs: str) -> Fault:
        """Requests for pods with these verbs, or with any, get 403."""
        return self.seed_trouble(
            Trouble(forbidden=True, verbs=frozenset(verbs), what=frozenset({"pods"}))
        )


class ConnectionFaults(_Acting):
    """Faults of the connections to an API server in memory, by its name: that of a shoot, or `network.SEED`."""

    def watches_expired(self) -> Fault:
        """All watches of the seed break and new ones are refused; the server's log loses what happens meanwhile."""
        trouble = self.seed_trouble(Trouble(refused=True, verbs=frozenset({"watch"})))
        self.connections_cut(SEED)
        return Fault(self._world.store.compact, trouble.lift)

    def connections_cut(self, name: str) -> Fault:
        """The server closes all connections that are open now, as when it restarts."""
        return self._at_once(name, MemoryPort.cut)

    def connections_reset(self, name: str) -> Fault:
        """All connections that are open now are reset."""
        return self._at_once(name, MemoryPort.reset)

    def connections_forgotten(self, name: str) -> Fault:
        """The network forgets all connections that are open now: both ends stay, and nothing arrives."""
        return self._at_once(name, MemoryPort.forget)

    def answers_cut(self, name: str, after: int) -> Fault:
        """Each new connection breaks after so many bytes of answers."""
        self._at_once(name, lambda port: port.cut_answers(after))
        return Fault(lambda: self._at_once(name, lambda port: port.cut_answers(None)))

    def _at_once(self, name: str, what: Callable[[MemoryPort], None]) -> Fault:
        place = self._world.place
        if not isinstance(place, MemoryPlace):
            raise TypeError("only connections in memory have these faults")
        for route in (Route.INTERNAL,) if name == SEED else self._world.secret_names:
            what(place.port(name, route))
        return Fault(lambda: None)


class Faults(PodFaults, ConnectionFaults):
    """All faults: of shoots, routes to them, the seed, its pods and overrides, hosts, and connections."""

    def __init__(self, world: "World", rng: random.Random) -> None:
        super().__init__(world)
        self._rng = rng
        self._tokens = 1

    # The nodes of a shoot, and their kubelets.

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
        shoot = self._world.shoots[namespace]

        def cut_off(hits: PathCut) -> Fault:
            shoot.fleet.cut(hits)
            return Fault(lambda: shoot.fleet.mend(hits))

        if zone is not None:
            return cut_off(lambda kubelet: kubelet.zone == zone)
        if (
            nodes is None and fraction >= 1.0
        ):  # the load balancer, which nodes and we share, is gone
            external = Trouble(lost=how, routes=frozenset({Route.EXTERNAL}))
            return Fault(cut_off(lambda _: True).lift, _trouble(shoot.api, external).lift)
        if nodes is None:
            known = [kubelet.node for kubelet in shoot.fleet.kubelets]
            nodes = self._rng.sample(known, round(fraction * len(known)))
        names = frozenset(nodes)
        return cut_off(lambda kubelet: kubelet.node in names)

    def kubelet_dead(self, namespace: str, node: str) -> Fault:
        """One kubelet stops."""
        fleet = self._world.shoots[namespace].fleet
        fleet.die(node)
        return Fault(lambda: fleet.revive(node, self._world.clock.now()))

    def clock_off(self, namespace: str, node: str, seconds: float) -> Fault:
        """The clock of one node jumps by `seconds`, and back after the fault."""
        clock = self._clock_of(namespace, node)
        clock.step(seconds)
        return self._after_advance(namespace, lambda: clock.step(-seconds))

    def clock_drift(self, namespace: str, node: str, rate: float) -> Fault:
        """The clock of one node gains `rate` seconds per second; after the fault, its offset remains."""
        clock = self._clock_of(namespace, node)
        clock.drift(self._world.clock.now(), rate)
        return self._after_advance(namespace, lambda: clock.drift(self._world.clock.now(), 0.0))

    def _clock_of(self, namespace: str, node: str) -> NodeClock:
        return self._world.shoots[namespace].fleet.of(node).clock

    def _after_advance(self, namespace: str, undo: Callable[[], object]) -> Fault:
        """Returns what undoes something that kubelets notice: until then they were as before."""
        return Fault(self._world.shoots[namespace].advance, undo)

    # A shoot's API server.

    def trouble(self, namespace: str, trouble: Trouble) -> Fault:
        """The shoot's API server has any `Trouble`."""
        shoot = self._world.shoots[namespace]
        shoot.advance()
        shoot.api.begin(trouble)
        return self._after_advance(namespace, lambda: shoot.api.end(trouble))

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

    # Our routes to a shoot's API server: its nodes have paths of their own.

    def route_trouble(self, namespace: str, route: Route, trouble: Trouble) -> Fault:
        """Requests by a route meet any `Trouble`."""
        limited = replace(trouble, routes=frozenset({route}))
        return _trouble(self._world.shoots[namespace].api, limited)

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

    # Its certificates and kubeconfigs.

    def rotate_token(self, namespace: str, *, overlap: float = 0.0) -> None:
        """Writes a new token into the Secrets; the previous tokens are accepted for another `overlap` seconds."""
        shoot = self._world.shoots[namespace]
        self._tokens += 1
        shoot.retire(until=self._world.clock.now() + overlap)
        shoot.accept(f"{namespace}-{self._tokens}")
        self._write_kubeconfigs(namespace)

    def rotate_ca(self, namespace: str) -> None:
        """Gives the API server a certificate of a new authority, and writes that authority into the Secrets."""
        self._world.shoots[namespace].show(self._world.place.authority(namespace))
        self._write_kubeconfigs(namespace)

    def _write_kubeconfigs(self, namespace: str) -> None:
        for route in self._world.secret_names:
            self._world.write_kubeconfig(namespace, route)

    def certificate_untrusted(self, namespace: str) -> Fault:
        """The API server presents a certificate that was not signed by the authority in the Secret."""
        return self._untrusted(namespace, None)

    def route_untrusted(self, namespace: str, route: Route) -> Fault:
        """A route leads to a certificate that was not signed by the authority in the Secret."""
        return self._untrusted(namespace, route)

    def _untrusted(self, namespace: str, route: Route | None) -> Fault:
        shoot = self._world.shoots[namespace]
        before = shoot.authority(route or Route.INTERNAL)
        shoot.show(self._world.place.authority(namespace), route)
        return Fault(lambda: shoot.show(before, route))

    def kubeconfig_absent(self, namespace: str, route: Route = Route.INTERNAL) -> Fault:
        """The Secret of a route is deleted."""
        self._world.store.delete(self._world.secret_key(namespace, route))
        return Fault(lambda: self._world.write_kubeconfig(namespace, route))

    def kubeconfig_without_token(self, namespace: str, route: Route = Route.INTERNAL) -> Fault:
        """The user of the kubeconfig of a route is empty, as just after creation."""
        return self._kubeconfig(namespace, route, user={})

    def kubeconfig_refused(self, namespace: str) -> Fault:
        """The kubeconfig names a command to run (`exec`)."""
        return self._kubeconfig(namespace, Route.INTERNAL, user={"exec": {"command": "true"}})

    def credentials_wrong(self, namespace: str, route: Route) -> Fault:
        """The Secret of a route has an invalid token, so that requests get 401."""
        return self._kubeconfig(namespace, route, user={"token": "of-nobody"})

    def name_gone(self, namespace: str) -> Fault:
        """The host name in the external kubeconfig cannot be resolved."""
        return self._kubeconfig(namespace, Route.EXTERNAL, server=NOWHERE)

    def _kubeconfig(
        self,
        namespace: str,
        route: Route,
        *,
        user: Object | None = None,
        server: str | None = None,
    ) -> Fault:
        self._world.write_kubeconfig(namespace, route, user=user, server=server)
        return Fault(lambda: self._world.write_kubeconfig(namespace, route))

    # The seed's API server and its watches.

    def seed_down(self) -> Fault:
        """The seed's API server is down: it refuses connections, and those that were open are cut."""
        return self.seed_trouble(Trouble(refused=True))

    def seed_errors(self, rate: float = 1.0) -> Fault:
        """A random share of requests to the seed fails with 500."""
        return self.seed_trouble(Trouble(error_rate=rate))

    def patch_forbidden(self, *what: str) -> Fault:
        """Patches of these resources (`deployments`, `deployments/scale`), or of all, get 403."""
        verbs = frozenset({"patch"})
        return self.seed_trouble(Trouble(forbidden=True, verbs=verbs, what=frozenset(what)))

    def watch_stalled(self, what: Watched) -> Fault:
        """A watch stops delivering, and neither a new one nor its list is answered."""
        return Fault(self.watch_mute(what).lift, self.watch_not_opened(what).lift)

    def watch_not_opened(self, what: Watched) -> Fault:
        """No new watch, and no list for one, is answered; watches that are open go on."""
        kinds = {*_OF_THE_PROBER, *self._world.store.kinds()}
        plurals = _plurals(kind for kind in kinds if watched(kind) is what)
        return self.seed_trouble(Trouble(silent=True, reflected=True, what=plurals))

    def watch_mute(self, what: Watched) -> Fault:
        """A watch, a new one too, delivers nothing and does not break; other requests work."""
        return self._stalled(what)

    # What the seed says of a shoot: its dependents and its Cluster.

    def dependent_unavailable(self, ref: ResourceRef, error: ClusterError) -> Fault:
        """The seed does not serve a dependent's kind, or does not permit reading it; requests get `error`."""
        unavailable = self._world.unavailable
        unavailable[ref] = error
        return Fault(lambda: unavailable.pop(ref))

    def pods_stuck(self, namespace: str, ref: ResourceRef) -> Fault:
        """New pods of a dependent do not become ready."""
        deployments, key = self._world.deployments, ObjectKey(ref.kind, namespace, ref.name)
        deployments.stuck.add(key)
        return Fault(lambda: deployments.stuck.discard(key), lambda: deployments.recheck(key))

    def hibernated(self, namespace: str) -> Fault:
        """`spec.hibernation.enabled`; at the end the shoot is awake."""
        enabled = [{"spec": {"hibernation": {"enabled": each}}} for each in (True, False)]
        self._shoot(namespace, enabled[0])
        return Fault(lambda: self._shoot(namespace, enabled[1]))

    def migrating(self, namespace: str) -> Fault:
        """The last operation is Migrate; at the end a Reconcile that succeeded."""
        at = rfc3339(self._world.clock.now())

        def operation(kind: str, state: str) -> None:
            last = {"type": kind, "state": state, "lastUpdateTime": at}
            self._shoot(namespace, {"status": {"lastOperation": last}})

        operation("Migrate", "Processing")
        return Fault(lambda: operation("Reconcile", "Succeeded"))

    def deleted(self, namespace: str) -> Fault:
        """The Cluster has a deletionTimestamp."""
        now = rfc3339(self._world.clock.now())
        self._cluster(namespace, {"metadata": {"deletionTimestamp": now}})
        return Fault(lambda: self._cluster(namespace, {"metadata": {"deletionTimestamp": None}}))

    def cluster_gone(self, namespace: str) -> Fault:
        """The Cluster is deleted; after the fault it exists again, unchanged."""
        key = ObjectKey("Cluster", "", namespace)
        before = self._world.store.delete(key)
        return Fault(lambda: self._world.store.create(key, before))

    def undecodable(self, namespace: str) -> Fault:
        """The Shoot in the Cluster cannot be read."""
        shoot = self._world.store.get(ObjectKey("Cluster", "", namespace))["spec"]["shoot"]
        self._shoot(namespace, "garbage")
        return Fault(lambda: self._shoot(namespace, shoot))

    def _shoot(self, namespace: str, patch: object) -> None:
        self._cluster(namespace, {"spec": {"shoot": patch}})

    def _cluster(self, namespace: str, patch: Object) -> None:
        self._world.write(ObjectKey("Cluster", "", namespace), patch, GARDENLET)

    # Pauses and ScaleRequests, and their definitions.

    def overrides_forbidden(self, *verbs: str) -> Fault:
        """Requests for Pauses and ScaleRequests with these verbs, or with any, get 403; open watches end."""
        if not verbs or "watch" in verbs:
            self._break(_OVERRIDES)
        return self.seed_trouble(
            Trouble(forbidden=True, verbs=frozenset(verbs), what=_OF_OVERRIDES)
        )

    def overrides_watch_cut(self, *, expired: bool = False) -> Fault:
        """The watches of the overrides break, and new ones are refused.

        Args:
            expired: whether the server's log no longer has the missed changes afterwards.
        """
        return self._watch_cut(*_OVERRIDES, expired=expired)

    def overrides_watch_stalled(self) -> Fault:
        """The watches of the overrides, new ones too, deliver nothing and do not break; other requests work."""
        return self._stalled(*_OVERRIDES)

    def overrides_away(self) -> Fault:
        """All requests for Pauses and ScaleRequests are refused; the watches break."""
        self._break(_OVERRIDES)
        return self.seed_trouble(Trouble(refused=True, what=_OF_OVERRIDES))

    def crds_removed(self, *kinds: str) -> Fault:
        """The definitions of these kinds, or all, are deleted, and afterwards installed again.

        The objects are deleted, watches end a second later, and requests get 404.
        """
        store = self._world.store
        gone = [each for each in store.definitions.values() if not kinds or each.kind in kinds]
        for each in gone:
            store.undefine(each.kind)
            self._world.watches.end(each.kind)
        return Fault(*(partial(store.define, each) for each in gone))

    # Targets of endpoint probes, and the seed's network to the outside.

    def seed_network_cut(self) -> Fault:
        """The seed's network drops all to the outside, probes and external routes of its shoots; the inside works."""
        network = self._world.network
        network.cut()
        external = [self.route_cut(each, Route.EXTERNAL) for each in self._world.shoots]
        return Fault(network.mend, *(each.lift for each in external))

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
        manner, said = Manner(answer, after), self._world.manners[namespace, target]
        said.append(manner)
        return Fault(lambda: said.remove(manner))

    def target_slow(self, target: str, seconds: float) -> Fault:
        """A host passes after a delay of `seconds`."""
        return self.target_answers(target, TargetAnswer.WELL, after=seconds)
