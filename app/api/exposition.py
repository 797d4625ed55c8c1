"""`/metrics`, and the counting of our own requests."""

from typing import Final

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_fastapi_instrumentator import Instrumentator

from app.api import health
from app.core.clock import Clock
from app.core.runtime.families import Format, Slices
from app.core.metrics import Metrics

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
