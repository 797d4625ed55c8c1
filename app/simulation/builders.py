"""Worlds for tests and for the demo: a seed and its shoots, with their kubelets and controllers.

world = World(clock, tasks, seed=1)
world.add_shoot("shoot--local--a", nodes=10)
with world.faults.path_cut("shoot--local--a"):
    await clock.sleep(60)
assert world.not_ready_nodes("shoot--local--a")
"""

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from app.core.clock import Clock
from app.core.model.instants import parse_duration
from app.core.model.shoots import Route
from app.core.model.workloads import ResourceRef
from app.core.tasks import Tasks
from app.simulation import manifests
from app.simulation.actors import (
    ControlPlane,
    KubeControllerManager,
    MachineControllerManager,
)
from app.simulation.crds import DEFINITIONS
from app.simulation.faults import Faults
from app.simulation.handlers import SimulatedHandlers
from app.simulation.identities import OPERATOR, SimulatedIdentities
from app.simulation.memory import MemoryPlace
from app.simulation.network import SeedNetwork, ServerPlace
from app.simulation.parts import Kubeconfigs, People, WorldParts
from app.simulation.seed_pods import SeedPods
from app.simulation.shoot import ShootServer
from app.simulation.store import Object, ObjectKey, Store
from app.simulation.traffic import ApiServer, Host, Journal, RequestCount
from app.simulation.truth import WorldTruth, reference
from app.simulation.workloads import (
    DeploymentController,
    PodPace,
    Workload,
    control_plane,
)

if TYPE_CHECKING:
    import asyncio

    from app.core.ports import Permission

ZONES: Final = ("zone-a", "zone-b", "zone-c")
CONTROLLERS: Final[Mapping[str | ResourceRef, int]] = MappingProxyType(
    {"kube-controller-manager": 1, "machine-controller-manager": 1, "cluster-autoscaler": 1}
)
# How many changes of each kind the seed's store remembers; a real API server remembers several minutes.
_SEED_LOG: Final = 20_000


