"""An outage of etcd as it spreads through a control plane: etcd → kube-apiserver → its dependants."""

from collections.abc import Callable

from app.simulation.builders import World
from app.simulation.stage import Fault
from app.simulation.store import StoreEvent
from app.simulation.workloads import API_SERVER, ETCD, ETCD_SERVICE, Workload, control_plane


def etcd_outage(world: World, shoot: str, *, restarts: int = 0) -> Fault:
    """Makes the pods of etcd crash; lifting the fault repairs etcd and restarts its pods.

    Args:
        world: the world.
        shoot: a control-plane namespace with the pods of a control plane.
        restarts: the previous restarts of all waiting pods: 0 is the begin of an outage; more begin in the middle of
            one.

    Returns:
        The fault.  After it is lifted, the shoot's API server has its storage back when etcd is ready; the pods that
        wait for either are left to their kubelets.
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
        apart = number * each.times.crash_after / len(crashing)  # real pods do not crash in step
        world.crash_looped(shoot, each.name, restarts, exited=now - apart)


def _crashes(workload: Workload) -> bool:
    needing = workload.needs is not None and workload.crashes_when_lost
    return needing or workload.name == ETCD


class _ApiServer:
    """Derives the state of a shoot's API server from its pods: without etcd no storage, without its own no server."""

    def __init__(self, world: World, shoot: str) -> None:
        self._world, self._shoot = world, shoot
        self._missing: dict[str, Fault] = {}
        self._ends = False
        world.store.subscribe(self._heard)

    def let_go_when_all_is_back(self) -> None:
        """Stops following the pods as soon as both services are ready again."""
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
