"""Runs of endpoint probes: a hard end to each, and slow targets and names that keep no gate waiting.

A gate closes by a failure; a run that had to wait for others would be an error, and say nothing. So where many shoots
fail at once, each gate has its place and its lookup at once, and so a result.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from app.core.handlers.handlers import GATES
from app.core.handlers.runs import GATE_THREADS, THREADS
from app.core.model.endpoints import Effect, HttpGet, ProbeOutcome, TcpSocket
from tests.core.handlers.targets import OK, at, handlers, probe, serving
from tests.core.kube.server import Asked, until
from tests.support.resolver import Resolver

pytestmark = pytest.mark.looptime(False)

SHOOTS = 300


def gate(handler, timeout=1):
    return probe(handler, timeout, effect=Effect.GATE_SCALE_DOWN)


async def test_no_probe_that_only_observes_keeps_one_that_gates_waiting():
    async with serving(Asked.hang) as slow, serving(OK) as well, handlers(runs=4) as made:
        jobs = [
            asyncio.ensure_future(made.run(probe(HttpGet(slow.port), 2), at(namespace=str(n))))
            for n in range(20)
        ]
        await asyncio.sleep(0.05)
        found = await made.run(gate(HttpGet(well.port)), at(namespace="x"))
        assert found.outcome is ProbeOutcome.SUCCESS
        await asyncio.gather(*jobs)


async def test_a_run_ends_in_time_though_it_waited_and_is_no_failure_then():
    async with serving(Asked.hang) as slow, handlers(runs=1) as made:
        loop = asyncio.get_running_loop()
        before = loop.time()
        first = asyncio.ensure_future(made.run(probe(HttpGet(slow.port), 0.3), at()))
        await asyncio.sleep(0)
        second = await made.run(probe(HttpGet(slow.port), 0.5), at(namespace="b"))
        assert loop.time() - before < 5
        assert (await first).outcome is ProbeOutcome.FAILURE
    assert (second.outcome, second.message) == (
        ProbeOutcome.ERROR,
        "no answer in what remained of 0.5 s: too many probes run at once",
    )


async def test_a_run_that_is_cancelled_ends_and_gives_its_place_back():
    async with serving(Asked.hang) as slow, handlers(runs=1) as made:
        run = asyncio.ensure_future(made.run(probe(HttpGet(slow.port), 5), at()))
        await asyncio.sleep(0.05)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert (
            await made.run(probe(TcpSocket(slow.port), 1), at())
        ).outcome is ProbeOutcome.SUCCESS


async def test_gates_of_300_shoots_that_fail_at_once_all_say_so():
    async with serving(Asked.hang) as target, handlers() as made:
        runs = (made.run(gate(HttpGet(target.port)), at(namespace=str(n))) for n in range(SHOOTS))
        found = await asyncio.gather(*runs)
    assert [each.outcome for each in found] == [ProbeOutcome.FAILURE] * SHOOTS
    assert {each.message for each in found} == {"no answer within 1 s"}


@pytest.fixture
def asked(monkeypatch):
    """The names that a resolver was asked for which says nothing of any but `localhost`."""
    resolver = Resolver(lambda host: host != "localhost")
    resolver.instead_of_the_systems(monkeypatch)
    yield resolver.asked
    resolver.end()


@asynccontextmanager
async def may_probe(made, names, asked):
    """Probes that only observe, of these hosts; as many are looked up as can be."""
    runs = [
        asyncio.ensure_future(made.run(probe(TcpSocket(80), 20), at(name, namespace=name)))
        for name in names
    ]
    await until(lambda: len(asked) == THREADS)
    try:
        yield
    finally:
        for each in runs:
            each.cancel()
        await asyncio.wait(runs)


OBSERVED = [f"observed-{n}.example" for n in range(4 * THREADS)]


async def test_silent_names_of_probes_that_observe_keep_no_lookup_of_a_gate_waiting(asked):
    async with serving(Asked.hang) as target, handlers() as made, may_probe(made, OBSERVED, asked):
        assert set(asked) == set(OBSERVED[:THREADS])
        found = await made.run(gate(TcpSocket(target.port), 10), at("localhost"))
        assert found.outcome is ProbeOutcome.SUCCESS
        # one that waits for the lookup of a probe that observes it
        found = await made.run(gate(TcpSocket(80)), at(OBSERVED[-1]))
    assert (found.outcome, found.message) == (
        ProbeOutcome.FAILURE,
        "the name was not resolved within 1 s",
    )


async def test_of_gates_whose_names_are_silent_as_many_fail_as_they_have_lookups(asked):
    async with handlers() as made, may_probe(made, OBSERVED, asked):
        names = [f"gate-{n}.example" for n in range(GATE_THREADS)]
        found = await asyncio.gather(
            *(made.run(gate(TcpSocket(80)), at(name, namespace=name)) for name in names)
        )
    assert [each.outcome for each in found] == [ProbeOutcome.FAILURE] * GATE_THREADS
    assert set(names) <= set(asked)


def test_so_many_gates_may_run_and_have_their_names_looked_up():
    assert GATES >= SHOOTS * 10
    assert GATE_THREADS >= 64 > THREADS
