"""The faults of a simulated world: each method begins one and returns the `Fault` that ends it.

with world.faults.path_cut("shoot--local--a"):
    await clock.sleep(60)
"""

import random
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from app.core.errors import ClusterError
from app.core.model.instants import rfc3339
from app.core.model.shoots import Route
from app.core.model.weeding import ServiceKey
from app.core.model.workloads import ResourceRef
from app.core.ports import Watched
from app.simulation.memory import MemoryPlace, MemoryPort
from app.simulation.network import SEED
from app.simulation.parts import GARDENLET, Fault, WorldParts
from app.simulation.shoot_faults import EndpointFaults, RouteFaults, ShootFaults
from app.simulation.store import Object, ObjectKey
from app.simulation.traffic import Trouble
from app.simulation.watches import watched

# Pods of the seed, its services, and the weeder's watches of them.


class PodWatched(StrEnum):
    """The kinds that the weeder watches."""

    SLICES = "EndpointSlice"
    PODS = "Pod"

    @property
    def plural(self) -> str:
        """The plural resource, as in requests."""
        return f"{self.value.lower()}s"


class PodFaults:
    """Faults of pods, services and the watches of them."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts

    def workload_broken(self, namespace: str, name: str) -> Fault:
        """The containers of a workload crash after each start; after the fault, the next start succeeds."""
        kubelet, key = self._parts.pods.kubelet, (namespace, name)
        kubelet.broken.add(key)
        kubelet.recheck(key, better=False)

        def undo() -> None:
            kubelet.broken.discard(key)
            kubelet.recheck(key, better=True)

        return Fault(undo)

    def service_unready(self, namespace: str, service: str) -> Fault:
        """The readiness probes of the pods behind a service fail."""
        self._probes(namespace, service, fail=True)
        return Fault(lambda: self._probes(namespace, service, fail=False))

    def service_flaps(self, namespace: str, service: str, *, every: float = 5.0) -> Fault:
        """The readiness probes of the pods behind a service alternately fail and succeed, for `every` seconds each."""
        timers, flaps, fails = self._parts.pods.timers, True, False

        def turn() -> None:
            nonlocal fails
            if flaps:
                fails = not fails
                self._probes(namespace, service, fail=fails)
                timers.after(every, turn)

        def undo() -> None:
            nonlocal flaps
            flaps = False
            self._probes(namespace, service, fail=False)

        turn()
        return Fault(undo)

    def _probes(self, namespace: str, service: str, *, fail: bool) -> None:
        kubelet = self._parts.pods.kubelet
        for workload in self._parts.pods.behind[ServiceKey(namespace, service)]:
            (kubelet.unready.add if fail else kubelet.unready.discard)(workload.key)
            kubelet.probe(workload.key)

    def slices_gone(self, namespace: str, service: str) -> Fault:
        """The slices of a service are deleted and not written again."""
        endpoints, key = self._parts.pods.endpoints, ServiceKey(namespace, service)
        endpoints.away.add(key)
        endpoints.sync(key)

        def undo() -> None:
            endpoints.away.discard(key)
            endpoints.sync(key)

        return Fault(undo)

    def readiness_untold(self, namespace: str, service: str) -> Fault:
        """The endpoints of a service have no `conditions.ready`, which counts as true."""
        endpoints, key = self._parts.pods.endpoints, ServiceKey(namespace, service)
        endpoints.untold.add(key)
        endpoints.sync(key)

        def undo() -> None:
            endpoints.untold.discard(key)
            endpoints.sync(key)

        return Fault(undo)

    def pod_watch_stalled(self, what: PodWatched) -> Fault:
        """Watches of a kind, new ones too, deliver nothing and do not break; other requests work."""
        self._parts.watches.stall(what.value)
        return Fault(lambda: self._parts.watches.go_on(what.value))

    def pod_watch_cut(self, what: PodWatched, *, expired: bool = False) -> Fault:
        """Watches of a kind break, and new ones are refused.

        Args:
            what: the kind.
            expired: whether the server's log no longer has the missed changes afterwards.
        """
        verbs = frozenset({"list", "watch"})
        trouble = Trouble(refused=True, verbs=verbs, what=frozenset({what.plural}))
        self._parts.api.begin(trouble)
        self._parts.watches.cut(what.value)

        def undo() -> None:
            if expired:
                self._parts.store.compact(what.value)
            self._parts.api.end(trouble)

        return Fault(undo)

    def pods_forbidden(self, *verbs: str) -> Fault:
        """Requests for pods with these verbs, or with any, get 403."""
        trouble = Trouble(forbidden=True, verbs=frozenset(verbs), what=frozenset({"pods"}))
        self._parts.api.begin(trouble)
        return Fault(lambda: self._parts.api.end(trouble))


# Pauses and ScaleRequests, their watches, and reviews.


_KINDS: Final = ("Pause", "ScaleRequest")
_WHAT: Final = frozenset({"pauses", "scalerequests", "pauses/status", "scalerequests/status"})
_REVIEWS: Final = frozenset({"tokenreviews", "subjectaccessreviews"})


class OverridesFaults:
    """Faults of Pauses, of ScaleRequests and of reviews."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts

    def overrides_forbidden(self, *verbs: str) -> Fault:
        """Requests for Pauses and ScaleRequests with these verbs, or with any, get 403; open watches end."""
        if not verbs or "watch" in verbs:
            self._cut()
        return self._trouble(Trouble(forbidden=True, verbs=frozenset(verbs), what=_WHAT))

    def overrides_watch_cut(self, *, expired: bool = False) -> Fault:
        """The watches of the overrides break, and new ones are refused.

        Args:
            expired: whether the server's log no longer has the missed changes afterwards.
        """
        parts, verbs = self._parts, frozenset({"list", "watch"})
        self._cut()
        trouble = self._trouble(Trouble(refused=True, verbs=verbs, what=_WHAT))

        def undo() -> None:
            if expired:
                for kind in _KINDS:
                    parts.store.compact(kind)
            trouble.lift()

        return Fault(undo)

    def overrides_watch_stalled(self) -> Fault:
        """The watches of the overrides, new ones too, deliver nothing and do not break; other requests work."""
        watches = self._parts.watches
        for kind in _KINDS:
            watches.stall(kind)

        def undo() -> None:
            for kind in _KINDS:
                watches.go_on(kind)

        return Fault(undo)

    def overrides_away(self) -> Fault:
        """All requests for Pauses and ScaleRequests are refused; the watches break."""
        self._cut()
        return self._trouble(Trouble(refused=True, what=_WHAT))

    def _cut(self) -> None:
        for kind in _KINDS:
            self._parts.watches.cut(kind)

    def reviews_forbidden(self, *what: str) -> Fault:
        """Creating `tokenreviews` or `subjectaccessreviews`, by default both, gets 403."""
        return self._trouble(Trouble(forbidden=True, what=frozenset(what) or _REVIEWS))

    def reviews_away(self, *what: str) -> Fault:
        """Creating `tokenreviews` or `subjectaccessreviews`, by default both, gets no answer."""
        return self._trouble(Trouble(silent=True, what=frozenset(what) or _REVIEWS))

    def _trouble(self, trouble: Trouble) -> Fault:
        self._parts.api.begin(trouble)
        return Fault(lambda: self._parts.api.end(trouble))


