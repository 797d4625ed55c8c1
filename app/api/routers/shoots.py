"""GET /api/v1/shoots: all shoots, worst first, in pages."""

from enum import StrEnum
from typing import Annotated, assert_never

from fastapi import APIRouter, Query
from pydantic import Field

from app.api import presenting, schemas
from app.api.calls import Call
from app.api.dependencies import LeadingProber
from app.api.paging import Key, PageQuery, TokenRefused, cut
from app.api.permission import allowed
from app.api.problems import Problem, ProblemType
from app.core.model.probing import ShootState
from app.core.overrides_ports import OverridesView
from app.prober.rules.state import severity
from app.prober.status import ShootStatus

router = APIRouter(tags=["shoots"])


class Order(StrEnum):
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
    sort: Order = Field(Order.SEVERITY, description="What comes first.")


@router.get("/api/v1/shoots", dependencies=[allowed(Call.LIST)])
async def list_shoots(
    prober: LeadingProber, query: Annotated[ShootQuery, Query()]
) -> schemas.ShootList:
    """All shoots that the seed has, probed or not.  Only those of the page are drawn."""
    chosen = [each for each in prober.shoots.statuses() if _matches(each, query, prober.overrides)]
    try:
        page = cut(
            chosen, lambda each: _key(each, query.sort), query.sort, query.limit, query.token
        )
    except TokenRefused as error:
        raise Problem(ProblemType.INVALID_PAGE_TOKEN, f"continue: {error}") from error
    return schemas.ShootList(
        items=[
            presenting.shoot(each, prober.policy, prober.overrides.standing(each.namespace))
            for each in page.items
        ],
        metadata=schemas.ListMetadata(total=page.total, continue_=page.token),
    )


def _matches(status: ShootStatus, query: ShootQuery, overrides: OverridesView) -> bool:
    if query.state and status.state not in query.state:
        return False
    if query.paused is not None:
        paused = overrides.standing(status.namespace).covering is not None
        if paused != query.paused:
            return False
    return query.q is None or query.q.casefold() in status.namespace.casefold()


def _key(status: ShootStatus, order: Order) -> Key:
    match order:
        case Order.SEVERITY:
            return Key(float(severity(status.state)), status.namespace)
        case Order.NAME:
            return Key(0.0, status.namespace)
        case Order.SINCE:
            return Key(-status.since, status.namespace)
        case _:
            assert_never(order)
