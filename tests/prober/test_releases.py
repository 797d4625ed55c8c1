"""A protection that lasts for `maxProtectionDuration` is let go, with a hold as long."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from app.core import errors
from app.core.model.overrides import Scope
from app.core.model.probing import ShootState, VerdictReason
from app.simulation.leadership import SimulatedLeadership
from tests.prober.people import DOWN, again, at_hand
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
    assert hand.stand.reason() is VerdictReason.HELD
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
    assert not any(each.running for each in hand.stand.prober.scaling_runs.operations())


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
        leadership=SimulatedLeadership(leading=False),
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


# Of several at once, each is judged when its turn comes.


OTHER = "shoot--local--b"


async def both_due(stage):
    """Two shoots whose protection is over; the hold of the first is being written, which takes 20 s."""
    hand = await at_hand(stage, max_protection=MOST, settle=0)
    world, stand = hand.stand.world, hand.stand
    world.add_shoot(OTHER)
    await stand.run(60)
    for namespace in (SHOOT, OTHER):
        world.faults.path_cut(namespace).__enter__()
    await stand.until(lambda: all(stand.status(n).protected_since for n in (SHOOT, OTHER)), 120)
    hand.store.after = partial(stand.clock.sleep, 20)
    await stand.until(lambda: hand.store.data, within=2 * MOST)
    first, second = sorted((SHOOT, OTHER), key=lambda each: each not in hand.store.data)
    assert second not in hand.store.data
    return hand, first, second


def let_go(hand, namespace):
    return [n for n in hand.stand.told("ProtectionReleased") if n.namespace == namespace]


@pytest.mark.parametrize("entry", ["pause", "hold"])
async def test_what_somebody_decides_while_another_one_is_released_counts(stage, entry):
    hand, first, second = await both_due(stage)
    hand.store.kubectl_set(second, {entry: {"reason": "hands off"}})
    await hand.stand.run(100)
    assert let_go(hand, first)
    assert not let_go(hand, second)
    assert hand.stand.replicas(second) == (0, 0, 0)
    assert set(hand.store.entries(second)) == {entry}


async def test_a_shoot_that_is_not_probed_any_more_is_not_released(stage):
    hand, _, second = await both_due(stage)
    hand.stand.world.faults.hibernated(second)
    await hand.stand.run(100)
    assert not let_go(hand, second)
    assert second not in hand.store.data


async def test_a_run_that_somebody_begins_meanwhile_goes_on_and_releases_too(stage):
    hand, _, second = await both_due(stage)
    order = replace(hand.order(DOWN, force=True), namespace=second)
    began = await hand.stand.prober.scaling_runs.begin(order)
    await hand.stand.run(100)
    assert not let_go(hand, second)
    assert hand.store.entries(second)["hold"]["operation"] == began.id
    assert "releases" in {task.get_name() for task in asyncio.all_tasks()}


async def test_a_pause_that_comes_while_its_own_hold_is_written_ends_the_release(stage):
    hand, first, _ = await both_due(stage)
    hold = hand.store.entries(first)["hold"]
    hand.store.kubectl_set(first, {"hold": hold, "pause": {"reason": "hands off"}})
    await hand.stand.run(100)
    assert not let_go(hand, first)
    assert hand.stand.replicas(first) == (0, 0, 0)
    assert set(hand.store.entries(first)) == {"pause"}
