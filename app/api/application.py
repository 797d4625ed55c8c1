"""The three FastAPI applications: the API (with health and metrics), and health and metrics on ports of their own."""

from collections.abc import Callable, Collection
from typing import Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import choose_encoder
from prometheus_fastapi_instrumentator import Instrumentator
from starlette.types import ASGIApp

from app.api import stream
from app.api.auditing import Auditing
from app.api.auth.authorization import Call
from app.api.context import Context
from app.api.dependencies import allowed, operation_id
from app.api.document import build, complete
from app.api.health import PATHS as HEALTH
from app.api.health import Health, health_router
from app.api.limits import (
    CALLER,
    PEER,
    SCRAPER,
    Limiter,
    RateLimits,
    RequestQueue,
    SerializedRequests,
    address_of,
    share_of,
)
from app.api.middleware import BodyLimit, RequestGuard
from app.api.page.router import Rows
from app.api.page.router import router as page_router
from app.api.page.site import Browsers
from app.api.problems import handle_problems
from app.api.routers import operations, pause, resources, shoots, status, weeders
from app.api.stream import EventStreams
from app.core.clock import Clock
from app.core.metrics import Format, Metrics, Slices

Middleware = Callable[[ASGIApp], ASGIApp]

PATH: Final = "/metrics"
_OPEN_METRICS: Final = "application/openmetrics-text"
# The last line of an OpenMetrics exposition.
_END: Final = b"# EOF\n"

build()  # as it is imported: before the event loop runs


def metrics_router(shown: Metrics) -> APIRouter:
    """The route `/metrics`, in the exposition format that the scraper asks for.

    The answer is not compressed: one megabyte every half minute is nothing to a scraper in the same cluster.
    """
    router = APIRouter(tags=["metrics"])

    @router.get(PATH, response_class=PlainTextResponse)
    async def metrics(request: Request) -> Response:
        """All metrics of this process."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        opened = content_type.startswith(_OPEN_METRICS)
        end = _END if opened else b""
        parts = [encode(shown.registry).removesuffix(end)]
        for source in shown.sliced:
            slices = source.render(Format.OPEN_METRICS if opened else Format.TEXT)
            parts.append((await _at_leisure(slices)).encode())
        return Response(b"".join([*parts, end]), headers={"Content-Type": content_type})

    return router


async def _at_leisure(work: Slices) -> str:
    """Render slice by slice and return the text; yields to the event loop after each slice."""
    clock = Clock.of_loop()
    while True:
        try:
            next(work)
        except StopIteration as end:
            return str(end.value)
        await clock.sleep(0)


_ABOUT: Final = "Keeps a Gardener seed from making an outage worse; these calls show what it sees and why it acts."


def create_api(
    context: Context,
    *,
    health: Health,
    metrics: Metrics,
    authentication: Middleware,
    local_only: bool = False,
    origins: Collection[str] = (),
    streams: EventStreams | None = None,
    now: Callable[[], float] | None = None,
) -> FastAPI:
    """Create the application of the API's port, health and metrics included.

    Args:
        context: The process and the loops that run in it.
        health: The checks of liveness and readiness.
        metrics: The metrics that `/metrics` shows; requests are counted there.
        authentication: Refuses unidentified callers, and puts the `Caller` of others into the state of the request.
        local_only: The address is a loopback one: accept only a Host that names this machine.
        origins: Origins whose pages may read, such as `https://dashboard.example`.
        streams: The source of event streams; None: that feature is off.
        now: The current instant for the limits; by default that of the process.
    """
    app = FastAPI(
        title="dependency-watchdog",
        description=_ABOUT,
        version=context.process.version,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
    )
    app.state.context, app.state.streams, app.state.rows = context, streams, Rows()
    for router in (
        status.router,
        shoots.router,
        operations.router,
        pause.router,
        resources.router,
        weeders.router,
        stream.router,
        status.audit_router,
        status.config_router,
        page_router,
    ):
        # Not by `include_router`, which would analyse each route anew for this application: 0.1 s of CPU.
        app.router.routes.extend(router.routes)
    app.include_router(health_router(health))
    app.include_router(metrics_router(metrics), dependencies=[allowed(Call.LIST)])
    complete(app)
    # Requests are counted and timed as `http_*`, by route, without those of health and metrics.
    Instrumentator(
        should_group_status_codes=False,
        should_exclude_streaming_duration=True,
        excluded_handlers=[f"^{path}$" for path in (*HEALTH, PATH)],
        registry=metrics.registry,
    ).instrument(app)
    now = now or context.process.now
    handle_problems(app)
    # Starlette calls the middleware that was added last first.
    app.add_middleware(SerializedRequests, turns=RequestQueue(now), who=share_of)
    app.add_middleware(RateLimits, limiter=Limiter(CALLER, now), who=share_of)
    app.add_middleware(BodyLimit)
    app.add_middleware(authentication)
    app.add_middleware(Browsers)
    app.add_middleware(RateLimits, limiter=Limiter(PEER, now), who=address_of)
    app.add_middleware(RequestGuard, local_only=local_only, origins=origins)
    app.add_middleware(Auditing, audit=context.audit, routes=app.routes, exists=context.has_shoot)
    return app


def create_health_app(health: Health, *, local_only: bool = False) -> FastAPI:
    """Create the application of the health port, which other requests cannot keep from answering (threat T15).

    It has no limits, as the kubelet's probes must always be answered.

    Args:
        health: The checks of liveness and readiness.
        local_only: The address is a loopback one: accept only a Host that names this machine.
    """
    app = _bare("health", health_router(health))
    app.add_middleware(RequestGuard, local_only=local_only)
    return app


def create_metrics_app(
    metrics: Metrics,
    now: Callable[[], float],
    scraping: Middleware = lambda app: app,
    *,
    local_only: bool = False,
) -> FastAPI:
    """Create the application of the metrics port, which serves `/metrics` alone.

    Scrapes take turns, as one keeps the event loop as long as a page.

    Args:
        metrics: The metrics to show.
        now: The current instant, as `Clock.now`.
        scraping: Middleware that authenticates scrapers; by default anybody may scrape.
        local_only: The address is a loopback one: accept only a Host that names this machine.
    """
    app = _bare("metrics", metrics_router(metrics))
    app.add_middleware(SerializedRequests, turns=RequestQueue(now), who=address_of)
    app.add_middleware(scraping)
    app.add_middleware(RateLimits, limiter=Limiter(SCRAPER, now), who=address_of)
    app.add_middleware(RequestGuard, local_only=local_only)
    return app


def _bare(name: str, router: APIRouter) -> FastAPI:
    """An application of these routes alone."""
    title = f"dependency-watchdog {name}"
    app = FastAPI(title=title, openapi_url=None, redirect_slashes=False)
    app.include_router(router)
    handle_problems(app)
    return app
