"""Scrapes of a large seed on real sockets: others have their turn, and a bad scraper harms nobody (threat T15)."""

import asyncio
import socket
import time
from dataclasses import dataclass

import pytest

from app.api.application import create_metrics_app
from app.core.clock import Clock
from app.core.metrics import Metrics
from app.core.model.probing import LeaseCounts, ShootState, Tally
from app.core.reporting.metering import Metering
from app.core.web.serving import HttpServer
from tests.e2e.processes import eventually
from tests.support.meter import show_shoots

pytestmark = pytest.mark.looptime(False)

SHOOTS = 12_000
"""So many that an answer does not fit into the buffers of a connection."""
ASK = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Shoot:
    namespace: str
    state = ShootState.PROTECTED
    tally = Tally(LeaseCounts(10, 9, 1), None, nodes_read=True, judgements=())
    last_probe = 1_800_000_000.25
    protected_since = 1_799_999_000.5
    at_zero = ("kube-controller-manager",)


class Seed:
    """Protected shoots, with all that a scrape shows of them."""

    def __init__(self):
        self.shoots = {f"shoot--{number}": Shoot(f"shoot--{number}") for number in range(SHOOTS)}

    def summaries(self):
        return list(self.shoots.values())

    def facts(self, namespace):
        return self.shoots[namespace]


@pytest.fixture
async def address():
    metrics = Metrics()
    show_shoots(metrics, Metering(metrics), Seed())
    app = create_metrics_app(metrics, Clock.system().now)
    server = HttpServer("metrics", app, "127.0.0.1", 0)
    running = asyncio.ensure_future(server.run())
    yield server.address
    server.stop()
    await running
    server.close()


async def scrape(address, source="127.0.0.1"):
    """The status, the body, and how long it took."""
    began = time.perf_counter()
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(*address, local_addr=(source, 0))
        writer.write(ASK)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    return int(head.split(b" ")[1]), body.decode(), time.perf_counter() - began


class Lazy:
    """A scraper that asks, and reads nothing of the answer."""

    async def __aenter__(self):
        return self

    async def ask(self, address):
        opened = socket.socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, address)
        _, self._writer = await asyncio.open_connection(sock=opened, limit=1)
        self._writer.write(ASK)  # a reader that nobody asks stops reading at its limit

    async def __aexit__(self, *_):
        self._writer.transport.abort()


async def test_a_page_of_thousands_of_series_arrives_whole(address):
    status, text, _ = await scrape(address)
    assert (status, text.count("\ndwd_shoot_state{")) == (200, SHOOTS)
    assert text.count("\ndwd_shoot_node_leases{") == 4 * SHOOTS


async def test_others_have_the_loop_while_it_is_made(address):
    asked = asyncio.ensure_future(scrape(address))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= SHOOTS / 50


async def test_one_that_reads_nothing_takes_its_own_places_and_no_others(address):
    async with Lazy() as one, Lazy() as two:
        await one.ask(address)
        await two.ask(address)
        await asyncio.sleep(0.5)
        status, text, _ = await scrape(address)
        assert (status, "too-many-requests" in text) == (429, True), "its address has two already"
        status, text, seconds = await scrape(address, "127.0.0.2")
        assert (status, text.count("\ndwd_shoot_state{")) == (200, SHOOTS)
        assert seconds < 5


async def test_one_that_never_stops_asking_is_put_off_and_others_are_served(address):
    asked = [asyncio.ensure_future(scrape(address)) for _ in range(40)]
    status, _, seconds = await scrape(address, "127.0.0.2")
    assert (status, seconds < 5) == (200, True)
    statuses = [status for status, _, _ in await asyncio.gather(*asked)]
    assert set(statuses) == {200, 429}
    assert statuses.count(429) >= 20


async def test_one_that_leaves_in_the_middle_leaves_nothing_behind(address):
    for _ in range(3):
        async with Lazy() as one:
            await one.ask(address)
            await asyncio.sleep(0.2)

    async def served():
        return (await scrape(address))[0] == 200

    await eventually(served, "its places are free again", within=10, every=0.3)
