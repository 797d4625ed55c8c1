"""Servers and storage that go away, throttle or crawl: HOLD, and never a scale-down."""

import itertools

import pytest

from app.core.model.probing import ShootState, Verdict, VerdictReason
from app.simulation import shoot as simulated
from app.simulation.traffic import Host, Storage, Trouble
from tests.support.stands import GARDENER, SHOOT


@pytest.fixture(params=[10.0, 30.0])
async def anywhere(stage, request):
    """A healthy shoot, with our interval and with Gardener's."""
    world = stage.world()
    world.add_shoot(SHOOT)
    return stage.prober(world, probe_interval=request.param)


@pytest.mark.parametrize("seconds", [12.0, 20.0, 33.0, 60.0, 120.0])
@pytest.mark.parametrize("fault", ["api_down", "api_hanging", "storage_away"])
async def test_a_server_or_storage_that_is_away_never_scales_anything(anywhere, fault, seconds):
    stand = anywhere
    for _ in range(4):
        await stand.run(83)
        with getattr(stand.world.faults, fault)(SHOOT):
            await stand.run(seconds)
    await stand.run(120)
    assert not stand.writes()
    assert stand.state() is ShootState.HEALTHY


@pytest.mark.parametrize("seconds", [20.0, 45.0])
async def test_storage_that_fails_at_once_never_scales_anything(anywhere, seconds):
    stand = anywhere
    for _ in range(4):
        await stand.run(83)
        with stand.world.faults.storage_away(SHOOT, Storage.FAILS):
            await stand.run(seconds)
    await stand.run(120)
    assert not stand.writes()


@pytest.mark.parametrize("fault", ["api_down", "api_hanging"])
async def test_no_answer_is_unreachable(stand, fault):
    await stand.run(60)
    with getattr(stand.world.faults, fault)(SHOOT):
        await stand.run(60)
        assert stand.state() is ShootState.UNREACHABLE
        assert stand.decision().verdict is Verdict.HOLD


async def test_no_answer_within_a_short_probe_timeout_is_unreachable_too(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, probe_timeout=3.0)
    await stand.run(60)
    with world.faults.api_hanging(SHOOT):
        await stand.run(30)
        assert stand.reason() is VerdictReason.UNREACHABLE


async def test_leases_that_do_not_come_within_probe_timeout_are_too_slow(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, probe_timeout=3.0)
    await stand.run(60)
    with world.faults.storage_away(SHOOT):
        await stand.run(30)
        assert stand.reason() is VerdictReason.TOO_SLOW
        assert stand.state() is ShootState.FAILING


async def test_storage_that_is_away_is_failing_although_version_answers(stand):
    await stand.run(60)
    with stand.world.faults.storage_away(SHOOT):
        await stand.run(60)
        assert stand.state() is ShootState.FAILING
        assert stand.reason() is VerdictReason.LEASES_UNREADABLE


async def test_an_answer_that_is_not_a_version_is_failing(stand):
    await stand.run(60)
    broken = Trouble(error_rate=1.0, what=frozenset({"version"}))
    with stand.world.faults.path_cut(SHOOT), stand.world.faults.trouble(SHOOT, broken):
        await stand.run(120)
        assert stand.state() is ShootState.FAILING
        assert stand.reason() is VerdictReason.BAD_ANSWER
        assert not stand.writes()


async def test_nodes_that_cannot_be_read_hold_a_scale_down(stand):
    await stand.run(60)
    with (
        stand.world.faults.path_cut(SHOOT),
        stand.world.faults.forbidden(SHOOT, "list", "nodes"),
    ):
        await stand.run(120)
        assert stand.decision().verdict is Verdict.HOLD
        assert not stand.writes()


async def paces(stand, fault):
    """Seconds between the probes of a minute in which all fail."""
    before = len(stand.probes())
    with fault:
        await stand.run(70)
    return [round(b - a) for a, b in itertools.pairwise(stand.probes()[before:])]


async def test_failed_probes_come_a_second_apart_until_there_is_a_gap_then_at_most_10_apart(stand):
    """rules 4.1: a contact before the gap keeps the ages."""
    await stand.run(60)
    apart = await paces(stand, stand.world.faults.api_down(SHOOT))
    assert apart[0] in (1, 2)
    assert max(apart) == 10
    assert apart[-3:] == [10, 10, 10]
    assert sum(each == 1 for each in apart) <= 15


async def test_under_protection_failed_probes_come_no_further_apart_than_the_suspect_interval(
    stand,
):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        apart = await paces(stand, stand.world.faults.api_down(SHOOT))
    assert apart[0] in (1, 2)
    assert max(apart) == 5


async def test_a_failed_contact_is_a_failed_probe(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, probe_interval=30.0)
    await stand.until(lambda: len(stand.probes()) == 3, within=90)
    before = stand.probes()[-1]
    contact = frozenset({"contact"})
    with world.faults.trouble(SHOOT, Trouble(error_rate=1.0, what=contact)):
        await stand.until(lambda: len(stand.probes()) == 4)
    assert 10 < stand.probes()[-1] - before <= 12.2, "10 s to the contact, at most 2 s on"


