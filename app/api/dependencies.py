"""What routes are made with: their routers and dependencies, their parameters, and pages of lists.

Dependencies give the context, loops that this instance leads, subjects of the path, and authorization. An unknown
parameter or body is an error, so that a misspelt filter or option is never silently ignored.
"""

import base64
import binascii
import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar, get_origin

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi._compat import ModelField
from fastapi.datastructures import QueryParams
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_flat_params, request_params_to_args
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.api import schemas
from app.api.auditing import WriteOptions
from app.api.auth.authorization import Call
from app.api.context import Context, ProberView
from app.api.problems import Problem, ProblemType, invalid
from app.api.request_bodies import Remark
from app.api.schemas import ListMetadata
from app.core.errors import FeatureUnavailable, trimmed
from app.core.model.callers import Caller
from app.core.model.policy import Loop
from app.core.model.weeding import ServiceKey, ServiceStatus
from app.prober.status import ShootStatus
from app.weeder.controller import WeederController

# Seconds that a call waits for the first list of a process that was just started (rules 8, callers).
_LISTED_WITHIN: Final = 2.0
_CHECK_INTERVAL: Final = 0.05


def operation_id(route: APIRoute) -> str:
    """The operation id: the name of the route's function in camelCase, which is a contract for generated clients."""
    return to_camel(route.name)


def api_router(tag: str) -> APIRouter:
    """A router for calls of the API, all with one tag."""
    return APIRouter(tags=[tag], generate_unique_id_function=operation_id)


async def context(request: Request) -> Context:
    """The context of the application."""
    found: Context = request.app.state.context
    return found


def check_here(found: Context, loop: Loop) -> None:
    """Require that this process runs the loop, as leader or standby.

    Raises:
        Problem: 503: another process runs it; the problem names its `--peer-url`.
    """
    leaders, peer = found.process.leaders, found.process.peer_url
    if loop in leaders:
        return
    here = " and ".join(sorted(leaders)) or "neither loop"
    detail = f"the {loop} does not run in this process, which runs the {here}"
    if peer is not None:
        detail += f"; ask {trimmed(peer)}"
    raise Problem(ProblemType.LOOP_NOT_HERE, detail, extra={"loop": str(loop), "peer": peer})


def leads(found: Context, loop: Loop) -> bool:
    """Whether this instance leads the loop."""
    leader = found.process.leaders.get(loop)
    return leader is not None and leader.leading


def _require(found: Context, loop: Loop) -> None:
    """Require that this instance leads the loop.

    Raises:
        Problem: 503: another process runs the loop, or this instance is a standby; the problem names the leader.
    """
    check_here(found, loop)
    if leads(found, loop):
        return
    standing_by = found.process.leaders[loop]
    leader = standing_by.leader_identity
    detail = "this instance is on standby; the leader is unknown"
    if leader is not None:
        detail = f"this instance is on standby; {trimmed(leader)} leads"
    raise Problem(
        ProblemType.NOT_THE_LEADER,
        detail,
        extra={"leader": {"identity": leader, "address": standing_by.address}},
        headers={"Retry-After": "5"},
    )


AnyContext = Annotated[Context, Depends(context)]


async def listed_prober(found: Context) -> ProberView:
    """The prober, once it knows all shoots; before that, a 404 for an unknown shoot could be wrong.

    Raises:
        Problem: 503: the Clusters have not been listed yet.
    """
    prober = found.prober
    assert prober is not None  # noqa: S101 - who asks knows that it runs here
    await until_listed(found, "Clusters", lambda: prober.shoots.listed)
    return prober


async def until_listed(found: Context, kind: str, listed: Callable[[], bool]) -> None:
    """Wait until `listed` returns True; a process that was just started lists the seed within a second or two.

    Raises:
        Problem: 503: the list of this `kind` did not come in time.
    """
    if not await listed_in_time(found, listed):
        detail = (
            f"the {kind} of the seed have not been listed yet; /readyz?verbose says what is missing"
        )
        raise Problem(ProblemType.NOT_LISTED, detail, headers={"Retry-After": "2"})


async def listed_in_time(found: Context, listed: Callable[[], bool]) -> bool:
    """Wait until `listed` returns True, for 2 s at most; return whether it does."""
    process = found.process
    deadline = process.now() + _LISTED_WITHIN
    while not listed():
        if process.now() >= deadline:
            return False
        await process.sleep(_CHECK_INTERVAL)
    return True


async def any_prober(found: AnyContext) -> ProberView:
    """The prober on any replica, for calls that a standby answers, too.

    Raises:
        Problem: 503: another process runs the prober, or the Clusters have not been listed yet.
    """
    check_here(found, Loop.PROBER)
    return await listed_prober(found)


