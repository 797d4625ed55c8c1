"""No call has query parameters or a body that are not its own: what is misspelt is not taken for nothing."""

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
from app.api.problems import invalid

Wrong = Mapping[str, Any]
"""One thing that is wrong, in the words of the framework."""

_API: Final = "/api/"
_MESSAGE: Final = "Extra inputs are not permitted"
"""As the models of lists say it."""
_TWICE: Final = "Given more than once"


async def refuse_unknown(request: Request) -> None:
    """Returns where the path is none of the API, or its call knows each parameter, and takes a body if there is one.

    A parameter of one value is there once: of two, one would be read by nobody. A body of `{}` says nothing: each call
    may have it.

    Raises:
        Problem: there is something that nobody would read; all that is wrong is named, the fields of the body too.
    """
    route = _route(request)
    if route is None:
        return
    found = [*_superfluous(route, request), *await _unread_body(route, request)]
    if not found:
        return
    # Whoever has to ask again is told everything at once.
    wrong = [*_wrong_query(route.dependant, request), *await _wrong_fields(route, request)]
    places = {each["loc"] for each in found}
    raise invalid([*found, *(each for each in wrong if each["loc"] not in places)])


def _superfluous(route: APIRoute, request: Request) -> Iterator[Wrong]:
    """Query parameters that are not there, and those that are there too often."""
    if not request.query_params:
        return
    known = dict(_known(route.dependant))
    for name in request.query_params:
        if name not in known:
            yield {"loc": ("query", name), "msg": _MESSAGE}
        elif not known[name] and len(request.query_params.getlist(name)) > 1:
            yield {"loc": ("query", name), "msg": _TWICE}


async def _unread_body(route: APIRoute, request: Request) -> list[Wrong]:
    """A body that says something to a call that takes none."""
    if route.body_field is not None or not has_body(request.scope):
        return []
    body = (await request.body()).strip()
    # That it is JSON was seen to before (app.api.middleware).
    says = bool(body) and json.loads(body) != {}
    return [{"loc": ("body",), "msg": _MESSAGE}] if says else []


def _wrong_query(dependant: Dependant, request: Request) -> Iterator[Wrong]:
    """What the framework would say of the query later on."""
    yield from request_params_to_args(dependant.query_params, request.query_params)[1]
    for inner in dependant.dependencies:
        yield from _wrong_query(inner, request)


async def _wrong_fields(route: APIRoute, request: Request) -> list[Wrong]:
    """The same of the body."""
    field = route.body_field
    if field is None:
        return []
    if not await request.body():
        required = field.field_info.is_required()
        return [{"loc": ("body",), "msg": "Field required"}] if required else []
    _, errors = field.validate(await request.json(), loc=("body",))
    return list(errors)


def _route(request: Request) -> APIRoute | None:
    """The call of the API that this is; None: it is none."""
    route = request.scope.get("route")
    called = isinstance(route, APIRoute) and route.path.startswith(_API)
    return route if called else None


def _known(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """The names of the query parameters, those in models too, and whether each may be there more than once."""
    for each in dependant.query_params:
        annotation = each.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for name, field in annotation.model_fields.items():
                yield field.alias or name, get_origin(field.annotation) is list
        else:
            yield each.alias, get_origin(annotation) is list
    for inner in dependant.dependencies:
        yield from _known(inner)


# Pages without a snapshot: a token names the sort key of the last item, and the next page begins behind it.
#
# An item that keeps its place is returned exactly once, whatever comes, goes or moves meanwhile.


T = TypeVar("T")

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 500
_MAX_TOKEN: Final = 1_024


class PageQuery(BaseModel):
    """Which part of a list; an unknown parameter is an error, so that a misspelt filter is not taken for none."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = Field(
        DEFAULT_LIMIT, description="The most items to return."
    )
    token: str | None = Field(
        None, alias="continue", description="`metadata.continue` of the page before this one."
    )


class PageKey(NamedTuple):
    """Where an item stands: lowest first; `name` tells items of the same rank apart."""

    rank: float
    name: str


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A part of a list."""

    items: list[T]
    total: int
    """Of all pages."""
    token: str | None
    """For the next page; None on the last."""


class TokenRefused(ValueError):
    """A page token that this list did not make."""


def cut(
    items: Iterable[T], key: Callable[[T], PageKey], order: str, limit: int, token: str | None
) -> ListPage[T]:
    """The page of `items` behind `token`.

    Args:
        items: all items; no two with the same key.
        key: where an item stands in this order.
        order: the name of the order; a token of another one is refused.
        limit: the most items on the page.
        token: of the page before; None for the first page.

    Raises:
        TokenRefused: the token is none of this order.
    """
    after = None if token is None else _read(token, order)
    placed = [(key(item), item) for item in items]
    behind = placed if after is None else [each for each in placed if each[0] > after]
    chosen = heapq.nsmallest(limit, behind, key=lambda each: each[0])
    more = len(behind) > len(chosen)
    following = _write(chosen[-1][0], order) if more and chosen else None
    return ListPage([item for _, item in chosen], len(placed), following)


def _write(key: PageKey, order: str) -> str:
    packed = msgspec.json.encode((order, key.rank, key.name))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _read(token: str, order: str) -> PageKey:
    if len(token) > _MAX_TOKEN:
        raise TokenRefused("too long")
    try:
        packed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        made_for, rank, name = msgspec.json.decode(packed, type=tuple[str, float, str])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise TokenRefused("not readable") from error
    if made_for != order or not math.isfinite(rank):
        raise TokenRefused("made for another list or order")
    return PageKey(rank, name)
