"""A pause or a hold: looked at as ever, and not acted on."""

import pytest

from app.core.model.overrides import Scope
from app.core.model.policy import ScalePolicy
from app.core.model.probing import ShootState, Verdict, VerdictReason
from tests.prober.people import GARDEN, newer_version, with_operator
from tests.support.harness import KCM, MCM, SHOOT, changed

SLOW_MCM = changed(MCM, scale_up=ScalePolicy(1, initial_delay=300.0))


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("scope", Scope)
async def test_a_paused_shoot_is_not_scaled_down_and_shows_what_would_be(operator, scope, everyone):
    await operator.pause(scope, everyone=everyone)
    with operator.faults.path_cut(SHOOT):
        await operator.until(lambda: operator.reason() is VerdictReason.PAUSED, within=60)
        await operator.run(120)
        assert operator.decision().would_be is Verdict.SCALE_DOWN
        assert operator.state() is ShootState.UNPROTECTED
        assert "paused until" in operator.decision().message
        assert not operator.writes()


async def test_the_end_of_a_pause_is_acted_on_at_once(operator):
    await operator.pause(seconds=100)
    with operator.faults.path_cut(SHOOT):
        await operator.run(90)
        assert not operator.writes()
        ended_at = operator.paused_until()
        at = await operator.until(lambda: operator.writes(KCM), within=30)
        assert 0 <= at - ended_at < 1.0


async def test_a_pause_that_is_removed_is_acted_on_at_once(operator):
    await operator.pause()
    with operator.faults.path_cut(SHOOT):
        await operator.run(60)
        await operator.resume()
        removed_at = operator.now
        at = await operator.until(lambda: operator.writes(KCM), within=30)
        assert at - removed_at < 1.0


@pytest.mark.parametrize("scope", Scope)
async def test_either_scope_ends_a_run_downwards_at_once(slow, scope):
    with slow.faults.path_cut(SHOOT):
        await slow.until(lambda: slow.writes(MCM))
        await slow.pause(scope)
        await slow.run(0.1)
        assert "was ended: paused by alice" in slow.told("FlowEnded")[0].message
        await slow.run(90)
        assert not slow.writes(KCM)


async def test_only_the_wide_scope_ends_a_run_upwards(lab):
    operator = await with_operator(lab, dependents=SLOW_MCM)
    await operator.survive_an_outage()
    await operator.until(lambda: operator.world.replicas(SHOOT, KCM) == 1)
    await operator.pause(Scope.SCALE_DOWN)
    await operator.run(1)
    assert operator.state() is ShootState.RECOVERING
    await operator.pause(Scope.ALL)
    await operator.run(0.1)
    assert "was ended: paused by alice" in operator.told("FlowEnded")[-1].message
    assert operator.state() is ShootState.PROTECTED


async def test_the_condition_says_who_paused_it_and_until_when(operator):
    await operator.pause(Scope.SCALE_DOWN)
    found = operator.condition("Paused")
    assert (found.status, found.reason) == ("True", "PausedScaleDown")
    assert "alice paused this shoot until" in found.message
    await operator.resume()
    found = operator.condition("Paused")
    assert found.status == "False"


# With kubectl.


@pytest.mark.parametrize("where", [SHOOT, GARDEN])
async def test_one_that_is_made_with_kubectl_is_honoured_within_a_second(operator, where):
    with operator.faults.path_cut(SHOOT):
        await operator.run(20)
        operator.kubectl.create("Pause", where, "mine", reason="by hand")
        await operator.run(1)
        assert "unknown paused" in operator.condition("Paused").message
        await operator.run(60)
        assert operator.reason() is VerdictReason.PAUSED
        assert not operator.writes()


async def test_one_that_this_version_cannot_decode_pauses_everything_for_24_h(lab):
    operator = await with_operator(lab, prepare=newer_version)
    operator.made("Pause", "newer", ago=86_400 - 90, reason="r", scope="weekends")
    began = operator.now
    with operator.faults.path_cut(SHOOT):
        await operator.run(60)
        assert operator.reason() is VerdictReason.PAUSED
        assert operator.condition("Paused").reason == "Unreadable"
        assert "newer cannot be read" in operator.condition("Paused").message
        at = await operator.until(lambda: operator.writes(KCM), within=40)
        assert at - began == pytest.approx(90, abs=1.5)


# Synced.


def unlisted(lab, fault):
    """A prober that begins while the overrides cannot be listed."""
    world = lab.with_shoot()
    begun = getattr(world.faults, fault)()
    return lab.prober(world), begun


async def test_nothing_is_scaled_before_the_overrides_are_listed(lab):
    harness, fault = unlisted(lab, "overrides_away")
    await harness.run(20)
    assert harness.reason() is VerdictReason.NOT_SYNCED
    fault.lift()
    overrides = harness.environment.overrides
    listed_at = await harness.until(lambda: overrides.synced, within=35)
    at = await harness.until(lambda: harness.reason() is VerdictReason.LEASES_RENEWED, within=20)
    assert at - listed_at < 1.0, "it is looked at as soon as they are known"


# Faults of the watch.


async def test_a_pause_that_a_stale_watch_does_not_show_is_read_before_a_scale_down(operator):
    operator.faults.overrides_watch_cut()
    await operator.run(95)
    operator.kubectl.create("Pause", SHOOT, "mine", reason="by hand")
    with operator.faults.path_cut(SHOOT):
        await operator.run(60)
        assert not operator.writes()
        assert operator.reason() in {VerdictReason.PAUSED, VerdictReason.SEED_STALE}


async def test_a_scale_down_is_held_where_a_stale_watch_cannot_be_read_live(operator):
    fault = operator.faults.overrides_away()
    await operator.run(95)
    with operator.faults.path_cut(SHOOT):
        await operator.run(60)
        assert not operator.writes()
        assert operator.reason() is VerdictReason.SEED_STALE
        fault.lift()
        await operator.until(lambda: operator.writes(KCM), within=60)


# What comes in between.


@pytest.mark.parametrize("what", ["pause", "hold"])
async def test_a_pause_or_hold_that_comes_during_the_confirming_reading_is_heeded(operator, what):
    runner = operator.prober.registry.runner(SHOOT)
    assert runner is not None
    observer, confirm = runner._probe, runner._probe.confirm

    async def slow(subject, first):
        await operator.run(0.3)
        if what == "pause":
            await operator.pause()
        else:
            operator.held()
        await operator.run(0.7)
        return await confirm(subject, first)

    observer.confirm = slow
    with operator.faults.path_cut(SHOOT):
        await operator.until(
            lambda: operator.reason() in {VerdictReason.PAUSED, VerdictReason.HELD}, 60
        )
        await operator.run(60)
        assert not operator.writes()
        assert operator.decision().would_be is Verdict.SCALE_DOWN


async def test_a_pause_that_comes_while_something_stale_is_read_live_is_heeded(operator):
    async with operator.under_protection():
        written = len(operator.writes())
        runner = operator.prober.registry.runner(SHOOT)
        assert runner is not None
        live = runner._probe.live_where_stale

        async def slow(subject, *, down):
            await operator.pause()
            await operator.run(0.5)
            return await live(subject, down=down)

        runner._probe.live_where_stale = slow
    await operator.until(lambda: operator.reason() is VerdictReason.PAUSED, 60)
    await operator.run(30)
    assert len(operator.writes()) == written