async def leading_prober(found: AnyContext) -> ProberView:
    """The prober, on its leader only.

    Raises:
        Problem: 503: another process runs it, this instance is a standby, or the Clusters have not been listed yet.
    """
    _require(found, Loop.PROBER)
    return await listed_prober(found)


async def leading_weeder(found: AnyContext) -> WeederController:
    """The weeder, on its leader only.

    Raises:
        Problem: 503: another process runs it, or this instance is a standby.
    """
    _require(found, Loop.WEEDER)
    assert found.weeders is not None  # noqa: S101 - the process says that it runs here
    return found.weeders


AnyProber = Annotated[ProberView, Depends(any_prober)]
LeadingProber = Annotated[ProberView, Depends(leading_prober)]
LeadingWeeder = Annotated[WeederController, Depends(leading_weeder)]


def known_shoot(found: ProberView, namespace: str) -> ShootStatus:
    """The shoot of a control-plane namespace.

    Raises:
        Problem: 404: the seed has no such shoot.
    """
    status = found.shoots.status(namespace)
    if status is None:
        detail = f"the seed has no Cluster {trimmed(namespace, 100)}"
        raise Problem(ProblemType.NOT_FOUND, detail)
    return status


def known_service(found: WeederController, key: ServiceKey) -> ServiceStatus:
    """A service of a control plane that the weeder follows.

    Raises:
        Problem: 404: it is not configured, or has no EndpointSlices.
    """
    status = found.status(key)
    if status is None:
        detail = f"nothing is known about {trimmed(str(key), 200)}: it is not configured, or has no EndpointSlices"
        raise Problem(ProblemType.NOT_FOUND, detail)
    return status


# Dry runs.


def refuse_in_dry_run(context: Context, options: WriteOptions) -> None:
    """Refuse a call that would write, in a process that was started with `--dry-run` (rules 1).

    Raises:
        Problem: 503.
    """
    if context.process.dry_run and not options.dry_run:
        detail = "this process was started with --dry-run: it reads, judges and plans, but writes nothing"
        raise Problem(ProblemType.DRY_RUN, detail)


def refuse_if_off(context: Context, feature: str) -> None:
    """Refuse a dry run where the write would be refused, too, as the feature is off in this process.

    Raises:
        FeatureUnavailable: it is off.
    """
    if (off := context.process.features_off().get(feature)) is not None:
        raise FeatureUnavailable(feature, off)


PLANNED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": schemas.Changes, "description": "What would change; nothing was written."}
}
"""The answer to `dryRun`, for the OpenAPI document."""


def planned(changed: str, before: object, after: object) -> Response:
    """The answer to `dryRun`: the one object that the call would change, or none if it is so already."""
    change = schemas.PlannedChange(object=changed, before=before, after=after)
    found = schemas.Changes(changes=[] if before == after else [change])
    return JSONResponse(found.public())


Name = Annotated[str, Field(min_length=1, max_length=253)]
"""A name of the seed, as a filter."""
DryRun = Annotated[
    bool, Query(alias="dryRun", description="Only show what would change; write nothing.")
]
OptionalReason = Annotated[Remark, Query()]
"""The reason of a call without a body."""


class OptionsInQuery(NamedTuple):
    """What the caller of a write without a body says."""

    reason: str
    dry_run: bool = False


async def _options(*, dry_run: DryRun = False, reason: OptionalReason = "") -> OptionsInQuery:
    return OptionsInQuery(reason, dry_run)


WriteQuery = Annotated[OptionsInQuery, Depends(_options)]


# Authorization.


def caller_of(request: Request) -> Caller:
    """The caller of a request, as the authentication middleware has verified it."""
    found: Caller = request.state.caller
    return found


async def authorize(request: Request, found: Context, call: Call, namespace: str = "") -> None:
    """Require the right to make `call` on a shoot (without a namespace, on all); calls on all Pauses need it at home.

    Raises:
        Problem: 403; or 503 or 429 if the seed cannot be asked.
    """
    await found.authority.check(caller_of(request), call, found.place_of(call, namespace))


def allowed(call: Call) -> Any:  # noqa: ANN401 - a marker of FastAPI's, without a public type
    """A dependency that requires the right to make `call` on the path's `namespace` (without one, on all).

    It also refuses query parameters and bodies that the route does not know. FastAPI resolves a route's `dependencies`
    before those in its signature: put it there, so that nothing is done or told before the caller is authorized.
    """

    async def check(request: Request, context: AnyContext) -> None:
        await authorize(request, context, call, str(request.path_params.get("namespace", "")))
        await refuse_unknown(request)

    return Depends(check)


# Query parameters and bodies that a route would ignore.


