"""A pause or a hold: looked at as ever, and not acted on."""

import pytest

from app.core.model.overrides import ALL_SHOOTS, Scope
from app.core.model.policy import ScalePolicy
from app.core.model.probing import ShootState, Verdict, VerdictReason
from tests.prober.people import DOWN, UP, again, at_hand
from tests.support.overrides import MemoryStore
from tests.support.stands import KCM, MCM, SHOOT, changed

SLOW_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=60.0))
SLOW_MCM = changed(MCM, scale_up=ScalePolicy(1, initial_delay=300.0))


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("scope", Scope)
async def test_a_paused_shoot_is_not_scaled_down_and_shows_what_would_be(stage, scope, everyone):
    hand = await at_hand(stage)
    await hand.pause(scope, everyone=everyone)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(lambda: hand.stand.reason() is VerdictReason.PAUSED, within=60)
        await hand.stand.run(120)
        assert hand.stand.decision().would_be is Verdict.SCALE_DOWN
        assert hand.stand.state() is ShootState.UNPROTECTED
        assert "paused until" in hand.stand.decision().message
        assert not hand.stand.writes()


async def test_the_end_of_a_pause_is_acted_on_at_once(stage):
    hand = await at_hand(stage)
    await hand.pause(seconds=100)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.run(90)
        assert not hand.stand.writes()
        ended_at = hand.paused_until()
        at = await hand.stand.until(lambda: hand.stand.writes(KCM), within=30)
        assert 0 <= at - ended_at < 1.0


async def test_a_pause_that_is_removed_is_acted_on_at_once(stage):
    hand = await at_hand(stage)
    await hand.pause()
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.run(60)
        await hand.resume()
        removed_at = hand.stand.now
        at = await hand.stand.until(lambda: hand.stand.writes(KCM), within=30)
        assert at - removed_at < 1.0


async def test_a_pause_of_scaling_down_lets_a_shoot_come_back(stage):
    hand = await at_hand(stage)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        await hand.pause(Scope.SCALE_DOWN)
    await hand.stand.until(lambda: hand.stand.replicas() == (1, 1, 1), within=120)


async def test_a_pause_of_all_keeps_a_protected_shoot_as_it_is(stage):
    hand = await at_hand(stage)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        await hand.pause(Scope.ALL)
    await hand.stand.run(300)
    assert hand.stand.replicas() == (0, 0, 0)
    assert hand.stand.decision().would_be is Verdict.SCALE_UP
    assert hand.stand.state() is ShootState.PROTECTED


@pytest.mark.parametrize("scope", Scope)
async def test_either_scope_ends_a_run_downwards_at_once(stage, scope):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(lambda: hand.stand.writes(MCM))
        await hand.pause(scope)
        await hand.stand.run(0.1)
        assert "was ended: paused by alice" in hand.stand.told("FlowEnded")[0].message
        await hand.stand.run(90)
        assert not hand.stand.writes(KCM)


async def test_only_the_wide_scope_ends_a_run_upwards(stage):
    hand = await at_hand(stage, dependents=SLOW_MCM)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
    await hand.stand.until(lambda: hand.stand.world.replicas(SHOOT, KCM) == 1)
    await hand.pause(Scope.SCALE_DOWN)
    await hand.stand.run(1)
    assert hand.stand.state() is ShootState.RECOVERING
    await hand.pause(Scope.ALL)
    await hand.stand.run(0.1)
    assert "was ended: paused by alice" in hand.stand.told("FlowEnded")[-1].message
    assert hand.stand.state() is ShootState.PROTECTED


async def test_a_pause_keeps_the_counts(stage):
    hand = await at_hand(stage)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        await hand.pause(seconds=60)
    await hand.stand.run(61)
    began = hand.stand.now
    at = await hand.stand.until(lambda: hand.stand.world.replicas(SHOOT, KCM) == 1, within=60)
    assert at - began <= 15.1, (
        "three looks, 5 s apart, at most: the pause counted none and lost none"
    )


async def test_the_condition_says_who_paused_it_and_until_when(stage):
    hand = await at_hand(stage)
    await hand.pause(Scope.SCALE_DOWN)
    found = {each.type: each for each in hand.stand.status().conditions}["Paused"]
    assert (found.status, found.reason) == ("True", "PausedScaleDown")
    assert "alice paused this shoot until" in found.message
    await hand.resume()
    found = {each.type: each for each in hand.stand.status().conditions}["Paused"]
    assert found.status == "False"


async def test_a_kubectl_edit_is_honoured_within_a_second(stage):
    hand = await at_hand(stage)
    hand.store.kubectl_set(SHOOT, {"pause": {"reason": "by hand"}})
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.run(60)
        assert hand.stand.reason() is VerdictReason.PAUSED
        assert not hand.stand.writes()


async def test_a_key_that_cannot_be_read_pauses_the_shoot_for_an_hour(stage):
    hand = await at_hand(stage)
    hand.store.kubectl_set(SHOOT, '{"pause": {"scope": "everything"}}')
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.run(3_500)
        assert not hand.stand.writes()
        assert hand.stand.reason() is VerdictReason.PAUSED
        found = {each.type: each for each in hand.stand.status().conditions}["Paused"]
        assert (found.status, found.reason) == ("True", "Unreadable")
        await hand.stand.until(lambda: hand.stand.writes(KCM), within=110)


