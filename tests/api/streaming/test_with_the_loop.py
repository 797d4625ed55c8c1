"""The real loop on a simulated seed: what a stream tells of an outage, and that it is silent in between."""

import pytest

from app.api.context import ProberView
from app.core.clock import Clock
from app.core.model.policy import Loop
from app.core.reporting.history import History
from app.core.tasks import Tasks
from tests.api.fakes import FakeProcess
from tests.api.streaming.listening import Harness
from tests.support.harness import SHOOT, Lab


@pytest.fixture
async def loop():
    """A prober, and the streams that tell of it."""
    clock = Clock.of_loop()
    tasks = Tasks(clock)
    lab = Lab(tasks, clock)
    world = lab.world()
    world.add_shoot(SHOOT)
    prober = lab.prober(world)
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
    await tasks.stop()


async def test_a_healthy_shoot_is_looked_at_again_and_again_and_nobody_is_told(loop):
    prober, harness = loop
    await prober.run(60)
    client = await harness.listen()
    probes = len(prober.probes())
    await prober.run(600)
    assert len(prober.probes()) > probes + 20
    assert client.events == []
    assert client.text.count("heartbeat") == 40


async def test_an_outage_is_told_from_its_first_sign_to_its_end(loop):
    prober, harness = loop
    await prober.run(60)
    client = await harness.listen()
    with prober.world.faults.path_cut(SHOOT):
        await prober.run(120)
    await prober.run(200)
    states = [each["state"] for each in client.data("shoot")]
    order = [
        state for state, next_ in zip(states, [*states[1:], None], strict=True) if state != next_
    ]
    assert [each for each in order if each != "Suspect"] == [
        "Protecting",
        "Protected",
        "Recovering",
        "Healthy",
    ]
    scaling_runs = [(each["direction"], each["phase"]) for each in client.data("operation")]
    assert list(dict.fromkeys(scaling_runs)) == [
        ("down", "Running"),
        ("down", "Done"),
        ("up", "Running"),
        ("up", "Done"),
    ]
    last = client.data("operation")[-1]["steps"]
    assert {each["phase"] for each in last} == {"Done"}
