"""No call has query parameters or a body that are not its own: what is misspelt is not taken for nothing."""

from collections.abc import Iterator
from typing import Final

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from app.api.problems import Problem, ProblemType
from app.core.errors import trimmed

_API: Final = "/api/"
_MESSAGE: Final = "Extra inputs are not permitted"
"""As the models of lists say it."""
_MOST: Final = 20
_NOTHING: Final = (b"", b"{}")


def refuse_unknown(request: Request) -> None:
    """Returns where the path is none of the API, or each parameter is one that its call knows.

    Raises:
        Problem: one is not.
    """
    route = _route(request)
    if route is None or not request.query_params:
        return
    known = set(_known(route.dependant))
    if None in known:
        return
    places = [f"query.{trimmed(name, 90)}" for name in request.query_params if name not in known]
    if places:
        errors = [{"path": place, "message": _MESSAGE} for place in places[:_MOST]]
        detail = "; ".join(f"{each['path']}: {each['message']}" for each in errors)
        raise Problem(ProblemType.INVALID_PARAMETER, detail, errors=errors)


async def refuse_body(request: Request) -> None:
    """Returns where the path is none of the API, its call takes a body, or there is none; `{}` says nothing either.

    Raises:
        Problem: there is one that nobody would read.
    """
    route = _route(request)
    if route is None or route.body_field is not None:
        return
    if (await request.body()).strip() not in _NOTHING:
        errors = [{"path": "body", "message": _MESSAGE}]
        raise Problem(ProblemType.INVALID_PARAMETER, f"body: {_MESSAGE}", errors=errors)


def _route(request: Request) -> APIRoute | None:
    """The call of the API that this is; None: it is none."""
    route = request.scope.get("route")
    called = isinstance(route, APIRoute) and route.path.startswith(_API)
    return route if called else None


def _known(dependant: Dependant) -> Iterator[str | None]:
    """The names of the query parameters; None: a model has them, and refuses the others itself."""
    for each in dependant.query_params:
        annotation = each.field_info.annotation
        model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
        yield None if model else each.alias
    for inner in dependant.dependencies:
        yield from _known(inner)
