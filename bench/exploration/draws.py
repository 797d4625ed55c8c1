"""The faults of worlds in lease mode, with how to draw them; `path_draws` has those of endpoint mode.

A test compares both tables with the simulated world, so that no fault is forgotten.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from app.core.errors import Forbidden, NotFound
from app.core.model.policy import ProberPolicy
from app.core.model.workloads import ResourceRef
from app.core.ports import Watched
from app.simulation.builders import ZONES, World
from app.simulation.faults import Faults
from app.simulation.network import SEED
from app.simulation.store import ObjectKey
from app.simulation.traffic import Storage, Trouble

if TYPE_CHECKING:
    from bench.exploration.process import Process

Arguments = dict[str, Any]
H = TypeVar("H")
"""What a draw may choose from."""


@dataclass(frozen=True, slots=True)
class Hand:
    """What a draw may choose from."""

    rng: random.Random
    world: World
    policy: ProberPolicy
    processes: Callable[[], "Sequence[Process]"] = lambda: ()
    """Those that run now."""
    asked_to_end: Callable[[ObjectKey], object] = lambda _: None
    """Called with each Pause and ScaleRequest that a process is asked to delete."""
    acknowledged: Callable[[str, str, str | None], object] = lambda *_: None
    """Called with what a process says that it did: in words, the uid, and the version, or None if it was deleted."""

    def shoot(self) -> str:
        """One of the shoots."""
        return self.rng.choice(sorted(self.world.shoots))

    def node(self, namespace: str) -> str | None:
        """One of the nodes that the shoot has now."""
        nodes = [kubelet.node for kubelet in self.world.shoot(namespace).fleet.kubelets]
        return self.rng.choice(nodes) if nodes else None

    def dependent(self) -> ResourceRef:
        """One of the configured dependents."""
        return self.rng.choice(self.policy.dependents).ref

    def between(self, low: float, high: float) -> float:
        """A number."""
        return round(self.rng.uniform(low, high), 3)


@dataclass(frozen=True, slots=True)
class Draw(Generic[H]):
    """How one kind of fault is drawn."""

    weight: int
    lasts: tuple[float, float]
    """Seconds."""
    arguments: Callable[[H], Arguments | None]
    """What to call the fault's method with; None: not now."""
    claims: Callable[[Arguments], str] = lambda _: ""
    """What may not be part of two faults at once; empty: nothing."""


def path_cut(hand: Hand) -> Arguments:
    """All nodes, some of them, or those of a zone."""
    how: Arguments = hand.rng.choice(
        ({}, {}, {"fraction": hand.between(0.3, 1.0)}, {"zone": hand.rng.choice(ZONES)})
    )
    return {"namespace": hand.shoot(), **how}


def of_shoot(**more: Callable[[Hand], object]) -> Callable[[Hand], Arguments]:
    """A shoot, and what is drawn besides."""

    def arguments(hand: Hand) -> Arguments:
        return {"namespace": hand.shoot(), **{name: draw(hand) for name, draw in more.items()}}

    return arguments


def of_seed(**more: Callable[[Hand], object]) -> Callable[[Hand], Arguments]:
    """What is drawn of the seed."""
    return lambda hand: {name: draw(hand) for name, draw in more.items()}


def of_node(**more: Callable[[Hand], object]) -> Callable[[Hand], Arguments | None]:
    """A node of a shoot, and what is drawn besides."""

    def arguments(hand: Hand) -> Arguments | None:
        namespace = hand.shoot()
        node = hand.node(namespace)
        if node is None:
            return None
        drawn = {name: draw(hand) for name, draw in more.items()}
        return {"namespace": namespace, "node": node, **drawn}

    return arguments


_VERBS: Final = (
    frozenset[str](),
    frozenset({"list"}),
    frozenset({"patch"}),
    frozenset({"get", "update"}),  # of the seed: the Lease of the election
)