async def test_a_silent_contact_does_not_scale_and_ends(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    stand = stage.prober(world, probe_interval=30.0)
    await stand.run(65)
    with world.faults.trouble(SHOOT, Trouble(silent=True, what=frozenset({"contact"}))):
        await stand.run(120)
    assert stand.state() is ShootState.HEALTHY
    assert not stand.writes()


@pytest.mark.parametrize(("asked", "waits"), [(None, 2), (1.0, 2), (7.0, 7), (3600.0, 60)])
async def test_a_429_holds_and_is_heeded_for_its_retry_after_up_to_60_seconds(stand, asked, waits):
    await stand.run(60)
    throttled = stand.world.faults.throttled(SHOOT, asked)
    before = len(stand.probes())
    await stand.until(lambda: len(stand.probes()) > before)
    assert stand.reason() is VerdictReason.THROTTLED
    throttled.lift()
    stand.world.requests.reset()
    await stand.run(waits - 0.2)
    assert stand.world.requests.total(Host.SHOOT) == 0
    await stand.run(0.5)
    assert stand.world.requests.total(Host.SHOOT) > 0


async def test_no_wake_breaks_the_wait_of_a_429(stand):
    await stand.run(60)
    throttled = stand.world.faults.throttled(SHOOT, 30.0)
    await stand.until(lambda: stand.reason() is VerdictReason.THROTTLED)
    throttled.lift()
    stand.world.requests.reset()
    stand.world.leadership.become(leading=False)
    stand.world.leadership.become(leading=True)
    stand.world.faults.rotate_token(SHOOT)
    await stand.run(28)
    assert stand.world.requests.total(Host.SHOOT) == 0


async def test_a_single_429_makes_no_gap(stand):
    """Its wait is short, so the outage it falls into is found in time."""
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.run(12)
        with stand.world.faults.throttled(SHOOT):
            before = len(stand.probes())
            await stand.until(lambda: len(stand.probes()) > before)
        known = await stand.until(lambda: stand.world.known_at(SHOOT, since=stand.now - 40))
        await stand.run(1.5)
        assert stand.writes()
        assert stand.writes()[0].at - known < 1.5


async def test_a_429_that_stays_never_scales(stand):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT), stand.world.faults.throttled(SHOOT, 5.0):
        await stand.run(180)
        assert not stand.writes()
        assert stand.state() is ShootState.FAILING


@pytest.mark.on_ports  # it changes the time limit of the ports
async def test_three_readings_in_a_row_that_take_too_long_are_failing_and_never_scale(
    stand, monkeypatch
):
    monkeypatch.setattr(simulated, "LEASE_LIMIT", 20.0)
    await stand.run(60)
    slow = Trouble(latency=6.0, what=frozenset({"leases"}))
    with stand.world.faults.path_cut(SHOOT), stand.world.faults.trouble(SHOOT, slow):
        begun = len(stand.probes())
        await stand.until(lambda: len(stand.probes()) == begun + 2)
        assert stand.reason() is VerdictReason.STALE_READING
        await stand.until(lambda: len(stand.probes()) == begun + 3)
        assert stand.reason() is VerdictReason.TOO_SLOW
        assert stand.state() is ShootState.FAILING
        await stand.run(60)
        assert not stand.writes()


@pytest.mark.on_ports  # it changes the time limit of the ports
async def test_two_slow_readings_and_a_good_one_are_not_failing(stand, monkeypatch):
    monkeypatch.setattr(simulated, "LEASE_LIMIT", 20.0)
    await stand.run(60)
    slow = Trouble(latency=6.0, what=frozenset({"leases"}))
    for _ in range(2):
        begun = len(stand.probes())
        with stand.world.faults.trouble(SHOOT, slow):
            await stand.until(lambda begun=begun: len(stand.probes()) == begun + 2)
        await stand.run(20)
    assert not [n for n in stand.notices if n.reason == VerdictReason.TOO_SLOW]


async def test_a_prober_whose_first_probes_failed_does_not_scale_on_what_it_finds(stage):
    """Its first contact ends a gap: leases that stood still meanwhile prove nothing."""
    world = stage.world()
    world.add_shoot(SHOOT)
    with world.faults.api_down(SHOOT):
        stand = stage.prober(world, GARDENER)
        await stand.run(60)
    await stand.run(120)
    assert not stand.writes()
    assert stand.state() is ShootState.HEALTHY


@pytest.mark.parametrize("fault", ["api_down", "api_hanging", "storage_away"])
async def test_nothing_that_is_away_in_an_outage_ends_its_protection(stand, fault):
    await stand.run(60)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()
        with getattr(stand.world.faults, fault)(SHOOT):
            await stand.run(60)
        await stand.run(120)
        assert stand.replicas() == (0, 0, 0)
        assert stand.state() is ShootState.PROTECTED
    await stand.run(120)
    assert stand.replicas() == (1, 1, 1)


async def test_storage_that_was_away_before_an_outage_only_delays_its_protection(stand):
    await stand.run(60)
    with stand.world.faults.storage_away(SHOOT):
        await stand.run(40)
    await stand.run(20)
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()


async def test_a_fifth_of_all_requests_failing_scales_nothing(stand):
    with stand.world.faults.errors(SHOOT, 0.2):
        await stand.run(900)
    assert not stand.writes()
