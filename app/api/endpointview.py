"""What endpoint probes have found out of one shoot, in the shapes of the API; pure."""

from typing import Final, NamedTuple

from app.api import schemas
from app.api.times import time
from app.core.errors import trimmed
from app.core.model.instants import rfc3339
from app.prober.endpoints.results import Target
from app.prober.endpoints.views import EndpointView, GateView
from app.prober.rules.endpoints import Result

MOST: Final = 50
"""Probes on targets that a shoot shows: a list has up to 500 shoots."""
_MESSAGE: Final = 300
_WORST: Final = {Result.FAILURE: 0, Result.UNKNOWN: 1, Result.SUCCESS: 2}


class Endpoints(NamedTuple):
    """What is known of one shoot."""

    probes: tuple[EndpointView, ...] = ()
    """One for each probe and target."""
    gates: tuple[GateView, ...] = ()
    """One for each probe that is a gate."""


NOTHING: Final = Endpoints()


def probes(found: Endpoints) -> list[schemas.EndpointProbe]:
    """By name and target; of very many those that are shown are the worst."""
    worst = sorted(found.probes, key=lambda each: (_rank(each), _place(each)))[:MOST]
    return [_probe(each) for each in sorted(worst, key=_place)]


def _rank(view: EndpointView) -> tuple[bool, int]:
    """What may need somebody comes first."""
    return not view.closed, _WORST[view.result]


def _place(view: EndpointView) -> tuple[str, str]:
    return view.name, str(view.target)


def _probe(view: EndpointView) -> schemas.EndpointProbe:
    return schemas.EndpointProbe(
        name=view.name,
        type=view.type,
        effect=view.effect,
        target=_target(view.target),
        result=view.result,
        counted=view.counted,
        since=time(view.since),
        last_time=time(view.last_run),
        last_result=view.last_outcome,
        message=trimmed(view.message, _MESSAGE),
        waiting=view.waiting,
        gate=None if view.closed is None else _state(closed=view.closed),
    )


def _target(target: Target) -> schemas.EndpointTarget:
    return schemas.EndpointTarget(
        host=target.host or None, pod=target.pod or None, container=target.container or None
    )


def _state(*, closed: bool) -> schemas.GateState:
    return schemas.GateState.CLOSED if closed else schemas.GateState.OPEN


def gates(found: Endpoints) -> list[schemas.Gate]:
    """Each gate: whether it is closed, and why."""
    return [
        schemas.Gate(
            name=each.name,
            state=_state(closed=each.closed),
            reason=each.reason,
            message=trimmed(each.message, _MESSAGE),
            since=rfc3339(each.since),
        )
        for each in sorted(found.gates, key=lambda gate: gate.name)
    ]
