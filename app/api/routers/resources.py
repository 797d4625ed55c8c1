"""/api/v1/shoots/{namespace}/resources: the dependents, read live, and their ignore-scaling."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Header, Query, Request, Response

from app.api import dependencies as deps
from app.api import presenting, schemas
from app.api.auditing import WriteOptions, drafted
from app.api.auth.authorization import Call
from app.api.context import Context, ProberView
from app.api.limits import name_of
from app.api.problems import Problem, ProblemType, wait
from app.api.request_bodies import IgnoreOrder
from app.core import redaction
from app.core.errors import Throttled, trimmed
from app.core.model import workloads
from app.core.model.overrides import IgnoreRequest
from app.core.model.policy import DependentPolicy
from app.core.model.workloads import ResourceRef, WorkloadView

router = deps.api_router("resources")

_PATH: Final = "/api/v1/shoots/{namespace}/resources"
_IGNORE: Final = _PATH + "/{kind}/{name}/ignore-scaling"
_IF_MATCH: Final = (
    "An ETag of `resources`, of all or of this one: nothing is done if it has changed since."
)
_API_VERSION: Final = "Needed if two dependents have this kind and name."

# `Retry-After` in seconds when nothing is left of the request budget for the seed.
_BUSY: Final = 1.0
_NOTHING_LEFT: Final = (
    "the request budget for the seed is used up by requests that go first; retry later"
)

IfMatch = Annotated[list[str] | None, Header(description=_IF_MATCH)]
ApiVersion = Annotated[str | None, Query(alias="apiVersion", description=_API_VERSION)]


@router.get(_PATH, dependencies=[deps.allowed(Call.READ_SHOOT)])
async def list_resources(
    request: Request,
    prober: deps.AnyProber,
    response: Response,
    namespace: str,
    query: Annotated[deps.PageQuery, Query()],
) -> schemas.ResourceList:
    """The dependents as they are now: this asks the seed, so that the ETag is current.

    One such read per caller runs at a time, with what other requests leave of the request budget for the seed.
    """
    deps.known_shoot(prober, namespace)
    numbered = list(enumerate(prober.policy.dependents))
    order = f"resources {namespace}"
    page = deps.cut(numbered, lambda each: deps.PageKey(each[0], ""), order, query)
    async with prober.looks.turn(name_of(request.scope)):
        views = await _live(prober, namespace)
    response.headers["ETag"] = workloads.list_etag(views)
    return schemas.ResourceList(
        items=[presenting.live_resource(each, views.get(each.ref)) for _, each in page.items],
        metadata=page.metadata,
    )


async def _live(prober: ProberView, namespace: str) -> Mapping[ResourceRef, WorkloadView | None]:
    """Read the dependents with what scaling and probing leave of the request budget (rules 4.3).

    If nothing is left the answer is 503 and not 429, as the caller did not cause it.
    """
    try:
        return await prober.resources.live(namespace)
    except Throttled as error:
        if error.status is None:
            pause, detail = _BUSY, _NOTHING_LEFT
        else:
            pause, detail = error.retry_after or _BUSY, redaction.clean(str(error))
        raise Problem(ProblemType.SEED_AWAY, detail, headers=wait(pause)) from error


@dataclass(frozen=True, slots=True)
class Meant:
    """The resource of the path of a write."""

    prober: ProberView
    namespace: str
    dependent: DependentPolicy
    if_match: str | None
    known: WorkloadView | None
    """The resource as the watch last showed it; None if it does not exist."""


async def meant(
    prober: deps.AnyProber,
    namespace: str,
    kind: str,
    name: str,
    api_version: ApiVersion = None,
    if_match: IfMatch = None,
) -> Meant:
    """A dependency: the configured dependent of this kind and name.

    Raises:
        Problem: 404: there is no such shoot or dependent; 422: several match, and `apiVersion` must say which.
    """
    status = deps.known_shoot(prober, namespace)
    named = [each for each in prober.policy.dependents if each.ref[1:] == (kind, name)]
    found = [each for each in named if api_version in {None, each.ref.api_version}]
    if not found:
        shown = trimmed(f"{kind}/{name}" if api_version is None else f"{api_version} {kind}/{name}")
        raise Problem(ProblemType.NOT_FOUND, f"no dependent {shown} is configured")
    if len(found) > 1:
        versions = ", ".join(each.ref.api_version for each in found)
        error = {"path": "query.apiVersion", "message": f"must be one of {versions}"}
        detail = f"there is more than one {kind}/{name}: apiVersion must be one of {versions}"
        raise Problem(ProblemType.INVALID_PARAMETER, detail, errors=[error])
    lines = None if if_match is None else ", ".join(if_match)
    known = status.resources.get(found[0].ref)
    return Meant(prober, namespace, found[0], lines, known)


MeantResource = Annotated[Meant, Depends(meant)]


@router.put(
    _IGNORE,
    response_model=schemas.LiveResource | schemas.Changes,
    dependencies=[deps.allowed(Call.IGNORE)],
)
async def ignore_resource(
    request: Request,
    response: Response,
    context: deps.AnyContext,
    resource: MeantResource,
    body: IgnoreOrder,
) -> schemas.LiveResource | Response:
    """Set ignore-scaling on a resource: nothing scales it until the annotation is removed; it does not expire.

    Any replica accepts it. With `dryRun` nothing is written, and the answer says what would change.
    """
    return await _mark(request, response, context, resource, body, ignored=True, force=body.force)


@router.delete(
    _IGNORE,
    response_model=schemas.LiveResource | schemas.Changes,
    dependencies=[deps.allowed(Call.UNIGNORE)],
)
async def heed_resource(
    request: Request,
    response: Response,
    context: deps.AnyContext,
    options: deps.WriteQuery,
    resource: MeantResource,
) -> schemas.LiveResource | Response:
    """Remove ignore-scaling, so that the resource is scaled like all others; does nothing if it is not set."""
    return await _mark(request, response, context, resource, options, ignored=False)


async def _mark(
    request: Request,
    response: Response,
    context: Context,
    resource: Meant,
    options: WriteOptions,
    *,
    ignored: bool,
    force: bool = False,
) -> schemas.LiveResource | Response:
    order = IgnoreRequest(
        resource.namespace,
        resource.dependent.ref,
        ignored=ignored,
        author=deps.caller_of(request).name,
        reason=options.reason or None,
        force=force,
        if_match=resource.if_match,
        dry_run=options.dry_run,
    )
    action = "ignore" if ignored else "unignore"
    draft = drafted(request, action, order.namespace, options, target=str(order.ref))
    draft.before = None if resource.known is None else _audited(resource.known)
    deps.refuse_in_dry_run(context, options)
    before, after = await resource.prober.resources.set_ignored(order)
    if order.dry_run:
        marks = (each.annotations.get(workloads.IGNORE_SCALING) for each in (before, after))
        answer = deps.planned(f"{order.ref}, annotation {workloads.IGNORE_SCALING}", *marks)
        answer.headers["ETag"] = workloads.resource_etag(before)
        return answer
    draft.before, draft.after = _audited(before), _audited(after)
    response.headers["ETag"] = workloads.resource_etag(after)
    return presenting.live_resource(resource.dependent, after)


def _audited(view: WorkloadView) -> dict[str, object]:
    return {
        "ignoreScaling": view.annotations.get(workloads.IGNORE_SCALING),
        "replicas": view.replicas,
        "resourceVersion": view.resource_version,
    }
