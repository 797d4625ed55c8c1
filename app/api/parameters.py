"""No call has query parameters or a body that are not its own: what is misspelt is not taken for nothing."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import request_params_to_args
from fastapi.routing import APIRoute
from pydantic import BaseModel

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
