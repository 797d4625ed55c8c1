"""A manual scaling run outlives the process that began it: the next leader carries it on under the same id."""

import pytest

from app.core import errors
from app.core.model import workloads as ann
from app.core.model.policy import ScalePolicy
from app.core.model.probing import ShootState, VerdictReason
from app.core.model.scaling_runs import OperationPhase
from app.simulation.leadership import SimulatedLeadership
from tests.prober.people import DOWN, UP, Hand, again, at_hand
from tests.support.overrides import MemoryStore
from tests.support.stands import CA, KCM, MCM, SHOOT, Stage, changed

ROUND_TRIP = 0.02
BOUNDARIES = [n * ROUND_TRIP / 4 for n in range(24)]
"""Seconds after a scaling run began: each of its requests is not sent, sent, carried out, or answered."""
SLOW_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=60.0))


def nothing_lost(hand: Hand) -> bool:
    world = hand.stand.world
    return all(
        ann.REPLICAS in world.annotations(SHOOT, ref)
        for ref in (KCM, MCM, CA)
        if world.replicas(SHOOT, ref) == 0
    )


async def finished(hand: Hand, name: str) -> None:
    """The scaling run came to its end once, and its hold says so."""
    await hand.done(within=60)
    assert (hand.hold() or {})["operation"] == name


@pytest.mark.parametrize("after", BOUNDARIES)
async def test_killed_at_any_point_of_the_way_down_it_is_carried_on_under_the_same_id(stage, after):
    hand = await at_hand(stage)
    began = await hand.scale(DOWN)
    await hand.stand.run(after)
    await hand.stand.kill()
    assert nothing_lost(hand)
    following = again(hand)
    await finished(following, began.id)
    assert following.stand.replicas() == (0, 0, 0)
    assert nothing_lost(following)
    carried = following.stand.prober.scaling_runs.operation(began.id)
    if carried is not None:
        assert (carried.phase, carried.carried_on) == (OperationPhase.DONE, True)
        assert (carried.author, carried.reason) == ("alice", "a test")


@pytest.mark.parametrize("after", [*BOUNDARIES[::2], 1.0, 5.0, 29.9, 30.1, 31.0])
async def test_killed_at_any_point_of_the_way_up_it_is_carried_on(stage, after):
    hand = await at_hand(stage)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        began = await hand.scale(UP, force=True)
        await hand.stand.run(after)
        await hand.stand.kill()
        following = again(hand)
        await finished(following, began.id)
        assert following.stand.replicas() == (1, 1, 1)
        await following.stand.run(60)
        assert following.stand.replicas() == (1, 1, 1), "it is held"
        assert following.stand.reason() is VerdictReason.HELD


@pytest.mark.parametrize("what", ["create", "replace"])
async def test_killed_while_the_hold_is_written_it_is_either_whole_or_not_at_all(stage, what):
    hand = await at_hand(stage)
    if what == "replace":
        await hand.pause(seconds=5)
    hand.store.lost_answers = 1
    began = await hand.scale(DOWN)
    await hand.stand.kill()
    following = again(hand)
    await finished(following, began.id)
    assert following.stand.replicas() == (0, 0, 0)


async def test_killed_between_the_end_of_a_run_and_the_word_of_it_nothing_is_scaled_twice(stage):
    hand = await at_hand(stage)
    began = await hand.scale(DOWN)
    await hand.stand.until(lambda: hand.stand.replicas() == (0, 0, 0))
    await hand.stand.kill()
    written = len(hand.stand.writes())
    following = again(hand)
    await finished(following, began.id)
    assert len(following.stand.writes()) == written


# A change of leader.


def replicas(stage: Stage, world, store: MemoryStore, **changes) -> tuple[Hand, Hand]:
    """Two instances on the same world: the first one leads."""
    first, second = SimulatedLeadership(leading=True), SimulatedLeadership(leading=False)
    return (
        Hand(stage.prober(world, leadership=first, store=store, **changes), store),
        Hand(stage.prober(world, leadership=second, store=store.replica(), **changes), store),
    )


def hand_over(first: Hand, second: Hand) -> None:
    first.stand.environment.leadership.become(leading=False)  # type: ignore[attr-defined]  # simulated here
    second.stand.environment.leadership.become(leading=True)  # type: ignore[attr-defined]  # as above


@pytest.mark.on_ports  # its instants are those of requests that take 20 ms
@pytest.mark.parametrize("after", BOUNDARIES)
async def test_a_change_of_leader_at_any_point_carries_it_on(stage, after):
    world = stage.world()
    world.add_shoot(SHOOT)
    first, second = replicas(stage, world, MemoryStore(stage.clock))
    await first.stand.run(60)
    began = await first.scale(DOWN)
    await first.stand.run(after)
    hand_over(first, second)
    await finished(second, began.id)
    assert second.stand.replicas() == (0, 0, 0)
    assert nothing_lost(second)
    assert not first.operation(began.id).running