async def test_what_cannot_be_read_elsewhere_is_not_the_reason_of_a_pause_that_can(stage):
    hand = await at_hand(stage)

    def reason():
        return {each.type: each for each in hand.stand.status().conditions}["Paused"].reason

    await hand.pause(Scope.ALL)
    hand.store.kubectl_set(ALL_SHOOTS, "{")
    await hand.stand.run(1)
    assert reason() == "PausedAll", "of two alike, the shoot's own"
    await hand.pause(Scope.SCALE_DOWN)
    assert reason() == "Unreadable", "the one of all holds back more"
    hand.store.kubectl_set(ALL_SHOOTS, None)
    await hand.stand.run(1)
    assert reason() == "PausedScaleDown"
    hand.store.kubectl_set(SHOOT, "{")
    await hand.stand.run(3_601)
    hand.store.kubectl_set(ALL_SHOOTS, {"pause": {"scope": "scaleDown"}})
    await hand.stand.run(1)
    assert hand.stand.status().effective.unreadable is not None
    assert reason() == "PausedScaleDown", "what cannot be read is ignored by now"


async def test_a_restart_forgets_no_pause(stage):
    hand = await at_hand(stage)
    await hand.pause()
    await hand.stand.kill()
    after = again(hand)
    with after.stand.world.faults.path_cut(SHOOT):
        await after.stand.run(90)
        assert after.stand.reason() is VerdictReason.PAUSED
        assert not after.stand.writes()


# Synced.


async def test_nothing_is_scaled_before_the_overrides_are_listed(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    store = MemoryStore(stage.clock)
    store.synced = False
    stand = stage.prober(world, store=store)
    await stand.run(20)
    assert stand.reason() is VerdictReason.NOT_SYNCED
    store.synced = True
    listed_at = stand.now
    at = await stand.until(lambda: stand.reason() is VerdictReason.LEASES_RENEWED, within=20)
    assert at - listed_at < 1.0, "it is looked at as soon as they are known"


async def test_overrides_that_cannot_be_read_for_a_minute_count_as_none(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    store = MemoryStore(stage.clock)
    store.synced = False
    stand = stage.prober(world, store=store)
    await stand.run(59)
    assert stand.reason() is VerdictReason.NOT_SYNCED
    await stand.run(3)
    assert stand.reason() is VerdictReason.LEASES_RENEWED


async def test_forbidden_overrides_count_as_none_at_once(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    store = MemoryStore(stage.clock)
    store.synced = False
    store.forbid()
    stand = stage.prober(world, store=store)
    await stand.run(20)
    assert stand.reason() is VerdictReason.LEASES_RENEWED
    with stand.world.faults.path_cut(SHOOT):
        await stand.protect()


# A hold.


@pytest.mark.parametrize("direction", [UP, DOWN])
async def test_a_hold_keeps_the_verdicts_from_being_acted_on(stage, direction):
    hand = await at_hand(stage)
    operation = await hand.scale(direction)
    await hand.done()
    replicas = hand.stand.replicas()
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.run(120)
        assert hand.stand.reason() is VerdictReason.HELD
        assert hand.stand.replicas() == replicas
    assert hand.operation(operation.id).direction is direction


async def test_when_a_hold_ends_the_verdict_is_acted_on_at_once(stage):
    hand = await at_hand(stage)
    await hand.scale(DOWN, hold=100)
    await hand.done()
    assert hand.stand.replicas() == (0, 0, 0)
    began = hand.stand.now
    at = await hand.stand.until(lambda: hand.stand.world.replicas(SHOOT, KCM) == 1, within=150)
    assert 90 < at - began < 102


# What comes in between.


@pytest.mark.parametrize("what", ["pause", "hold"])
async def test_a_pause_or_hold_that_comes_during_the_confirming_reading_is_heeded(stage, what):
    hand = await at_hand(stage)
    runner = hand.stand.prober.registry.runner(SHOOT)
    assert runner is not None
    observer, confirm = runner._observer, runner._observer.confirm

    async def slow(subject, first):
        await hand.stand.run(0.3)
        if what == "pause":
            await hand.pause()
        else:
            hand.store.kubectl_set(SHOOT, {"hold": {"reason": "wait"}})
        await hand.stand.run(0.7)
        return await confirm(subject, first)

    observer.confirm = slow  # type: ignore[method-assign]  # a slow shoot, just there
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(
            lambda: hand.stand.reason() in {VerdictReason.PAUSED, VerdictReason.HELD}, 60
        )
        await hand.stand.run(60)
        assert not hand.stand.writes()
        assert hand.stand.decision().would_be is Verdict.SCALE_DOWN


async def test_a_pause_that_comes_while_something_stale_is_read_live_is_heeded(stage):
    hand = await at_hand(stage)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        written = len(hand.stand.writes())
        runner = hand.stand.prober.registry.runner(SHOOT)
        assert runner is not None
        live = runner._observer.live_where_stale

        async def slow(subject, *, down):
            await hand.pause()
            await hand.stand.run(0.5)
            return await live(subject, down=down)

        runner._observer.live_where_stale = slow  # type: ignore[method-assign]  # as above
    await hand.stand.until(lambda: hand.stand.reason() is VerdictReason.PAUSED, 60)
    await hand.stand.run(30)
    assert len(hand.stand.writes()) == written


async def test_good_probes_from_before_an_outage_under_a_pause_count_for_nothing(stage):
    hand = await at_hand(stage)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
    await hand.stand.until(lambda: "2 of 3" in hand.stand.decision().message, 60)
    await hand.pause(seconds=120)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.run(100)
        assert hand.stand.decision().would_be is Verdict.SCALE_DOWN
        await hand.stand.run(hand.paused_until() - 0.05 - hand.stand.now)
    # The path is back for an instant when the pause ends: three probes have to be good from here on.
    ended_at = hand.stand.now
    at = await hand.stand.until(lambda: hand.stand.world.replicas(SHOOT, KCM) == 1, within=90)
    assert at - ended_at >= 10
