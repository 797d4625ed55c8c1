"""A simulated shoot: what is behind its API server, nodes and their kubelets above all.

Each kubelet renews its Lease by its own clock, and retries after failures like a real one. No task runs them. Before
the shoot is read or changed, `Fleet.advance` must be called: it executes everything that has become due since the last
call, each event at its own instant. So 3,000 kubelets cost no more than their renewals.

The timing is that of the kubelet's lease controller: a renewal after each quarter of the lease duration, plus up to
4 %; five immediate tries; then attempts with pauses of 0.2 s, doubling to 7 s, until one succeeds. A request without
an answer takes a quarter of the duration to time out.
"""

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from app.core.clock import Clock
from app.core.model.instants import rfc3339
from app.core.model.shoots import LeaseView, NodeView, Route
from app.simulation import manifests
from app.simulation.network import ServerPlace
from app.simulation.store import Object, ObjectKey, Store
from app.simulation.traffic import ApiServer, Renewal
from app.simulation.views import lease_views, node_views

JITTER: Final = 0.04
TRIES: Final = 5
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 7.0
# Seconds between checks whether a pending request has been answered.
_LISTEN: Final = 0.25
# The duration of a try that fails immediately, in seconds.
_RETRY: Final = 0.01


class NodeClock:
    """The clock of a node, which may be off and may drift."""

    def __init__(self, offset: float = 0.0) -> None:
        self._offset = offset
        self._drift = 0.0
        self._since = 0.0

    def read(self, now: float) -> float:
        """Returns the time that the clock shows at the true instant `now`."""
        return now + self._offset + self._drift * (now - self._since)

    def step(self, seconds: float) -> None:
        """Sets the clock forward, or back if `seconds` is negative."""
        self._offset += seconds

    def drift(self, now: float, rate: float) -> None:
        """Makes the clock gain `rate` seconds per second from `now` on."""
        self._offset = self.read(now) - now
        self._drift, self._since = rate, now


class RenewalGap(NamedTuple):
    """The interval between two renewals, in true instants."""

    begin: float
    end: float


@dataclass(slots=True, eq=False)
class Kubelet:
    """One kubelet, with the state of its current attempt to renew."""

    node: str
    zone: str
    clock: NodeClock
    last: float
    """The true instant of its last renewal."""
    alive: bool = True
    gaps: list[RenewalGap] = field(default_factory=list)
    """The gaps that were longer than one and a half renewal intervals."""
    tries: int = 0
    pause: float = FIRST_PAUSE
    begun: float | None = None
    """When the pending request was sent; None if there is none."""
    lost: bool = False
    """Whether the pending request will never be answered."""
    turn: int = 0
    """The number of the kubelet's valid entry in the heap; entries with another number are ignored."""


PathCut = Callable[[Kubelet], bool]
"""A cut of the path between some nodes and their API server: whether it hits the node of a kubelet."""