async def test_a_standby_carries_nothing_on(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    first, second = replicas(stage, world, MemoryStore(stage.clock), dependents=SLOW_KCM)
    await first.stand.run(60)
    await first.scale(DOWN)
    await first.stand.run(20)
    assert not second.stand.prober.scaling_runs.operations()


async def test_before_a_new_leader_has_read_the_overrides_it_forgets_no_run_and_begins_none(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    began = await hand.scale(DOWN)
    await hand.stand.until(lambda: hand.stand.writes(MCM))
    await hand.stand.kill()
    store = hand.store.replica()
    store.synced = False
    following = Hand(stage.prober(hand.stand.world, store=store, dependents=SLOW_KCM), store)
    await following.stand.run(5)
    scaling_runs = following.stand.prober.scaling_runs
    for act in (
        lambda: following.scale(UP, force=True),
        lambda: scaling_runs.cancel(began.id, by="bob"),
    ):
        with pytest.raises(errors.NotKnownYet):
            await act()
    with pytest.raises(errors.NotKnownYet):
        scaling_runs.operation(began.id)
    store.synced = True
    assert following.operation(began.id).running
    await following.done(within=90)
    assert following.operation(began.id).carried_on


async def test_what_waits_to_be_carried_on_is_an_operation_that_is_pending(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    began = await hand.scale(DOWN)
    await hand.stand.kill()
    following = again(hand)
    scaling_runs = following.stand.prober.scaling_runs
    await following.stand.run(5)
    hold = {**(hand.hold() or {}), "operation": "0badcafe-7"}
    following.store.kubectl_set(SHOOT, {"hold": hold})
    found = scaling_runs.operation("0badcafe-7")
    assert found is not None
    assert (found.phase, found.author, found.carried_on) == (OperationPhase.PENDING, "alice", True)
    assert "0badcafe-7" in {each.id for each in scaling_runs.operations()}
    with pytest.raises(errors.NotKnownYet):
        await scaling_runs.cancel("0badcafe-7", by="bob")
    await following.stand.run(1)
    assert following.operation(began.id).phase is OperationPhase.CANCELLED
    assert following.operation("0badcafe-7").carried_on


@pytest.mark.parametrize("after", [0.0, 0.01, 0.05, 0.2, 0.5, 1.0, 2.5])
async def test_nobody_else_begins_a_run_before_the_next_leader_has_taken_it_up(stage, after):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    began = await hand.scale(DOWN)
    await hand.stand.until(lambda: hand.stand.writes(MCM))
    await hand.stand.kill()
    following = again(hand)
    await following.stand.run(after)
    with pytest.raises((errors.RunInProgress, errors.NotFound)) as refusal:
        await following.scale(UP, force=True)
    if isinstance(refusal.value, errors.RunInProgress):
        assert refusal.value.operation == began.id
    await following.done(within=90)
    assert (following.hold() or {})["operation"] == began.id


# What is not carried on.


async def test_one_whose_time_is_over_ends_its_hold_with_a_word(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    await hand.scale(DOWN, hold=30)
    await hand.stand.until(lambda: hand.stand.writes(MCM))
    await hand.stand.kill()
    await hand.stand.run(40)
    following = again(hand)
    await following.stand.until(lambda: following.hold() is None, within=20)
    assert "its time is over" in following.stand.told("HoldEnded")[0].message
    await following.stand.until(lambda: following.stand.replicas() == (1, 1, 1), within=200)


async def test_one_of_a_shoot_that_is_not_probed_any_more_ends_its_hold_with_a_word(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    await hand.scale(DOWN)
    await hand.stand.until(lambda: hand.stand.writes(MCM))
    await hand.stand.kill()
    hand.stand.world.faults.hibernated(SHOOT)
    await hand.stand.run(1)
    following = again(hand)
    await following.stand.until(lambda: following.hold() is None, within=20)
    assert "not probed" in following.stand.told("HoldEnded")[0].message
    assert not following.stand.writes(KCM)


@pytest.mark.on_ports  # a list of the seed shows no past
async def test_one_that_was_carried_on_just_before_the_probing_ended_is_cancelled(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    began = await hand.scale(DOWN)
    await hand.stand.until(lambda: hand.stand.writes(MCM))
    await hand.stand.kill()
    hand.stand.world.faults.hibernated(
        SHOOT
    )  # the watch of the next process shows it a moment later
    following = again(hand)
    await following.done()
    assert following.operation(began.id).phase is OperationPhase.CANCELLED
    assert not following.stand.writes(KCM)


async def test_a_forced_one_of_a_shoot_that_is_not_probed_is_carried_on(stage):
    hand = await at_hand(stage)
    hand.stand.world.faults.hibernated(SHOOT)
    await hand.stand.until(lambda: not hand.stand.runs())
    began = await hand.scale(DOWN, force=True)
    await hand.stand.kill()
    following = again(hand)
    await finished(following, began.id)
    assert following.stand.replicas() == (0, 0, 0)
    assert following.stand.state() is ShootState.NOT_PROBED


async def test_an_orderly_end_of_the_process_leaves_its_run_to_the_next_one(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    began = await hand.scale(DOWN)
    await hand.stand.until(lambda: hand.stand.writes(MCM))
    await hand.stand.prober.stop("SIGTERM")
    await hand.stand.run(5)
    assert (hand.hold() or {})["done"] is False
    await hand.stand.kill()
    following = again(hand)
    await following.done(within=90)
    assert following.stand.replicas() == (0, 0, 0)
    assert following.operation(began.id).carried_on


async def test_a_hold_whose_cluster_is_gone_is_left_to_the_upkeep(stage):
    hand = await at_hand(stage)
    hand.store.kubectl_set(
        "shoot--gone",
        {"hold": {"direction": "down", "operation": "0badcafe-1", "done": False, "reason": "x"}},
    )
    await hand.stand.run(30)
    assert "shoot--gone" in hand.store.data
    assert not hand.stand.prober.scaling_runs.operations()
