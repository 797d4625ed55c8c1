"""Whether a caller may make a call: asked before anything else of the call is done."""

from typing import Any

from fastapi import Depends, Request

from app.api.calls import Call
from app.api.dependencies import AnyContext
from app.api.parameters import refuse_unknown
from app.core.model.callers import Caller


def caller_of(request: Request) -> Caller:
    """Who makes this request; the authentication around the application has verified it."""
    found: Caller = request.state.caller
    return found


def allowed(call: Call) -> Any:  # noqa: ANN401 - a marker of FastAPI's, without a public type
    """A dependency for a route: goes on where the caller may make this call on the `namespace` of the path.

    And where the call has all query parameters that the request has, and takes a body if there is one.

    Put it into the route's `dependencies`: these come before all others.
    """

    async def check(request: Request, context: AnyContext) -> None:
        namespace = str(request.path_params.get("namespace", ""))
        await context.authority.check(caller_of(request), call, namespace)
        await refuse_unknown(request)

    return Depends(check)
