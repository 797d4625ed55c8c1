"""One shoot's trouble is its own: crashes, slowness, mass outages."""

import asyncio
import itertools
from contextlib import AsyncExitStack

import pytest

from app.core.clock import Clock
from app.core.fair_queue import TokenQueue
from app.core.model.probing import ShootState, VerdictReason
from app.core.reporting.notices import Probed
from app.prober.environment import ProbeSlots
from app.simulation.traffic import Trouble
from tests.support.doubles import HookedConnector
from tests.support.harness import KCM, SHOOT

pytestmark = pytest.mark.usefixtures("lines")

OTHER = "shoot--local--b"


class BrokenConnector(HookedConnector):
    """One with a bug that one shoot meets."""

    def __init__(self, error, clock):
        self._error, self._clock = error, clock
        self.broken = True
        self.tries = []

    async def before(self, secret):
        if self.broken and secret.namespace == SHOOT:
            self.tries.append(self._clock.now())
            raise self._error


async def broken(lab, error):
    world = lab.with_shoot()
    world.add_shoot(OTHER)
    connector = BrokenConnector(error, lab.clock)
    return lab.prober(world, connector=connector), connector


async def test_a_runner_that_fails_unexpectedly_is_failing_and_started_again_1_s_doubling_to_60(
    lab, lines
):
    harness, connector = await broken(lab, ValueError("a bug"))
    await harness.run(320)
    tries = connector.tries
    apart = [round(b - a) for a, b in itertools.pairwise(tries)]
    assert apart[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert harness.state() is ShootState.FAILING
    assert harness.reason() is VerdictReason.INTERNAL_ERROR
    assert len(harness.told("RunnerFailed")) == len(tries)
    failures = [entry for entry in lines if entry["event"] == "runner failed"]
    assert len(failures) == len(tries)
    assert all(entry["exc_info"] for entry in failures), "with its traceback"


async def test_no_other_shoot_notices_a_runner_that_fails(lab):
    harness, _ = await broken(lab, ValueError("a bug"))
    await harness.run(60)
    assert harness.state(OTHER) is ShootState.HEALTHY
    with harness.faults.path_cut(OTHER):
        await harness.protect(OTHER)
    assert not harness.told("RunnerFailed", OTHER)


async def test_a_runner_that_failed_recovers_when_the_cause_is_gone(lab):
    harness, connector = await broken(lab, KeyError("a bug"))
    await harness.run(30)
    connector.broken = False
    await harness.run(60)
    assert harness.state() is ShootState.HEALTHY


async def test_a_runner_that_fails_while_throttled_keeps_to_the_wait(lab):
    harness, connector = await broken(lab, ValueError("a bug"))
    connector.broken = False
    await harness.run(60)
    with harness.faults.throttled(SHOOT, 50.0):
        await harness.until(lambda: harness.reason() is VerdictReason.THROTTLED)
        at = harness.now
        harness.prober.registry.runner(SHOOT)._due = None
        harness.prober.registry.runner(SHOOT)._schedule.rouse()
        await harness.until(lambda: harness.told("RunnerFailed"))
        del harness.prober.registry.runner(SHOOT)._due
        connector.broken = True
        await harness.until(lambda: connector.tries)
        assert harness.now - at >= 49


async def test_an_unexpected_error_is_told_without_its_content(lab):
    harness, _ = await broken(lab, ValueError("the token is hunter2"))
    await harness.run(5)
    assert not [n for n in harness.notices if "hunter2" in n.message]
    assert "hunter2" not in harness.decision().message


async def many(lab, count, **options):
    world = lab.world()
    names = [f"shoot--local--{n:03}" for n in range(count)]
    for name in names:
        world.add_shoot(name, nodes=3)
    return lab.prober(world, **options), names


async def test_shoots_that_hang_do_not_delay_the_others(lab):
    """200 servers that take every request and answer none, and 20 that do."""
    harness, names = await many(lab, 220)
    await harness.run(15)
    for name in names[:200]:
        harness.faults.trouble(name, Trouble(silent=True))
    await harness.run(20)
    harness.notices.clear()
    await harness.run(40)
    lags = [n.lag for n in harness.notices if n.kind == "Look" and n.namespace in names[200:]]
    assert len(lags) >= 60
    assert max(lags) < 0.1


@pytest.mark.parametrize(
    ("used", "first", "seconds"),
    [
        pytest.param(lambda after: 0.1 * after, True, 1, id="idle"),
        pytest.param(lambda after: min(after, 2.5), True, 3, id="busy for a while"),
        pytest.param(lambda after: 0.9 * after, True, 5, id="busy"),
        pytest.param(lambda after: 0.9 * after, False, 1, id="busy, and no first probe"),
    ],
)
async def test_a_slow_probe_makes_way_for_another_unless_it_is_a_first_one_and_we_are_what_is_slow(
    used, first, seconds
):
    loop = asyncio.get_running_loop()
    began = loop.time()
    clock = Clock(0.0, loop.time, lambda: used(loop.time() - began))
    slots = ProbeSlots(clock, endpoint_mode=False)
    async with AsyncExitStack() as probes:
        for _ in range(64):
            await probes.enter_async_context(slots.place(first=first, was_slow=False))
        async with slots.place(first=first, was_slow=False):
            assert loop.time() - began == pytest.approx(seconds)


async def test_a_probe_that_takes_longer_than_the_interval_does_not_make_the_next_one_late(lab):
    """The lag is that of our own process: a slow server is none of it."""
    harness, (name,) = await many(lab, 1, probe_interval=5.0)
    await harness.run(20)
    with harness.faults.latency(name, 4.0):
        await harness.run(10)
        harness.notices.clear()
        await harness.run(60)
    probes = [n for n in harness.notices if isinstance(n, Probed)]
    assert min(n.seconds for n in probes) > 5
    assert max(n.lag for n in probes) < 0.1


async def test_scale_ups_after_a_mass_outage_begin_for_at_most_10_shoots_a_second(lab):
    """At one a second here: as many as have more than ten a second to begin take a test too long."""
    harness, names = await many(lab, 15)
    ten_a_second, waits = harness.environment.scale_ups, []
    for _ in range(3):
        begun = harness.now
        await ten_a_second.take()
        waits.append(harness.now - begun)
    assert waits == pytest.approx([0.0, 0.1, 0.1], abs=0.002)
    harness.environment.scale_ups = TokenQueue(1.0, 1, harness.clock)
    await harness.run(30)
    cuts = [harness.faults.path_cut(name) for name in names]
    await harness.until(lambda: all(harness.world.replicas(n, KCM) == 0 for n in names))
    await harness.run(3)
    for cut in cuts:
        cut.lift()
    await harness.run(60)
    begins = sorted(
        write.at
        for write in harness.world.journal.of("dependency-watchdog", name=KCM.name)
        if write.patch["spec"]["replicas"] == 1
    )
    assert len(begins) == 15
    assert all(second - first >= 1.0 - 0.01 for first, second in itertools.pairwise(begins))


async def test_scale_downs_of_a_mass_outage_do_not_take_turns(lab):
    harness, names = await many(lab, 40)
    await harness.run(30)
    for name in names:
        harness.faults.path_cut(name)
    await harness.run(45)
    for name in names:
        known = harness.world.known_at(name, since=harness.now - 45)
        (write,) = harness.world.journal.of("dependency-watchdog", name, KCM.name)
        assert write.at - known < 1.5