class World(WorldTruth):
    """A simulated seed with its shoots.

    `server.MemoryServers` and `server.SimulatedServers` are its API servers. `faults` breaks things; the inherited
    methods return the true state.
    """

    def __init__(
        self,
        clock: Clock,
        tasks: Tasks,
        *,
        seed: int = 0,
        latency: float = 0.02,
        pace: PodPace | None = None,
        secret_name: str = manifests.SECRET_NAME,
        external_secret_name: str | None = None,
        place: ServerPlace | None = None,
    ) -> None:
        """Creates a seed without shoots and starts its actors; needs a running event loop.

        Args:
            clock: the time line of the world.
            tasks: runs the tasks of all actors; its creator stops it.
            seed: the random seed; worlds with the same one behave the same if the same happens to them.
            latency: the duration of one request, in seconds, both ways together.
            pace: how long pods in the seed take to start and stop.
            secret_name: `kubeConfigSecretName`, or `internalKubeConfigSecretName`.
            external_secret_name: `externalKubeConfigSecretName`; None for lease mode.
            place: where its API servers listen; None: in memory.
        """
        self.requests = RequestCount()
        self.denied: set[Permission] = set()
        """What the watchdog may not do in the seed, whatever its roles say."""
        self.tasks = tasks
        """Those of the world's actors."""
        self._seed = seed
        self._latency = latency
        self._controllers: dict[str, list[asyncio.Task[None]]] = {}
        """Those of each shoot that run."""
        store, journal = Store(history=_SEED_LOG), Journal()
        for each in DEFINITIONS:
            store.define(each)
        parts = WorldParts(
            clock=clock,
            store=store,
            api=self._api(clock, Host.SEED, "seed"),
            deployments=DeploymentController(clock, store, journal, pace or PodPace()),
            journal=journal,
            secret_names={Route.INTERNAL: secret_name},
            pods=SeedPods(clock, store, self._rng("pods")),
            place=place or MemoryPlace(),
        )
        if external_secret_name is not None:
            parts.secret_names = {**parts.secret_names, Route.EXTERNAL: external_secret_name}
        super().__init__(parts)
        self.people = People(self.parts)
        self.identities = SimulatedIdentities()
        self.handlers = SimulatedHandlers(self.parts)
        self.faults = Faults(self.parts, self._rng("faults"))
        _ = tasks.shared(self.parts.deployments.run, "simulated deployment controller")
        _ = tasks.shared(self.parts.pods.run, "simulated pods")

    def _api(
        self, clock: Clock, host: Host, name: str, network: SeedNetwork | None = None
    ) -> ApiServer:
        return ApiServer(host, clock, self._rng(name), self.requests, self._latency, network)

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"{self._seed}/{name}")  # noqa: S311  worlds, not secrets

    def add_shoot(
        self,
        namespace: str,
        *,
        nodes: int = 10,
        unmanaged: int = 0,
        grace: str | None = None,
        lease_duration: int = 40,
        replicas: Mapping[str | ResourceRef, int] = CONTROLLERS,
        since: float | None = None,
        health_timeout: float = 600.0,
    ) -> ShootServer:
        """Adds a shoot that has been healthy for a long time.

        Args:
            namespace: its control-plane namespace, which is also the name of its Cluster.
            nodes: the number of nodes, named `node-0` and so on, distributed over three zones.
            unmanaged: how many of them, counted from the first, machine-controller-manager does not manage.
            grace: its nodeMonitorGracePeriod as a Go duration; None leaves it unset, which means 40s.
            lease_duration: `leaseDurationSeconds` of its kubelets, which renew after a quarter of it.
            replicas: its dependents; a plain name means a Deployment.
            since: when it was last reconciled; None for an hour ago.
            health_timeout: seconds after which machine-controller-manager replaces a node that is not Ready.

        Returns:
            Its API server, with its nodes.
        """
        now, parts = self.clock.now(), self.parts
        since = now - 3600 if since is None else since
        shoot = parts.shoots[namespace] = ShootServer(
            namespace,
            self.clock,
            self._api(self.clock, Host.SHOOT, namespace, parts.network),
            self._rng(f"{namespace}/kubelets"),
            place=parts.place,
            routes=parts.secret_names,
            lease_duration=lease_duration,
        )
        shoot.accept(f"{namespace}-1")
        for route in parts.secret_names:
            Kubeconfigs(parts).create(namespace, route)
        cluster = manifests.cluster(namespace, since, grace=grace)
        self.store.create(ObjectKey("Cluster", "", namespace), manifests.born(cluster, since))
        rng = self._rng(f"{namespace}/nodes")
        for number in range(nodes):
            name, zone = f"node-{number}", ZONES[number % len(ZONES)]
            shoot.add_node(name, zone, phase=rng.random(), managed=number >= unmanaged)
            machine = ObjectKey("Machine", namespace, f"machine-{number}")
            self._create(machine, manifests.machine(name, "Running", now))
        for which, count in replicas.items():
            self.add_dependent(namespace, which, count)
        self._start_controllers(
            shoot, 40.0 if grace is None else parse_duration(grace), health_timeout
        )
        return shoot

    def _start_controllers(self, shoot: ShootServer, grace: float, health_timeout: float) -> None:
        """Starts those that do damage in an outage, as if they had run for long."""
        name, plane = shoot.namespace, ControlPlane(self.clock, self.store, shoot, self.journal)
        kcm = KubeControllerManager(plane, self._rng(f"{name}/kcm"), grace=grace)
        rng = self._rng(f"{name}/mcm")
        mcm = MachineControllerManager(plane, rng, health_timeout=health_timeout)
        kcm.settle(self.clock.now())
        self._controllers[name] = [
            self.tasks.shared(kcm.run, f"simulated kcm of {name}"),
            self.tasks.shared(mcm.run, f"simulated mcm of {name}"),
        ]

    def remove_shoot(self, namespace: str) -> None:
        """Removes a shoot with its Cluster, its servers and its whole control plane; no fault of it may be left."""
        for controller in self._controllers.pop(namespace):
            controller.cancel()
        self.parts.pods.remove(namespace)
        for kind in ("Cluster", "Namespace"):
            key = ObjectKey(kind, "", namespace)
            if self.store.find(key) is not None:
                self.store.delete(key)
        self.parts.shoots.pop(namespace).api.close()
        self.parts.place.forget(namespace)

    def add_dependent(self, namespace: str, which: str | ResourceRef, replicas: int) -> None:
        """Adds a dependent all of whose pods are ready; a plain name means a Deployment."""
        ref = reference(which)
        self._create(ObjectKey(ref.kind, namespace, ref.name), manifests.workload(ref, replicas))

    def _create(self, key: ObjectKey, body: Object) -> None:
        self.store.create(key, manifests.born(body, self.clock.now()))

    def add_workload(self, workload: Workload, *, since: float | None = None) -> None:
        """Adds a workload: an owner, its pods, all Ready since an instant, and its service.

        Args:
            workload: describes the pods.
            since: when the pods became Ready; None for an hour ago.
        """
        self.parts.pods.add(workload, since=since)

    def add_control_plane(
        self,
        namespace: str,
        **what: Any,  # noqa: ANN401 - arguments of `control_plane`
    ) -> None:
        """Adds the pods of a control plane, all Ready for an hour, as `control_plane` describes them.

        A shoot need not exist in the namespace.
        """
        for workload in control_plane(namespace, **what):
            self.add_workload(workload)

    def add_lease(self, namespace: str, name: str, renewed: float | None) -> None:
        """Adds a Lease without a node, as a deleted node leaves behind."""
        shoot = self.shoot(namespace)
        key = ObjectKey("Lease", manifests.LEASES, name)
        shoot.store.create(key, manifests.lease(renewed, shoot.lease_duration))

    # Writes of others than the watchdog.

    def patch(self, namespace: str, which: str | ResourceRef, patch: Mapping[str, Any]) -> None:
        """Patches a dependent as the operator."""
        ref = reference(which)
        self.parts.write(ObjectKey(ref.kind, namespace, ref.name), patch, OPERATOR)

    def delete(self, namespace: str, which: str | ResourceRef) -> None:
        """Deletes a dependent as the operator."""
        ref = reference(which)
        self.store.delete(ObjectKey(ref.kind, namespace, ref.name))

    def patch_cluster(self, namespace: str, patch: Mapping[str, Any]) -> None:
        """Patches the Shoot embedded in the Cluster."""
        self.parts.write(ObjectKey("Cluster", "", namespace), {"spec": {"shoot": patch}}, OPERATOR)

    def patch_node(self, namespace: str, node: str, patch: Mapping[str, Any]) -> None:
        """Patches the status of a Node if `patch` has one, otherwise its metadata."""
        shoot = self.shoot(namespace)
        shoot.advance()
        shoot.store.patch(ObjectKey("Node", "", node), patch, status="status" in patch)

    def machine_phase(self, namespace: str, machine: str, phase: str) -> None:
        """Sets the phase of a Machine."""
        patch = {"status": manifests.machine_phase(phase, self.clock.now())}
        self.parts.write(ObjectKey("Machine", namespace, machine), patch, OPERATOR, status=True)

    def delete_machine(self, namespace: str, machine: str) -> None:
        """Deletes a Machine but not its node."""
        self.store.delete(ObjectKey("Machine", namespace, machine))
