"""What becomes of the shoots of one simulated seed: what its controllers destroy, and how its control planes recover.

A witness hears of every change to the objects of its world. What it counts is compared with the twin, the same world
without a watchdog. Not every loss is preventable: where fewer nodes are cut off than the limit, the watchdog does
nothing, by design. Such losses are counted apart, because they would look like failures.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from app.core.model.instants import format_duration
from app.simulation.builders import World, known_at
from app.simulation.identities import OPERATOR
from app.simulation.scenarios.scenario import short
from app.simulation.seed_pods import service_of
from app.simulation.store import Happened, Object, StoreEvent
from app.simulation.views import machine_view, pod_view, ready, terminating
from app.simulation.workloads import API_SERVER, ETCD_SERVICE


class What(StrEnum):
    """What is counted."""

    NODE = "nodes marked NotReady"
    MACHINE = "machines deleted"
    """Counted when machine-controller-manager begins to delete it, which is irreversible."""
    BELOW = "lost below the limit"
    """Nodes and machines that were lost where too few nodes were cut off for a scale-down."""
    RESTART = "pods restarted"
    RECOVERY = "seconds until all pods were ready"
    SCALED = "shoots scaled to 0"
    HELD_BACK = "shoots held back by the gate"
    """Without the gate, their dependents would have been scaled to 0."""


class Seen(NamedTuple):
    """Something that counts."""

    at: float
    shoot: str
    """The short name of the shoot."""
    what: What
    amount: int = 1


# Seconds for which an outage counts after its end, because nodes are given up after the path is back.
_REMEMBERED: Final = 60.0
# Seconds for which an answer is cached, because a controller marks many nodes at once.
_FRESH: Final = 1.0


@dataclass(slots=True)
class _Plane:
    """The pods of one control plane."""

    pods: int
    """How many it has when it is whole."""
    ready: set[str]
    waiting: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    """The services that it lacks."""
    first: tuple[str, float] | None = None
    """The service that came back first since one was lost, and when; None where no recovery goes on."""


class Witness:
    """Counts what happens in one world from now on, and tells what becomes of its pods."""

    def __init__(self, world: World, namespaces: Iterable[str], *, watched: bool = True) -> None:
        """Begins.

        Args:
            world: the world.
            namespaces: its shoots.
            watched: whether there is a watchdog; of a twin without one only the ends of recoveries are told.
        """
        self._world, self._clock, self._watched = world, world.clock, watched
        self.log: list[Seen] = []
        """All that was seen, in order."""
        self.total = Counter[What]()
        """All of it added up."""
        self._judged: dict[str, tuple[float, bool]] = {}
        self._planes: dict[str, _Plane] = {}
        self._audience: list[Callable[[str], None]] = []
        for namespace in namespaces:
            pods = world.store.list("Pod", namespace)
            whole = {pod["metadata"]["uid"] for pod in pods if ready(pod)}
            self._planes[namespace] = _Plane(len(pods), whole)
            changed = partial(self._node_changed, namespace)
            world.shoot(namespace).store.subscribe(changed)
        world.store.subscribe(self._seed_changed)

    def subscribe(self, audience: Callable[[str], None]) -> None:
        """`audience` hears of each thing when it happens, in words."""
        self._audience.append(audience)

    def note(self, namespace: str, what: What, amount: int = 1) -> None:
        """Counts something that happens now."""
        self.log.append(Seen(self._clock.now(), short(namespace), what, amount))
        self.total[what] += amount

    def waiting(self, namespace: str) -> int:
        """How many pods of a control plane wait in CrashLoopBackOff."""
        return len(self._planes[namespace].waiting)

    @property
    def all_waiting(self) -> int:
        """How many wait in all of them."""
        return sum(len(plane.waiting) for plane in self._planes.values())

    # Losses.

    def _node_changed(self, namespace: str, event: StoreEvent) -> None:
        if event.key.kind == "Node" and _became(event, lambda node: not ready(node)):
            self._lost(namespace, What.NODE)

    def _seed_changed(self, event: StoreEvent) -> None:
        namespace = event.key.namespace
        match event.key.kind:
            case "Machine" if _became(event, lambda it: machine_view(it).phase == "Terminating"):
                self._lost(namespace, What.MACHINE)
            case "Pod" if namespace in self._planes:
                self._pod_changed(namespace, self._planes[namespace], event)
            case "EndpointSlice" if namespace in self._planes:
                service = service_of(event.object).service
                if service in {ETCD_SERVICE, API_SERVER}:
                    self._service_changed(namespace, self._planes[namespace], service)
            case _:
                pass

    def _lost(self, namespace: str, what: What) -> None:
        now = self._clock.now()
        at, below = self._judged.get(namespace, (float("-inf"), False))
        if now - at >= _FRESH:
            # No outage could be known, according to the true renewals of the nodes.
            kubelets = self._world.shoot(namespace).fleet.kubelets
            since = now - _REMEMBERED
            below = known_at(kubelets, now=now, since=since) is None
            self._judged[namespace] = now, below
        self.note(namespace, What.BELOW if below else what)

    # Pods.

    def _pod_changed(self, namespace: str, plane: _Plane, event: StoreEvent) -> None:
        pod, uid = event.object, event.object["metadata"]["uid"]
        ends = event.happened is Happened.DELETED or terminating(pod)
        if ends and event.before is not None and not terminating(event.before):
            self._pod_deleted(namespace)
        waits = not ends and any(each.crash_loops for each in pod_view(pod).containers)
        (plane.waiting.add if waits else plane.waiting.discard)(uid)
        (plane.ready.add if not ends and ready(pod) else plane.ready.discard)(uid)
        self._perhaps_recovered(namespace, plane)

    def _pod_deleted(self, namespace: str) -> None:
        """A pod that waited counts, unless a person has deleted it; the seed has entered it a moment ago."""
        found = self._world.seed_pods.deletions[-1]
        if found.waiting and found.by != OPERATOR:
            self.note(namespace, What.RESTART)
            left = (
                "" if found.due is None else f", {_seconds(found.due - found.at)} before its start"
            )
            self._tell(f"{short(namespace)}: {found.pod.name} is deleted{left}")

    def _service_changed(self, namespace: str, plane: _Plane, service: str) -> None:
        served = self._world.served(namespace, service)
        if not served and service not in plane.lost:
            plane.lost.add(service)
            plane.first = None
        elif served and service in plane.lost:
            plane.lost.discard(service)
            plane.first = plane.first or (service, self._clock.now())
            waits = f"; {len(plane.waiting)} in CrashLoopBackOff" if plane.waiting else ""
            self._tell(f"{short(namespace)}: {service} is ready again{waits}")
            self._perhaps_recovered(namespace, plane)

    def _perhaps_recovered(self, namespace: str, plane: _Plane) -> None:
        if plane.first is None or len(plane.ready) < plane.pods:
            return
        (service, since), plane.first = plane.first, None
        after = self._clock.now() - since
        self.note(namespace, What.RECOVERY, round(after))
        told = f"{short(namespace)}: all {plane.pods} pods are ready, {_seconds(after)} after {service}"
        self._tell(told if self._watched else f"without the watchdog, {told} there", always=True)

    def _tell(self, text: str, *, always: bool = False) -> None:
        if self._watched or always:
            for audience in self._audience:
                audience(text)


def _became(event: StoreEvent, so: Callable[[Object], bool]) -> bool:
    """Returns whether a change made something true of an object."""
    if event.happened is not Happened.MODIFIED or event.before is None:
        return False
    return so(event.object) and not so(event.before)


def _seconds(duration: float) -> str:
    return format_duration(round(duration))
