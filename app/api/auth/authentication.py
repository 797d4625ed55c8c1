"""Nothing of a request is read before it is known who makes it: raw ASGI, around the applications."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import health
from app.api.auth.authenticators import Authenticator, OfSeed
from app.api.auth.bearer import nobody
from app.api.auth.decisions import Decisions
from app.api.auth.reviews import Reviews, Trust
from app.api.limits import address_of
from app.api.problems import Problem, ProblemType
from app.core.model.callers import Access, Caller

OPEN: Final = frozenset(health.PATHS)
"""Paths that everybody may ask for."""
SCRAPE: Final = Access("get", "", path="/metrics")
"""What a caller of the metrics' port must be allowed."""
_READS: Final = frozenset({"GET", "HEAD"})
_CLOSE: Final = (b"connection", b"close")


@dataclass(frozen=True, slots=True)
class Still:
    """Asks again whose token a request carries."""

    check: Callable[[], Awaitable[None]]


class Authentication:
    """Goes on with `state["caller"]` where it is known who calls; answers with a problem where it is not.

    Args:
        app: what is called then.
        authenticator: says who calls.
        decisions: counts those who are refused.
    """

    def __init__(self, app: ASGIApp, *, authenticator: Authenticator, decisions: Decisions) -> None:
        self._app, self._authenticator, self._decisions = app, authenticator, decisions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        trust = Trust.FRESH if scope["method"] in _READS else Trust.NOTHING
        try:
            caller = await self._authenticator.caller(scope["headers"], trust, address_of(scope))
        except Problem as problem:
            await refuse(problem, self._decisions, scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["caller"] = caller
        state["still"] = Still(partial(self._check_again, scope, caller))
        await self._app(scope, receive, send)

    async def _check_again(self, scope: Scope, caller: Caller) -> None:
        """Raises Problem where the request, which goes on for long, is no more one of the same caller."""
        try:
            now = await self._authenticator.caller(scope["headers"], Trust.STALE, address_of(scope))
            if (now.name, now.uid) != (caller.name, caller.uid):
                raise nobody("the token is somebody else's now", "invalid_token")
        except Problem as problem:
            self._decisions.refused(problem)
            raise


async def still_authenticated(connection: HTTPConnection) -> None:
    """For what goes on for long: returns where the caller's token is still as good as it was at the start.

    Raises:
        Problem: it is not, or that cannot be said.
    """
    still = getattr(connection.state, "still", None)
    if isinstance(still, Still):
        await still.check()


class ScrapeAuthentication:
    """`--metrics-auth`: whoever scrapes must be allowed to get `/metrics` in the seed.

    Args:
        app: the application of the metrics' port.
        reviews: says who calls, by a token for the seed's own API server, and what he may do.
        decisions: counts both.
    """

    def __init__(self, app: ASGIApp, *, reviews: Reviews, decisions: Decisions) -> None:
        self._app, self._reviews, self._decisions = app, reviews, decisions
        self._authenticator = OfSeed(reviews, audience=None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            await self._check(scope)
        except Problem as problem:
            await refuse(problem, self._decisions, scope, receive, send)
            return
        self._decisions.allowed()
        await self._app(scope, receive, send)

    async def _check(self, scope: Scope) -> None:
        caller = await self._authenticator.caller(scope["headers"], Trust.FRESH, address_of(scope))
        if not await self._reviews.allowed(caller, SCRAPE, trust=Trust.FRESH):
            detail = f"{caller.name} may not get /metrics (a nonResourceURL)"
            raise Problem(ProblemType.FORBIDDEN, detail)


async def refuse(
    problem: Problem, decisions: Decisions, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answers with `problem`; a body that may follow is not read, so the connection ends with the answer."""
    decisions.refused(problem)
    response = problem.response(scope["path"])
    if scope["method"] not in _READS:
        response.raw_headers.append(_CLOSE)
    await response(scope, receive, send)
