"""What truly happens in a world, as nobody in it knows: the facts that the invariants are held against.

*Late* is a kubelet that truly has not renewed for so long, and not for want of its API server or of storage alone;
*lost* is one that is dead or cut off now, and has not been heard of for longer than any doubt about its clock.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from app.core.kube.reflector import SILENCE
from app.core.model.policy import ProberPolicy
from app.core.model.shoots import Route, ShootView
from app.core.model.workloads import Patch, ResourceRef
from app.prober.rules.leases import READING, Timings, offset_tolerance
from app.simulation.builders import World
from app.simulation.definitions import SIZES
from app.simulation.network import SEED
from app.simulation.shoot import Kubelet, ShootServer
from app.simulation.store import Happened, Object, ObjectKey, StoreEvent
from app.simulation.traffic import Host, SimulatedRequest
from app.simulation.views import cluster_view, machine_view
from bench.exploration.facts import (
    Change,
    Dependent,
    Knowledge,
    OverrideChange,
    Reading,
    Standing,
    StatusSending,
    key,
)
from bench.exploration.life import TIMES
from bench.exploration.line import Boundary, Passage, Sending, Sent
from bench.exploration.paths import Paths
from bench.exploration.process import LEASE
from bench.exploration.wishes import KINDS, Order, Told, Wish, all_wishes

JUST_STARTED: Final = 60.0
"""For so long after its first probe a process knows little of clocks that are off."""
READINGS_APART: Final = 25.0
"""Readings that are further apart teach nothing of clocks: leases are learnt anew (rules 3.1), seconds."""
_DOUBT: Final = 15.0
"""What a clock that was set may hide of an age, beyond the offset tolerance."""
_HELD: Final = 1.0
"""What lands within this after an absence was begun in it, perhaps, up to a renewal interval ago; seconds."""
_INTERVAL: Final = 0.26
"""The renewal interval, with its jitter, of a lease's duration."""
_SETTLING: Final = 2.0
_RETRIED: Final = 60.0
"""A scaling run whose write failed sends it again within this, seconds."""
_KINDS: Final = {"deployments": "Deployment", "statefulsets": "StatefulSet", "etcds": "Etcd"}
"""Of the resources that can be scaled."""
_STALE: Final = 95.0
"""A watch may be behind for so long before it counts as stale, seconds."""


