"""The faults that the weeder's worlds know, with how to draw them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from app.simulation.builders import World
from app.simulation.faults import PodFaults, PodWatched
from app.simulation.network import SEED
from app.simulation.traffic import Storage, Trouble
from app.simulation.workloads import API_SERVER, ETCD, Workload
from bench.exploration.draws import OF_OVERRIDES, Arguments, Draw
from bench.exploration.weeder.recipe import WeederRecipe

_CHAIN: Final = frozenset({ETCD, API_SERVER})


@dataclass(frozen=True, slots=True)
class PlaneHand:
    """What a draw may choose from."""

    rng: random.Random
    world: World
    recipe: WeederRecipe

    def namespace(self) -> str:
        """One of the control planes."""
        return self.rng.choice(self.recipe.planes).namespace

    def workload(self) -> Workload:
        """One of the workloads; mostly etcd or kube-apiserver, as they are what others depend on."""
        workloads, mostly = self.rng.choice(self.recipe.planes).workloads, self.rng.random() < 0.7
        return self.rng.choice([each for each in workloads if each.name in _CHAIN or not mostly])

    def between(self, low: float, high: float) -> float:
        """A number."""
        return round(self.rng.uniform(low, high), 3)


def _workload(hand: PlaneHand) -> Arguments:
    chosen = hand.workload()
    return {"namespace": chosen.namespace, "name": chosen.name}


def _service(**more: Callable[[PlaneHand], Any]) -> Callable[[PlaneHand], Arguments]:
    """A service of a control plane, and what is drawn besides."""

    def arguments(hand: PlaneHand) -> Arguments:
        service = hand.rng.choice(sorted(hand.recipe.policy.services))
        drawn = {name: draw(hand) for name, draw in more.items()}
        return {"namespace": hand.namespace(), "service": service, **drawn}

    return arguments


def _watch(hand: PlaneHand) -> Arguments:
    return {"what": hand.rng.choice(list(PodWatched))}


def _cut(hand: PlaneHand) -> Arguments:
    return {**_watch(hand), "expired": hand.rng.random() < 0.5}


def _nothing(hand: PlaneHand) -> Arguments:
    del hand
    return {}


def _connections(hand: PlaneHand) -> Arguments:
    del hand
    return {"name": SEED}


_VERBS: Final = (
    frozenset[str](),
    frozenset({"delete"}),
    frozenset({"delete"}),
    frozenset({"get"}),
    frozenset({"list", "watch"}),
    frozenset({"get", "update"}),  # the Lease of the election
)


def trouble(hand: PlaneHand) -> Arguments:
    """Several things at once, for all requests or for some; 403 for deletions only."""
    rng = hand.rng
    verbs = rng.choice(_VERBS)
    made = Trouble(
        silent=rng.random() < 0.2,
        storage=rng.choice((None, None, None, Storage.HANGS, Storage.FAILS)),
        latency=hand.between(0.0, 4.0),
        error_rate=hand.between(0.0, 0.6),
        throttled=rng.random() < 0.2,
        retry_after=rng.choice((None, 1.0, 30.0)),
        forbidden=verbs == {"delete"} and rng.random() < 0.2,
        verbs=verbs,
    )
    return {"trouble": made}


def _claims(*what: str) -> Callable[[Arguments], str]:
    return lambda arguments: "/".join(str(arguments.get(each, each)) for each in what)


_SHORT: Final = (0.5, 30.0)
_LONG: Final = (5.0, 150.0)
_PROBES: Final = _claims("probes", "namespace", "service")

FAULTS: Final[dict[str, Draw[PlaneHand]]] = {
    # the control planes
    "workload_broken": Draw(24, (5.0, 240.0), _workload, _claims("workload", "namespace", "name")),
    "service_unready": Draw(8, _LONG, _service(), _PROBES),
    "service_flaps": Draw(5, _LONG, _service(every=lambda hand: hand.between(0.5, 20.0)), _PROBES),
    "slices_gone": Draw(4, _LONG, _service(), _claims("slices", "namespace", "service")),
    "readiness_untold": Draw(2, _LONG, _service(), _claims("untold", "namespace", "service")),
    # what the weeder sees of them
    "pod_watch_stalled": Draw(7, _LONG, _watch, _claims("watch", "what")),
    "pod_watch_cut": Draw(6, _SHORT, _cut),
    # the seed
    "seed_trouble": Draw(6, _SHORT, trouble),
    "seed_down": Draw(4, _SHORT, _nothing),
    "seed_errors": Draw(3, _SHORT, lambda hand: {"rate": hand.between(0.1, 0.9)}),
    "connections_cut": Draw(2, _SHORT, _connections),
    "connections_reset": Draw(3, _SHORT, _connections),
    "connections_forgotten": Draw(3, _SHORT, _connections),
    "watches_expired": Draw(4, _LONG, _nothing),
    "answers_cut": Draw(
        3,
        _SHORT,
        lambda hand: {**_connections(hand), "after": hand.rng.choice((40, 300, 1_000, 20_000))},
        _claims("answers"),
    ),
    "pods_forbidden": Draw(1, _SHORT, _nothing),
    **OF_OVERRIDES,
}


def of_pods() -> frozenset[str]:
    """Everything that can happen to pods, to services and to the watches of them, by introspection."""
    return frozenset(name for name in vars(PodFaults) if not name.startswith("_"))
