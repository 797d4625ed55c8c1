"""The actions of scenes, by name: what each is called, which options it has, what it touches, and how it begins."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator

from app.core.config.values import nearest
from app.core.errors import NotFound
from app.core.model import workloads as ann
from app.core.model.keys import (
    KEYS,
    Count,
    CountOrZero,
    Duration,
    DurationOrZero,
    PositiveShare,
    Switch,
    Text,
    checked,
)
from app.core.model.names import is_label
from app.simulation.builders import CONTROLLERS, World
from app.simulation.faults import Fault
from app.simulation.store import StoreEvent
from app.simulation.traffic import Storage, Trouble
from app.simulation.workloads import API_SERVER, ETCD, ETCD_SERVICE, control_plane


def one_of(what: str, choices: Iterable[str]) -> AfterValidator:
    """Creates a validator of words, which names the nearest of them."""
    known = tuple(choices)

    def validate(word: str) -> str:
        if word not in known:
            raise ValueError(f"must be {what} (the nearest is {nearest(word, known)})")
        return word

    return AfterValidator(validate)


Label = Annotated[Text, checked(is_label, "a name of lower case letters, digits and -")]


class Touches(StrEnum):
    """A property that only one action can change at a time."""

    KUBECONFIG = "kubeconfig"
    CLUSTER = "cluster"
    CONTROLLERS = "controllers"
    NODES = "nodes"
    PODS = "pods"


# Seconds by which what is slow takes longer, where a scenario does not say.
_SLOW: Final = 2.0
_SCALED: Final = tuple(name for name in CONTROLLERS if isinstance(name, str))


@dataclass(frozen=True, slots=True)
class Options:
    """The options of all actions, the values under `with`; each action has a few of them."""

    __pydantic_config__: ClassVar = KEYS

    fraction: PositiveShare = 1.0
    zone: Label | None = None
    nodes: Count = 1
    by: Duration | None = None
    behind: Switch = True
    rate: PositiveShare = 0.5
    retry_after: Duration | None = None
    how: Annotated[str, one_of("hangs or fails", ("hangs", "fails"))] = "hangs"
    restarts: CountOrZero = 0
    overlap: DurationOrZero = 0.0
    deployment: Annotated[str, one_of("a controller of a shoot", _SCALED)] = _SCALED[0]
    ignore_scaling: Switch = False


Begin = Callable[[World, str, Options], Fault | None]
"""Lets it happen to the shoot of a control-plane namespace; returns what ends it, if anything does."""


@dataclass(frozen=True, slots=True)
class ScenarioAction:
    """An action that a scene can name."""

    about: str
    """A description of its effect, shown if the scene has none of its own."""
    begin: Begin
    options: tuple[str, ...] = ()
    lasts: bool = True
    """Whether the action lasts until it is ended."""
    of_seed: bool = False
    """Whether it happens to the seed, and not to shoots."""
    touches: Touches | None = None


def _kubelets_dead(world: World, shoot: str, options: Options) -> Fault:
    kubelets = world.shoot(shoot).fleet.kubelets[: options.nodes]
    return _all(world.faults.kubelet_dead(shoot, each.node) for each in kubelets)


def _clocks_off(world: World, shoot: str, options: Options) -> Fault:
    seconds = (options.by or 120.0) * (-1 if options.behind else 1)
    kubelets = world.shoot(shoot).fleet.kubelets
    return _all(world.faults.clock_off(shoot, each.node, seconds) for each in kubelets)


def _manual_zero(world: World, shoot: str, options: Options) -> Fault | None:
    name, keys = options.deployment, {ann.IGNORE_SCALING: "true"} if options.ignore_scaling else {}
    try:
        before = world.replicas(shoot, name) or 1
    except NotFound:
        return None
    world.patch(shoot, name, {"metadata": {"annotations": keys}, "spec": {"replicas": 0}})
    return Fault(lambda: _back(world, shoot, name, before))


def _back(world: World, shoot: str, name: str, replicas: int) -> None:
    # A person ends their own intervention; an active protection is left alone.
    protected = ann.MELTDOWN in world.annotations(shoot, name)
    size = {} if protected or world.replicas(shoot, name) else {"replicas": replicas}
    gone = {ann.IGNORE_SCALING: None}
    world.patch(shoot, name, {"metadata": {"annotations": gone}, "spec": size})


def _all(faults: Iterable[Fault]) -> Fault:
    return Fault(*(fault.lift for fault in reversed([*faults])))


ACTIONS: Final = {
    "path-cut": ScenarioAction(
        "The nodes have lost the path to their API server.",
        lambda w, s, o: w.faults.path_cut(s, fraction=o.fraction, zone=o.zone),
        ("fraction", "zone"),
    ),
    "kubelets-dead": ScenarioAction(
        "Kubelets have stopped.", _kubelets_dead, ("nodes",), touches=Touches.NODES
    ),
    "clocks-off": ScenarioAction("The clocks of all nodes are off.", _clocks_off, ("by", "behind")),
    "api-down": ScenarioAction(
        "The API server refuses connections.", lambda w, s, _: w.faults.api_down(s)
    ),
    "api-hanging": ScenarioAction(
        "The API server does not answer.", lambda w, s, _: w.faults.api_hanging(s)
    ),
    "api-slow": ScenarioAction(
        "The API server is slow.", lambda w, s, o: w.faults.latency(s, o.by or _SLOW), ("by",)
    ),
    "api-errors": ScenarioAction(
        "Requests fail by chance, with 500.", lambda w, s, o: w.faults.errors(s, o.rate), ("rate",)
    ),
    "api-throttled": ScenarioAction(
        "Our requests are answered with 429.",
        lambda w, s, o: w.faults.throttled(s, o.retry_after),
        ("retryAfter",),
    ),
    "storage-away": ScenarioAction(
        "The API server has lost its storage: no kubelet can renew.",
        lambda w, s, o: w.faults.storage_away(s, Storage(o.how.capitalize())),
        ("how",),
    ),
    "etcd-outage": ScenarioAction(
        "The pods of etcd crash, then those of kube-apiserver, then all that need it.",
        lambda w, s, o: etcd_outage(w, s, restarts=o.restarts),
        ("restarts",),
        touches=Touches.PODS,
    ),
    "token-rotated": ScenarioAction(
        "The token in the Secret is a new one.",
        lambda w, s, o: w.faults.rotate_token(s, overlap=o.overlap),
        ("overlap",),
        lasts=False,
        touches=Touches.KUBECONFIG,
    ),
    "ca-rotated": ScenarioAction(
        "The API server has a certificate of a new authority, and the Secret names it.",
        lambda w, s, _: w.faults.rotate_ca(s),
        lasts=False,
        touches=Touches.KUBECONFIG,
    ),
    "certificate-untrusted": ScenarioAction(
        "The API server shows a certificate that the CA of the kubeconfig did not sign.",
        lambda w, s, _: w.faults.certificate_untrusted(s),
        touches=Touches.KUBECONFIG,
    ),
    "kubeconfig-absent": ScenarioAction(
        "The Secret with the kubeconfig is gone.",
        lambda w, s, _: w.faults.kubeconfig_absent(s),
        touches=Touches.KUBECONFIG,
    ),
    "kubeconfig-without-token": ScenarioAction(
        "The kubeconfig has no token yet.",
        lambda w, s, _: w.faults.kubeconfig_without_token(s),
        touches=Touches.KUBECONFIG,
    ),
    "kubeconfig-refused": ScenarioAction(
        "The kubeconfig asks for a command to be run; that is refused.",
        lambda w, s, _: w.faults.kubeconfig_refused(s),
        touches=Touches.KUBECONFIG,
    ),
    "hibernation": ScenarioAction(
        "The shoot sleeps, its API server is gone.",
        lambda w, s, _: _all((w.faults.hibernated(s), w.faults.api_down(s))),
        touches=Touches.CLUSTER,
    ),
    "migration": ScenarioAction(
        "The control plane moves to another seed.",
        lambda w, s, _: w.faults.migrating(s),
        touches=Touches.CLUSTER,
    ),
    "manual-zero": ScenarioAction(
        "Somebody has scaled a controller to 0 by hand.",
        _manual_zero,
        ("deployment", "ignoreScaling"),
        touches=Touches.CONTROLLERS,
    ),
    "seed-down": ScenarioAction(
        "The seed's API server refuses connections.",
        lambda w, _s, _o: w.faults.seed_down(),
        of_seed=True,
    ),
    "seed-slow": ScenarioAction(
        "The seed's API server is slow.",
        lambda w, _, o: w.faults.seed_trouble(Trouble(latency=o.by or _SLOW)),
        ("by",),
        of_seed=True,
    ),
    "seed-network-cut": ScenarioAction(
        "The seed has lost its own way out; the nodes are healthy.",
        lambda w, _s, _o: w.faults.seed_network_cut(),
        of_seed=True,
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
        server.ends = True
        for pod in world.pods(shoot, ETCD):
            if not pod.terminating:
                world.delete_pod(shoot, pod.name)

    return Fault(undo)


def _go_into_its_midst(world: World, shoot: str, restarts: int) -> None:
    now = world.clock.now()
    crashing = [
        each
        for each in control_plane(shoot)
        if each.name == ETCD or (each.needs is not None and each.crashes_when_lost)
    ]
    for number, each in enumerate(crashing):
        apart = number * each.times.crash_after / len(crashing)  # real pods do not crash in step
        world.crash_looped(shoot, each.name, restarts, exited=now - apart)


class _ApiServer:
    """Derives the state of a shoot's API server from its pods: without etcd no storage, without its own no server."""

    def __init__(self, world: World, shoot: str) -> None:
        self._world, self._shoot = world, shoot
        self._missing: dict[str, Fault] = {}
        self.ends = False
        """Whether it stops following the pods as soon as both services are ready again."""
        world.store.subscribe(self._heard)

    def _heard(self, event: StoreEvent) -> None:
        if event.key.kind != "EndpointSlice" or event.key.namespace != self._shoot:
            return
        faults = self._world.faults
        self._follow(ETCD_SERVICE, lambda: faults.storage_away(self._shoot))
        self._follow(API_SERVER, lambda: faults.api_down(self._shoot))
        if self.ends and not self._missing:
            self._world.store.unsubscribe(self._heard)

    def _follow(self, service: str, begin: Callable[[], Fault]) -> None:
        served = self._world.served(self._shoot, service)
        if served and service in self._missing:
            self._missing.pop(service).lift()
        elif not served and service not in self._missing:
            self._missing[service] = begin()
