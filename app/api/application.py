"""The three applications: the API with everything, and health and metrics on ports of their own."""

from collections.abc import Callable
from typing import Final

from fastapi import FastAPI

from app.api.calls import Call
from app.api.document import complete, operation_id
from app.api.exposition import count_requests, metrics_router
from app.api.front import Front, Middleware, put_before_health, put_before_metrics
from app.api.health import Health, health_router
from app.api.page.router import router as page_router
from app.api.pages import pages_router
from app.api.permission import allowed
from app.api.routers import (
    audit,
    config,
    events,
    hold,
    operations,
    pause,
    probe,
    resources,
    scale,
    shoot,
    shoots,
    status,
    weeders,
)
from app.api.streaming.streams import EventStreams
from app.api.views import Context
from app.core.metrics import Metrics

_ABOUT: Final = "Keeps a Gardener seed from making an outage worse; these calls say what it sees and why it acts."


def create_api(
    context: Context,
    *,
    health: Health,
    metrics: Metrics,
    front: Front,
    streams: EventStreams | None = None,
) -> FastAPI:
    """The application of the API's port, health and metrics included.

    Args:
        context: the process, and the loops that run in it.
        health: what liveness and readiness look at.
        metrics: what `/metrics` shows; requests are counted there.
        front: what stands before it: who calls, what is refused, what is recorded.
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
        shoot.router,
        probe.router,
        scale.router,
        operations.router,
        pause.router,
        hold.router,
        resources.router,
        weeders.router,
        events.router,
        audit.router,
        config.router,
    ):
        app.include_router(router)
    app.include_router(page_router)
    app.include_router(pages_router(), dependencies=[allowed(Call.LIST)])
    _with_health(app, health)
    app.include_router(metrics_router(metrics), dependencies=[allowed(Call.LIST)])
    complete(app)
    count_requests(app, metrics.registry)
    return front.put_before(app)


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
