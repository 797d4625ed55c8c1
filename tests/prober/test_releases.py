"""A protection that lasts for `maxProtectionDuration` is let go, with a hold as long (spec 1)."""

from app.core import errors
from app.core.model.overrides import Scope
from app.core.model.probing import Reason, ShootState
from app.core.simulation.ownership import SimulatedOwnership
from tests.prober.byhand import again, at_hand
from tests.support.stands import KCM, SHOOT

MOST = 300.0


async def protected(stage, **changes):
    hand = await at_hand(stage, max_protection=MOST, **changes)
    fault = hand.stand.world.faults.path_cut(SHOOT)
    fault.__enter__()
    await hand.stand.protect()
    return hand


def released(hand) -> bool:
    return bool(hand.stand.told("ProtectionReleased"))


async def test_it_is_released_when_its_time_is_over_and_held_for_as_long(stage):
    hand = await protected(stage)
    since = hand.stand.status().protected_since
    assert since is not None
    at = await hand.stand.until(lambda: released(hand), within=MOST)
    assert MOST <= at - since < MOST + 2.5
    await hand.stand.until(lambda: hand.stand.replicas() == (1, 1, 1), within=120)
    hold = hand.hold()
    assert hold is not None
    assert (hold["author"], hold["direction"]) == ("dependency-watchdog", "up")
    await hand.stand.run(MOST - 100)
    assert hand.stand.reason() is Reason.HELD
    assert hand.stand.replicas() == (1, 1, 1), "the outage goes on, and nothing is scaled"


async def test_after_its_hold_an_outage_that_goes_on_is_protected_again(stage):
    hand = await protected(stage)
    await hand.stand.until(lambda: released(hand), within=MOST)
    await hand.stand.run(MOST + 5)
    await hand.stand.until(lambda: hand.stand.state() is ShootState.PROTECTED, within=30)


async def test_the_event_says_why_and_until_when(stage):
    hand = await protected(stage)
    await hand.stand.until(lambda: released(hand), within=MOST)
    notice = hand.stand.told("ProtectionReleased")[0]
    assert notice.event
    assert notice.resource is not None
    assert "maxProtectionDuration" in notice.message
    assert "held until" in notice.message


async def test_it_waits_for_the_end_of_a_wide_pause(stage):
    hand = await protected(stage)
    await hand.pause(Scope.ALL, seconds=2 * MOST)
    await hand.stand.run(2 * MOST - 30)
    assert not released(hand)
    await hand.stand.until(lambda: released(hand), within=60)


async def test_a_pause_of_scaling_down_does_not_delay_it(stage):
    hand = await protected(stage)
    await hand.pause(Scope.SCALE_DOWN, seconds=2 * MOST)
    await hand.stand.until(lambda: released(hand), within=MOST)


async def test_it_waits_for_the_end_of_a_hold(stage):
    hand = await protected(stage)
    hand.store.kubectl_set(SHOOT, {"hold": {"reason": "look first", "direction": "down"}})
    await hand.stand.run(2 * MOST)
    assert not released(hand)
    hand.store.kubectl_set(SHOOT, None)
    await hand.stand.until(lambda: released(hand), within=5)


async def test_without_the_right_to_write_overrides_it_is_not_released_and_that_is_reported(stage):
    hand = await protected(stage)
    hand.store.failing = errors.Forbidden("update configmaps: 403", status=403)
    await hand.stand.run(MOST + 130)
    assert hand.stand.replicas() == (0, 0, 0)
    found = hand.stand.told("ProtectionNotReleased")
    assert 2 <= len(found) <= 4, "once a minute"
    assert "403" in found[0].message
    hand.store.failing = None
    await hand.stand.until(lambda: released(hand), within=65)


async def test_a_release_that_fails_is_not_tried_again_before_its_time(stage):
    hand = await protected(stage)
    hand.stand.world.faults.pods_stuck(SHOOT, KCM)
    await hand.stand.until(lambda: released(hand), within=MOST)
    await hand.stand.until(lambda: hand.stand.told("HoldEnded"), within=60)
    await hand.stand.until(lambda: hand.stand.state() is ShootState.PROTECTED, within=60)
    await hand.stand.run(MOST - 100)
    assert len(hand.stand.told("ProtectionReleased")) == 1
    await hand.stand.until(lambda: len(hand.stand.told("ProtectionReleased")) == 2, within=120)


async def test_who_deletes_the_hold_of_a_release_has_the_shoot_protected_for_as_long_again(stage):
    hand = await protected(stage)
    await hand.stand.until(lambda: released(hand), within=MOST)
    hand.store.kubectl_set(SHOOT, None)
    await hand.stand.until(lambda: hand.stand.state() is ShootState.PROTECTED, within=60)
    await hand.stand.run(MOST - 60)
    assert len(hand.stand.told("ProtectionReleased")) == 1
    assert hand.stand.replicas() == (0, 0, 0)


async def test_a_release_ends_with_the_probing_of_its_shoot(stage):
    hand = await protected(stage)
    await hand.stand.until(lambda: hand.stand.told("FlowStarted")[1:], within=MOST)
    hand.stand.world.faults.hibernated(SHOOT)
    await hand.stand.until(lambda: not hand.stand.runs())
    assert not any(each.running for each in hand.stand.prober.flows.operations())


async def test_a_restart_does_not_begin_the_time_anew(stage):
    hand = await protected(stage)
    await hand.stand.run(MOST - 60)
    await hand.stand.kill()
    following = again(hand)
    await following.stand.until(lambda: released(following), within=120)


async def test_a_standby_releases_nothing(stage):
    hand = await protected(stage)
    standby = stage.prober(
        hand.stand.world,
        ownership=SimulatedOwnership(leading=False),
        store=hand.store.replica(),
        max_protection=MOST,
    )
    await standby.run(MOST + 20)
    assert not standby.told("ProtectionReleased")


async def test_without_a_limit_a_protection_lasts_as_long_as_its_outage(stage):
    hand = await at_hand(stage)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        await hand.stand.run(7_200)
        assert hand.stand.replicas() == (0, 0, 0)
