"""Worlds in endpoint mode: their policies, and the faults that matter where two paths decide, with how to draw them."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from app.core.model.endpoints import Effect, EndpointProbeSpec, TcpSocket
from app.core.model.names import LabelSelector, Operator, Requirement
from app.core.model.policy import ProberPolicy
from app.core.model.shoots import Route
from app.core.ports import Watched
from app.simulation import manifests
from app.simulation.handlers import TargetAnswer
from app.simulation.traffic import ConnectionLoss
from bench.exploration import draws
from bench.exploration.draws import (
    CREDENTIALS,
    LONG,
    SHORT,
    UNNOTICED,
    WATCH,
    Arguments,
    Draw,
    Hand,
    of_seed,
    of_shoot,
)

CANARY: Final = "www.example.org"
WITNESS: Final = "witness"
"""The workload in each control plane whose pod is a gate; it depends on nothing."""
_SELECTED: Final = LabelSelector((Requirement("app", Operator.IN, frozenset({WITNESS})),))
_LEASES_ALONE: Final = frozenset(
    {
        "answers_cut",
        "clock_drift",
        "clock_off",
        "forbidden",
        "kubelet_dead",
        "kubeconfig_absent",
        "kubeconfig_without_token",
        "path_cut",
        "storage_away",
        "watch_mute",
        "watch_not_opened",
        "watch_stalled",
    }
)
"""What hits nobody who reads no lease, and what is drawn in another way here."""


def policy(rng: random.Random, leases: ProberPolicy) -> ProberPolicy:
    """`leases`, a policy of lease mode, as one of endpoint mode."""
    external, backoff = manifests.EXTERNAL_SECRET_NAME, rng.choice((30.0, 30.0, 10.0))
    return replace(
        leases,
        external_secret=external,
        internal_failure_backoff=backoff,
        endpoint_probes=_probes(rng),
        failure_threshold=rng.choice((3, 3, 3, 2, 1)),
        success_threshold=rng.choice((1, 1, 3, 2)),
        probe_interval=rng.choice((5.0, 10.0, 30.0)),
        probe_timeout=rng.choice((30.0, 30.0, 3.0)),
    )


def _probes(rng: random.Random) -> tuple[EndpointProbeSpec, ...]:
    """Gates in most of these worlds: a canary for the seed's own network, a pod of the control plane, or both."""
    gate = EndpointProbeSpec(
        "",
        tcp_socket=TcpSocket(443),
        period=rng.choice((2, 2, 5)),
        failure_threshold=rng.choice((3, 3, 1)),
        effect=Effect.GATE_SCALE_DOWN,
    )
    canary = replace(gate, name="canary", host=CANARY)
    witness = replace(gate, name="witness", pods=_SELECTED)
    return rng.choice(((), (canary,), (canary,), (witness,), (canary, witness)))


def _route(hand: Hand) -> Route:
    return hand.rng.choice((Route.EXTERNAL, Route.EXTERNAL, Route.EXTERNAL, Route.INTERNAL))


def _loss(hand: Hand) -> ConnectionLoss:
    return hand.rng.choice(list(ConnectionLoss))


def _canary(hand: Hand) -> Arguments | None:
    """The canary, where there is one."""
    return {"host": CANARY} if any(each.host for each in hand.policy.endpoint_probes) else None


def _target(**more: Callable[[Hand], object]) -> Callable[[Hand], Arguments | None]:
    """The canary or a pod that is a gate, where there are any, and what is drawn besides."""

    def arguments(hand: Hand) -> Arguments | None:
        targets = [CANARY for each in hand.policy.endpoint_probes if each.host]
        if any(each.pods for each in hand.policy.endpoint_probes):
            targets += [pod.name for pod in hand.world.pods(hand.shoot(), WITNESS)]
        if not targets:
            return None
        chosen = hand.rng.choice(targets)
        return {"target": chosen, **{name: draw(hand) for name, draw in more.items()}}

    return arguments


def _witness(hand: Hand) -> Arguments | None:
    """The workload whose pod is a gate, where there is one."""
    if not any(each.pods for each in hand.policy.endpoint_probes):
        return None
    return {"namespace": hand.shoot(), "name": WITNESS}


def _watched(hand: Hand) -> Watched:
    """Machines are not watched."""
    return hand.rng.choice([each for each in Watched if each is not Watched.MACHINES])


FAULTS: Final[dict[str, Draw[Hand]]] = {
    **{name: draw for name, draw in draws.FAULTS.items() if name not in _LEASES_ALONE},
    # the paths
    "path_cut": Draw(8, (5.0, 240.0), of_shoot(how=_loss)),
    "route_cut": Draw(24, (5.0, 240.0), of_shoot(route=_route, how=_loss)),
    "route_trouble": Draw(5, (1.0, 120.0), of_shoot(route=_route, trouble=draws.trouble)),
    "page_instead": Draw(
        4,
        (5.0, 150.0),
        of_shoot(status=lambda hand: hand.rng.choice((200, 404, 502, 503)), route=_route),
    ),
    # the way in
    "credentials_wrong": Draw(3, LONG, of_shoot(route=_route), CREDENTIALS),
    "name_gone": Draw(4, LONG, of_shoot(), CREDENTIALS),
    "route_untrusted": Draw(3, LONG, of_shoot(route=_route), CREDENTIALS),
    "kubeconfig_absent": Draw(2, SHORT, of_shoot(route=_route), CREDENTIALS),
    "kubeconfig_without_token": Draw(2, SHORT, of_shoot(route=_route), CREDENTIALS),
    # the seed
    "seed_network_cut": Draw(5, (5.0, 150.0), lambda _: {}),
    "watch_stalled": Draw(5, (5.0, 150.0), of_seed(what=_watched), WATCH),
    "watch_mute": Draw(6, UNNOTICED, of_seed(what=_watched), WATCH),
    "watch_not_opened": Draw(1, SHORT, of_seed(what=_watched), WATCH),
    # the gates
    "canary_down": Draw(4, (5.0, 240.0), _canary),
    "target_answers": Draw(
        4,
        (2.0, 120.0),
        _target(answer=lambda hand: hand.rng.choice(list(TargetAnswer))),
    ),
    "workload_broken": Draw(1, (2.0, 120.0), _witness),
    "target_slow": Draw(2, (2.0, 120.0), _target(seconds=lambda hand: hand.between(0.2, 2.0))),
}
