"""Servers and storage that go away, throttle or crawl: HOLD, and never a scale-down."""

import pytest

from app.core.kube import shoot
from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.prober.rules import leases
from app.simulation.traffic import Host, Trouble
from tests.support.harness import GARDENER, SHOOT

NO_VERSION = Trouble(error_rate=1.0, what=frozenset({"version"}))


@pytest.fixture(params=[10.0, 30.0])
async def anywhere(lab, request):
    """A healthy shoot, with our interval and with Gardener's."""
    return lab.prober(lab.with_shoot(), probe_interval=request.param)


@pytest.mark.parametrize("seconds", [12.0, 20.0, 33.0, 60.0, 120.0])
@pytest.mark.parametrize("fault", ["api_down", "api_hanging", "storage_away"])
async def test_a_server_or_storage_that_is_away_never_scales_anything(anywhere, fault, seconds):
    harness = anywhere
    for _ in range(4):
        await harness.run(83)
        with getattr(harness.faults, fault)(SHOOT):
            await harness.run(seconds)
    await harness.run(120)
    assert not harness.writes()
    assert harness.state() is ShootState.HEALTHY


@pytest.mark.parametrize(
    ("begin", "probe_timeout", "reason"),
    [
        (lambda faults: faults.api_down(SHOOT), 30.0, VerdictReason.UNREACHABLE),
        (lambda faults: faults.api_hanging(SHOOT), 30.0, VerdictReason.UNREACHABLE),
        (lambda faults: faults.api_hanging(SHOOT), 3.0, VerdictReason.UNREACHABLE),
        (lambda faults: faults.storage_away(SHOOT), 30.0, VerdictReason.LEASES_UNREADABLE),
        (lambda faults: faults.storage_away(SHOOT), 3.0, VerdictReason.TOO_SLOW),
        (lambda faults: faults.trouble(SHOOT, NO_VERSION), 30.0, VerdictReason.BAD_ANSWER),
    ],
    ids=[
        "down",
        "hanging",
        "hanging, and a short probeTimeout",
        "storage away",
        "storage away, and a short probeTimeout",
        "no version",
    ],
)
async def test_what_does_not_answer_holds_an_outage_for_its_reason(
    lab, begin, probe_timeout, reason
):
    harness = await lab.healthy(probe_timeout=probe_timeout)
    with harness.faults.path_cut(SHOOT), begin(harness.faults):
        await harness.run(60)
        assert harness.decision().verdict is Verdict.HOLD
        assert harness.reason() is reason
        unreachable = reason is VerdictReason.UNREACHABLE
        assert harness.state() is (ShootState.UNREACHABLE if unreachable else ShootState.FAILING)
        assert not harness.writes()


async def test_a_failed_contact_is_a_failed_probe(lab):
    world = lab.with_shoot()
    harness = lab.prober(world, probe_interval=30.0)
    await harness.until(lambda: len(harness.probes()) == 3, within=90)
    before = harness.probes()[-1]
    contact = frozenset({"contact"})
    with world.faults.trouble(SHOOT, Trouble(error_rate=1.0, what=contact)):
        await harness.until(lambda: len(harness.probes()) == 4)
    # 10 s from when the leases of the probe were asked for to the contact, at most 2 s on
    assert 9.98 < harness.probes()[-1] - before <= 12.2


@pytest.mark.parametrize(("asked", "waits"), [(None, 2), (1.0, 2), (7.0, 7), (3600.0, 60)])
async def test_a_429_holds_and_is_heeded_for_its_retry_after_up_to_60_seconds(
    harness, asked, waits
):
    throttled = harness.faults.throttled(SHOOT, asked)
    before = len(harness.probes())
    await harness.until(lambda: len(harness.probes()) > before)
    assert harness.reason() is VerdictReason.THROTTLED
    throttled.lift()
    harness.world.requests.reset()
    await harness.run(waits - 0.2)
    assert harness.world.requests.total(Host.SHOOT) == 0
    await harness.run(0.5)
    assert harness.world.requests.total(Host.SHOOT) > 0


async def test_a_single_429_makes_no_gap(harness):
    """Its wait is short, so the outage it falls into is found in time."""
    with harness.faults.path_cut(SHOOT):
        await harness.run(12)
        with harness.faults.throttled(SHOOT):
            before = len(harness.probes())
            await harness.until(lambda: len(harness.probes()) > before)
        known = await harness.until(lambda: harness.world.known_at(SHOOT, since=harness.now - 40))
        await harness.run(1.5)
        assert harness.writes()
        assert harness.writes()[0].at - known < 1.5


async def test_a_server_that_is_merely_slow_makes_no_gap(lab):
    """Contacts are as far apart as the instants at which they were sent: they are not counted from answers."""
    harness = await lab.healthy(probe_interval=30.0)
    probe = harness.prober.registry.runner(SHOOT)._probe
    with harness.faults.latency(SHOOT, 2.6):
        await harness.run(600)
        assert harness.status().failures == 0
        assert probe._contacts.back_since == leases.NEVER


@pytest.fixture
async def patient(lab, monkeypatch):
    """A healthy shoot, whose pages of Leases are waited for longer than all of them are believed."""
    monkeypatch.setattr(shoot, "LEASES_WITHIN", 20.0)
    monkeypatch.setattr(shoot, "PAGE", 3)
    return lab.prober(lab.with_shoot())


async def test_three_readings_in_a_row_that_take_too_long_are_failing_and_never_scale(patient):
    harness = patient
    await harness.run(60)
    slow = Trouble(latency=2.0, what=frozenset({"leases"}))
    with harness.faults.path_cut(SHOOT), harness.faults.trouble(SHOOT, slow):
        begun = len(harness.probes())
        await harness.until(lambda: len(harness.probes()) == begun + 2)
        assert harness.reason() is VerdictReason.STALE_READING
        await harness.until(lambda: len(harness.probes()) == begun + 3)
        assert harness.reason() is VerdictReason.TOO_SLOW
        assert harness.state() is ShootState.FAILING
        await harness.run(60)
        assert not harness.writes()


async def test_a_prober_whose_first_probes_failed_does_not_scale_on_what_it_finds(lab):
    """Its first contact ends a gap: leases that stood still meanwhile prove nothing."""
    world = lab.with_shoot()
    with world.faults.api_down(SHOOT):
        harness = lab.prober(world, GARDENER)
        await harness.run(60)
    await harness.run(120)
    assert not harness.writes()
    assert harness.state() is ShootState.HEALTHY


@pytest.mark.parametrize("fault", ["api_down", "api_hanging", "storage_away"])
async def test_nothing_that_is_away_in_an_outage_ends_its_protection(harness, fault):
    async with harness.under_protection():
        with getattr(harness.faults, fault)(SHOOT):
            await harness.run(60)
        await harness.run(120)
        assert harness.replicas() == (0, 0, 0)
        assert harness.state() is ShootState.PROTECTED
    await harness.run(120)
    assert harness.replicas() == (1, 1, 1)


async def test_storage_that_was_away_before_an_outage_only_delays_its_protection(harness):
    with harness.faults.storage_away(SHOOT):
        await harness.run(40)
    await harness.run(20)
    await harness.survive_an_outage()