def trouble(hand: Hand) -> Trouble:
    """Several things at once, for all requests or for some."""
    rng = hand.rng
    verbs = rng.choice(_VERBS)
    return Trouble(
        silent=rng.random() < 0.2,
        storage=rng.choice((None, None, Storage.HANGS, Storage.FAILS)),
        latency=hand.between(0.0, 3.0),
        error_rate=hand.between(0.0, 0.6),
        throttled=rng.random() < 0.2,
        retry_after=rng.choice((None, 1.0, 30.0)),
        verbs=verbs,
    )


def forbidden(hand: Hand) -> Arguments:
    """403 for something that a probe asks for."""
    asked = (("get", "version"), ("list", "leases"), ("list", "nodes"), ("list", "contact"))
    verb, what = hand.rng.choice(asked)
    return {"namespace": hand.shoot(), "verb": verb, "what": what}


def connections(hand: Hand) -> Arguments:
    """Those to the seed or to a shoot."""
    return {"name": hand.rng.choice((SEED, hand.shoot()))}


def cut_answers(hand: Hand) -> Arguments:
    """In their heads, or in their bodies."""
    return {**connections(hand), "after": hand.rng.choice((40, 300, 1_000, 10_000, 100_000))}


def _watched(hand: Hand) -> Watched:
    return hand.rng.choice(list(Watched))


def _claims(*what: str) -> Callable[[Arguments], str]:
    return lambda arguments: "/".join(str(arguments.get(each, each)) for each in what)


AS_THEY_ARE: Final = "*"
"""The arguments that have no names."""
_FORBIDDEN: Final = ((), (), ("list", "watch"), ("create", "patch", "delete"), ("get",))
"""Verbs; none: all of them."""
_REMOVED: Final = ((), (), ("Pause",), ("ScaleRequest",))
"""Kinds; none: both."""


def _nothing(hand: Hand) -> Arguments:
    del hand
    return {}


SHORT: Final = (1.0, 40.0)
LONG: Final = (20.0, 240.0)
"""Seconds that most faults last."""
UNNOTICED: Final = (60.0, 400.0)
"""Seconds that lasts of what nobody is told."""
CREDENTIALS: Final = _claims("credentials", "namespace")
_CLUSTER: Final = _claims("cluster", "namespace")
WATCH: Final = _claims("watch", "what")

OF_OVERRIDES: Final[dict[str, Draw[Any]]] = {
    "overrides_away": Draw(3, (1.0, 120.0), _nothing),
    "overrides_forbidden": Draw(
        2, (1.0, 120.0), lambda hand: {AS_THEY_ARE: hand.rng.choice(_FORBIDDEN)}
    ),
    "overrides_watch_cut": Draw(
        3, (1.0, 120.0), of_seed(expired=lambda hand: hand.rng.random() < 0.5)
    ),
    "overrides_watch_stalled": Draw(6, UNNOTICED, _nothing, lambda _: "watch/overrides"),
    "crds_removed": Draw(
        1,
        (1.0, 120.0),
        lambda hand: {AS_THEY_ARE: hand.rng.choice(_REMOVED)},
        lambda _: "definitions",
    ),
}
"""Of Pauses and ScaleRequests; in worlds of the weeder, too."""

