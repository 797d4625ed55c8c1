"""/api/v1/weeders: services with their recoveries, the pods deleted or spared; and manual recoveries."""

from itertools import accumulate
from typing import Annotated, Final

from fastapi import Body, Query, Request, Response

from app.api import dependencies as deps
from app.api import presenting, schemas
from app.api.auditing import drafted
from app.api.auth.authorization import Call
from app.api.request_bodies import WeedOrder
from app.core.model.instants import rfc3339
from app.core.model.weeding import Cause, ServiceKey, ServiceStatus

router = deps.api_router("weeders")

_PATH: Final = "/api/v1/weeders"
_ONE: Final = _PATH + "/{namespace}/{service}"
# Most pods on one page; rendering more would keep the event loop from prober and weeder for too long.
_PODS: Final = 2_000


class WeederQuery(deps.PageQuery):
    """The filter of the list of services."""

    namespace: deps.Name | None = None
    """Only services of this control plane."""
    service: deps.Name | None = None
    """Only services of this name."""
    running: bool | None = None
    """Only services that have a recovery now, or that have none."""


@router.get(_PATH, dependencies=[deps.allowed(Call.LIST)])
async def list_weeders(
    weeders: deps.LeadingWeeder, query: Annotated[WeederQuery, Query()]
) -> schemas.WeederList:
    """All services that have recoveries, running or past; those with the newest first.

    A page with very many pods has fewer items than `limit`.
    """
    chosen = [
        each
        for each in weeders.statuses()
        if query.namespace in {None, each.key.namespace}
        and query.service in {None, each.key.service}
        and query.running in {None, any(one.ended is None for one in each.recoveries)}
    ]
    page = deps.cut(chosen, _newest_first, "weeders", query)
    totals = accumulate(presenting.pods(each) for each in page.items)
    fitting = sum(total <= _PODS for total in totals) or 1
    if fitting < len(page.items):
        shorter = deps.PageQuery(limit=fitting, token=query.token)
        page = deps.cut(chosen, _newest_first, "weeders", shorter)
    return schemas.WeederList.of(page)


@router.get(_ONE, dependencies=[deps.allowed(Call.READ_SHOOT)])
async def read_weeder(weeders: deps.LeadingWeeder, namespace: str, service: str) -> schemas.Weeder:
    """One service with its recoveries: each pod deleted, and why others were not."""
    return schemas.Weeder.of(deps.known_service(weeders, ServiceKey(namespace, service)))


_NOTHING_SAID: Final = WeedOrder()


@router.post(
    _ONE,
    status_code=202,
    response_model=schemas.Recovery,
    dependencies=[deps.allowed(Call.WEED)],
    responses={
        200: {"model": schemas.Changes, "description": "What would begin; nothing has begun."}
    },
)
async def weed_now(
    request: Request,
    response: Response,
    context: deps.AnyContext,
    weeders: deps.LeadingWeeder,
    namespace: str,
    service: str,
    body: Annotated[WeedOrder, Body()] = _NOTHING_SAID,
) -> schemas.Recovery | Response:
    """Weed now: a recovery with the same rules, caps and pace as any other; it replaces a running one.

    With `dryRun` nothing begins, and the answer says which recovery would be replaced.
    """
    draft = drafted(request, "weed", namespace, body, target=service)
    key = ServiceKey(namespace, service)
    _ = await deps.listed_in_time(context, lambda: context.overrides.synced)
    before = None
    for each in deps.known_service(weeders, key).recoveries:
        if each.ended is None:  # the one that is replaced
            before = {"recovery": each.id, "cause": each.cause, "until": rfc3339(each.until)}
            break
    draft.before = before
    if body.dry_run:
        despite = weeders.check_weed_now(key, force=body.force)
        policy = context.process.configured.weeder
        duration = 0.0 if policy is None else policy.watch_duration
        until = context.process.now() + duration
        after = {"cause": Cause.ASKED, "until": rfc3339(until), "despite": despite}
        return deps.planned(f"recovery of {key}", before, after)
    deps.refuse_in_dry_run(context, body)
    author = deps.caller_of(request).name
    begun = weeders.weed_now(key, author=author, reason=body.reason, force=body.force)
    draft.after = {"recovery": begun.id, "force": body.force}
    response.headers["Location"] = f"{_PATH}/{namespace}/{service}"
    return schemas.Recovery.of(begun)


def _newest_first(status: ServiceStatus) -> deps.PageKey:
    newest = max((each.began for each in status.recoveries), default=0.0)
    return deps.PageKey(-newest, str(status.key))
