"""What becomes of the pods in the control planes of one simulated seed."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

from app.simulation.builders import World
from app.simulation.identities import OPERATOR
from app.simulation.scenarios.scenario import short
from app.simulation.seed_pods import service_of
from app.simulation.store import Happened, Object, StoreEvent
from app.simulation.views import pod_view, ready, terminating
from app.simulation.workloads import API_SERVER, ETCD_SERVICE, control_plane


class Count(NamedTuple):
    """The number of Ready pods of a workload from an instant on."""

    at: float
    ready: int


History = Sequence[Count]
"""All changes of the number of Ready pods, in order; the first is the initial number."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A pod in CrashLoopBackOff that the watchdog deleted."""

    shoot: str
    """The short name of the shoot."""
    pod: str
    workload: str
    at: float
    """When it was deleted."""
    since: float
    """When the service that the pod depends on became ready."""
    due: float | None
    """When its kubelet would have restarted it; None if unknown."""
    back: float | None = None
    """When its replacement became Ready."""
    ready: int = 0
    """The number of Ready pods of its workload then, including the replacement."""


@dataclass(frozen=True, slots=True)
class Saving:
    """The savings of all restarts so far."""

    restarts: int = 0
    seconds: float = 0.0
    """The sum over all replacements that are Ready, in seconds."""
    most: float = 0.0
    """The maximum for a single pod, in seconds."""

    def __bool__(self) -> bool:
        return self.restarts > 0


NOTHING_SAVED: Final = Saving()

Twin = Callable[[Restart], History]
"""Returns the history of the same workload in the world without a watchdog."""


def saving(restarts: Iterable[Restart], twin: Twin) -> Saving:
    """Adds up the savings of restarts."""
    chosen = tuple(restarts)
    each = [seconds for one in chosen if (seconds := saved(one, twin(one))) is not None]
    return Saving(len(chosen), sum(each), max(each, default=0.0))


def saved(restart: Restart, twin: History) -> float | None:
    """Returns by how many seconds a pod was Ready earlier; None if it is not Ready yet, or the gain is unknown.

    It counts against the twin: until as many pods of the workload are Ready there. Where that has not come yet, it is
    the instant at which the kubelet would have started the pod: it cannot have been Ready before.
    """
    if restart.back is None:
        return None
    otherwise = first_with(twin, restart.ready, restart.at)
    otherwise = restart.due if otherwise is None else otherwise
    return None if otherwise is None else otherwise - restart.back


def first_with(history: History, ready: int, since: float) -> float | None:
    """Returns the first instant from `since` on at which that many pods are Ready; None if it has not been reached."""
    for count, after in pairwise((*history, Count(inf, 0))):
        if count.ready >= ready and after.at > since:
            return max(count.at, since)
    return None


_NEEDS: Final = {each.name: each.needs for each in control_plane("")}


class ServiceBack(NamedTuple):
    """A service is ready again."""

    shoot: str
    service: str
    waiting: int
    """Pods of its control plane that wait in CrashLoopBackOff."""


class Deleted(NamedTuple):
    """The watchdog has deleted a pod."""

    restart: Restart


class Back(NamedTuple):
    """A pod that it had deleted is Ready again: the one in its place."""

    restart: Restart
    after: float
    """Seconds since the service that it needs was ready."""
    of: int
    """How many pods its workload has."""


class AllBack(NamedTuple):
    """All pods of a control plane are Ready again, after one of its services was away."""

    shoot: str
    pods: int
    service: str
    """The service that came back first."""
    after: float
    """Seconds since then."""


Happening = ServiceBack | Deleted | Back | AllBack


@dataclass(slots=True)
class _Place:
    """A pod that was deleted, and the one that is there in its place."""

    restart: Restart
    uid: str | None = None
    """None: it is empty."""


