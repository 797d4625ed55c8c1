"""What attacks on the running program found, each as small as it can be shown."""

import asyncio
import gc
import threading
import time
import tracemalloc
from contextlib import asynccontextmanager, contextmanager

import pytest

from app.core.clock import Clock
from app.core.errors import ClusterError, LimitExceeded
from app.core.kube.client import ResponseLimits
from app.core.kube.kubeconfig import ServerPolicy
from app.core.kube.shoot import ShootConnector
from app.core.metrics import Metrics
from app.core.model.shoots import SecretView
from app.prober.rules import schedule
from app.prober.rules.leases import Timings
from tests.attack.kubeconfigs import NAMESPACE, kubeconfig
from tests.attack.watchdog import on_uvloop
from tests.core.kube.server import AUTHORITY, serving

AWAY = 0.5  # seconds for which the loop may stay away from everybody else
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


class Absence:
    """How long the loop did not come back, at worst."""

    def __init__(self):
        self.worst = 0.0

    async def watch(self):
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            self.worst = max(self.worst, time.monotonic() - before - 0.01)


@asynccontextmanager
async def absence():
    found = Absence()
    watching = asyncio.create_task(found.watch())
    await asyncio.sleep(0.02)
    try:
        yield found
        await asyncio.sleep(0.02)
    finally:
        watching.cancel()


def full_list(kind, number):
    items = ",".join(['{"metadata":{"name":"n"}}'] * number)
    return f'{{"kind":"{kind}","items":[{items}]}}'.encode()


@pytest.mark.blocking
def test_interim_answers_without_end_do_not_keep_the_loop():
    over = threading.Event()

    async def handler(asked):
        until = time.monotonic() + 6
        while time.monotonic() < until and not over.is_set():
            await asked.raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 2000)

    async def look(origin):
        async with shoot_at(origin) as shoot, absence() as found:
            with pytest.raises(ClusterError):
                await shoot.version()
        over.set()
        # TLS says its goodbyes: uvloop warns of a connection that is left
        await asyncio.sleep(0.3)
        return found.worst

    with serving_beside(handler) as origin:
        assert on_uvloop(look(origin)) < AWAY


@real
@pytest.mark.parametrize("kind", ["LeaseList", "NodeList"])
async def test_a_page_with_too_many_items_is_refused_without_keeping_the_loop(kind):
    body = full_list(kind, 600_000)

    async def handler(asked):
        await asked.answer(body)

    async with shoot_of(handler) as shoot, absence() as found:
        with pytest.raises(LimitExceeded):
            await (shoot.leases() if kind == "LeaseList" else shoot.nodes())
    assert found.worst < AWAY


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
