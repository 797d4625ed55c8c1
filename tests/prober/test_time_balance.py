"""A shoot whose answers take more than its share of the process's time is probed less often, and that is told."""

import pytest

from app.core.metrics import Metrics
from app.core.model.probing import ShootState
from app.core.reporting.metering import Metering
from app.prober.rules.schedule import SHARE
from tests.support.doubles import HookedConnector
from tests.support.harness import KCM, SHOOT

OTHER = "shoot--local--b"
STRETCH = 0.1


class CostlyConnector(HookedConnector):
    """One whose every request to one shoot takes so many seconds of the loop's time."""

    def __init__(self, seconds):
        self.seconds = seconds

    async def before(self, secret):
        if secret.namespace == SHOOT:
            for _ in range(round(self.seconds / STRETCH)):
                self.consumer(SHOOT).charge(STRETCH)


@pytest.fixture
def costly(lab):
    def made(seconds):
        world = lab.with_shoot()
        world.add_shoot(OTHER)
        connector = CostlyConnector(seconds)
        return lab.prober(world, connector=connector), connector

    return made


def apart(harness, namespace=SHOOT, since=0.0):
    """Seconds between two probes, on average."""
    probes = [at for at in harness.probes(namespace) if at > since]
    return (probes[-1] - probes[0]) / (len(probes) - 1)


async def test_it_is_probed_as_rarely_as_it_takes_to_keep_to_its_share(costly):
    harness, _ = costly(1.0)
    await harness.run(1200)
    requests = 2  # the version, and the leases; contacts are left out
    assert apart(harness, since=harness.now - 900) == pytest.approx(requests / SHARE, rel=0.1)
    assert apart(harness, OTHER) < 13


async def test_its_state_stays_and_its_message_says_so(costly):
    harness, _ = costly(1.0)
    await harness.run(300)
    assert harness.state() is ShootState.HEALTHY
    assert "probed less often, as its answers take more than 5% of" in harness.status().message
    assert "probed less often" not in harness.status(OTHER).message


async def test_it_is_told_once_and_again_when_it_is_over(costly):
    harness, connector = costly(1.0)
    await harness.run(600)
    (told,) = harness.told("ProbedLessOften")
    assert told.severity == "warning"
    connector.seconds = 0.0
    await harness.run(120)
    assert len(harness.told("ProbedAsUsual")) == 1
    assert "probed less often" not in harness.status().message
    assert apart(harness, since=harness.now - 50) < 13


async def test_probes_that_were_put_off_are_counted(costly):
    harness, _ = costly(1.0)
    metrics = Metrics()
    harness.environment.notice_bus.subscribe(Metering(metrics).note)
    await harness.run(300)
    counted = metrics.registry.get_sample_value("dwd_probes_postponed_total")
    assert counted is not None
    assert 3 <= counted < len(harness.probes())


async def test_a_large_shoot_within_its_share_is_probed_as_often_as_any_other(costly):
    """A probe of 5,000 nodes takes 0.1 s."""
    harness, _ = costly(0.05)
    await harness.run(600)
    assert apart(harness) == pytest.approx(apart(harness, OTHER), rel=0.05)
    assert not harness.told("ProbedLessOften")


async def test_an_outage_of_a_large_shoot_is_protected_and_ends_as_that_of_any_other(costly):
    """A probe of 1,000 nodes takes 10 ms, their Nodes 50 ms; all of it three times over."""
    harness, _ = costly(0.06)
    await harness.run(60)
    since, cuts = harness.now, [harness.faults.path_cut(each) for each in (SHOOT, OTHER)]
    await harness.run(60)
    for namespace in (SHOOT, OTHER):
        (write,) = harness.writes(KCM, namespace)
        assert write.at - harness.world.known_at(namespace, since=since) < 1.5
    for each in cuts:
        each.lift()
    await harness.run(100)
    assert harness.state() is ShootState.HEALTHY
    assert not harness.told("ProbedLessOften")


async def test_nobody_can_have_it_probed_while_it_rests(costly):
    harness, _ = costly(2.0)
    await harness.until(lambda: harness.told("ProbedLessOften"), within=120)
    runner = harness.prober.registry.runner(SHOOT)
    rests_until = runner._balance.rests_until
    assert runner.probe_now() >= rests_until
    runner.wake()
    probes = len(harness.probes())
    await harness.run(rests_until - harness.now - 0.5)
    assert len(harness.probes()) == probes
