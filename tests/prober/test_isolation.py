"""One shoot's trouble is its own: crashes, slowness, mass outages."""

import itertools

import pytest
from structlog.testing import capture_logs

from app.core.errors import CredentialRefused
from app.core.metrics import Metrics
from app.core.model.probing import ShootState, VerdictReason
from app.core.reporting.metering import Metering
from app.simulation.traffic import Trouble
from tests.support.stands import KCM, SHOOT

pytestmark = pytest.mark.on_ports  # it puts a connector of its own into the world

OTHER = "shoot--local--b"


@pytest.fixture(autouse=True)
def logs():
    """What is logged; a rendered traceback would cost a second of real time each."""
    with capture_logs() as entries:
        yield entries


class BrokenConnector:
    """A connector with a bug that one shoot meets."""

    def __init__(self, real, error):
        self._real = real
        self._error = error
        self.broken = True
        self.tries = []

    async def connect(self, secret):
        if self.broken and secret.namespace == SHOOT:
            self.tries.append(self._real._clock.now())
            raise self._error
        return await self._real.connect(secret)

    def consumer(self, namespace):
        return self._real.consumer(namespace)

    def forget(self, namespace):
        self._real.forget(namespace)


async def broken(stage, error):
    world = stage.world()
    world.add_shoot(SHOOT)
    world.add_shoot(OTHER)
    connector = world.connector = BrokenConnector(world.connector, error)
    return stage.prober(world), connector


async def test_a_runner_that_fails_unexpectedly_is_failing_and_started_again_1_s_doubling_to_60(
    stage, logs
):
    stand, connector = await broken(stage, ValueError("a bug"))
    await stand.run(320)
    tries = connector.tries
    apart = [round(b - a) for a, b in itertools.pairwise(tries)]
    assert apart[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert stand.state() is ShootState.FAILING
    assert stand.reason() is VerdictReason.INTERNAL_ERROR
    assert len(stand.told("RunnerFailed")) == len(tries)
    failures = [entry for entry in logs if entry["event"] == "runner failed"]
    assert len(failures) == len(tries)
    assert all(entry["exc_info"] for entry in failures), "with its traceback"


async def test_no_other_shoot_notices_a_runner_that_fails(stage):
    stand, _ = await broken(stage, ValueError("a bug"))
    await stand.run(60)
    assert stand.state(OTHER) is ShootState.HEALTHY
    with stand.world.faults.path_cut(OTHER):
        await stand.protect(OTHER)
    assert not stand.told("RunnerFailed", OTHER)


async def test_a_runner_that_failed_recovers_when_the_cause_is_gone(stage):
    stand, connector = await broken(stage, KeyError("a bug"))
    await stand.run(30)
    connector.broken = False
    await stand.run(60)
    assert stand.state() is ShootState.HEALTHY


async def test_a_runner_that_fails_while_throttled_keeps_to_the_wait(stage):
    stand, connector = await broken(stage, ValueError("a bug"))
    connector.broken = False
    await stand.run(60)
    with stand.world.faults.throttled(SHOOT, 50.0):
        await stand.until(lambda: stand.reason() is VerdictReason.THROTTLED)
        at = stand.now
        stand.prober.registry.runner(SHOOT)._due = None
        stand.prober.registry.runner(SHOOT)._schedule.rouse()
        await stand.until(lambda: stand.told("RunnerFailed"))
        del stand.prober.registry.runner(SHOOT)._due
        connector.broken = True
        await stand.until(lambda: connector.tries)
        assert stand.now - at >= 49


async def test_an_unexpected_error_is_told_without_its_content(stage):
    stand, _ = await broken(stage, ValueError("the token is hunter2"))
    await stand.run(5)
    assert not [n for n in stand.notices if "hunter2" in n.message]
    assert "hunter2" not in stand.decision().message


async def test_a_refused_kubeconfig_is_no_crash(stage):
    stand, _ = await broken(stage, CredentialRefused("exec", "users[0].user.exec is not accepted"))
    await stand.run(60)
    assert not stand.told("RunnerFailed")
    assert stand.reason() is VerdictReason.CREDENTIALS_REFUSED


async def many(stage, count, **options):
    world = stage.world()
    names = [f"shoot--local--{n:03}" for n in range(count)]
    for name in names:
        world.add_shoot(name, nodes=3)
    return stage.prober(world, **options), names


async def test_shoots_that_hang_do_not_delay_the_others(stage):
    """200 servers that take every request and answer none, and 20 that do."""
    stand, names = await many(stage, 220)
    await stand.run(15)
    for name in names[:200]:
        stand.world.faults.trouble(name, Trouble(silent=True))
    await stand.run(20)
    stand.notices.clear()
    await stand.run(40)
    lags = [
        n.numbers["lag"] for n in stand.notices if n.kind == "Look" and n.namespace in names[200:]
    ]
    assert len(lags) >= 60
    assert max(lags) < 0.1


async def test_a_probe_that_takes_longer_than_the_interval_does_not_make_the_next_one_late(stage):
    """The lag is that of our own process: a slow server is none of it."""
    stand, (name,) = await many(stage, 1, probe_interval=5.0)
    await stand.run(20)
    with stand.world.faults.latency(name, 4.0):
        await stand.run(10)
        stand.notices.clear()
        await stand.run(60)
    probes = [n.numbers for n in stand.notices if n.kind == "Look"]
    assert min(n["seconds"] for n in probes) > 5
    assert max(n["lag"] for n in probes) < 0.1


async def test_scale_ups_after_a_mass_outage_begin_for_at_most_10_shoots_a_second(stage):
    stand, names = await many(stage, 40)
    await stand.run(30)
    cuts = [stand.world.faults.path_cut(name) for name in names]
    await stand.until(lambda: all(stand.world.replicas(n, KCM) == 0 for n in names))
    await stand.run(3)
    for cut in cuts:
        cut.lift()
    await stand.run(60)
    begins = sorted(
        write.sent
        for write in stand.world.journal.of("dependency-watchdog", name=KCM.name)
        if write.patch["spec"]["replicas"] == 1
    )
    assert len(begins) == 40
    for first, eleventh in zip(begins, begins[10:], strict=False):
        assert eleventh - first >= 1.0 - 0.01


async def test_scale_downs_of_a_mass_outage_do_not_take_turns(stage):
    stand, names = await many(stage, 40)
    await stand.run(30)
    for name in names:
        stand.world.faults.path_cut(name)
    await stand.run(45)
    for name in names:
        known = stand.world.known_at(name, since=stand.now - 45)
        (write,) = stand.world.journal.of("dependency-watchdog", name, KCM.name)
        assert write.sent - known < 1.5


async def test_a_runner_that_failed_is_counted(stage):
    stand, connector = await broken(stage, ValueError("a bug"))
    metrics = Metrics()
    stand.environment.notice_bus.subscribe(Metering(metrics).note)
    await stand.run(30)
    counted = metrics.registry.get_sample_value("dwd_runner_failures_total", {"loop": "prober"})
    assert counted == len(connector.tries) > 3