# The definitions of the custom resources.


class DefinitionFaults:
    """The CustomResourceDefinitions come and go."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts

    def crds_removed(self, *kinds: str) -> Fault:
        """The definitions of these kinds, or all, are deleted, and afterwards installed again.

        The objects are deleted, watches end a second later, and requests get 404.
        """
        store = self._parts.store
        gone = [each for each in store.definitions.values() if not kinds or each.kind in kinds]
        for each in gone:
            store.undefine(each.kind)
            self._parts.watches.end(each.kind)

        def undo() -> None:
            for each in gone:
                store.define(each)

        return Fault(undo)


# The seed's API server, its watches, and the Clusters.


class SeedFaults:
    """Faults of the seed's API server and of the objects that describe a shoot."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts

    def seed_trouble(self, trouble: Trouble) -> Fault:
        """The seed's API server has any `Trouble`."""
        self._parts.api.begin(trouble)
        return Fault(lambda: self._parts.api.end(trouble))

    def seed_down(self) -> Fault:
        """The seed's API server refuses connections; open watches go on, and have faults of their own."""
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
        mute, silence = self.watch_mute(what), self.watch_not_opened(what)

        def undo() -> None:
            mute.lift()
            silence.lift()

        return Fault(undo)

    def watch_not_opened(self, what: Watched) -> Fault:
        """No new watch, and no list for one, is answered; watches that are open go on."""
        kinds = {"Deployment", "StatefulSet", *self._parts.store.kinds()}
        plurals = (
            {f"{kind.lower()}s" for kind in kinds if watched(kind) is what}
            if what is Watched.DEPENDENTS
            else {what.value}
        )
        return self.seed_trouble(Trouble(silent=True, reflected=True, what=frozenset(plurals)))

    def watch_mute(self, what: Watched) -> Fault:
        """A watch, a new one too, delivers nothing and does not break; other requests work."""
        watches = self._parts.watches
        watches.stall(what)
        return Fault(lambda: watches.go_on(what))

    def dependent_unavailable(self, ref: ResourceRef, error: ClusterError) -> Fault:
        """The seed does not serve a dependent's kind, or does not permit reading it; requests get `error`."""
        unavailable = self._parts.unavailable
        unavailable[ref] = error
        return Fault(lambda: unavailable.pop(ref))

    def pods_stuck(self, namespace: str, ref: ResourceRef) -> Fault:
        """New pods of a dependent do not become ready."""
        key = ObjectKey(ref.kind, namespace, ref.name)
        self._parts.deployments.stuck.add(key)

        def undo() -> None:
            self._parts.deployments.stuck.discard(key)
            self._parts.deployments.recheck(key)

        return Fault(undo)

    def hibernated(self, namespace: str) -> Fault:
        """`spec.hibernation.enabled`; at the end the shoot is awake."""
        return self._shoot(
            namespace,
            {"spec": {"hibernation": {"enabled": True}}},
            {"spec": {"hibernation": {"enabled": False}}},
        )

    def migrating(self, namespace: str) -> Fault:
        """The last operation is Migrate; at the end a Reconcile that succeeded."""
        return self._shoot(
            namespace,
            self._operation("Migrate", "Processing"),
            self._operation("Reconcile", "Succeeded"),
        )

    def deleted(self, namespace: str) -> Fault:
        """The Cluster has a deletionTimestamp."""
        now = rfc3339(self._parts.clock.now())
        self._cluster(namespace, {"metadata": {"deletionTimestamp": now}})
        return Fault(lambda: self._cluster(namespace, {"metadata": {"deletionTimestamp": None}}))

    def cluster_gone(self, namespace: str) -> Fault:
        """The Cluster is deleted; after the fault it exists again, unchanged."""
        key = ObjectKey("Cluster", "", namespace)
        before = self._parts.store.delete(key)
        return Fault(lambda: self._parts.store.create(key, before))

    def undecodable(self, namespace: str) -> Fault:
        """The Shoot in the Cluster cannot be read."""
        shoot = self._parts.store.get(ObjectKey("Cluster", "", namespace))["spec"]["shoot"]
        self._cluster(namespace, {"spec": {"shoot": "garbage"}})
        return Fault(lambda: self._cluster(namespace, {"spec": {"shoot": shoot}}))

    def _operation(self, kind: str, state: str) -> Object:
        at = rfc3339(self._parts.clock.now())
        return {"status": {"lastOperation": {"type": kind, "state": state, "lastUpdateTime": at}}}

    def _shoot(self, namespace: str, patch: Object, undo: Object) -> Fault:
        self._cluster(namespace, {"spec": {"shoot": patch}})
        return Fault(lambda: self._cluster(namespace, {"spec": {"shoot": undo}}))

    def _cluster(self, namespace: str, patch: Object) -> None:
        self._parts.write(ObjectKey("Cluster", "", namespace), patch, GARDENLET)


