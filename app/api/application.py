"""The three applications: the API with everything, and health and metrics on ports of their own."""

from collections.abc import Callable
from typing import Final

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_fastapi_instrumentator import Instrumentator

from app.api import health
from app.api.auth.authorization import Call
from app.api.dependencies import allowed
from app.api.document import complete, operation_id
from app.api.health import Health, health_router
from app.api.middleware import ApiMiddleware, Middleware, put_before_health, put_before_metrics
from app.api.page.router import router as page_router
from app.api.pages import pages_router
from app.api.routers import events, operations, pause, resources, shoots, status, weeders
from app.api.streaming.streams import EventStreams
from app.api.views import Context
from app.core.clock import Clock
from app.core.metrics import Format, Metrics, Slices

# `/metrics`, and the counting of our own requests.


PATH: Final = "/metrics"
_OPEN_METRICS: Final = "application/openmetrics-text"
_END: Final = b"# EOF\n"
"""The last line of OpenMetrics, after which nothing may come."""


def metrics_router(shown: Metrics) -> APIRouter:
    """`/metrics`, in the format that the scraper asks for.

    It is not compressed: a megabyte in half a minute is nothing to a reader in the same cluster.
    """
    router = APIRouter(tags=["metrics"])

    @router.get(PATH, response_class=Response)
    async def metrics(request: Request) -> Response:
        """All metrics of this process."""
        body, content_type = await _page(shown, request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    return router


async def _page(metrics: Metrics, accept: str) -> tuple[bytes, str]:
    encode, content_type = choose_encoder(accept)
    opened = content_type.startswith(_OPEN_METRICS)
    body = encode(metrics.registry)
    end = _END if opened else b""
    parts = [body.removesuffix(end)]
    for source in metrics.sliced:
        text = await _at_leisure(source.render(Format.OPEN_METRICS if opened else Format.TEXT))
        parts.append(text.encode())
    return b"".join([*parts, end]), content_type


async def _at_leisure(work: Slices) -> str:
    """The text in the end; others in the loop have their turn after each slice."""
    clock = Clock.of_loop()
    while True:
        try:
            next(work)
        except StopIteration as end:
            return str(end.value)
        await clock.sleep(0)


def count_requests(app: FastAPI, registry: CollectorRegistry) -> None:
    """Counts and times the requests to `app` as `http_*`, by route; health and metrics are not counted."""
    Instrumentator(
        should_group_status_codes=False,
        should_exclude_streaming_duration=True,
        excluded_handlers=[f"^{path}$" for path in (*health.PATHS, PATH)],
        registry=registry,
    ).instrument(app)


_ABOUT: Final = "Keeps a Gardener seed from making an outage worse; these calls say what it sees and why it acts."


def create_api(
    context: Context,
    *,
    health: Health,
    metrics: Metrics,
    middleware: ApiMiddleware,
    streams: EventStreams | None = None,
) -> FastAPI:
    """The application of the API's port, health and metrics included.

    Args:
        context: the process, and the loops that run in it.
        health: what liveness and readiness look at.
        metrics: what `/metrics` shows; requests are counted there.
        middleware: what stands before it: who calls, what is refused, what is recorded.
        streams: what events are streamed from; None: that feature is off.
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
    app.state.context, app.state.streams = context, streams
    for router in (
        status.router,
        shoots.router,
        operations.router,
        pause.router,
        resources.router,
        weeders.router,
        events.router,
        status.audit_router,
        status.config_router,
    ):
        app.include_router(router)
    app.include_router(page_router)
    app.include_router(pages_router(), dependencies=[allowed(Call.LIST)])
    _with_health(app, health)
    app.include_router(metrics_router(metrics), dependencies=[allowed(Call.LIST)])
    complete(app)
    count_requests(app, metrics.registry)
    return middleware.put_before(app)


def create_health_app(health: Health, *, local_only: bool = False) -> FastAPI:
    """The application of the health port: no other request can keep it from answering.

    Args:
        health: what liveness and readiness look at.
        local_only: it is on a loopback address: answer only a Host that is this machine.
    """
    return put_before_health(_with_health(_bare("health"), health), local_only=local_only)


def create_metrics_app(
    metrics: Metrics,
    now: Callable[[], float],
    scraping: Middleware = lambda app: app,
    *,
    local_only: bool = False,
) -> FastAPI:
    """The application of the metrics port: `/metrics` alone.

    Args:
        metrics: what it shows.
        now: as `Clock.now`.
        scraping: refuses who may not; without it, it is open.
        local_only: it is on a loopback address: answer only a Host that is this machine.
    """
    app = _bare("metrics")
    app.include_router(metrics_router(metrics))
    return put_before_metrics(app, now, scraping, local_only=local_only)


def _bare(name: str) -> FastAPI:
    return FastAPI(title=f"dependency-watchdog {name}", openapi_url=None, redirect_slashes=False)


def _with_health(app: FastAPI, health: Health) -> FastAPI:
    app.include_router(health_router(health))
    return app
