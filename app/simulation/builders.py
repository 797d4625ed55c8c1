"""Worlds for tests and for the demo: a seed and its shoots, with their kubelets and controllers.

world = World(clock, tasks, seed=1)
world.add_shoot("shoot--local--a", nodes=10)
with world.faults.path_cut("shoot--local--a"):
    await clock.sleep(60)
assert world.not_ready_nodes("shoot--local--a")
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from app.core.clock import Clock
from app.core.errors import NotFound
from app.core.model.instants import parse_duration
from app.core.model.shoots import DEFAULT_NODE_CONDITIONS, MachineView, Route
from app.core.model.weeding import PodView, ServiceKey, SliceView
from app.core.model.workloads import ResourceRef, WorkloadView
from app.core.tasks import Tasks
from app.simulation import manifests
from app.simulation.actors import (
    MCM,
    ControlPlane,
    KubeControllerManager,
    MachineControllerManager,
)
from app.simulation.crds import DEFINITIONS
from app.simulation.faults import Faults
from app.simulation.handlers import Manner, SimulatedHandlers
from app.simulation.identities import GARDENLET, OPERATOR, SimulatedIdentities
from app.simulation.memory import MemoryPlace
from app.simulation.network import SeedNetwork, ServerPlace
from app.simulation.pod_kubelet import BecameReady
from app.simulation.seed_pods import SeedPods
from app.simulation.shoot import Kubelet, ShootServer
from app.simulation.store import Object, ObjectKey, Store
from app.simulation.timers import Timers
from app.simulation.traffic import ApiServer, Journal, OpenWatches, RequestCount
from app.simulation.views import (
    machine_view,
    pod_view,
    ready,
    size_field,
    slice_view,
    workload_view,
)
from app.simulation.workloads import (
    DeploymentController,
    PodPace,
    Workload,
    control_plane,
)

if TYPE_CHECKING:
    import asyncio

    from app.core.errors import ClusterError

ZONES: Final = ("zone-a", "zone-b", "zone-c")
CONTROLLERS: Final[Mapping[str | ResourceRef, int]] = MappingProxyType(
    {"kube-controller-manager": 1, "machine-controller-manager": 1, "cluster-autoscaler": 1}
)
# How many changes of each kind the seed's store remembers; a real API server remembers several minutes.
_SEED_LOG: Final = 20_000
LIMIT: Final = 0.6
"""`nodeLeaseFailureFraction` of the shipped prober file."""
EXPIRY: Final = 30.0
"""Seconds after which a Lease has expired, with the grace period of the shipped prober file."""


# When an outage can be known at the earliest: only a simulation knows when each kubelet really renewed.


def known_at(
    kubelets: Sequence[Kubelet], *, now: float, since: float, limit: float = LIMIT
) -> float | None:
    """Returns the first instant at which the share `limit` of the true ages has reached `EXPIRY` (rules 3.1).

    Args:
        kubelets: those of the candidate nodes.
        now: the current instant.
        since: the start of the search; an outage that can be known before it counts from there.
        limit: a share above 0.

    Returns:
        The instant; None if it has not been reached.
    """
    needed = max(math.ceil(limit * len(kubelets) - 1e-9), 1)
    old = 0
    for instant, change in sorted(_changes(kubelets, since)):
        if instant > now:
            return None
        old += change
        if old >= needed:
            return instant
    return None


def _changes(kubelets: Iterable[Kubelet], since: float) -> Iterator[tuple[float, int]]:
    for kubelet in kubelets:
        for begin, end in kubelet.gaps:
            if end - begin >= EXPIRY and end > since:
                yield max(begin + EXPIRY, since), 1
                yield end, -1
        yield max(kubelet.last + EXPIRY, since), 1


def reference(which: str | ResourceRef) -> ResourceRef:
    """Returns the reference; a plain name means a Deployment."""
    return ResourceRef("apps/v1", "Deployment", which) if isinstance(which, str) else which


class People:
    """People who write immediately and unaffected by faults; `by` names them in the journal."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def create(
        self, kind: str, namespace: str, name: str, *, by: str = OPERATOR, **spec: object
    ) -> Object:
        """Creates an object.

        Raises:
            NotFound: the kind is not served.
            Conflict: there is one of this name.
            Rejected: `spec` is wrong.
        """
        known = self._world.store.definitions.get(kind)
        if known is None:
            raise NotFound(f"the server doesn't have a resource type {kind}", status=404)
        key, body = ObjectKey(kind, namespace, name), {"spec": spec}
        whole = {"apiVersion": known.api_version, **body}
        made = self._world.store.create(key, manifests.born(whole, self._world.clock.now()))
        self._enter(made, body, by, "create")
        return made

    def edit(
        self, kind: str, namespace: str, name: str, *, by: str = OPERATOR, **spec: object
    ) -> None:
        """Changes some fields of the spec; None removes one.

        Raises:
            NotFound: there is no such object.
            Rejected: what would come of it is wrong.
        """
        self._world.write(ObjectKey(kind, namespace, name), {"spec": spec}, by)

    def delete(self, kind: str, namespace: str, name: str, *, by: str = OPERATOR) -> None:
        """Deletes an object.

        Raises:
            NotFound: there is no such object.
        """
        gone = self._world.store.delete(ObjectKey(kind, namespace, name))
        self._enter(gone, {}, by, "delete")

    def _enter(self, obj: Object, body: Mapping[str, Any], by: str, verb: str) -> None:
        self._world.journal.enter(self._world.clock.now(), obj, body, by, verb)


