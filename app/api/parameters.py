"""Query parameters and bodies: refusal of unknown ones, and pages of lists.

An unknown parameter or body is an error, so that a misspelt filter or option is never silently ignored.
"""

import base64
import binascii
import heapq
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar, get_origin

import msgspec
from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import request_params_to_args
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

from app.api.middleware import has_body
from app.api.problems import Problem, ProblemType, invalid
from app.api.schemas import ListMetadata

Wrong = Mapping[str, Any]
"""A mistake, as pydantic describes it: `loc` and `msg`."""

_API: Final = "/api/"
# The wording of pydantic for models with `extra="forbid"`.
_MESSAGE: Final = "Extra inputs are not permitted"
_TWICE: Final = "Given more than once"


async def refuse_unknown(request: Request) -> None:
    """Refuse a request to the API with input that its route would ignore.

    That is: an unknown query parameter, a second value of a parameter that takes one, or a body other than `{}` for a
    route without a body.

    Raises:
        Problem: 422; it names all mistakes of the request, those of known parameters and fields included.
    """
    route = _route(request)
    if route is None:
        return
    found = [*_superfluous(route, request), *await _unread_body(route, request)]
    if not found:
        return
    # One answer names every mistake, so that the caller need not find them one by one.
    wrong = [*_wrong_query(route.dependant, request), *await _wrong_fields(route, request)]
    places = {each["loc"] for each in found}
    raise invalid([*found, *(each for each in wrong if each["loc"] not in places)])


def _superfluous(route: APIRoute, request: Request) -> Iterator[Wrong]:
    """Query parameters that the route does not have, and those given more than once."""
    if not request.query_params:
        return
    known = dict(_known(route.dependant))
    for name in request.query_params:
        if name not in known:
            yield {"loc": ("query", name), "msg": _MESSAGE}
        elif not known[name] and len(request.query_params.getlist(name)) > 1:
            yield {"loc": ("query", name), "msg": _TWICE}


async def _unread_body(route: APIRoute, request: Request) -> list[Wrong]:
    """The mistake of a body other than `{}` for a route without a body."""
    if route.body_field is not None or not has_body(request.scope):
        return []
    body = (await request.body()).strip()
    # `BodyLimit` in app.api.middleware has made sure that it is JSON.
    says = bool(body) and json.loads(body) != {}
    return [{"loc": ("body",), "msg": _MESSAGE}] if says else []


def _wrong_query(dependant: Dependant, request: Request) -> Iterator[Wrong]:
    """Mistakes in known query parameters, which the framework would report only later."""
    yield from request_params_to_args(dependant.query_params, request.query_params)[1]
    for inner in dependant.dependencies:
        yield from _wrong_query(inner, request)


async def _wrong_fields(route: APIRoute, request: Request) -> list[Wrong]:
    """Mistakes in the body, which the framework would report only later."""
    field = route.body_field
    if field is None:
        return []
    if not await request.body():
        required = field.field_info.is_required()
        return [{"loc": ("body",), "msg": "Field required"}] if required else []
    _, errors = field.validate(await request.json(), loc=("body",))
    return list(errors)


def _route(request: Request) -> APIRoute | None:
    """The route of the API that the request is for; None for pages, health and metrics."""
    route = request.scope.get("route")
    called = isinstance(route, APIRoute) and route.path.startswith(_API)
    return route if called else None


def _known(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Names of the query parameters, fields of models included, and whether each may be given more than once."""
    for each in dependant.query_params:
        annotation = each.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for name, field in annotation.model_fields.items():
                yield field.alias or name, get_origin(field.annotation) is list
        else:
            yield each.alias, get_origin(annotation) is list
    for inner in dependant.dependencies:
        yield from _known(inner)


# Pages of lists, without a snapshot: the token has the sort key of the last item, and the next page begins after it.
#
# An item that keeps its sort key is returned exactly once, whatever items come, go or move between two pages.


T = TypeVar("T")

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 500
_MAX_TOKEN: Final = 1_024


class PageQuery(BaseModel):
    """The part of a list that is asked for; base of the queries of all lists."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = Field(
        DEFAULT_LIMIT, description="The most items to return."
    )
    token: str | None = Field(
        None, alias="continue", description="`metadata.continue` of the page before this one."
    )


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
    following = _write(chosen[-1][0], order) if more and chosen else None
    metadata = ListMetadata(total=len(placed), continue_=following)
    return ListPage([item for _, item in chosen], metadata)


def _write(key: PageKey, order: str) -> str:
    packed = msgspec.json.encode((order, key.rank, key.name))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


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
