"""The real loop on a simulated seed: while all is well a stream tells nothing of it."""

import pytest

from app.api.context import ProberView
from app.core.model.policy import Loop
from app.core.reporting.history import History
from tests.api.fakes import FakeProcess
from tests.api.streaming.listening import Harness
from tests.support.harness import Lab


@pytest.fixture
async def loop(tasks, clock):
    """A prober, and the streams that tell of it."""
    lab = Lab(tasks, clock)
    prober = lab.prober(lab.with_shoot())
    environment, overrides = prober.environment, prober.environment.overrides
    view = ProberView(
        prober.prober.registry,
        History(),
        environment.policy,
        overrides,
        prober.prober.scaling_runs,
        prober.prober.dependents,
    )
    # One clock for both: fixtures run in real time, so a second one would be late by what the set-up took.
    harness = Harness.create(process=FakeProcess(loops=(Loop.PROBER,)), prober=view, clock=clock)
    environment.notice_bus.subscribe(harness.streams.publisher.note)
    environment.seed.subscribe(harness.streams.seed_changed)
    yield prober, harness
    await harness.close()
    await lab.close()


async def test_a_healthy_shoot_is_looked_at_again_and_again_and_nobody_is_told(loop):
    prober, harness = loop
    await prober.run(60)
    client = await harness.listen()
    probes = len(prober.probes())
    await prober.run(600)
    assert len(prober.probes()) > probes + 20
    assert client.events == []
    assert client.text.count("heartbeat") == 40
