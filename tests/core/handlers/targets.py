"""Targets whose every byte a test decides, and probes of them."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext

from app.core.clock import Clock
from app.core.handlers.handlers import NetworkHandlers
from app.core.model.endpoints import EndpointProbeSpec, Ran, TargetAddress
from app.core.model.endpoints import Handler as ProbeHandler
from tests.core.kube import server
from tests.core.kube.server import Asked, Handler, Server
from tests.support.endpointprobes import handled_by

NAMESPACE = "shoot--foo--bar"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def serving(
    answer: Handler | bytes, *, tls: SSLContext | bool = False, host: str = "127.0.0.1"
) -> AsyncIterator[Server]:
    """A server that answers each connection once: so, or with these bytes."""

    async def once(asked: Asked) -> None:
        await (asked.raw(answer) if isinstance(answer, bytes) else answer(asked))
        asked.writer.close()
        raise EOFError

    context = None if isinstance(tls, bool) else tls
    async with server.serving(once, context, tls=bool(tls), host=host) as target:
        yield target


@asynccontextmanager
async def handlers(**limits: int) -> AsyncIterator[NetworkHandlers]:
    made = NetworkHandlers(Clock.system(), None, **limits)
    try:
        yield made
    finally:
        await made.close()
        await asyncio.sleep(0.01)


def probe(handler: ProbeHandler, timeout: float = 2, **more) -> EndpointProbeSpec:
    """`timeout` may be a part of a second here: tests have no time."""
    return EndpointProbeSpec("p", **handled_by(handler), timeout=timeout, **more)  # type: ignore[arg-type]


def at(host: str = "127.0.0.1", namespace: str = NAMESPACE, **more) -> TargetAddress:
    return TargetAddress(namespace, host, **more)


async def ran(handler: ProbeHandler, address: TargetAddress | None = None, **more) -> Ran:
    """What one run brings."""
    async with handlers() as made:
        return await made.run(probe(handler, **more), address or at())


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
