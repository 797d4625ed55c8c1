"""Endpoint probes as the prober file spells them, without what may be a secret; pure."""

from typing import Any, assert_never

from app.api import schemas
from app.api.selecting import selector
from app.core.model.endpoints import EndpointProbe, Exec, Grpc, Handler, HttpGet, TcpSocket
from app.core import redaction


def probe(found: EndpointProbe) -> schemas.EndpointProbeInfo:
    """One entry of `endpointProbes`, defaults included."""
    return schemas.EndpointProbeInfo(
        name=found.name,
        type=found.type,
        effect=found.effect,
        **_handlers(found.handler),
        host=found.host,
        pod_selector=None if found.pods is None else selector(found.pods),
        container=found.container,
        initial_delay_seconds=found.initial_delay,
        period_seconds=found.period,
        timeout_seconds=found.timeout,
        success_threshold=found.success_threshold,
        failure_threshold=found.failure_threshold,
    )


def _handlers(handler: Handler) -> dict[str, Any]:
    """The four keys, of which one has a value."""
    found: dict[str, Any] = dict.fromkeys(("http_get", "tcp_socket", "grpc", "exec"))
    match handler:
        case HttpGet():
            found["http_get"] = _http_get(handler)
        case TcpSocket(port):
            found["tcp_socket"] = schemas.TcpSocketAction(port=port)
        case Grpc(port, service):
            found["grpc"] = schemas.GrpcAction(port=port, service=service)
        case Exec(command):
            found["exec"] = schemas.ExecAction(command=_words(command))
        case _:
            assert_never(handler)
    return found


def _http_get(handler: HttpGet) -> schemas.HttpGetAction:
    """Headers carry tokens: of each there is the name only."""
    return schemas.HttpGetAction(
        scheme=handler.scheme,
        port=handler.port,
        path=redaction.clean(handler.path),
        http_headers=[
            schemas.HttpHeader(name=name, value=redaction.REDACTED) for name, _ in handler.headers
        ],
    )


def _words(command: tuple[str, ...]) -> list[str]:
    """Word by word; one that is a secret because of the word before it (`--password`, `hunter2`) is replaced."""
    befores = ("", *command)
    return [_word(before, word) for before, word in zip(befores, command, strict=False)]


def _word(before: str, word: str) -> str:
    alone = redaction.clean(word)
    together = redaction.clean(f"{before} {word}", 2 * redaction.MAX_VALUE)
    return alone if together.endswith(alone) else redaction.REDACTED