class Fleet:
    """All kubelets of one shoot."""

    def __init__(
        self,
        rng: random.Random,
        meets: Callable[[random.Random], Renewal],
        renewed: Callable[[Kubelet, float], None],
        duration: float = 40.0,
    ) -> None:
        """Creates a fleet without kubelets.

        Args:
            rng: the source of all jitter.
            meets: returns what happens to a renewal at the API server.
            renewed: called with the kubelet and the true instant of each renewal.
            duration: `leaseDurationSeconds`.
        """
        self._rng = rng
        self._meets = meets
        self._renewed = renewed
        self._interval = duration * 0.25
        self._kubelets: dict[str, Kubelet] = {}
        self._heap: list[tuple[float, int, int, Kubelet]] = []
        self._order = count()
        self._cuts: list[PathCut] = []

    @property
    def kubelets(self) -> tuple[Kubelet, ...]:
        """All kubelets, including dead ones, in the order in which they joined."""
        return tuple(self._kubelets.values())

    def of(self, node: str) -> Kubelet:
        """Returns the kubelet of a node; KeyError if there is none."""
        return self._kubelets[node]

    def join(self, node: str, zone: str, now: float, *, phase: float) -> Kubelet:
        """Adds a kubelet that last renewed its Lease `phase` intervals before `now`."""
        kubelet = Kubelet(node, zone, NodeClock(), now - phase * self._interval)
        self._kubelets[node] = kubelet
        self._renewed(kubelet, kubelet.last)
        self._later(kubelet, max(now, kubelet.last + self._period()))
        return kubelet

    def leave(self, node: str) -> None:
        """Removes the kubelet of a deleted node."""
        self.die(node)
        del self._kubelets[node]

    def die(self, node: str) -> None:
        """Stops a kubelet; its Lease remains."""
        kubelet = self._kubelets[node]
        kubelet.alive = False
        kubelet.turn += 1

    def revive(self, node: str, now: float) -> None:
        """Restarts a kubelet, which renews its Lease immediately; does nothing where its node was deleted."""
        kubelet = self._kubelets.get(node)
        if kubelet is None:
            return
        kubelet.alive, kubelet.tries, kubelet.pause, kubelet.begun = True, 0, FIRST_PAUSE, None
        kubelet.lost = False
        self._later(kubelet, now)

    def out_of_reach(self) -> tuple[Kubelet, ...]:
        """Returns the kubelets that are dead or whose path is cut, and so cannot renew."""
        return tuple(
            kubelet
            for kubelet in self._kubelets.values()
            if not kubelet.alive or any(cut(kubelet) for cut in self._cuts)
        )

    def cut(self, cut: PathCut) -> None:
        """Drops the packets of some nodes."""
        self._cuts.append(cut)

    def mend(self, cut: PathCut) -> None:
        """Ends a cut; requests lost during it remain unanswered."""
        self._cuts.remove(cut)

    def advance(self, now: float) -> None:
        """Executes everything that is due until `now`, in order."""
        while self._heap and self._heap[0][0] <= now:
            due, _, turn, kubelet = heapq.heappop(self._heap)
            if turn == kubelet.turn:
                self._step(kubelet, due)

    def _step(self, kubelet: Kubelet, at: float) -> None:
        if kubelet.lost:
            return self._failed(kubelet, at)
        begun = at if kubelet.begun is None else kubelet.begun
        cut = any(cut(kubelet) for cut in self._cuts)
        match Renewal.LOST if cut else self._meets(self._rng):
            case Renewal.ANSWERED:
                return self._success(kubelet, at)
            case Renewal.LOST:
                kubelet.lost = True
                return self._later(kubelet, begun + self._interval)
            case Renewal.HELD if at < begun + self._interval:
                kubelet.begun = begun
                return self._later(kubelet, min(at + _LISTEN, begun + self._interval))
            case Renewal.HELD | Renewal.FAILED:
                return self._failed(kubelet, at)

    def _success(self, kubelet: Kubelet, at: float) -> None:
        sent = at if kubelet.begun is None else kubelet.begun
        if at - kubelet.last > 1.5 * self._interval:
            kubelet.gaps.append(RenewalGap(kubelet.last, at))
        kubelet.last = at
        kubelet.tries, kubelet.pause, kubelet.begun = 0, FIRST_PAUSE, None
        self._renewed(kubelet, sent)
        self._later(kubelet, at + self._period())

    def _failed(self, kubelet: Kubelet, at: float) -> None:
        kubelet.lost, kubelet.begun = False, None
        kubelet.tries += 1
        if kubelet.tries <= TRIES:
            return self._later(kubelet, at + _RETRY)
        kubelet.pause = min(2 * kubelet.pause, LONGEST_PAUSE)
        return self._later(kubelet, at + kubelet.pause)

    def _period(self) -> float:
        return self._interval * (1 + JITTER * self._rng.random())

    def _later(self, kubelet: Kubelet, due: float) -> None:
        kubelet.turn += 1
        heapq.heappush(self._heap, (due, next(self._order), kubelet.turn, kubelet))


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
        self._routes = tuple(routes)
        self._authorities: dict[Route, str] = {}
        self.show(place.authority(namespace))
        self._clock = clock
        self._tokens: dict[str, float] = {}
        self._not_ready: set[str] = set()
        self._fleet = Fleet(rng, api.renewal, self._renew, float(lease_duration))

    @property
    def fleet(self) -> Fleet:
        """The kubelets, advanced to now."""
        self.advance()
        return self._fleet

    def authority(self, route: Route = Route.INTERNAL) -> str:
        """Returns the authority that signed the certificate presented on a route."""
        return self._authorities[route]

    def show(self, authority: str, route: Route | None = None) -> None:
        """Presents certificates signed by `authority` on a route from now on, or on all of them."""
        for each in self._routes if route is None else (route,):
            self._authorities[each] = authority
            self._place.show(self.namespace, authority, each)

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

    def accept(self, token: str) -> None:
        """Accepts a token until it is retired."""
        self._tokens[token] = float("inf")

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
            lease = manifests.lease(shown, self.lease_duration, kubelet.node)
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
