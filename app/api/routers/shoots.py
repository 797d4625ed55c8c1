"""GET /api/v1/shoots: all shoots, worst first, in pages."""

from enum import StrEnum
from typing import Annotated, assert_never

from fastapi import APIRouter, Query, Response
from pydantic import Field

from app.api import schemas
from app.api.calls import Call
from app.api.dependencies import LeadingProber
from app.api.paging import Key, PageQuery, TokenRefused, cut
from app.api.permission import allowed
from app.api.problems import Problem, ProblemType
from app.api.views import ProberView
from app.core.model.probing import ShootState
from app.core.overrides_ports import OverridesView
from app.prober.rules.state import severity
from app.prober.status import Outline

router = APIRouter(tags=["shoots"])


class ShootOrder(StrEnum):
    """How shoots are sorted."""

    SEVERITY = "severity"
    """Worst first."""
    NAME = "name"
    SINCE = "since"
    """Those whose state changed last first."""


class ShootQuery(PageQuery):
    """Which shoots, and in which order."""

    state: list[ShootState] = Field([], description="Only shoots in one of these states.")
    q: Annotated[str, Field(max_length=253)] | None = Field(
        None, description="Only shoots whose namespace contains this, whatever the case."
    )
    paused: bool | None = Field(None, description="Only shoots that are paused, or that are not.")
    sort: ShootOrder = Field(ShootOrder.SEVERITY, description="What comes first.")


@router.get("/api/v1/shoots", response_model=schemas.ShootList, dependencies=[allowed(Call.LIST)])
async def list_shoots(prober: LeadingProber, query: Annotated[ShootQuery, Query()]) -> Response:
    """All shoots that the seed has, probed or not.  Only those of the page are drawn."""
    shoots = prober.shoots.outlines()
    prober.drawings.keep(shoots)
    chosen = [each for each in shoots if _matches(each, query, prober.overrides)]
    try:
        page = cut(
            chosen, lambda each: _key(each, query.sort), query.sort, query.limit, query.token
        )
    except TokenRefused as error:
        raise Problem(ProblemType.INVALID_PAGE_TOKEN, f"continue: {error}") from error
    items = b",".join(_drawn(each.namespace, prober) for each in page.items)
    metadata = schemas.ListMetadata(total=page.total, continue_=page.token)
    about = metadata.model_dump_json(by_alias=True).encode()
    body = b'{"items":[' + items + b'],"metadata":' + about + b"}"
    return Response(body, media_type="application/json")


def _drawn(namespace: str, prober: ProberView) -> bytes:
    status = prober.shoots.status(namespace)
    assert status is not None  # noqa: S101 - nothing was awaited since it was chosen
    standing, endpoints = prober.overrides.standing(namespace), prober.endpoints_of(namespace)
    return prober.drawings.shoot(status, prober.policy, standing, endpoints)


def _matches(status: Outline, query: ShootQuery, overrides: OverridesView) -> bool:
    if query.state and status.state not in query.state:
        return False
    if query.paused is not None:
        paused = overrides.standing(status.namespace).covering is not None
        if paused != query.paused:
            return False
    return query.q is None or query.q.casefold() in status.namespace.casefold()


def _key(status: Outline, order: ShootOrder) -> Key:
    match order:
        case ShootOrder.SEVERITY:
            return Key(float(severity(status.state)), status.namespace)
        case ShootOrder.NAME:
            return Key(0.0, status.namespace)
        case ShootOrder.SINCE:
            return Key(-status.since, status.namespace)
        case _:
            assert_never(order)