class ConnectionFaults:
    """Faults of the connections to an API server in memory, by its name: that of a shoot, or `network.SEED`."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts

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
        for port in self._ports(name):
            port.cut_answers(after)

        def undo() -> None:
            for port in self._ports(name):
                port.cut_answers(None)

        return Fault(undo)

    def watches_expired(self) -> Fault:
        """All watches of the seed break and new ones are refused; the server's log loses what happens meanwhile."""
        trouble = Trouble(refused=True, verbs=frozenset({"watch"}))
        self._parts.api.begin(trouble)
        cut = self.connections_cut(SEED)

        def undo() -> None:
            self._parts.store.compact()
            self._parts.api.end(trouble)
            cut.lift()

        return Fault(undo)

    def _at_once(self, name: str, what: Callable[[MemoryPort], None]) -> Fault:
        for port in self._ports(name):
            what(port)
        return Fault(lambda: None)

    def _ports(self, name: str) -> tuple[MemoryPort, ...]:
        place = self._parts.place
        if not isinstance(place, MemoryPlace):
            raise TypeError("only connections in memory have these faults")
        routes = (Route.INTERNAL,) if name == SEED else self._parts.secret_names
        return tuple(place.port(name, route) for route in routes)


class Faults(
    ShootFaults,
    RouteFaults,
    SeedFaults,
    PodFaults,
    OverridesFaults,
    DefinitionFaults,
    EndpointFaults,
    ConnectionFaults,
):
    """All faults: of shoots, routes to them, the seed, its pods, overrides and reviews, hosts, and connections."""

    def __init__(self, parts: WorldParts, rng: random.Random) -> None:
        ShootFaults.__init__(self, parts, rng)
        RouteFaults.__init__(self, parts)
        SeedFaults.__init__(self, parts)
        PodFaults.__init__(self, parts)
        OverridesFaults.__init__(self, parts)
        DefinitionFaults.__init__(self, parts)
        EndpointFaults.__init__(self, parts)
        ConnectionFaults.__init__(self, parts)