class Ledger:
    """Keeps the facts; a `Watcher` of all processes."""

    def __init__(
        self, world: World, policy: ProberPolicy, *, elected: bool, watch_delay: float
    ) -> None:
        self.world, self.policy, self.elected = world, policy, elected
        self._watch_delay = watch_delay
        self.standings: dict[str, Standing] = {}
        self.known: dict[tuple[str, str], Knowledge] = {}
        self.paths = Paths(policy)
        """What came of attempts and gates, in endpoint mode."""
        self._told: dict[str, Told] = {}
        self._wishes: tuple[int, list[Wish]] | None = None
        """What people wish for, at a version of the store."""
        self.ever: set[tuple[str, str]] = set()
        """The uid and version of each Pause and ScaleRequest that there ever was."""
        self.asked_to_end: set[ObjectKey] = set()
        """What people asked a process to delete."""
        self.begun: dict[tuple[str, ObjectKey], float] = {}
        """When each process first sent that a ScaleRequest runs: the run begins then, even if no status is accepted."""
        self.renewed: dict[str, float] = {}
        """When each process sent the last renewal of the Lease that was carried out."""
        self.woke: dict[str, float] = {}
        """When each process last went on after it had stood still."""
        self.on_sending: Callable[[Sending], None] = lambda _: None
        self.on_status: Callable[[StatusSending], None] = lambda _: None
        self.on_change: Callable[[Change], None] = lambda _: None
        self.on_override: Callable[[OverrideChange], None] = lambda _: None
        self.on_passage: Callable[[Passage], None] = lambda _: None
        self._serving: str | None = None
        self._sent: dict[tuple[str, int], float] = {}
        """When each request was sent: one that was given up, or cut off, may be carried out later."""
        self._read: dict[tuple[str, int], tuple[bool, bool, str]] = {}
        self._went_down: dict[tuple[str, str], float] = {}
        self._turned_away: dict[str, tuple[float, float]] = {}
        """When the seed first and last refused a connection of each process, of those close together."""
        self._behind_at = self._pods_behind_at = float("-inf")
        world.store.subscribe(self._stored)

    @property
    def now(self) -> float:
        """The time of the world."""
        return self.world.clock.now()

    def standing(self, namespace: str) -> Standing:
        """What is true of a shoot."""
        found = self.standings.get(namespace)
        if found is None:
            found = self.standings[namespace] = Standing()
        return found

    def knowledge(self, process: str, namespace: str) -> Knowledge:
        """What a process was told about a shoot."""
        found = self.known.get((process, namespace))
        if found is None:
            found = self.known[process, namespace] = Knowledge()
        return found

    # What people decided.

    def told(self, process: str) -> Told:
        """What a process was told of the overrides."""
        found = self._told.get(process)
        if found is None:
            clock = self.world.clock
            found = self._told[process] = Told(clock.now, self.world.store, clock.now())
        return found

    def wishes(self) -> list[Wish]:
        """The overrides as they truly are."""
        version = self.world.store.version
        if self._wishes is None or self._wishes[0] != version:
            self._wishes = version, all_wishes(self.world.store, self.now)
        return self._wishes[1]

    def undone(self, namespace: str) -> frozenset[str]:
        """The ScaleRequests of a shoot that have not ended, by name."""
        return frozenset(
            each.key.name
            for each in self.wishes()
            if each.order is not None and each.order.open and each.key.namespace == namespace
        )

    def by_hand(self, sending: Sending) -> Order | None:
        """The order of a person (or of `maxProtectionDuration`) that a write carries out, as the process was told."""
        found = [
            wish.order
            for wish in self.told(sending.process).orders(sending.namespace, self.now)
            if wish.order is not None and not (sending.up if wish.order.down else sending.down)
        ]
        return max(found, key=lambda each: each.force, default=None)

    # What the world tells.

    def frozen(self) -> bool:
        """Whether a watch of Machines or Clusters may be behind."""
        return self._held_back("Cluster", "clusters") or self._held_back("Machine", "machines")

    def _held_back(self, kind: str, plural: str) -> bool:
        asked = SimulatedRequest(Host.SEED, "watch", plural)
        return self.world.watches.stalled(kind) or self.world.api.troubles(asked)

    def pods_unknown(self) -> bool:
        """Whether a watch of pods may have been behind for so long that nothing is known of their gates (5)."""
        return self._held_back("Pod", "pods") or self.now - self._pods_behind_at < _STALE

    def observe(self) -> None:
        """To be called before and after anything goes wrong or right."""
        if self.frozen():
            self._behind_at = max(self._behind_at, self.now)
        if self._held_back("Pod", "pods"):
            self._pods_behind_at = max(self._pods_behind_at, self.now)
        for namespace in self.world.shoots:
            self._observe(namespace)

    def _observe(self, namespace: str) -> None:
        standing, now = self.standing(namespace), self.now
        for node in self.world.out_of_reach(namespace):
            standing.out_at[node] = now
        if not self.world.shoot(namespace).api.writable:
            standing.away_at = now

    def begins(self, name: str, arguments: dict[str, Any]) -> None:
        """A fault begins: a clock that was set wrong once is never trusted again."""
        if name.startswith("connections_") and arguments["name"] == SEED:
            # A watch may not know that it is dead before that.
            self._behind_at = self._pods_behind_at = self.now + SILENCE
        if name.startswith("clock_"):
            self.standing(arguments["namespace"]).clocks_off = True

    def unsettle(self, namespace: str) -> None:
        """Its candidates are others now."""
        standing = self.standing(namespace)
        standing.unsettled_until = max(standing.unsettled_until, self.now + self.lag())

    def lag(self) -> float:
        """How far behind a process may be in what it knows of Machines and Clusters, in seconds."""
        behind = self.frozen() or self.now - self._behind_at < _STALE
        return (_STALE if behind else _SETTLING) + self._watch_delay

    def wakes_now(self, process: str) -> bool:
        """Whether this is the instant in which it goes on: what it was about to do comes before what it has to read."""
        return self.now == self.woke.get(process)

    def just_woken(self, process: str) -> bool:
        """Whether it has yet to read what came while it stood still."""
        return self.now - self.woke.get(process, float("-inf")) <= _SETTLING + self._watch_delay

    def begun_before_it_stood_still(self, sending: Sending) -> bool:
        """Whether a write goes on now that a process was about to send when it was stopped.

        Between its last check and the send call a process can be stopped, and nobody can help that: the server refuses
        the write if anything has changed.
        """
        return bool(sending.connected_ago) and self.wakes_now(sending.process)

    def _stored(self, event: StoreEvent) -> None:
        where, before, after = event.key, event.before, event.object
        if where.kind == "Machine":
            if _stands(before) != _stands(self.world.store.find(where)):
                self.unsettle(where.namespace)
        elif where.kind == "Cluster":
            self._cluster_changed(where.name, before)
        elif where.kind in KINDS.values():
            self._override_changed(event)
        elif where.kind == "Pod":
            self.paths.pod_changed(where.namespace, self.now)
        elif not _members(after).isdisjoint(SIZES):
            self._dependent_changed(where, before, self.world.store.find(where))

    def _override_changed(self, event: StoreEvent) -> None:
        gone = event.happened is Happened.DELETED
        if not gone:
            metadata = event.object["metadata"]
            self.ever.add((metadata["uid"], metadata["resourceVersion"]))
        after = None if gone else event.object
        self.on_override(OverrideChange(event.key, event.before, after, self._serving))

    def _cluster_changed(self, name: str, before: Object | None) -> None:
        standing, found = self.standing(name), self.world.store.find(ObjectKey("Cluster", "", name))
        probed = found is not None and _may_be_probed(found)
        if probed:
            standing.not_probed_since = None
        elif standing.not_probed_since is None:
            standing.not_probed_since = self.now
        before_it = self._grace(name, before)
        if before_it != self._grace(name, found):
            self.unsettle(name)

    def _dependent_changed(
        self, where: ObjectKey, before: Object | None, after: Object | None
    ) -> None:
        was = None if before is None else Dependent.of(before)
        now = None if after is None else Dependent.of(after)
        if was == now:
            return  # its status
        self._count_protection(where.namespace, now)
        self.on_change(Change(where, was, now, self._serving))
        self._note_hand(where.namespace, was, now)

    def _count_protection(self, namespace: str, after: Dependent | None) -> None:
        if self._serving is None or after is None or not after.protected:
            return
        others = (each for each in self.dependents(namespace) if each.ref != after.ref)
        if not any(each.protected for each in others):
            self.standing(namespace).begun.append((self.now, self._serving))

    def _note_hand(self, namespace: str, before: Dependent | None, after: Dependent | None) -> None:
        ours = self.standing(namespace).ours
        if after is None or after.replicas or self._serving is None:
            ref = after.ref if after is not None else before.ref if before is not None else None
            if ref is not None:
                ours.discard(ref)
        elif before is not None and before.replicas:
            ours.add(after.ref)

    # What the lines tell.

    def passed(self, passage: Passage) -> None:
        """A request of a process passes a boundary."""
        place = (passage.process, passage.number)
        self.paths.passed(passage, self.now)
        match passage.boundary:
            case Boundary.ABOUT_TO_SEND:
                pass
            case Boundary.SENT:
                self._sent[place] = self.now
            case Boundary.CARRIED_OUT:
                self._carried_out(passage, place)
            case Boundary.ANSWERED:
                self._answered(passage, place)
        self.on_passage(passage)

    def serves(self, process: str, sent: Sent, serve: Callable[[], Any]) -> Any:  # noqa: ANN401  whatever it serves
        """A server works for this process."""
        del sent
        self._serving = process
        try:
            return serve()
        finally:
            self._serving = None

    def connecting(self, process: str, namespace: str, route: Route) -> None:
        """A process connects to a shoot."""
        self.paths.connecting(process, namespace, route, self.now)

    def refused(self, process: str, namespace: str, route: Route, error: OSError) -> None:
        """It, or the seed, could not be connected to."""
        if namespace != SEED:
            self.paths.refused(process, namespace, route, error, self.now)
            return
        first, last = self._turned_away.get(process, (self.now, self.now))
        self._turned_away[process] = (first if self.now - last <= _RETRIED else self.now, self.now)

    def turned_away_since(self, process: str) -> float:
        """Since when the seed has refused a process again and again; inf if it has not lately."""
        first, last = self._turned_away.get(process, (math.inf, -math.inf))
        return first if self.now - last <= _RETRIED else math.inf

    def asks(self, process: str, sent: Sent) -> None:
        """A process is about to send this."""
        if (status := _status_of(process, sent)) is not None:
            if status.status.get("phase") == "Running":
                self.begun.setdefault((process, status.key), self.now)
            if not (sent.connected_ago and self.wakes_now(process)):
                self.on_status(status)
            return
        found = _write_of(sent)
        if found is None:
            return
        sending = Sending(process, sent.request.namespace, *found, sent.connected_ago)
        self.on_sending(sending)
        place = (sending.process, sending.namespace)
        if sending.down:
            self._went_down[place] = self.now
        elif sending.up:
            self._went_down.pop(place, None)

    def going_down(self, process: str, namespace: str) -> bool:
        """Whether a scaling run of this process has begun to write, though nothing of it may have been carried out."""
        return self.now - self._went_down.get((process, namespace), float("-inf")) <= _RETRIED

    def _carried_out(self, passage: Passage, place: tuple[str, int]) -> None:
        request = passage.request
        if (request.host, request.verb, request.what) == (Host.SHOOT, "list", "leases"):
            self._observe(request.namespace)
            self._read[place] = self._truth(passage.process, request.namespace)
        elif request.what == "leases" and request.verb in {"create", "update"}:
            held = self.world.store.get(ObjectKey("Lease", *LEASE))["spec"].get("holderIdentity")
            if held == passage.process:
                self.renewed[passage.process] = self._sent[place]

    def _answered(self, passage: Passage, place: tuple[str, int]) -> None:
        sent, request = self._sent[place], passage.request
        known = self.knowledge(passage.process, request.namespace)
        if place in self._read:
            late, lost, detail = self._read.pop(place)
            if passage.outcome == "ok" and self.now - sent <= READING:
                if not known.readings or sent - known.readings[-1].sent > READINGS_APART:
                    known.first = self.now
                known.readings.append(Reading(sent, self.now, late, lost, detail))
                del known.readings[:-20]
        elif request.what == "nodes" and passage.consistent and passage.outcome == "ok":
            known.nodes.append(self.now)
            del known.nodes[:-20]

    # What was written, truly.

    def protected(self, namespace: str) -> bool:
        """Whether a configured dependent carries the meltdown key."""
        return any(each.protected for each in self.dependents(namespace))

    def dependents(self, namespace: str) -> list[Dependent]:
        """Those of the configured dependents that are there."""
        places = (key(namespace, each.ref) for each in self.policy.dependents)
        found = (self.world.store.find(place) for place in places)
        return [Dependent.of(obj) for obj in found if obj is not None]

    # Who leads, truly.

    def leads(self, process: str) -> bool:
        """Whether this process may start a write now: it holds the Lease, and has renewed in time."""
        if not self.elected:
            return True
        lease = self.world.store.find(ObjectKey("Lease", *LEASE))
        holder = None if lease is None else lease["spec"].get("holderIdentity")
        renewed = self.renewed.get(process)
        if holder != process or renewed is None:
            return False
        return self.now - renewed < TIMES.renew_deadline

    # What the kubelets know.

    def timings(self, namespace: str) -> Timings:
        """Of the grace that the Shoot has now; of one that cannot be read, that which it had."""
        found = self.world.store.find(ObjectKey("Cluster", "", namespace))
        return Timings(self._grace(namespace, found) or self.policy.grace)

    def _grace(self, namespace: str, cluster: Object | None) -> float | None:
        """The grace that a Shoot asks for."""
        standing = self.standing(namespace)
        shoot = None if cluster is None else cluster_view(cluster).shoot
        if isinstance(shoot, ShootView):
            standing.grace = shoot.node_monitor_grace
        return standing.grace

    def _truth(self, process: str, namespace: str) -> tuple[bool, bool, str]:
        candidates = self.world.candidates(namespace)
        standing, shoot = self.standing(namespace), self.world.shoot(namespace)
        need = self._needed_age(process, namespace, shoot)
        held = _INTERVAL * shoot.lease_duration
        late = [k for k in candidates if self._late(k, standing, need, held)]
        sure = self.timings(namespace).expiry + offset_tolerance(shoot.lease_duration) + _DOUBT
        out = self.world.out_of_reach(namespace)
        lost = [k for k in candidates if k.node in out and self.now - k.last >= sure]
        enough = math.ceil(self.policy.limit * len(candidates) - 1e-9)
        settled = self.now >= standing.unsettled_until
        few = len(candidates) < 2
        ages = sorted(self.now - kubelet.last for kubelet in candidates)
        detail = f"true ages {_span(ages)}, {len(late)} late, {len(lost)} lost, {enough} needed"
        return (
            not settled or (not few and len(late) >= enough),
            settled and not few and len(lost) >= enough,
            detail,
        )

    def _late(self, kubelet: Kubelet, standing: Standing, need: float, held: float) -> bool:
        if kubelet.last <= standing.away_at + _HELD:
            need -= held
        if self.now - kubelet.last < need:
            return False
        proven = self.now - max(kubelet.last, standing.away_at)
        return proven >= need or standing.out_at.get(kubelet.node, 0.0) >= kubelet.last

    def _needed_age(self, process: str, namespace: str, shoot: ShootServer) -> float:
        """How old a Lease must truly be to count; less where clocks are off, as rules 3.1 grant."""
        timings, standing = self.timings(namespace), self.standing(namespace)
        need, first = timings.expiry, self.knowledge(process, namespace).first
        if standing.clocks_off:
            need -= offset_tolerance(shoot.lease_duration)
            if first is None or self.now - first < JUST_STARTED:
                need = min(need, timings.watched_long_enough(shoot.lease_duration))
        return need - 0.01


