"""An outage of etcd, as it runs through a control plane: etcd → kube-apiserver → all that needs that."""

from collections.abc import Callable

from app.simulation.builders import World
from app.simulation.stage import Fault
from app.simulation.store import StoreEvent
from app.simulation.workloads import API_SERVER, ETCD, ETCD_SERVICE, Workload, control_plane


def etcd_outage(world: World, shoot: str, *, restarts: int = 0) -> Fault:
    """The pods of etcd crash, until whoever repairs it restarts them.

    Args:
        world: where.
        shoot: a control-plane namespace that has its pods.
        restarts: how often all pods that now wait were started again before: 0 is the begin of the outage, with more
            of them it begins in its midst.

    Returns:
        What ends it; the API server of the shoot has its storage back when etcd serves, and the pods that wait for
        either are left to their kubelets.
    """
    broken = world.faults.workload_broken(shoot, ETCD)
    server = _ApiServer(world, shoot)
    if restarts:
        _go_into_its_midst(world, shoot, restarts)

    def undo() -> None:
        broken.lift()
        server.let_go_when_all_is_back()
        for pod in world.pods(shoot, ETCD):
            if not pod.terminating:
                world.delete_pod(shoot, pod.name)

    return Fault(undo)


def _go_into_its_midst(world: World, shoot: str, restarts: int) -> None:
    now = world.clock.now()
    crashing = [each for each in control_plane(shoot) if _crashes(each)]
    for number, each in enumerate(crashing):
        apart = number * each.times.crash_after / len(crashing)  # they do not crash in step
        world.crash_looped(shoot, each.name, restarts, exited=now - apart)


def _crashes(workload: Workload) -> bool:
    needing = workload.needs is not None and workload.crashes_when_lost
    return needing or workload.name == ETCD


class _ApiServer:
    """What its pods mean for the API server of a shoot: without etcd no storage, without its own pods no server."""

    def __init__(self, world: World, shoot: str) -> None:
        self._world, self._shoot = world, shoot
        self._missing: dict[str, Fault] = {}
        self._ends = False
        world.store.subscribe(self._heard)

    def let_go_when_all_is_back(self) -> None:
        """Nothing fails any more from here on."""
        self._ends = True

    def _heard(self, event: StoreEvent) -> None:
        if event.key.kind != "EndpointSlice" or event.key.namespace != self._shoot:
            return
        faults = self._world.faults
        self._follow(ETCD_SERVICE, lambda: faults.storage_away(self._shoot))
        self._follow(API_SERVER, lambda: faults.api_down(self._shoot))
        if self._ends and not self._missing:
            self._world.store.unsubscribe(self._heard)

    def _follow(self, service: str, begin: Callable[[], Fault]) -> None:
        served = self._world.served(self._shoot, service)
        if served and service in self._missing:
            self._missing.pop(service).lift()
        elif not served and service not in self._missing:
            self._missing[service] = begin()
