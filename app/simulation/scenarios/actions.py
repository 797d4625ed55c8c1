"""The actions of scenes, by name: each parses its options and returns the function that begins it."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

import yaml

from app.core.config.yaml_file import FileLocation, NodeKind, describe, kind, nearest
from app.core.errors import NotFound
from app.core.model import workloads as ann
from app.core.model.names import is_label
from app.simulation.builders import CONTROLLERS, World
from app.simulation.parts import Fault
from app.simulation.scenarios.model import ActionScope, Begin, Touches
from app.simulation.scenarios.reading import (
    Findings,
    Reader,
    Section,
    T,
    boolean,
    duration,
    fraction,
    whole,
)
from app.simulation.store import StoreEvent
from app.simulation.traffic import Storage, Trouble
from app.simulation.workloads import API_SERVER, ETCD, ETCD_SERVICE, Workload, control_plane

# The options of an action: the values under `with`, read as the prober file's are.


class Options:
    """The options of an action; each has a default."""

    def __init__(self, given: Section | None, zones: Collection[str], findings: Findings) -> None:
        self._given = given
        self._zones = zones
        self._findings = findings

    def value(self, key: str, read: Reader[T], default: T) -> T:
        """Returns the value of `key`; `default` if it is absent or, with a mistake recorded, wrong."""
        return default if self._given is None else self._given.value(key, read, default)

    def zone(self, key: str) -> str | None:
        """Returns the name of a zone in which a shoot has nodes."""
        found = self.value(key, text, "")
        if found and found not in self._zones:
            message = f"names no zone of these shoots; the nearest is {nearest(found, sorted(self._zones))}"
            self._findings.mistake(self._place(key), message)
        return found or None

    def only_one_of(self, *keys: str) -> None:
        """Records a mistake if more than one of the keys is given."""
        given = [key for key in keys if self._given is not None and self._given.node(key)]
        for key in given[1:]:
            self._findings.mistake(self._place(key), f"may not be given beside {given[0]}")

    def _place(self, key: str) -> FileLocation:
        return FileLocation(key, None) if self._given is None else self._given.place(key)


def text(node: yaml.Node) -> str:
    """A string that is not blank."""
    if kind(node) is not NodeKind.STRING or not node.value.strip():
        raise ValueError(f"must be text, not {describe(node)}")
    return " ".join(str(node.value).split())


def label(node: yaml.Node) -> str:
    """A short name: lower case letters, digits and -."""
    if kind(node) is not NodeKind.STRING or not is_label(node.value):
        raise ValueError(
            f"must be a name of lower case letters, digits and -, not {describe(node)}"
        )
    return str(node.value)


def one_of(choices: Iterable[str], what: str) -> Reader[str]:
    """One of several words."""
    known = tuple(choices)

    def read(node: yaml.Node) -> str:
        if kind(node) is not NodeKind.STRING:
            raise ValueError(f"must be {what}, not {describe(node)}")
        if node.value not in known:
            nearby = nearest(node.value, known)
            raise ValueError(f"must be {what}, not {describe(node)}; the nearest is {nearby}")
        return str(node.value)

    return read


@dataclass(frozen=True, slots=True)
class ScenarioAction:
    """An action that a scene can name."""

    about: str
    """A description of its effect, shown if the scene has none of its own."""
    read: Callable[[Options], Begin]
    options: tuple[str, ...] = ()
    lasts: bool = True
    """Whether the action lasts until it is ended."""
    scope: ActionScope = ActionScope.SHOOT
    touches: Touches | None = None


def _plain(begin: Begin) -> Callable[[Options], Begin]:
    return lambda _: begin


# The nodes and their path.


def _path_cut(options: Options) -> Begin:
    options.only_one_of("fraction", "zone")
    part, zone = options.value("fraction", fraction(zero=False), 1.0), options.zone("zone")
    return lambda world, shoot: world.faults.path_cut(shoot, fraction=part, zone=zone)


def _kubelets_dead(options: Options) -> Begin:
    count = options.value("nodes", whole(1), 1)

    def begin(world: World, shoot: str) -> Fault:
        fleet = world.shoot(shoot).fleet.kubelets
        return _all(world.faults.kubelet_dead(shoot, each.node) for each in fleet[:count])

    return begin


def _clocks_off(options: Options) -> Begin:
    seconds = options.value("by", duration(zero=False), 120.0)
    if options.value("behind", boolean, default=True):
        seconds = -seconds

    def begin(world: World, shoot: str) -> Fault:
        fleet = world.shoot(shoot).fleet.kubelets
        return _all(world.faults.clock_off(shoot, each.node, seconds) for each in fleet)

    return begin


# The API server.


def _slow(options: Options) -> Begin:
    seconds = options.value("by", duration(zero=False), 2.0)
    return lambda world, shoot: world.faults.latency(shoot, seconds)


def _errors(options: Options) -> Begin:
    rate = options.value("rate", fraction(zero=False), 0.5)
    return lambda world, shoot: world.faults.errors(shoot, rate)


def _throttled(options: Options) -> Begin:
    pause = options.value("retryAfter", duration(zero=False), 0.0) or None
    return lambda world, shoot: world.faults.throttled(shoot, pause)


def _storage(options: Options) -> Begin:
    words = {str(each).lower(): each for each in Storage}
    how = words[options.value("how", one_of(words, " or ".join(words)), "hangs")]
    return lambda world, shoot: world.faults.storage_away(shoot, how)


def _etcd(options: Options) -> Begin:
    restarts = options.value("restarts", whole(0), 0)
    return lambda world, shoot: etcd_outage(world, shoot, restarts=restarts)


# The way in.


def _token(options: Options) -> Begin:
    overlap = options.value("overlap", duration(zero=True), 0.0)
    return lambda world, shoot: world.faults.rotate_token(shoot, overlap=overlap)


# What the seed says of a shoot.


def _hibernation(world: World, shoot: str) -> Fault:
    return _all((world.faults.hibernated(shoot), world.faults.api_down(shoot)))


def _manual_zero(options: Options) -> Begin:
    known = [name for name in CONTROLLERS if isinstance(name, str)]
    name = options.value("deployment", one_of(known, "a controller of a shoot"), known[0])
    left_alone = options.value("ignoreScaling", boolean, default=False)
    keys = {ann.IGNORE_SCALING: "true"} if left_alone else {}

    def begin(world: World, shoot: str) -> Fault | None:
        try:
            before = world.replicas(shoot, name) or 1
        except NotFound:
            return None
        world.patch(shoot, name, {"metadata": {"annotations": keys}, "spec": {"replicas": 0}})
        return Fault(lambda: _back(world, shoot, name, before))

    return begin


def _back(world: World, shoot: str, name: str, replicas: int) -> None:
    # A person ends their own intervention; an active protection is left alone.
    protected = ann.MELTDOWN in world.annotations(shoot, name)
    size = {} if protected or world.replicas(shoot, name) else {"replicas": replicas}
    gone = {ann.IGNORE_SCALING: None}
    world.patch(shoot, name, {"metadata": {"annotations": gone}, "spec": size})


# The seed.


def _seed_down(world: World, _: str) -> Fault:
    return world.faults.seed_down()


def _seed_slow(options: Options) -> Begin:
    trouble = Trouble(latency=options.value("by", duration(zero=False), 2.0))
    return lambda world, _: world.faults.seed_trouble(trouble)


def _seed_network_cut(world: World, _: str) -> Fault:
    return world.faults.seed_network_cut()


def _all(faults: Iterable[Fault]) -> Fault:
    begun = tuple(faults)

    def undo() -> None:
        for fault in reversed(begun):
            fault.lift()

    return Fault(undo)


ACTIONS: Final = {
    "path-cut": ScenarioAction(
        "The nodes have lost the path to their API server.", _path_cut, ("fraction", "zone")
    ),
    "kubelets-dead": ScenarioAction(
        "Kubelets have stopped.", _kubelets_dead, ("nodes",), touches=Touches.NODES
    ),
    "clocks-off": ScenarioAction("The clocks of all nodes are off.", _clocks_off, ("by", "behind")),
    "api-down": ScenarioAction(
        "The API server refuses connections.", _plain(lambda w, s: w.faults.api_down(s))
    ),
    "api-hanging": ScenarioAction(
        "The API server does not answer.", _plain(lambda w, s: w.faults.api_hanging(s))
    ),
    "api-slow": ScenarioAction("The API server is slow.", _slow, ("by",)),
    "api-errors": ScenarioAction("Requests fail by chance, with 500.", _errors, ("rate",)),
    "api-throttled": ScenarioAction(
        "Our requests are answered with 429.", _throttled, ("retryAfter",)
    ),
    "storage-away": ScenarioAction(
        "The API server has lost its storage: no kubelet can renew.", _storage, ("how",)
    ),
    "etcd-outage": ScenarioAction(
        "The pods of etcd crash, then those of kube-apiserver, then all that need it.",
        _etcd,
        ("restarts",),
        touches=Touches.PODS,
    ),
    "token-rotated": ScenarioAction(
        "The token in the Secret is a new one.",
        _token,
        ("overlap",),
        lasts=False,
        touches=Touches.KUBECONFIG,
    ),
    "ca-rotated": ScenarioAction(
        "The API server has a certificate of a new authority, and the Secret names it.",
        _plain(lambda w, s: w.faults.rotate_ca(s)),
        lasts=False,
        touches=Touches.KUBECONFIG,
    ),
    "certificate-untrusted": ScenarioAction(
        "The API server shows a certificate that the CA of the kubeconfig did not sign.",
        _plain(lambda w, s: w.faults.certificate_untrusted(s)),
        touches=Touches.KUBECONFIG,
    ),
    "kubeconfig-absent": ScenarioAction(
        "The Secret with the kubeconfig is gone.",
        _plain(lambda w, s: w.faults.kubeconfig_absent(s)),
        touches=Touches.KUBECONFIG,
    ),
    "kubeconfig-without-token": ScenarioAction(
        "The kubeconfig has no token yet.",
        _plain(lambda w, s: w.faults.kubeconfig_without_token(s)),
        touches=Touches.KUBECONFIG,
    ),
    "kubeconfig-refused": ScenarioAction(
        "The kubeconfig asks for a command to be run; that is refused.",
        _plain(lambda w, s: w.faults.kubeconfig_refused(s)),
        touches=Touches.KUBECONFIG,
    ),
    "hibernation": ScenarioAction(
        "The shoot sleeps, its API server is gone.", _plain(_hibernation), touches=Touches.CLUSTER
    ),
    "migration": ScenarioAction(
        "The control plane moves to another seed.",
        _plain(lambda w, s: w.faults.migrating(s)),
        touches=Touches.CLUSTER,
    ),
    "manual-zero": ScenarioAction(
        "Somebody has scaled a controller to 0 by hand.",
        _manual_zero,
        ("deployment", "ignoreScaling"),
        touches=Touches.CONTROLLERS,
    ),
    "seed-down": ScenarioAction(
        "The seed's API server refuses connections.", _plain(_seed_down), scope=ActionScope.SEED
    ),
    "seed-slow": ScenarioAction(
        "The seed's API server is slow.", _seed_slow, ("by",), scope=ActionScope.SEED
    ),
    "seed-network-cut": ScenarioAction(
        "The seed has lost its own way out; the nodes are healthy.",
        _plain(_seed_network_cut),
        scope=ActionScope.SEED,
    ),
}


# The most complex action: an outage of etcd as it spreads through a control plane: etcd → kube-apiserver → its
# dependants.


def etcd_outage(world: World, shoot: str, *, restarts: int = 0) -> Fault:
    """Makes the pods of etcd crash; lifting the fault repairs etcd and restarts its pods.

    Args:
        world: the world.
        shoot: a control-plane namespace with the pods of a control plane.
        restarts: the previous restarts of all waiting pods: 0 is the begin of an outage; more begin in the middle of
            one.

    Returns:
        The fault. After it is lifted, the shoot's API server has its storage back when etcd is ready; the pods that
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