@dataclass(slots=True)
class _Plane:
    """The pods of one control plane."""

    shoot: str
    wanted: dict[str, int] = field(default_factory=dict)
    ready: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    histories: defaultdict[str, list[Count]] = field(default_factory=lambda: defaultdict(list))
    waiting: set[str] = field(default_factory=set)
    since: dict[str, float] = field(default_factory=dict)
    """When each service was last ready again; one that was never lost is not in it."""
    lost: set[str] = field(default_factory=set)
    first: tuple[str, float] | None = None
    """The service that came back first since one was lost, and when."""
    places: list[_Place] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether all pods are Ready."""
        return all(len(self.ready[name]) >= count for name, count in self.wanted.items())

    def vacate(self, uid: str) -> bool:
        """A pod ends; whether it was to take the place of another, and had not come so far."""
        for place in self.places:
            if place.uid == uid and place.restart.back is None:
                place.uid = None
                return True
        return False

    def fill(self, workload: str, uid: str) -> None:
        """A pod was made: it is there in the place of the first of its workload that is empty."""
        for place in self.places:
            if place.restart.workload == workload and place.uid is None:
                place.uid = uid
                return


class PodWitness:
    """Sees what happens to the pods of one world, from now on."""

    def __init__(self, world: World, namespaces: Iterable[str]) -> None:
        self._world, self._clock = world, world.clock
        self._planes = {namespace: self._plane(namespace) for namespace in namespaces}
        self._audience: list[Callable[[Happening], None]] = []
        world.store.subscribe(self._heard)

    def _plane(self, namespace: str) -> _Plane:
        plane, now = _Plane(short(namespace)), self._clock.now()
        for obj in self._world.store.list("Pod", namespace):
            name = _workload(obj)
            plane.wanted[name] = plane.wanted.get(name, 0) + 1
            if ready(obj):
                plane.ready[name].add(obj["metadata"]["uid"])
        for name in plane.wanted:
            plane.histories[name].append(Count(now, len(plane.ready[name])))
        return plane

    def subscribe(self, audience: Callable[[Happening], None]) -> None:
        """`audience` hears of each thing when it happens."""
        self._audience.append(audience)

    def waiting(self, namespace: str) -> int:
        """How many pods of a control plane wait in CrashLoopBackOff."""
        return len(self._planes[namespace].waiting)

    @property
    def all_waiting(self) -> int:
        """How many wait in all of them."""
        return sum(len(plane.waiting) for plane in self._planes.values())

    @property
    def restarts(self) -> Sequence[Restart]:
        """All pods that were deleted, in their order within each control plane."""
        return [place.restart for plane in self._planes.values() for place in plane.places]

    def history(self, namespace: str, workload: str) -> History:
        """How many pods of a workload were Ready, and from when on."""
        return self._planes[namespace].histories[workload]

    # What it hears of.

    def _heard(self, event: StoreEvent) -> None:
        plane = self._planes.get(event.key.namespace)
        if plane is None:
            return
        if event.key.kind == "Pod":
            self._pod_changed(plane, event)
        elif event.key.kind == "EndpointSlice":
            self._service_changed(plane, event.key.namespace, service_of(event.object).service)

    def _service_changed(self, plane: _Plane, namespace: str, service: str) -> None:
        if service not in {ETCD_SERVICE, API_SERVER}:
            return
        served, now = self._world.served(namespace, service), self._clock.now()
        if not served and service not in plane.lost:
            plane.lost.add(service)
            plane.first = None
        elif served and service in plane.lost:
            plane.lost.discard(service)
            plane.since[service] = now
            plane.first = plane.first or (service, now)
            self._tell(ServiceBack(plane.shoot, service, len(plane.waiting)))
            self._tell_when_whole(plane)

    def _pod_changed(self, plane: _Plane, event: StoreEvent) -> None:
        pod, name, uid = event.object, _workload(event.object), event.object["metadata"]["uid"]
        ends = event.happened is Happened.DELETED or terminating(pod)
        if ends and event.before is not None and not terminating(event.before):
            self._ended(plane, uid)
        elif event.happened is Happened.ADDED:
            plane.fill(name, uid)
        waits = not ends and any(each.crash_loops for each in pod_view(pod).containers)
        (plane.waiting.add if waits else plane.waiting.discard)(uid)
        works = not ends and ready(pod)
        if works is not (uid in plane.ready[name]):
            self._readiness_changed(plane, name, uid, ready=works)

    def _ended(self, plane: _Plane, uid: str) -> None:
        """Somebody deleted a pod: it counts where it waited and that was the watchdog; in its place, once only."""
        again = plane.vacate(uid)
        found = next(
            (each for each in reversed(self._world.pod_deletions) if each.uid == uid), None
        )
        if found is None or not found.waiting or found.by == OPERATOR:
            return
        workload = found.pod.labels.get("app", "")
        since = plane.since.get(_NEEDS.get(workload) or "", found.at)
        restart = Restart(plane.shoot, found.pod.name, workload, found.at, since, found.due)
        if not again:
            plane.places.append(_Place(restart))
        self._tell(Deleted(restart))

    def _readiness_changed(self, plane: _Plane, name: str, uid: str, *, ready: bool) -> None:
        now, pods = self._clock.now(), plane.ready[name]
        (pods.add if ready else pods.discard)(uid)
        plane.histories[name].append(Count(now, len(pods)))
        if not ready:
            return
        place = next((each for each in plane.places if each.uid == uid), None)
        if place is not None and place.restart.back is None:
            place.restart = replace(place.restart, back=now, ready=len(pods))
            after = now - place.restart.since
            self._tell(Back(place.restart, after, plane.wanted.get(name, 1)))
        self._tell_when_whole(plane)

    def _tell_when_whole(self, plane: _Plane) -> None:
        if plane.first is None or not plane.whole:
            return
        (service, since), plane.first = plane.first, None
        after = self._clock.now() - since
        self._tell(AllBack(plane.shoot, sum(plane.wanted.values()), service, after))

    def _tell(self, happening: Happening) -> None:
        for audience in self._audience:
            audience(happening)


def _workload(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("app", ""))
