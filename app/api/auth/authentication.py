"""Nothing of a request is read before it is known who makes it: raw ASGI, around the applications."""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import health
from app.api.auth.authorization import DecisionCounter
from app.api.auth.reviews import ReviewService, Trust
from app.api.limits import address_of
from app.api.problems import Problem, ProblemType
from app.core.config.token_file import TokenFile
from app.core.model.callers import Access, Caller, Role
from app.core.ports import AUDIENCE

# The token of a request: exactly one, in the header that it belongs to (RFC 6750); pure.


Headers = Iterable[tuple[bytes, bytes]]
"""As ASGI has them: names in lower case."""

MAX_TOKEN: Final = 12_288
"""Characters; a ServiceAccount's has about a thousand."""
_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_CHALLENGE: Final = 'Bearer realm="dependency-watchdog"'


def token_of(headers: Headers) -> str:
    """The bearer token that a request carries.

    Raises:
        Problem: it carries none, several, or something else.
    """
    found = [value for name, value in headers if name == b"authorization"]
    if not found:
        raise nobody("send a bearer token: Authorization: Bearer …", "")
    if len(found) > 1:
        raise nobody("there is more than one Authorization header", "invalid_request")
    scheme, _, token = found[0].strip(b" ").partition(b" ")
    token = token.strip(b" ")
    if scheme.lower() != b"bearer":
        raise nobody("only bearer tokens are accepted: Authorization: Bearer …", "")
    if len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
        raise nobody("the bearer token is malformed", "invalid_request")
    return token.decode("ascii")


def nobody(detail: str, error: str) -> Problem:
    """The 401 for a request of nobody who is known; `error` is the word of RFC 6750 for it, if there is one."""
    challenge = f'{_CHALLENGE}, error="{error}"' if error else _CHALLENGE
    return Problem(ProblemType.UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})


# Who makes a request, in each of the three modes; none of them keeps a token.


class Authenticator(Protocol):
    """Says who calls."""

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:
        """Who makes a request with these headers, from this address.

        Raises:
            Problem: 401 where nobody is known to call; 503 or 429 where that cannot be said.
        """
        ...


class NoAuthentication:
    """`--auth-mode=none`: on a loopback address everybody is an admin."""

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:  # noqa: ARG002 - nobody is asked who he is
        """The same for all."""
        return Caller("anonymous", Role.ADMIN)


class TokenFileAuthenticator:
    """`--auth-mode=token`: those of the token file, as it is now."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:  # noqa: ARG002 - the file costs no request
        """The one whose token has that hash; raises Problem."""
        found = self._file.value.caller(token_of(headers))
        if found is None:
            raise _unknown("the token is not one of the token file")
        return found


class SeedAuthenticator:
    """`--auth-mode=kubernetes`: those whom the seed knows.

    Args:
        reviews: asks the seed.
        audience: what a token must have been made for; None: for the API server itself.
    """

    def __init__(self, reviews: ReviewService, audience: str | None = AUDIENCE) -> None:
        self._reviews, self._audience = reviews, audience

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:
        """The one whose token it is; raises Problem."""
        try:
            return await self._caller(headers, trust, peer)
        except Problem as problem:
            if problem.kind is ProblemType.UNAUTHENTICATED:
                await self._reviews.check_possible()
            raise

    async def _caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:
        token = token_of(headers)
        found = await self._reviews.caller(token, audience=self._audience, trust=trust, peer=peer)
        if found is None:
            made_for = self._audience or "its API server"
            raise _unknown(f"the token is not one that the seed knows, made for {made_for}")
        return found


def _unknown(detail: str) -> Exception:
    return nobody(detail, "invalid_token")


OPEN: Final = frozenset(health.PATHS)
"""Paths that everybody may ask for."""
SCRAPE: Final = Access("get", "", path="/metrics")
"""What a caller of the metrics' port must be allowed."""
_READS: Final = frozenset({"GET", "HEAD"})
_CLOSE: Final = (b"connection", b"close")


@dataclass(frozen=True, slots=True)
class StillAuthenticated:
    """Asks again whose token a request carries."""

    check: Callable[[], Awaitable[None]]


class Authentication:
    """Goes on with `state["caller"]` where it is known who calls; answers with a problem where it is not.

    Args:
        app: what is called then.
        authenticator: says who calls.
        decisions: counts those who are refused.
    """

    def __init__(
        self, app: ASGIApp, *, authenticator: Authenticator, decisions: DecisionCounter
    ) -> None:
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
        state["still"] = StillAuthenticated(partial(self._check_again, scope, caller))
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
    if isinstance(still, StillAuthenticated):
        await still.check()


class ScrapeAuthentication:
    """`--metrics-auth`: whoever scrapes must be allowed to get `/metrics` in the seed.

    Args:
        app: the application of the metrics' port.
        reviews: says who calls, by a token for the seed's own API server, and what he may do.
        decisions: counts both.
    """

    def __init__(self, app: ASGIApp, *, reviews: ReviewService, decisions: DecisionCounter) -> None:
        self._app, self._reviews, self._decisions = app, reviews, decisions
        self._authenticator = SeedAuthenticator(reviews, audience=None)

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
    problem: Problem, decisions: DecisionCounter, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answers with `problem`; a body that may follow is not read, so the connection ends with the answer."""
    decisions.refused(problem)
    response = problem.response(scope["path"])
    if scope["method"] not in _READS:
        response.raw_headers.append(_CLOSE)
    await response(scope, receive, send)
