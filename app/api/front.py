"""What stands between the port and the API, from the outside in.

    auditing        a record of each attempt to change something, with the answer that the caller saw
    guard           what can be refused by the head alone; the headers of each answer; nothing unexpected is shown
    limits          so many requests of one address
    browsers        static files for everybody, and problems as pages for browsers (`app.api.page`)
    authentication  who calls (`app.api.auth`); what follows is for callers who are known
    limits          so many requests of one caller
    bodies          small, in time, JSON
    turns           one request at a time keeps the event loop, callers in turn

Health passes all of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.types import ASGIApp

from app.api.auditing import Aims, Auditing
from app.api.middleware import Bodies
from app.api.guard import Guard
from app.api.limits import CALLER, PEER, SCRAPER, Limiter, Limits, address_of, name_of
from app.api.page.site import Browsers
from app.api.problems import handle_problems
from app.api.turns import InTurn, Turns
from app.core.reporting.audit import AuditLog

Middleware = Callable[[ASGIApp], ASGIApp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """What is to be known of the port of the API."""

    now: Callable[[], float]
    """The instant that it is, as `Clock.now`."""
    audit: AuditLog
    authentication: Middleware
    """Refuses who is nobody, and notes the `Caller` of everybody else in the state of the request."""
    local_only: bool
    """It is a loopback address: answer only a Host that is this machine."""
    origins: frozenset[str] = frozenset()
    """Whose pages may read, as `https://dashboard.example`."""

    def put_before(self, app: FastAPI) -> FastAPI:
        """Puts all of it around `app`, once its routes are complete."""
        handle_problems(app)
        # What is added last stands outside.
        app.add_middleware(InTurn, turns=Turns(self.now), who=name_of)
        app.add_middleware(Bodies)
        app.add_middleware(Limits, limiter=Limiter(CALLER, self.now), who=name_of)
        app.add_middleware(self.authentication)
        app.add_middleware(Browsers)
        app.add_middleware(Limits, limiter=Limiter(PEER, self.now), who=address_of)
        app.add_middleware(Guard, local_only=self.local_only, origins=self.origins)
        app.add_middleware(
            Auditing, audit=self.audit, aims=Aims(app), exists=app.state.context.has_shoot
        )
        return app


def put_before_health(app: FastAPI, *, local_only: bool = False) -> FastAPI:
    """For the port that answers whatever else goes on."""
    handle_problems(app)
    app.add_middleware(Guard, local_only=local_only)
    return app


def put_before_metrics(
    app: FastAPI,
    now: Callable[[], float],
    scraping: Middleware = lambda app: app,
    *,
    local_only: bool = False,
) -> FastAPI:
    """For the port of the metrics: a scrape keeps the event loop for as long as a page does."""
    handle_problems(app)
    app.add_middleware(InTurn, turns=Turns(now), who=address_of)
    app.add_middleware(scraping)
    app.add_middleware(Limits, limiter=Limiter(SCRAPER, now), who=address_of)
    app.add_middleware(Guard, local_only=local_only)
    return app
