"""Authentication: identifies the caller of a request before anything of the request is read (raw ASGI).

Three modes (docs/authentication.md): `kubernetes` asks the seed with a TokenReview, `token` compares with a file of
hashes, `none` makes everybody an admin and is allowed on a loopback address only. No mode keeps or logs a token
(threat T14).
"""

import re
from collections.abc import Awaitable, Callable, Iterable
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
from app.core.model.callers import AUDIENCE, Access, Caller, Role

# The bearer token of a request: exactly one, in the header Authorization (RFC 6750); pure.


Headers = Iterable[tuple[bytes, bytes]]
"""Headers as ASGI has them: names in lower case."""

MAX_TOKEN: Final = 12_288
"""Most characters of a token; one of a ServiceAccount has about a thousand."""
_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_CHALLENGE: Final = 'Bearer realm="dependency-watchdog"'


def token_of(headers: Headers) -> str:
    """The bearer token of a request.

    Raises:
        Problem: 401: there is no Authorization header, more than one, or one that is not a bearer token.
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
    """The 401 for an unidentified caller.

    Args:
        detail: What to do about it.
        error: The error code of RFC 6750, section 3.1; empty if the request carries no authentication at all.
    """
    challenge = f'{_CHALLENGE}, error="{error}"' if error else _CHALLENGE
    return Problem(ProblemType.UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})


# The authenticators, one for each mode.


class Authenticator(Protocol):
    """Identifies the caller of a request."""

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:
        """Identify the caller.

        Args:
            headers: Of the request.
            trust: Which remembered answers may be used instead of asking the seed.
            peer: The network address of the request.

        Raises:
            Problem: 401: the token is missing or unknown; 503 or 429: it cannot be reviewed now.
        """
        ...


class NoAuthentication:
    """`--auth-mode=none`: everybody is an admin; settings allow it on a loopback address only."""

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:  # noqa: ARG002 - no caller is asked for an identity
        return Caller("anonymous", Role.ADMIN)


class TokenFileAuthenticator:
    """`--auth-mode=token`: callers of the token file, which is followed while the process runs."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:  # noqa: ARG002 - the file costs no request
        found = self._file.value.caller(token_of(headers))
        if found is None:
            raise nobody("the token is not in the token file", "invalid_token")
        return found


class SeedAuthenticator:
    """`--auth-mode=kubernetes`: callers that the seed knows, by TokenReview.

    Args:
        reviews: Asks the seed.
        audience: The audience that a token must have been issued for; None: that of the API server itself.
    """

    def __init__(self, reviews: ReviewService, audience: str | None = AUDIENCE) -> None:
        self._reviews, self._audience = reviews, audience

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:
        try:
            token, audience = token_of(headers), self._audience
            found = await self._reviews.caller(token, audience=audience, trust=trust, peer=peer)
            if found is None:
                detail = f"the seed does not accept the token for {audience or 'its API server'}"
                raise nobody(detail, "invalid_token")
        except Problem as problem:
            if problem.kind is ProblemType.UNAUTHENTICATED:
                # Where the seed forbids us reviews, no token could have been accepted: answer 503 instead of 401.
                await self._reviews.check_possible()
            raise
        return found


OPEN: Final = frozenset(health.PATHS)
"""Paths without authentication, on every port."""
SCRAPE: Final = Access("get", "", path="/metrics")
"""The right that a scraper of the metrics port needs, for a nonResourceURL."""
_READS: Final = frozenset({"GET", "HEAD"})
_CLOSE: Final = (b"connection", b"close")


class Authentication:
    """Middleware that sets `state["caller"]`, or answers with a problem if the caller cannot be identified.

    By `state["still"]` a long-running answer authenticates its caller again.

    Args:
        app: The application.
        authenticator: Identifies the caller.
        decisions: Counts the refusals.
    """

    def __init__(
        self, app: ASGIApp, *, authenticator: Authenticator, decisions: DecisionCounter
    ) -> None:
        self._app, self._authenticator, self._decisions = app, authenticator, decisions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        state["still"] = partial(self._check_again, scope, caller)
        await self._app(scope, receive, send)

    async def _check_again(self, scope: Scope, caller: Caller) -> None:
        """Raise a `Problem` if the token of a long-running request does not belong to the same caller any more."""
        try:
            now = await self._authenticator.caller(scope["headers"], Trust.STALE, address_of(scope))
            if (now.name, now.uid) != (caller.name, caller.uid):
                raise nobody("the token now belongs to another caller", "invalid_token")
        except Problem as problem:
            self._decisions.refused(problem)
            raise


async def still_authenticated(connection: HTTPConnection) -> None:
    """Check again, during a long-running answer, that the request's token is valid and belongs to the same caller.

    Raises:
        Problem: It is not, or the seed cannot be asked.
    """
    still: Callable[[], Awaitable[None]] | None = getattr(connection.state, "still", None)
    if still is not None:
        await still()


class ScrapeAuthentication:
    """Middleware for `--metrics-auth`: a scraper needs the right to get `/metrics` in the seed.

    Unlike a caller of the API, a scraper presents a token for the seed's own API server.

    Args:
        app: The application of the metrics port.
        reviews: Asks the seed.
        decisions: Counts scrapes and refusals.
    """

    def __init__(self, app: ASGIApp, *, reviews: ReviewService, decisions: DecisionCounter) -> None:
        self._app, self._reviews, self._decisions = app, reviews, decisions
        self._authenticator = SeedAuthenticator(reviews, audience=None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
    """Answer with `problem` and count it; close the connection if a body may follow, as nothing will read it."""
    decisions.refused(problem)
    response = problem.response(scope["path"])
    if scope["method"] not in _READS:
        response.raw_headers.append(_CLOSE)
    await response(scope, receive, send)
