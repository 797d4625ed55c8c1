"""`/metrics`, and the counting of our own requests."""

from typing import Final

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_fastapi_instrumentator import Instrumentator

from app.api import health

PATH: Final = "/metrics"


def metrics_router(registry: CollectorRegistry) -> APIRouter:
    """`/metrics`, in the format that the scraper asks for."""
    router = APIRouter(tags=["metrics"])

    @router.get(PATH, response_class=Response)
    async def metrics(request: Request) -> Response:
        """All metrics of this process."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": content_type})

    return router


def count_requests(app: FastAPI, registry: CollectorRegistry) -> None:
    """Counts and times the requests to `app` as `http_*`, by route; health and metrics are not counted."""
    Instrumentator(
        should_group_status_codes=False,
        should_exclude_streaming_duration=True,
        excluded_handlers=[f"^{path}$" for path in (*health.PATHS, PATH)],
        registry=registry,
    ).instrument(app)
