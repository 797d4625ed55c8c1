"""The controllers of a shoot's control plane that do damage in an outage.

kube-controller-manager marks nodes NotReady; machine-controller-manager then deletes their machines. Both act only
while a pod of their Deployment is ready, which is how scaling them down protects a shoot.
"""

import random
from dataclasses import dataclass
from typing import Final

from app.core.clock import Clock
from app.core.model.instants import parse_rfc3339
from app.simulation import manifests
from app.simulation.shoot import ShootServer
from app.simulation.store import Object, ObjectKey, Store
from app.simulation.traffic import Journal
from app.simulation.views import machine_view, ready

KCM: Final = "kube-controller-manager"
MCM: Final = "machine-controller-manager"

# Seconds after which a component that cannot renew its own election Lease restarts.
_LOST_LEADERSHIP: Final = 10.0
# Seconds between checks of kube-controller-manager, and of machine-controller-manager.
_MONITORS: Final = 5.0
_RECONCILES: Final = 10.0
# Seconds that draining a node takes, and a new machine until it has its node.
_DRAIN: Final = 60.0
_CREATION: Final = 180.0


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The environment that the controllers of one shoot share."""

    clock: Clock
    seed: Store
    shoot: ShootServer
    journal: Journal

    @property
    def namespace(self) -> str:
        """The control-plane namespace."""
        return self.shoot.namespace

    def runs(self, name: str) -> bool:
        """Returns whether a Deployment has a ready pod."""
        found = self.seed.find(ObjectKey("Deployment", self.namespace, name))
        return found is not None and found.get("status", {}).get("readyReplicas", 0) > 0

    def wrote(self, obj: Object, patch: Object, by: str, verb: str = "patch") -> None:
        """Records a write in the journal."""
        self.journal.enter(self.clock.now(), obj, patch, by, verb, self.namespace)


@dataclass(frozen=True, slots=True)
class _Seen:
    renewed: float
    """The latest renewTime seen, on the node's clock."""
    at: float
    """When it was first seen, on the controller's clock."""


class KubeControllerManager:
    """Marks a node NotReady if its Lease has not been renewed for `grace`; checks every 5 s while its pod is ready.

    As in the real one, a Lease counts as renewed if its renewTime is later than the last one seen, whatever the clocks
    say, and after a start each node gets a full grace period.
    """

    def __init__(self, plane: ControlPlane, rng: random.Random, *, grace: float) -> None:
        self._plane = plane
        self._rng = rng
        self._grace = grace
        self._seen: dict[str, _Seen] = {}
        self._away_since: float | None = None

    def settle(self, now: float) -> None:
        """Initializes the controller as if it had been running and had seen each renewal within one period."""
        for lease in self._plane.shoot.leases():
            renewed = now if lease.renew_time is None else lease.renew_time
            seen = min(now, renewed + self._rng.random() * _MONITORS)
            self._seen[lease.name] = _Seen(renewed, seen)

    async def run(self) -> None:
        """Checks periodically, until cancelled."""
        await self._plane.clock.sleep(self._rng.random() * _MONITORS)
        while True:
            self.monitor(self._plane.clock.now())
            await self._plane.clock.sleep(_MONITORS)

    def monitor(self, now: float) -> None:
        """Checks all nodes once."""
        if not self._able(now):
            return
        leases = {lease.name: lease.renew_time or 0.0 for lease in self._plane.shoot.leases()}
        nodes = self._plane.shoot.store.list("Node")
        names = [node["metadata"]["name"] for node in nodes]
        self._seen = {name: self._observe(name, leases[name], now) for name in names}
        for node in nodes:
            overdue = now - self._seen[node["metadata"]["name"]].at > self._grace
            if overdue and ready(node):
                patch = self._plane.shoot.mark_not_ready(node["metadata"]["name"])
                self._plane.wrote(node, patch, KCM)

    def _able(self, now: float) -> bool:
        if not self._plane.runs(KCM):
            self._seen.clear()
            return False
        if self._plane.shoot.api.writable:
            self._away_since = None
            return True
        self._away_since = now if self._away_since is None else self._away_since
        if now - self._away_since >= _LOST_LEADERSHIP:
            self._seen.clear()
        return False

    def _observe(self, name: str, renewed: float, now: float) -> _Seen:
        before = self._seen.get(name)
        if before is None or before.renewed < renewed:
            return _Seen(renewed, now)
        return before


class MachineControllerManager:
    """Replaces the machine of a node that has not been Ready for `health_timeout` seconds.

    It acts while its pod is ready and the shoot's API server works.
    """

    def __init__(self, plane: ControlPlane, rng: random.Random, *, health_timeout: float) -> None:
        self._plane = plane
        self._rng = rng
        self._health_timeout = health_timeout
        self._made = 0

    async def run(self) -> None:
        """Checks periodically, until cancelled."""
        await self._plane.clock.sleep(self._rng.random() * _RECONCILES)
        while True:
            self.reconcile(self._plane.clock.now())
            await self._plane.clock.sleep(_RECONCILES)

    def reconcile(self, now: float) -> None:
        """Checks all Machines once."""
        if not self._plane.runs(MCM) or not self._plane.shoot.api.writable:
            return
        self._plane.shoot.advance()
        for machine in self._plane.seed.list("Machine", self._plane.namespace):
            self._reconcile(machine, now)

    def _reconcile(self, machine: Object, now: float) -> None:
        since = parse_rfc3339(machine["status"]["currentStatus"]["lastUpdateTime"])
        been = now - (now if since is None else since)
        match machine_view(machine).phase:
            case "Running" if not self._node_ready(machine):
                self._turn(machine, "Unknown", now)
            case "Unknown" if self._node_ready(machine):
                self._turn(machine, "Running", now)
            case "Unknown" if been >= self._health_timeout:
                self._replace(machine, now)
            case "Terminating" if been >= _DRAIN:
                self._remove(machine)
            case "Pending" if been >= _CREATION:
                self._join(machine, now)
            case _:
                pass  # nothing is due yet

    def _node(self, machine: Object) -> Object | None:
        return self._plane.shoot.store.find(
            ObjectKey("Node", "", machine["metadata"]["labels"]["node"])
        )

    def _node_ready(self, machine: Object) -> bool:
        node = self._node(machine)
        return node is not None and ready(node)

    def _turn(self, machine: Object, phase: str, now: float) -> None:
        patch = {"status": manifests.machine_phase(phase, now)}
        self._plane.seed.patch(self._key(machine["metadata"]["name"]), patch, status=True)
        self._plane.wrote(machine, patch, MCM)

    def _replace(self, machine: Object, now: float) -> None:
        self._turn(machine, "Terminating", now)
        self._made += 1
        name = f"{self._plane.namespace}-replacement-{self._made}"
        body = manifests.machine(name, "Pending", now)
        self._plane.wrote(self._plane.seed.create(self._key(name), body), {}, MCM, "create")

    def _remove(self, machine: Object) -> None:
        self._plane.seed.delete(self._key(machine["metadata"]["name"]))
        if self._node(machine) is not None:
            self._plane.shoot.remove_node(machine["metadata"]["labels"]["node"])
        self._plane.wrote(machine, {}, MCM, "delete")

    def _join(self, machine: Object, now: float) -> None:
        name = machine["metadata"]["labels"]["node"]
        self._plane.shoot.add_node(name, "zone-a", phase=0.0)
        self._turn(machine, "Running", now)

    def _key(self, name: str) -> ObjectKey:
        return ObjectKey("Machine", self._plane.namespace, name)
