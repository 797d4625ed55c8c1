"""The adapter: a hard end to each run, and slow targets that keep nobody else waiting."""

import asyncio

import pytest

from app.core.model.endpoints import Effect, HttpGet, ProbeOutcome, TcpSocket
from tests.core.handlers.targets import OK, at, handlers, probe, serving

pytestmark = pytest.mark.looptime(False)

SUCCESS, FAILURE, ERROR = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.ERROR


async def silent(call):
    await call.hang()


async def test_no_probe_that_only_observes_keeps_one_that_gates_waiting():
    async with (
        serving(silent) as slow,
        serving(OK) as well,
        handlers(runs=4) as made,
    ):
        jobs = [
            asyncio.ensure_future(made.run(probe(HttpGet(slow.port), 2), at(namespace=str(n))))
            for n in range(20)
        ]
        await asyncio.sleep(0.05)
        gate = probe(HttpGet(well.port), 1, effect=Effect.GATE_SCALE_DOWN)
        assert (await made.run(gate, at(namespace="x"))).outcome is SUCCESS
        await asyncio.gather(*jobs)


async def test_a_run_ends_in_time_though_it_waited_and_is_no_failure_then():
    async with serving(silent) as slow, handlers(runs=1) as made:
        loop = asyncio.get_running_loop()
        before = loop.time()
        first = asyncio.ensure_future(made.run(probe(HttpGet(slow.port), 0.3), at()))
        await asyncio.sleep(0)
        second = await made.run(probe(HttpGet(slow.port), 0.5), at(namespace="b"))
        assert loop.time() - before < 5
        assert (await first).outcome is FAILURE
    assert (second.outcome, second.message) == (
        ERROR,
        "no answer in what remained of 0.5 s: too many probes run at once",
    )


async def test_a_run_that_is_cancelled_ends_and_gives_its_place_back():
    async with serving(silent) as slow, handlers(runs=1) as made:
        run = asyncio.ensure_future(made.run(probe(HttpGet(slow.port), 5), at()))
        await asyncio.sleep(0.05)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert (await made.run(probe(TcpSocket(slow.port), 1), at())).outcome is SUCCESS