def _members(obj: Object) -> frozenset[str]:
    return frozenset(obj.get("spec", {}))


def _stands(machine: Object | None) -> str | None:
    """The node that a Machine stands for."""
    view = None if machine is None else machine_view(machine)
    return view.node if view is not None and view.alive else None


def _may_be_probed(cluster: Object) -> bool:
    view = cluster_view(cluster)
    shoot = view.shoot
    if view.deleting:
        return False
    if not isinstance(shoot, ShootView):
        return True
    operation = shoot.last_operation
    return not shoot.hibernation_enabled and (operation is None or operation.type != "Migrate")


def _span(ages: list[float]) -> str:
    return f"{ages[0]:.1f}…{ages[-1]:.1f} s of {len(ages)}" if ages else "of none"


def _status_of(process: str, sent: Sent) -> StatusSending | None:
    """The status of an override that a request writes."""
    target, body = sent.target, sent.body
    if target is None or body is None or target.part != "status" or target.plural not in KINDS:
        return None
    place = ObjectKey(KINDS[target.plural], target.namespace, target.name)
    return StatusSending(process, place, body.get("status") or {})


def _write_of(sent: Sent) -> tuple[ResourceRef, Patch] | None:
    """The dependent that a request writes, and what it writes."""
    target, body = sent.target, sent.body
    if sent.request.host is not Host.SEED or sent.request.verb != "patch":
        return None
    if target is None or body is None or target.plural not in _KINDS:
        return None
    version = f"{target.group}/{target.version}" if target.group else target.version
    metadata, sizes = body.get("metadata", {}), body.get("spec", {})
    patch = Patch(
        metadata.get("resourceVersion", ""),
        next(iter(sizes.values()), None),
        metadata.get("annotations", {}),
    )
    return ResourceRef(version, _KINDS[target.plural], target.name), patch
