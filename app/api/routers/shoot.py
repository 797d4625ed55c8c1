"""GET /api/v1/shoots/{namespace}: one shoot, with its nodes and its history."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.api import nodeview, presenting, schemas
from app.api.calls import Call
from app.api.dependencies import LeadingProber, known_shoot
from app.api.paging import Key, PageQuery, TokenRefused, cut
from app.api.permission import allowed
from app.api.problems import Problem, ProblemType
from app.api.times import time

router = APIRouter(tags=["shoots"])

_PATH = "/api/v1/shoots/{namespace}"
_NO_NODES = "in endpoint mode neither Nodes nor Leases are read: conditions say what the two paths to the API server do"


@router.get(_PATH, dependencies=[allowed(Call.READ_SHOOT)])
async def read_shoot(prober: LeadingProber, namespace: str) -> schemas.Shoot:
    """One shoot, all that is known."""
    status = known_shoot(prober, namespace)
    standing, endpoints = prober.overrides.standing(namespace), prober.endpoints_of(namespace)
    return presenting.shoot(status, prober.policy, standing, endpoints)


@router.get(_PATH + "/nodes", dependencies=[allowed(Call.READ_SHOOT)])
async def list_nodes(
    prober: LeadingProber, namespace: str, query: Annotated[PageQuery, Query()]
) -> schemas.NodeList:
    """Node by node: whether it counts or why not, and what its lease says; 404 in endpoint mode."""
    status = known_shoot(prober, namespace)
    if prober.policy.endpoint_mode is not None:
        raise Problem(ProblemType.NOT_FOUND, _NO_NODES)
    try:
        page = cut(
            nodeview.rows(status),
            lambda row: Key(0.0, row.name),
            f"nodes {namespace}",
            query.limit,
            query.token,
        )
    except TokenRefused as error:
        raise _refused(error) from error
    as_of = None if status.candidacy is None else status.candidacy.at
    return schemas.NodeList(
        items=[row.shown() for row in page.items],
        metadata=schemas.NodeMetadata(
            total=page.total,
            continue_=page.token,
            candidates_as_of=time(as_of),
            leases_as_of=time(status.read_at),
        ),
    )


@router.get(_PATH + "/history", dependencies=[allowed(Call.READ_SHOOT)])
async def list_history(
    prober: LeadingProber, namespace: str, query: Annotated[PageQuery, Query()]
) -> schemas.HistoryList:
    """What happened, newest first; failures and actions outlive uneventful probes."""
    known_shoot(prober, namespace)
    try:
        page = cut(
            prober.shoots.history(namespace),
            lambda entry: Key(-float(entry.number), ""),
            f"history {namespace}",
            query.limit,
            query.token,
        )
    except TokenRefused as error:
        raise _refused(error) from error
    return schemas.HistoryList(
        items=[presenting.history_entry(entry) for entry in page.items],
        metadata=schemas.ListMetadata(total=page.total, continue_=page.token),
    )


def _refused(error: TokenRefused) -> Problem:
    return Problem(ProblemType.INVALID_PAGE_TOKEN, f"continue: {error}")
