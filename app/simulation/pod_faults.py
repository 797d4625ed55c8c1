"""What can happen to the pods of the seed, to its services, and to the watches of them."""

from enum import StrEnum

from app.core.model.weeding import ServiceKey
from app.simulation.stage import Fault, Stage
from app.simulation.traffic import Trouble


class PodWatched(StrEnum):
    """What the weeder watches: the kinds."""

    SLICES = "EndpointSlice"
    PODS = "Pod"

    @property
    def plural(self) -> str:
        """As requests name it."""
        return f"{self.value.lower()}s"


class PodFaults:
    """What can happen to pods, services and their watches."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def workload_broken(self, namespace: str, name: str) -> Fault:
        """The containers of a workload crash, again and again; from the end on the next start is a good one."""
        kubelet, key = self._stage.pods.kubelet, (namespace, name)
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
        """The readiness probes of the pods behind a service fail and succeed in turn, `every` so many seconds."""
        timers, flaps, fails = self._stage.pods.timers, True, False

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
        kubelet = self._stage.pods.kubelet
        for workload in self._stage.pods.behind[ServiceKey(namespace, service)]:
            (kubelet.unready.add if fail else kubelet.unready.discard)(workload.key)
            kubelet.probe(workload.key)

    def slices_gone(self, namespace: str, service: str) -> Fault:
        """The slices of a service are deleted, and nobody writes them anew."""
        endpoints, key = self._stage.pods.endpoints, ServiceKey(namespace, service)
        endpoints.away.add(key)
        endpoints.sync(key)

        def undo() -> None:
            endpoints.away.discard(key)
            endpoints.sync(key)

        return Fault(undo)

    def readiness_untold(self, namespace: str, service: str) -> Fault:
        """The endpoints of a service have no `conditions.ready`, which counts as true."""
        endpoints, key = self._stage.pods.endpoints, ServiceKey(namespace, service)
        endpoints.untold.add(key)
        endpoints.sync(key)

        def undo() -> None:
            endpoints.untold.discard(key)
            endpoints.sync(key)

        return Fault(undo)

    def pod_watch_stalled(self, what: PodWatched) -> Fault:
        """Watches of this deliver nothing more, and do not break."""
        self._stage.watches.stall(what.value)
        return Fault(lambda: self._stage.watches.go_on(what.value))

    def pod_watch_mute(self, what: PodWatched) -> Fault:
        """Watches of this open and pass nothing on, while requests get through."""
        self._stage.watches.mute(what.value)
        return Fault(lambda: self._stage.watches.go_on(what.value))

    def pod_watch_cut(self, what: PodWatched, *, expired: bool = False) -> Fault:
        """Watches of this break, and new ones are refused.

        Args:
            what: which.
            expired: whether the server has forgotten in the end what happened meanwhile.
        """
        verbs = frozenset({"list", "watch"})
        trouble = Trouble(refused=True, verbs=verbs, what=frozenset({what.plural}))
        self._stage.api.begin(trouble)
        self._stage.watches.cut(what.value)

        def undo() -> None:
            if expired:
                self._stage.store.compact(what.value)
            self._stage.api.end(trouble)

        return Fault(undo)

    def pods_forbidden(self, *verbs: str) -> Fault:
        """403 for requests for pods: with these verbs, or with any."""
        trouble = Trouble(forbidden=True, verbs=frozenset(verbs), what=frozenset({"pods"}))
        self._stage.api.begin(trouble)
        return Fault(lambda: self._stage.api.end(trouble))
