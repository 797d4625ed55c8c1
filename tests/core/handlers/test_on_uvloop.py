"""Each way over the network on the event loop that the program runs on; its transports are not those of asyncio."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from app.core.model.endpoints import Grpc, HttpGet, ProbeOutcome, Ran, Scheme, TcpSocket
from tests.core.handlers.targets import OK, ran, serving
from tests.core.handlers.test_grpc import Odd, health_server
from tests.core.kube.server import server_context

pytestmark = [
    pytest.mark.looptime(False),
    pytest.mark.blocking,
    pytest.mark.usefixtures("collected"),
]


async def http() -> Ran:
    async with serving(OK) as target:
        return await ran(HttpGet(target.port))


async def https() -> Ran:
    async with serving(OK, tls=server_context()) as target:
        return await ran(HttpGet(target.port, Scheme.HTTPS))


async def tcp() -> Ran:
    async with serving(OK) as target:
        return await ran(TcpSocket(target.port))


async def grpc() -> Ran:
    async with health_server(Odd()) as port:
        return await ran(Grpc(port))


@pytest.mark.parametrize("check", [http, https, tcp, grpc])
def test_a_target_that_is_well_passes(check: Callable[[], Coroutine[Any, Any, Ran]]) -> None:
    assert uvloop.run(check()).outcome is ProbeOutcome.SUCCESS