_API: Final = "/api/"
# The wording of pydantic for models with `extra="forbid"`.
_MESSAGE: Final = "Extra inputs are not permitted"


async def refuse_unknown(request: Request) -> None:
    """Refuse a request to the API with input that its route would ignore.

    That is: an unknown query parameter, a second value of a parameter that takes one, or a body other than `{}` for a
    route without a body.

    Raises:
        Problem: 422; it names all mistakes of the request, those of known parameters and fields included.
    """
    route, state = request.scope.get("route"), request.scope["state"]
    if not isinstance(route, APIRoute) or not route.path.startswith(_API):
        return  # a page, health or metrics
    fields = list(_query_fields(route.dependant)) if request.query_params else []
    found = list(_superfluous(fields, request.query_params))
    if route.body_field is None and state.get("body", {}) != {}:
        found.append({"loc": ("body",), "msg": _MESSAGE})
    if not found:
        return
    # One answer names every mistake, so that the caller need not find them one by one: also those in known parameters
    # and fields, which the framework would report only later.
    wrong = request_params_to_args(fields, request.query_params)[1]
    if (body := route.body_field) is not None:
        if "body" in state:
            wrong += body.validate(state["body"], loc=("body",))[1]
        elif body.field_info.is_required():
            wrong.append({"loc": ("body",), "msg": "Field required"})
    places = {each["loc"] for each in found}
    raise invalid([*found, *(each for each in wrong if each["loc"] not in places)])


def _query_fields(dependant: Dependant) -> Iterator[ModelField]:
    yield from dependant.query_params
    for inner in dependant.dependencies:
        yield from _query_fields(inner)


def _superfluous(fields: list[ModelField], given: QueryParams) -> Iterator[dict[str, Any]]:
    """Query parameters that the route does not have, and those given more than once, as pydantic describes mistakes."""
    # Of each parameter, fields of models included, whether it may be given more than once.
    lists = {
        each.alias: get_origin(each.field_info.annotation) is list
        for each in get_flat_params(Dependant(query_params=fields))
    }
    for name in given:
        if name not in lists:
            yield {"loc": ("query", name), "msg": _MESSAGE}
        elif not lists[name] and len(given.getlist(name)) > 1:
            yield {"loc": ("query", name), "msg": "Given more than once"}


# Pages of lists, without a snapshot: the token has the sort key of the last item, and the next page begins after it.
#
# An item that keeps its sort key is returned exactly once, whatever items come, go or move between two pages.


T = TypeVar("T")

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 500
_MAX_TOKEN: Final = 1_024


class PageQuery(BaseModel):
    """The part of a list that is asked for; base of the queries of all lists."""

    model_config = ConfigDict(populate_by_name=True, use_attribute_docstrings=True)

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT
    """The most items to return."""
    token: str | None = Field(None, alias="continue")
    """`metadata.continue` of the page before this one."""


class PageKey(NamedTuple):
    """Sort key of an item, lowest first; `name` makes items of the same rank distinct."""

    rank: float
    name: str


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """One page of a list."""

    items: list[T]
    metadata: ListMetadata


def cut(
    items: Iterable[T], key: Callable[[T], PageKey], order: str, query: PageQuery
) -> ListPage[T]:
    """Cut the page that the caller asks for out of a list.

    Args:
        items: All items, in any order; no two with the same key.
        key: Returns the sort key of an item.
        order: Name of list and order; a token of another one is refused.
        query: Most items on the page, and the token of the page before.

    Raises:
        Problem: 400: the token is unreadable, or from another list or order.
    """
    after = None if query.token is None else _read(query.token, order)
    placed = [(key(item), item) for item in items]
    behind = placed if after is None else [each for each in placed if each[0] > after]
    chosen = heapq.nsmallest(query.limit, behind, key=lambda each: each[0])
    more = len(behind) > len(chosen)
    following = None
    if more and chosen:
        last, _ = chosen[-1]
        packed = msgspec.json.encode((order, last.rank, last.name))
        following = base64.urlsafe_b64encode(packed).decode().rstrip("=")
    metadata = ListMetadata(total=len(placed), continue_=following)
    return ListPage([item for _, item in chosen], metadata)


def _read(token: str, order: str) -> PageKey:
    if len(token) > _MAX_TOKEN:
        raise _refused("too long")
    try:
        packed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        made_for, rank, name = msgspec.json.decode(packed, type=tuple[str, float, str])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise _refused("not readable") from error
    if made_for != order or not math.isfinite(rank):
        raise _refused("made for another list or order")
    return PageKey(rank, name)


def _refused(why: str) -> Problem:
    return Problem(ProblemType.INVALID_PAGE_TOKEN, f"continue: {why}")
