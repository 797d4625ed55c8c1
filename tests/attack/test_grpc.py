"""No target of a grpc probe holds the event loop, whatever frames its answer has."""

import asyncio
import time

import pytest

from app.core.handlers.grpc import check_health
from app.core.handlers.runs import HandlerRun, Lookup
from app.core.model.endpoints import EndpointProbeSpec, Grpc, TargetAddress
from tests.attack.watchdog import MOST

pytestmark = [pytest.mark.looptime(False), pytest.mark.blocking]

SETTINGS = b"\0\0\0\4\0\0\0\0\0"
PING = b"\0\0\x08\6\0\0\0\0\0" + b"x" * 8
UNKNOWN = b"\0\0\0\x4d\0\0\0\0\0"


@pytest.mark.parametrize("frame", [SETTINGS, PING, UNKNOWN], ids=["settings", "pings", "unknown"])
async def test_no_frames_of_a_target_hold_the_loop(frame):
    async def answer(_reader, writer):
        writer.write(SETTINGS + frame * (65_000 // len(frame)))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    handler = Grpc(port=server.sockets[0].getsockname()[1])
    run = HandlerRun(
        EndpointProbeSpec(name="p", grpc=handler), TargetAddress("shoot--dev--one", "127.0.0.1")
    )
    begun = time.thread_time()
    ran = await check_health(handler, run, Lookup())
    assert time.thread_time() - begun < MOST / 2
    assert ran.message == "RESOURCE_EXHAUSTED"
    server.close()
    await asyncio.sleep(0.01)