class World:
    """A simulated seed with its shoots: how it is built, what others than the watchdog do in it, and its true state.

    `server.MemoryServers` and `server.SimulatedServers` are its API servers; `faults` breaks things.
    """

    def __init__(
        self,
        clock: Clock,
        tasks: Tasks,
        *,
        seed: int = 0,
        latency: float = 0.02,
        pace: PodPace | None = None,
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
            external_secret_name: `externalKubeConfigSecretName`; None for lease mode.
            place: where its API servers listen; None: in memory.
        """
        self.requests = RequestCount()
        self.tasks = tasks
        """Those of the world's actors."""
        self._seed = seed
        self._latency = latency
        self._controllers: dict[str, list[asyncio.Task[None]]] = {}
        """Those of each shoot that run."""
        self.clock, self.store, self.journal = clock, Store(history=_SEED_LOG), Journal()
        """The time line, the objects of the seed, and all accepted writes."""
        for each in DEFINITIONS:
            self.store.define(each)
        self.api = self._api("seed")
        """The seed's own API server."""
        self.timers = Timers(clock)
        self.deployments = DeploymentController(
            self.store, self.timers, self.journal, pace or PodPace()
        )
        self.seed_pods = SeedPods(self.store, self.timers, self._rng("pods"))
        self.place = place or MemoryPlace()
        self.secret_names = {Route.INTERNAL: manifests.SECRET_NAME}
        """The name of the kubeconfig Secret for each route in use; endpoint mode has two."""
        if external_secret_name is not None:
            self.secret_names[Route.EXTERNAL] = external_secret_name
        self.watches = OpenWatches()
        self.network = SeedNetwork()
        """The network that probes of hosts pass."""
        self.manners = defaultdict[tuple[str, str], list[Manner]](list)
        """How targets, hosts or pods by name, answer endpoint probes of a namespace, or of all (""), under faults;
        the latest applies."""
        self.shoots: dict[str, ShootServer] = {}
        self.unavailable: dict[ResourceRef, ClusterError] = {}
        """Dependents that the seed does not serve or does not let clients list, with the error that requests get."""
        self.people = People(self)
        self.identities = SimulatedIdentities()
        self.handlers = SimulatedHandlers(self)
        self.faults = Faults(self, self._rng("faults"))
        _ = tasks.shared(self.timers.run, "simulated controllers")

    def _api(self, name: str) -> ApiServer:
        return ApiServer(self.clock, self._rng(name), self.requests, self._latency)

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
        health_timeout: float = 600.0,
        zones: Sequence[str] = ZONES,
    ) -> ShootServer:
        """Adds a shoot that has been healthy for a long time.

        Args:
            namespace: its control-plane namespace, which is also the name of its Cluster.
            nodes: the number of nodes, named `node-0` and so on.
            unmanaged: how many of them, counted from the first, machine-controller-manager does not manage.
            grace: its nodeMonitorGracePeriod as a Go duration; None leaves it unset, which means 40s.
            lease_duration: `leaseDurationSeconds` of its kubelets, which renew after a quarter of it.
            replicas: its dependents; a plain name means a Deployment.
            health_timeout: seconds after which machine-controller-manager replaces a node that is not Ready.
            zones: where the nodes are, in turn.

        Returns:
            Its API server, with its nodes.
        """
        now = self.clock.now()
        since = now - 3600
        shoot = self.shoots[namespace] = ShootServer(
            namespace,
            self.clock,
            self._api(namespace),
            self._rng(f"{namespace}/kubelets"),
            place=self.place,
            routes=self.secret_names,
            lease_duration=lease_duration,
        )
        shoot.accept(f"{namespace}-1")
        for route in self.secret_names:
            self.write_kubeconfig(namespace, route)
        cluster = manifests.cluster(namespace, since, grace=grace)
        self.store.create(ObjectKey("Cluster", "", namespace), manifests.born(cluster, since))
        rng = self._rng(f"{namespace}/nodes")
        for number in range(nodes):
            name, zone = f"node-{number}", zones[number % len(zones)]
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
        self.seed_pods.remove(namespace)
        for kind in ("Cluster", "Namespace"):
            key = ObjectKey(kind, "", namespace)
            if self.store.find(key) is not None:
                self.store.delete(key)
        del self.shoots[namespace]
        self.place.forget(namespace)

    def add_dependent(self, namespace: str, which: str | ResourceRef, replicas: int) -> None:
        """Adds a dependent all of whose pods are ready; a plain name means a Deployment."""
        ref = reference(which)
        self._create(ObjectKey(ref.kind, namespace, ref.name), manifests.workload(ref, replicas))

    def _create(self, key: ObjectKey, body: Object) -> None:
        self.store.create(key, manifests.born(body, self.clock.now()))

    def add_workload(self, workload: Workload) -> None:
        """Adds a workload: an owner, its pods, all Ready for an hour, and its service."""
        self.seed_pods.add(workload)

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
        shoot.store.create(key, manifests.lease(renewed, shoot.lease_duration, name))

    # Writes of others than the watchdog.

    def patch(self, namespace: str, which: str | ResourceRef, patch: Mapping[str, Any]) -> None:
        """Patches a dependent as the operator."""
        ref = reference(which)
        self.write(ObjectKey(ref.kind, namespace, ref.name), patch, OPERATOR)

    def delete(self, namespace: str, which: str | ResourceRef) -> None:
        """Deletes a dependent as the operator."""
        ref = reference(which)
        self.store.delete(ObjectKey(ref.kind, namespace, ref.name))

    def patch_cluster(self, namespace: str, patch: Mapping[str, Any]) -> None:
        """Patches the Shoot embedded in the Cluster."""
        self.write(ObjectKey("Cluster", "", namespace), {"spec": {"shoot": patch}}, OPERATOR)

    def patch_node(self, namespace: str, node: str, patch: Mapping[str, Any]) -> None:
        """Patches the status of a Node if `patch` has one, otherwise its metadata."""
        shoot = self.shoot(namespace)
        shoot.advance()
        shoot.store.patch(ObjectKey("Node", "", node), patch, status="status" in patch)

    def machine_phase(self, namespace: str, machine: str, phase: str) -> None:
        """Sets the phase of a Machine."""
        patch = {"status": manifests.machine_phase(phase, self.clock.now())}
        self.write(ObjectKey("Machine", namespace, machine), patch, OPERATOR, status=True)

    def delete_machine(self, namespace: str, machine: str) -> None:
        """Deletes a Machine but not its node."""
        self.store.delete(ObjectKey("Machine", namespace, machine))

    def write(self, key: ObjectKey, patch: Object, by: str, *, status: bool = False) -> None:
        """Patches an object of the seed and records the write in the journal under the author `by`."""
        obj = self.store.patch(key, patch, status=status)
        self.journal.enter(self.clock.now(), obj, patch, by)

    def secret_key(self, namespace: str, route: Route) -> ObjectKey:
        """Returns the key of the kubeconfig Secret of a route."""
        return ObjectKey("Secret", namespace, self.secret_names[route])

    def write_kubeconfig(
        self,
        namespace: str,
        route: Route,
        *,
        user: Object | None = None,
        server: str | None = None,
    ) -> None:
        """Writes the kubeconfig Secret of a route, as gardenlet does; what is not given is right, such as the token."""
        shoot, key = self.shoots[namespace], self.secret_key(namespace, route)
        user = {"token": shoot.newest_token} if user is None else user
        url = server or self.place.url(namespace, route)
        content = manifests.kubeconfig(namespace, url, shoot.authority(route), user)
        if self.store.find(key) is None:
            body = manifests.born(manifests.secret(content), self.clock.now())
            self.store.create(key, body)
        else:
            self.write(key, manifests.secret(content), GARDENLET)

    # What is really so, whatever the servers show.

    def shoot(self, namespace: str) -> ShootServer:
        """Returns the API server of a shoot, with its nodes."""
        return self.shoots[namespace]

    def dependent(self, namespace: str, which: str | ResourceRef) -> WorkloadView:
        """Returns a dependent, from the store.

        Raises:
            NotFound: there is none.
        """
        return workload_view(self._dependent(namespace, which))

    def replicas(self, namespace: str, which: str | ResourceRef) -> int:
        """Returns the desired number of replicas of a dependent.

        Raises:
            NotFound: there is none.
        """
        obj = self._dependent(namespace, which)
        return int(obj["spec"][size_field(obj)])

    def annotations(self, namespace: str, which: str | ResourceRef) -> Mapping[str, str]:
        """Returns the watchdog's annotations on a dependent.

        Raises:
            NotFound: there is none.
        """
        return self.dependent(namespace, which).annotations

    def machines(self, namespace: str) -> tuple[MachineView, ...]:
        """Returns the Machines, from the store."""
        return tuple(machine_view(obj) for obj in self.store.list("Machine", namespace))

    def not_ready_nodes(self, namespace: str) -> tuple[str, ...]:
        """Returns the names of the nodes that kube-controller-manager has marked and that are not Ready again."""
        shoot = self.shoot(namespace)
        shoot.advance()
        nodes = shoot.store.list("Node")
        return tuple(node["metadata"]["name"] for node in nodes if not ready(node))

    def machines_deleted(self, namespace: str) -> tuple[str, ...]:
        """Returns the names of the Machines that machine-controller-manager has deleted, in order."""
        writes = self.journal.of(MCM, namespace)
        return tuple(write.ref.name for write in writes if write.verb == "delete")

    def known_at(
        self, namespace: str, *, since: float = float("-inf"), limit: float = LIMIT
    ) -> float | None:
        """Returns the first instant from `since` on at which an outage can be known; None if it has not been reached.

        It considers the nodes that are candidates now, and their true renewals.
        """
        kubelets, now = self.candidates(namespace), self.clock.now()
        return known_at(kubelets, now=now, since=since, limit=limit)

    def candidates(self, namespace: str) -> list[Kubelet]:
        """Returns the kubelets of the nodes that are candidates now (rules 3)."""
        shoot = self.shoot(namespace)
        alive = {machine.node for machine in self.machines(namespace) if machine.alive}
        return [
            shoot.fleet.of(node.name)
            for node in shoot.nodes()
            if node.name in alive
            and not node.not_managed
            and not node.conditions & DEFAULT_NODE_CONDITIONS
            and node.in_place_update not in {"ReadyForUpdate", "UpdateFailed"}
        ]

    def out_of_reach(self, namespace: str) -> frozenset[str]:
        """Returns the nodes whose kubelet is dead or cut off from the API server, whatever their Leases show."""
        return frozenset(kubelet.node for kubelet in self.shoot(namespace).fleet.out_of_reach())

    # Pods.

    def pods(self, namespace: str, workload: str | None = None) -> tuple[PodView, ...]:
        """Returns the pods of a namespace, or of one workload in it, ordered by name."""
        found = (pod_view(obj) for obj in self.store.list("Pod", namespace))
        return tuple(pod for pod in found if workload in (None, pod.labels.get("app")))

    def pod(self, namespace: str, name: str) -> PodView:
        """Returns a pod.

        Raises:
            NotFound: there is none.
        """
        return pod_view(self.store.get(ObjectKey("Pod", namespace, name)))

    def slices(self, namespace: str, service: str) -> tuple[SliceView, ...]:
        """Returns the EndpointSlices of a service, ordered by name."""
        found = (slice_view(obj) for obj in self.store.list("EndpointSlice", namespace))
        return tuple(each for each in found if each.service == service)

    def served(self, namespace: str, service: str) -> bool:
        """Returns whether a service is ready according to its EndpointSlices."""
        return self.seed_pods.serves(ServiceKey(namespace, service))

    def restarts(self, namespace: str, workload: str) -> int:
        """Returns the total number of container restarts in a workload's pods."""
        pods = self.pods(namespace, workload)
        return sum(container.restarts or 0 for pod in pods for container in pod.containers)

    def crash_looping(self, namespace: str) -> tuple[str, ...]:
        """Returns the names of the pods that wait in CrashLoopBackOff and are not terminating."""
        return tuple(
            pod.name
            for pod in self.pods(namespace)
            if not pod.terminating and any(container.crash_loops for container in pod.containers)
        )

    def starts_again(self, namespace: str, pod: str) -> float | None:
        """Returns the exact instant at which a waiting container will be restarted; None if none waits."""
        found = self.seed_pods.kubelet.find(ObjectKey("Pod", namespace, pod))
        return None if found is None else found.active.due

    def became_ready(self, namespace: str) -> tuple[BecameReady, ...]:
        """Returns when pods became Ready, in order; pods that were Ready from the start are not included."""
        return tuple(self.seed_pods.kubelet.became_ready.get(namespace, ()))

    # Changes to pods by others than the watchdog.

    def delete_pod(self, namespace: str, name: str, by: str = "operator") -> None:
        """Deletes a pod in the name of `by`.

        Raises:
            NotFound: there is none.
        """
        self.seed_pods.delete(ObjectKey("Pod", namespace, name), by)

    def delete_slice(self, namespace: str, name: str) -> None:
        """Deletes an EndpointSlice, which its controller soon writes again.

        Raises:
            NotFound: there is none.
        """
        self.store.delete(ObjectKey("EndpointSlice", namespace, name))

    def split_service(self, namespace: str, service: str, slices: int) -> None:
        """Distributes the endpoints of a service over this number of slices from now on."""
        key = ServiceKey(namespace, service)
        self.seed_pods.endpoints.slices[key] = slices
        self.seed_pods.endpoints.sync(key)

    def crash_looped(
        self, namespace: str, workload: str, restarts: int, *, exited: float | None = None
    ) -> None:
        """Puts the pods of a workload that are not terminating into CrashLoopBackOff, as after many crashes.

        Args:
            namespace: the namespace of the workload.
            workload: its name.
            restarts: the number of restarts of each pod.
            exited: the instant of the last exit; None for now.
        """
        at = self.clock.now() if exited is None else exited
        for pod in self.seed_pods.kubelet.of((namespace, workload)):
            if not pod.ending:
                self.seed_pods.kubelet.crash_looped(pod, restarts, exited=at)

    def _dependent(self, namespace: str, which: str | ResourceRef) -> Object:
        ref = reference(which)
        return self.store.get(ObjectKey(ref.kind, namespace, ref.name))
