"""What attacks on the running program found, each as small as it can be shown."""

import asyncio
import gc
import threading
import tracemalloc
from contextlib import asynccontextmanager, contextmanager

import pytest

from app.core.clock import Clock
from app.core.errors import LimitExceeded
from app.core.kube.client import ResponseLimits
from app.core.kube.kubeconfig import ServerPolicy
from app.core.kube.shoot import ShootConnector
from app.core.metrics import Metrics
from app.core.model.shoots import SecretView
from app.prober.rules import schedule
from app.prober.rules.leases import Timings
from tests.attack.kubeconfigs import NAMESPACE, kubeconfig
from tests.core.kube.server import AUTHORITY, serving

MIB = 1 << 20
real = pytest.mark.looptime(False)


@asynccontextmanager
async def shoot_at(origin, **limits):
    connector = ShootConnector(Clock.system(), Metrics(), ServerPolicy(pattern=".*"))
    if limits:
        connector._limits = ResponseLimits(**limits)
    try:
        yield await connector.connect(
            SecretView(NAMESPACE, "1", kubeconfig(server=origin, ca=AUTHORITY.pem))
        )
    finally:
        await connector.close()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def shoot_of(handler, **limits):
    async with serving(handler) as server, shoot_at(server.origin, **limits) as shoot:
        yield shoot


@contextmanager
def serving_beside(handler):
    """A server in a thread of its own: it goes on while our loop is away."""
    loop, ready, origin = asyncio.new_event_loop(), threading.Event(), []
    done = asyncio.Event()

    async def serve():
        async with serving(handler) as server:
            origin.append(server.origin)
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(5)
        yield origin[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(5)
        loop.close()


@real
async def test_a_body_that_was_too_long_is_freed_with_its_error():
    async def handler(asked):
        await asked.begin_stream()
        for _ in range(9):
            await asked.chunk(b"x" * MIB)

    async with shoot_of(handler, body=8 * MIB) as shoot:
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(4):
                with pytest.raises(LimitExceeded):
                    await shoot.version()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
    assert kept < 16 * MIB


@pytest.mark.parametrize("grace", [1e-9, 0.001, 0.1])
def test_contacts_are_never_less_than_a_second_apart(grace):
    at = schedule.next_contact(100.0, 110.0, Timings(grace))
    assert at is None or at >= 101.0
