"""Shoots: the list, one shoot with its nodes and history, and a probe on request."""

from enum import StrEnum
from typing import Annotated, Final, assert_never

from fastapi import Query, Request, Response
from pydantic import Field

from app.api import dependencies as deps
from app.api import presenting, schemas
from app.api.auditing import drafted
from app.api.auth.authorization import Call
from app.api.problems import Problem, ProblemType
from app.core.clock import Clock
from app.core.model.instants import rfc3339
from app.core.model.probing import ShootState
from app.core.overrides.cache import OverrideCache
from app.prober.rules.state import severity
from app.prober.status import ShootSummary

router = deps.api_router("shoots")

_AT_ONCE: Final = 50
"""Shoots that are rendered before others have their turn of the event loop: four milliseconds if all are new."""


class ShootOrder(StrEnum):
    """How shoots are sorted."""

    SEVERITY = "severity"
    """Worst first."""
    NAME = "name"
    SINCE = "since"
    """Those whose state changed last first."""


class ShootQuery(deps.PageQuery):
    """Filter and order of the list of shoots."""

    state: list[ShootState] = Field([])
    """Only shoots in one of these states."""
    q: Annotated[str, Field(max_length=253)] | None = None
    """Only shoots whose namespace contains this, whatever the case."""
    paused: bool | None = None
    """Only shoots that are paused, or that are not."""
    sort: ShootOrder = ShootOrder.SEVERITY
    """What comes first."""


@router.get(
    "/api/v1/shoots", response_model=schemas.ShootList, dependencies=[deps.allowed(Call.LIST)]
)
async def list_shoots(
    prober: deps.LeadingProber, query: Annotated[ShootQuery, Query()]
) -> Response:
    """All shoots of the seed, probed or not."""
    shoots = prober.shoots.summaries()
    prober.rendered.keep(shoots)
    chosen = [each for each in shoots if _matches(each, query, prober.overrides)]
    page = deps.cut(chosen, lambda each: sort_key(each, query.sort), query.sort, query)
    items, clock = [], Clock.of_loop()
    for place, each in enumerate(page.items, 1):
        status = prober.shoots.status(each.namespace)
        if status is not None:  # else it has gone meanwhile
            items.append(prober.shoot_json(status).json)
        if place % _AT_ONCE == 0:
            await clock.sleep(0)
    about = page.metadata.model_dump_json(by_alias=True).encode()
    body = b'{"items":[' + b",".join(items) + b'],"metadata":' + about + b"}"
    return Response(body, media_type="application/json")


def _matches(status: ShootSummary, query: ShootQuery, overrides: OverrideCache) -> bool:
    if query.state and status.state not in query.state:
        return False
    if query.paused is not None:
        paused = overrides.effective(status.namespace).covering is not None
        if paused != query.paused:
            return False
    return query.q is None or query.q.casefold() in status.namespace.casefold()


def sort_key(status: ShootSummary, order: ShootOrder) -> deps.PageKey:
    """The sort key of a shoot."""
    match order:
        case ShootOrder.SEVERITY:
            return deps.PageKey(float(severity(status.state)), status.namespace)
        case ShootOrder.NAME:
            return deps.PageKey(0.0, status.namespace)
        case ShootOrder.SINCE:
            return deps.PageKey(-status.since, status.namespace)
        case _:
            assert_never(order)


# GET /api/v1/shoots/{namespace}: one shoot, its nodes and its history.


_PATH = "/api/v1/shoots/{namespace}"
_NO_NODES = "in endpoint mode neither Nodes nor Leases are read: conditions say what the two paths to the API server do"


@router.get(_PATH, dependencies=[deps.allowed(Call.READ_SHOOT)])
async def read_shoot(prober: deps.LeadingProber, namespace: str) -> schemas.Shoot:
    """One shoot in detail."""
    return prober.shoot(deps.known_shoot(prober, namespace))


@router.get(_PATH + "/nodes", dependencies=[deps.allowed(Call.READ_SHOOT)])
async def list_nodes(
    prober: deps.LeadingProber, namespace: str, query: Annotated[deps.PageQuery, Query()]
) -> schemas.NodeList:
    """Nodes: whether each is a candidate or why not, and how its lease is judged; 404 in endpoint mode."""
    status = deps.known_shoot(prober, namespace)
    if prober.policy.endpoint_mode:
        raise Problem(ProblemType.NOT_FOUND, _NO_NODES)
    rows, key = presenting.rows(status), lambda row: deps.PageKey(0.0, row.name)
    page = deps.cut(rows, key, f"nodes {namespace}", query)
    return schemas.NodeList.of(
        page,
        metadata=schemas.NodeMetadata.of(
            page.metadata,
            candidates_as_of=None if status.candidacy is None else status.candidacy.at,
            leases_as_of=status.read_at,
        ),
    )


@router.get(_PATH + "/history", dependencies=[deps.allowed(Call.READ_SHOOT)])
async def list_history(
    prober: deps.LeadingProber, namespace: str, query: Annotated[deps.PageQuery, Query()]
) -> schemas.HistoryList:
    """The history of a shoot, newest first; failures and actions are kept longer than uneventful probes."""
    deps.known_shoot(prober, namespace)
    entries = prober.history.about(namespace)
    page = deps.cut(
        entries, lambda each: deps.PageKey(-each.number, ""), f"history {namespace}", query
    )
    return schemas.HistoryList(
        items=[presenting.history_entry(entry) for entry in page.items], metadata=page.metadata
    )


# POST /api/v1/shoots/{namespace}/probe requests a probe.


@router.post(
    "/api/v1/shoots/{namespace}/probe", status_code=202, dependencies=[deps.allowed(Call.PROBE)]
)
async def probe_shoot(
    request: Request, prober: deps.LeadingProber, namespace: str, reason: deps.OptionalReason = ""
) -> schemas.Look:
    """Probe a shoot now, or as soon as the rules allow: several calls share one probe."""
    draft = drafted(request, "probe", namespace, deps.OptionsInQuery(reason))
    last = deps.known_shoot(prober, namespace).last_probe
    draft.before = {"lastTime": None if last is None else rfc3339(last)}
    look = schemas.Look(at=rfc3339(prober.scaling_runs.probe_now(namespace)))
    draft.after = {"at": look.at}
    return look
