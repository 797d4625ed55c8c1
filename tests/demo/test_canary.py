"""The canary, asked over a socket: an answer while the way out is there, nothing while it is not."""

import asyncio

import pytest

from app.simulation.demo.seed import Canary
from app.simulation.network import SeedNetwork

pytestmark = pytest.mark.looptime(False)

QUESTION = b"GET / HTTP/1.1\r\nHost: canary\r\nConnection: close\r\n\r\n"


@pytest.fixture
def network():
    return SeedNetwork()


@pytest.fixture
async def canary(network):
    made = Canary(network.through)
    yield await made.open()
    await made.close()


async def ask(canary, within=5.0):
    """The status line; TimeoutError where none comes."""
    reader, writer = await asyncio.open_connection(*canary)
    try:
        writer.write(QUESTION)
        async with asyncio.timeout(within):
            return (await reader.readline()).decode().strip()
    finally:
        writer.close()


async def test_it_answers_while_the_seed_can_get_out(canary):
    assert await ask(canary) == "HTTP/1.1 204 No Content"


async def test_a_question_that_does_not_get_out_is_swallowed(canary, network):
    network.cut()
    with pytest.raises(TimeoutError):
        await ask(canary, within=0.1)
    network.mend()
    assert await ask(canary) == "HTTP/1.1 204 No Content"


async def test_a_question_that_has_waited_arrives_when_the_way_is_mended(canary, network):
    network.cut()
    asked = asyncio.ensure_future(ask(canary))
    await asyncio.sleep(0.05)
    assert not asked.done()
    network.mend()
    assert await asked == "HTTP/1.1 204 No Content"


async def test_when_it_is_closed_nobody_is_there_and_who_waited_is_let_go(network):
    canary = Canary(network.through)
    address = await canary.open()
    network.cut()
    asked = asyncio.ensure_future(ask(address))
    await asyncio.sleep(0.05)
    await canary.close()
    assert await asked == "", "cut off"
    with pytest.raises(ConnectionRefusedError):
        await ask(address)
