"""The three applications: the API with everything, and health and metrics on ports of their own."""

from typing import Any, Final

from fastapi import FastAPI

from app.api.dependencies import Context
from app.api.exposition import count_requests, metrics_router
from app.api.guard import Guard
from app.api.health import Health, health_router
from app.api.pages import pages_router
from app.api.problems import MEDIA_TYPE, handle_problems
from app.api.routers import shoot, shoots, status, weeders
from app.api.schemas import ProblemDetails
from app.core.runtime.metrics import Metrics

_ABOUT: Final = "Keeps a Gardener seed from making an outage worse; these calls say what it sees and why it acts."
_PROBLEM: Final = {
    "description": "A problem",
    "content": {MEDIA_TYPE: {"schema": ProblemDetails.model_json_schema(by_alias=True)}},
}
_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = dict.fromkeys((400, 404, 422, 503), _PROBLEM)


def create_api(
    context: Context,
    *,
    health: Health,
    metrics: Metrics,
    local_only: bool,
) -> FastAPI:
    """The application of the API's port, health and metrics included.

    Args:
        context: the process, and the loops that run in it.
        health: what liveness and readiness look at.
        metrics: what `/metrics` shows; requests are counted there.
        local_only: it is served on a loopback address: answer only a Host that is this machine.
    """
    app = FastAPI(
        title="dependency-watchdog",
        description=_ABOUT,
        version=context.process.version,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.context = context
    for router in (status.router, shoots.router, shoot.router, weeders.router):
        app.include_router(router, responses=_PROBLEMS)
    app.include_router(pages_router(app, context.process.leaders))
    _with_health(app, health)
    app.include_router(metrics_router(metrics.registry))
    count_requests(app, metrics.registry)
    return _guarded(app, local_only=local_only)


def create_health_app(health: Health) -> FastAPI:
    """The application of the health port: no other request can keep it from answering."""
    return _guarded(_with_health(_bare("health"), health))


def create_metrics_app(metrics: Metrics) -> FastAPI:
    """The application of the metrics port: `/metrics` alone."""
    app = _bare("metrics")
    app.include_router(metrics_router(metrics.registry))
    return _guarded(app)


def _bare(name: str) -> FastAPI:
    return FastAPI(title=f"dependency-watchdog {name}", openapi_url=None, redirect_slashes=False)


def _with_health(app: FastAPI, health: Health) -> FastAPI:
    app.include_router(health_router(health))
    return app


def _guarded(app: FastAPI, *, local_only: bool = False) -> FastAPI:
    """Last, so that it stands around everything else: methods that do not exist are not counted as metrics either."""
    handle_problems(app)
    app.add_middleware(Guard, local_only=local_only)
    return app