FAULTS: Final[dict[str, Draw[Hand]]] = {
    # the nodes
    "path_cut": Draw(24, (5.0, 240.0), path_cut),
    "kubelet_dead": Draw(4, LONG, of_node(), _claims("kubelet", "namespace", "node")),
    "clock_off": Draw(
        2,
        LONG,
        of_node(seconds=lambda hand: hand.between(-300.0, 300.0)),
        _claims("clock", "namespace", "node"),
    ),
    "clock_drift": Draw(
        1,
        LONG,
        of_node(rate=lambda hand: hand.between(-0.02, 0.02)),
        _claims("clock", "namespace", "node"),
    ),
    # the shoot's API server
    "trouble": Draw(2, SHORT, of_shoot(trouble=trouble)),
    "api_down": Draw(4, (1.0, 120.0), of_shoot()),
    "api_hanging": Draw(3, (1.0, 120.0), of_shoot()),
    "storage_away": Draw(
        6, (1.0, 120.0), of_shoot(how=lambda hand: hand.rng.choice(list(Storage)))
    ),
    "latency": Draw(2, SHORT, of_shoot(seconds=lambda hand: hand.between(0.1, 4.0))),
    "errors": Draw(3, (1.0, 120.0), of_shoot(rate=lambda hand: hand.between(0.05, 0.95))),
    "throttled": Draw(
        2, SHORT, of_shoot(retry_after=lambda hand: hand.rng.choice((None, 1.0, 5.0, 30.0, 120.0)))
    ),
    "forbidden": Draw(2, SHORT, forbidden),
    # the way in
    "rotate_token": Draw(
        3, SHORT, of_shoot(overlap=lambda hand: hand.between(0.0, 60.0)), CREDENTIALS
    ),
    "rotate_ca": Draw(2, SHORT, of_shoot(), CREDENTIALS),
    "certificate_untrusted": Draw(1, SHORT, of_shoot(), CREDENTIALS),
    "kubeconfig_absent": Draw(1, SHORT, of_shoot(), CREDENTIALS),
    "kubeconfig_without_token": Draw(1, SHORT, of_shoot(), CREDENTIALS),
    "kubeconfig_refused": Draw(1, SHORT, of_shoot(), CREDENTIALS),
    # the seed
    "seed_trouble": Draw(3, SHORT, of_seed(trouble=trouble)),
    "seed_down": Draw(3, SHORT, of_seed()),
    "seed_errors": Draw(3, SHORT, of_seed(rate=lambda hand: hand.between(0.1, 0.9))),
    "patch_forbidden": Draw(
        1, SHORT, _nothing
    ),  # whatever they are of: its arguments have no names
    "watch_stalled": Draw(5, (5.0, 150.0), of_seed(what=_watched), WATCH),
    "watch_mute": Draw(6, UNNOTICED, of_seed(what=_watched), WATCH),
    "watch_not_opened": Draw(1, SHORT, of_seed(what=_watched), WATCH),
    "dependent_unavailable": Draw(
        1,
        LONG,
        of_seed(
            ref=lambda hand: hand.dependent(),
            error=lambda hand: hand.rng.choice((NotFound("not served"), Forbidden("forbidden"))),
        ),
        lambda _: WATCH({"what": Watched.DEPENDENTS}),
    ),
    # the connections
    "connections_cut": Draw(2, SHORT, connections),
    "connections_reset": Draw(3, SHORT, connections),
    "connections_forgotten": Draw(3, SHORT, connections),
    "watches_expired": Draw(4, (5.0, 150.0), _nothing),
    "answers_cut": Draw(3, SHORT, cut_answers, _claims("answers", "name")),
    # what the seed says of a shoot
    "pods_stuck": Draw(
        3,
        LONG,
        of_shoot(ref=lambda hand: hand.dependent()),
        _claims("dependent", "namespace", "ref"),
    ),
    "hibernated": Draw(4, UNNOTICED, of_shoot(), _CLUSTER),
    "migrating": Draw(1, SHORT, of_shoot(), _CLUSTER),
    "deleted": Draw(1, SHORT, of_shoot(), _CLUSTER),
    "cluster_gone": Draw(3, UNNOTICED, of_shoot(), _CLUSTER),
    "undecodable": Draw(1, LONG, of_shoot(), _CLUSTER),
    **OF_OVERRIDES,
}


def known_faults() -> frozenset[str]:
    """Everything that a simulated world can suffer, by introspection."""
    return frozenset(
        name for name in dir(Faults) if not name.startswith("_") and callable(getattr(Faults, name))
    )
