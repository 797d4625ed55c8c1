"""Worlds in endpoint mode: their policies, and the faults that matter where two paths decide, with how to draw them."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from app.core.model.endpoints import Effect, EndpointProbeSpec, TcpSocket
from app.core.model.policy import EndpointMode, ProberPolicy
from app.core.model.shoots import Route
from app.core.ports import Watched
from app.simulation import manifests
from app.simulation.network import TargetAnswer
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
        endpoint_mode=EndpointMode(external, backoff),
        endpoint_probes=_probes(rng),
        failure_threshold=rng.choice((3, 3, 3, 2, 1)),
        success_threshold=rng.choice((1, 1, 3, 2)),
        probe_interval=rng.choice((5.0, 10.0, 30.0)),
        probe_timeout=rng.choice((30.0, 30.0, 3.0)),
    )


def _probes(rng: random.Random) -> tuple[EndpointProbeSpec, ...]:
    """A canary for the seed's own network, in most of these worlds."""
    period, threshold = rng.choice((2, 2, 5)), rng.choice((3, 3, 1))
    canary = EndpointProbeSpec(
        "canary",
        TcpSocket(443),
        host=CANARY,
        period=period,
        failure_threshold=threshold,
        effect=Effect.GATE_SCALE_DOWN,
    )
    return (canary,) if rng.random() < 0.7 else ()


def _route(hand: Hand) -> Route:
    return hand.rng.choice((Route.EXTERNAL, Route.EXTERNAL, Route.EXTERNAL, Route.INTERNAL))


def _loss(hand: Hand) -> ConnectionLoss:
    return hand.rng.choice(list(ConnectionLoss))


def _canary(**more: Callable[[Hand], object]) -> Callable[[Hand], Arguments | None]:
    """What is drawn of the canary, where there is one."""

    def arguments(hand: Hand) -> Arguments | None:
        if not hand.policy.endpoint_probes:
            return None
        return {name: draw(hand) for name, draw in more.items()}

    return arguments


def _host(_: Hand) -> str:
    return CANARY


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
    "secret_absent": Draw(2, SHORT, of_shoot(route=_route), CREDENTIALS),
    "secret_without_token": Draw(2, SHORT, of_shoot(route=_route), CREDENTIALS),
    # the seed
    "seed_network_cut": Draw(5, (5.0, 150.0), lambda _: {}),
    "watch_stalled": Draw(5, (5.0, 150.0), of_seed(what=_watched), WATCH),
    "watch_mute": Draw(6, UNNOTICED, of_seed(what=_watched), WATCH),
    "watch_not_opened": Draw(1, SHORT, of_seed(what=_watched), WATCH),
    # the canary
    "canary_down": Draw(4, (5.0, 240.0), _canary(host=_host)),
    "target_answers": Draw(
        3,
        (2.0, 120.0),
        _canary(target=_host, answer=lambda hand: hand.rng.choice(list(TargetAnswer))),
    ),
    "target_slow": Draw(
        2, (2.0, 120.0), _canary(target=_host, seconds=lambda hand: hand.between(0.2, 2.0))
    ),
}
