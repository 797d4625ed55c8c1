"""/api/v1/weeders: services with their recoveries, the pods deleted or spared; and manual recoveries."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Final

from fastapi import Body, Query, Request, Response
from pydantic import Field

from app.api import presenting, schemas
from app.api.auditing import drafted
from app.api.auth.authorization import Call
from app.api.context import Context
from app.api.dependencies import (
    AnyContext,
    LeadingWeeder,
    ListPage,
    PageKey,
    PageQuery,
    allowed,
    api_router,
    caller_of,
    cut,
    known_service,
    listed_in_time,
    planned,
    refuse_in_dry_run,
)
from app.core.model.instants import rfc3339
from app.core.model.weeding import Cause, ServiceKey, ServiceStatus

router = api_router("weeders")

_PATH: Final = "/api/v1/weeders"
_ONE: Final = _PATH + "/{namespace}/{service}"
# Most pods on one page; rendering more would keep the event loop from prober and weeder for too long.
_PODS: Final = 2_000

Name = Annotated[str, Field(min_length=1, max_length=253)]


class WeederQuery(PageQuery):
    """The filter of the list of services."""

    namespace: Name | None = Field(None, description="Only services of this control plane.")
    service: Name | None = Field(None, description="Only services of this name.")
    running: bool | None = Field(
        None, description="Only services that have a recovery now, or that have none."
    )


@router.get(_PATH, dependencies=[allowed(Call.LIST)])
async def list_weeders(
    weeders: LeadingWeeder, query: Annotated[WeederQuery, Query()]
) -> schemas.WeederList:
    """All services that have recoveries, running or past; those with the newest first.

    A page with very many pods has fewer items than `limit`.
    """
    page = _page([each for each in weeders.statuses() if _matches(each, query)], query)
    return schemas.WeederList(
        items=[schemas.Weeder.of(each) for each in page.items], metadata=page.metadata
    )


@router.get(_ONE, dependencies=[allowed(Call.READ_SHOOT)])
async def read_weeder(weeders: LeadingWeeder, namespace: str, service: str) -> schemas.Weeder:
    """One service with its recoveries: each pod deleted, and why others were not."""
    return schemas.Weeder.of(known_service(weeders, ServiceKey(namespace, service)))


_NOTHING_SAID: Final = schemas.WeedOrder()


@router.post(
    _ONE,
    status_code=202,
    response_model=schemas.Recovery,
    dependencies=[allowed(Call.WEED)],
    responses={
        200: {"model": schemas.Changes, "description": "What would begin; nothing has begun."}
    },
)
async def weed_now(
    request: Request,
    response: Response,
    context: AnyContext,
    weeders: LeadingWeeder,
    namespace: str,
    service: str,
    body: Annotated[schemas.WeedOrder, Body()] = _NOTHING_SAID,
) -> schemas.Recovery | Response:
    """Weed now: a recovery with the same rules, caps and pace as any other; it replaces a running one.

    With `dryRun` nothing begins, and the answer says which recovery would be replaced.
    """
    draft = drafted(
        request, "weed", namespace, target=service, reason=body.reason, dry_run=body.dry_run
    )
    key = ServiceKey(namespace, service)
    _ = await listed_in_time(context, lambda: context.overrides.synced)
    before = draft.before = _before(known_service(weeders, key))
    if body.dry_run:
        despite = weeders.check_weed_now(key, force=body.force)
        until = context.process.now() + _watch_duration(context)
        after = {"cause": Cause.ASKED, "until": rfc3339(until), "despite": despite}
        return planned(f"recovery of {key}", before, after)
    refuse_in_dry_run(context)
    author = caller_of(request).name
    begun = weeders.weed_now(key, author=author, reason=body.reason, force=body.force)
    draft.after = {"recovery": begun.id, "force": body.force}
    response.headers["Location"] = f"{_PATH}/{namespace}/{service}"
    return schemas.Recovery.of(begun)


def _watch_duration(context: Context) -> float:
    policy = context.process.configured.weeder
    return 0.0 if policy is None else policy.watch_duration


def _before(status: ServiceStatus) -> object:
    """State for the audit: the recovery that is replaced."""
    running = next((each for each in status.recoveries if each.ended is None), None)
    if running is None:
        return None
    return {"recovery": running.id, "cause": running.cause, "until": rfc3339(running.until)}


def _page(chosen: Sequence[ServiceStatus], query: PageQuery) -> ListPage[ServiceStatus]:
    """A page of services, cut short if it would have more than `_PODS` pods."""
    page = cut(chosen, _key, "weeders", query)
    totals = accumulate(presenting.pods(each) for each in page.items)
    fitting = sum(total <= _PODS for total in totals) or 1
    if fitting >= len(page.items):
        return page
    return cut(chosen, _key, "weeders", PageQuery(limit=fitting, token=query.token))


def _matches(status: ServiceStatus, query: WeederQuery) -> bool:
    if query.namespace not in {None, status.key.namespace}:
        return False
    if query.service not in {None, status.key.service}:
        return False
    return query.running is None or query.running == _runs(status)


def _runs(status: ServiceStatus) -> bool:
    return any(each.ended is None for each in status.recoveries)


def _key(status: ServiceStatus) -> PageKey:
    """Sort key: newest recovery first."""
    newest = max((each.began for each in status.recoveries), default=0.0)
    return PageKey(-newest, str(status.key))
