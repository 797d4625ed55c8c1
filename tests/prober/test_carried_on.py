"""A manual scaling run outlives the process that began it: the next leader carries it on under the same id."""

import pytest

from app.core import errors
from app.core.model import workloads as ann
from app.core.model.policy import ScalePolicy
from app.core.model.probing import ShootState, VerdictReason
from app.core.model.scaling_runs import OperationPhase
from tests.prober.people import DOWN, UP, Operator, again, with_operator
from tests.support.doubles import SetLeadership
from tests.support.harness import CA, KCM, MCM, SHOOT, Lab, changed
from tests.support.overrides import MemoryStore

ROUND_TRIP = 0.02
BOUNDARIES = [n * ROUND_TRIP / 4 for n in range(24)]
"""Seconds after a scaling run began: each of its requests is not sent, sent, carried out, or answered."""
SLOW_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=60.0))


def nothing_lost(operator: Operator) -> bool:
    world = operator.harness.world
    return all(
        ann.REPLICAS in world.annotations(SHOOT, ref)
        for ref in (KCM, MCM, CA)
        if world.replicas(SHOOT, ref) == 0
    )


async def finished(operator: Operator, name: str) -> None:
    """The scaling run came to its end once, and its hold says so."""
    await operator.done(within=60)
    assert (operator.hold() or {})["operation"] == name


@pytest.mark.parametrize("after", BOUNDARIES)
async def test_killed_at_any_point_of_the_way_down_it_is_carried_on_under_the_same_id(lab, after):
    operator = await with_operator(lab)
    began = await operator.scale(DOWN)
    await operator.harness.run(after)
    await operator.harness.kill()
    assert nothing_lost(operator)
    following = again(operator)
    await finished(following, began.id)
    assert following.harness.replicas() == (0, 0, 0)
    assert nothing_lost(following)
    carried = following.harness.prober.scaling_runs.operation(began.id)
    if carried is not None:
        assert (carried.phase, carried.carried_on) == (OperationPhase.DONE, True)
        assert (carried.author, carried.reason) == ("alice", "a test")


@pytest.mark.parametrize("after", [*BOUNDARIES[::2], 1.0, 5.0, 29.9, 30.1, 31.0])
async def test_killed_at_any_point_of_the_way_up_it_is_carried_on(lab, after):
    operator = await with_operator(lab)
    with operator.harness.world.faults.path_cut(SHOOT):
        await operator.harness.protect()
        began = await operator.scale(UP, force=True)
        await operator.harness.run(after)
        await operator.harness.kill()
        following = again(operator)
        await finished(following, began.id)
        assert following.harness.replicas() == (1, 1, 1)
        await following.harness.run(60)
        assert following.harness.replicas() == (1, 1, 1), "it is held"
        assert following.harness.reason() is VerdictReason.HELD


@pytest.mark.parametrize("what", ["create", "replace"])
async def test_killed_while_the_hold_is_written_it_is_either_whole_or_not_at_all(lab, what):
    operator = await with_operator(lab)
    if what == "replace":
        await operator.pause(seconds=5)
    operator.store.lost_answers = 1
    began = await operator.scale(DOWN)
    await operator.harness.kill()
    following = again(operator)
    await finished(following, began.id)
    assert following.harness.replicas() == (0, 0, 0)


async def test_killed_between_the_end_of_a_run_and_the_word_of_it_nothing_is_scaled_twice(lab):
    operator = await with_operator(lab)
    began = await operator.scale(DOWN)
    await operator.harness.until(lambda: operator.harness.replicas() == (0, 0, 0))
    await operator.harness.kill()
    written = len(operator.harness.writes())
    following = again(operator)
    await finished(following, began.id)
    assert len(following.harness.writes()) == written


# A change of leader.


def replicas(lab: Lab, world, store: MemoryStore, **changes) -> tuple[Operator, Operator]:
    """Two instances on the same world: the first one leads."""
    first, second = SetLeadership(leading=True), SetLeadership(leading=False)
    return (
        Operator(lab.prober(world, leadership=first, store=store, **changes), store),
        Operator(lab.prober(world, leadership=second, store=store.replica(), **changes), store),
    )


def hand_over(first: Operator, second: Operator) -> None:
    first.harness.environment.leadership.become(leading=False)  # type: ignore[attr-defined]  # simulated here
    second.harness.environment.leadership.become(leading=True)  # type: ignore[attr-defined]  # as above


@pytest.mark.parametrize("after", BOUNDARIES)
async def test_a_change_of_leader_at_any_point_carries_it_on(lab, after):
    world = lab.world()
    world.add_shoot(SHOOT)
    first, second = replicas(lab, world, MemoryStore(lab.clock))
    await first.harness.run(60)
    began = await first.scale(DOWN)
    await first.harness.run(after)
    hand_over(first, second)
    await finished(second, began.id)
    assert second.harness.replicas() == (0, 0, 0)
    assert nothing_lost(second)
    await first.harness.run(5)
    assert not first.operation(began.id).running


async def test_a_standby_carries_nothing_on(lab):
    world = lab.world()
    world.add_shoot(SHOOT)
    first, second = replicas(lab, world, MemoryStore(lab.clock), dependents=SLOW_KCM)
    await first.harness.run(60)
    await first.scale(DOWN)
    await first.harness.run(20)
    assert not second.harness.prober.scaling_runs.operations()


async def test_before_a_new_leader_has_read_the_overrides_it_forgets_no_run_and_begins_none(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    began = await operator.scale(DOWN)
    await operator.harness.until(lambda: operator.harness.writes(MCM))
    await operator.harness.kill()
    store = operator.store.replica()
    store.synced = False
    following = Operator(
        lab.prober(operator.harness.world, store=store, dependents=SLOW_KCM), store
    )
    await following.harness.run(5)
    scaling_runs = following.harness.prober.scaling_runs
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


async def test_what_waits_to_be_carried_on_is_an_operation_that_is_pending(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    began = await operator.scale(DOWN)
    await operator.harness.kill()
    following = again(operator)
    scaling_runs = following.harness.prober.scaling_runs
    await following.harness.run(5)
    hold = {**(operator.hold() or {}), "operation": "0badcafe-7"}
    following.store.kubectl_set(SHOOT, {"hold": hold})
    found = scaling_runs.operation("0badcafe-7")
    assert found is not None
    assert (found.phase, found.author, found.carried_on) == (OperationPhase.PENDING, "alice", True)
    assert "0badcafe-7" in {each.id for each in scaling_runs.operations()}
    with pytest.raises(errors.NotKnownYet):
        await scaling_runs.cancel("0badcafe-7", by="bob")
    await following.harness.run(1)
    assert following.operation(began.id).phase is OperationPhase.CANCELLED
    assert following.operation("0badcafe-7").carried_on


@pytest.mark.parametrize("after", [0.0, 0.01, 0.05, 0.2, 0.5, 1.0, 2.5])
async def test_nobody_else_begins_a_run_before_the_next_leader_has_taken_it_up(lab, after):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    began = await operator.scale(DOWN)
    await operator.harness.until(lambda: operator.harness.writes(MCM))
    await operator.harness.kill()
    following = again(operator)
    await following.harness.run(after)
    with pytest.raises((errors.RunInProgress, errors.NotFound)) as refusal:
        await following.scale(UP, force=True)
    if isinstance(refusal.value, errors.RunInProgress):
        assert refusal.value.operation == began.id
    await following.done(within=90)
    assert (following.hold() or {})["operation"] == began.id


# What is not carried on.


async def test_one_whose_time_is_over_ends_its_hold_with_a_word(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    await operator.scale(DOWN, hold=30)
    await operator.harness.until(lambda: operator.harness.writes(MCM))
    await operator.harness.kill()
    await operator.harness.run(40)
    following = again(operator)
    await following.harness.until(lambda: following.hold() is None, within=20)
    assert "its time is over" in following.harness.told("HoldEnded")[0].message
    await following.harness.until(lambda: following.harness.replicas() == (1, 1, 1), within=200)


async def test_one_of_a_shoot_that_is_not_probed_any_more_ends_its_hold_with_a_word(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    await operator.scale(DOWN)
    await operator.harness.until(lambda: operator.harness.writes(MCM))
    await operator.harness.kill()
    operator.harness.world.faults.hibernated(SHOOT)
    await operator.harness.run(1)
    following = again(operator)
    await following.harness.until(lambda: following.hold() is None, within=20)
    assert "not probed" in following.harness.told("HoldEnded")[0].message
    assert not following.harness.writes(KCM)


async def test_one_that_was_carried_on_just_before_the_probing_ended_is_cancelled(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    began = await operator.scale(DOWN)
    await operator.harness.until(lambda: operator.harness.writes(MCM))
    await operator.harness.kill()
    following = again(operator)
    await following.harness.until(following.harness.prober.scaling_runs.operations)
    operator.harness.world.faults.hibernated(SHOOT)
    await following.done()
    assert following.operation(began.id).phase is OperationPhase.CANCELLED
    assert not following.harness.writes(KCM)


async def test_a_forced_one_of_a_shoot_that_is_not_probed_is_carried_on(lab):
    operator = await with_operator(lab)
    operator.harness.world.faults.hibernated(SHOOT)
    await operator.harness.until(lambda: not operator.harness.runs())
    began = await operator.scale(DOWN, force=True)
    await operator.harness.kill()
    following = again(operator)
    await finished(following, began.id)
    assert following.harness.replicas() == (0, 0, 0)
    assert following.harness.state() is ShootState.NOT_PROBED


async def test_an_orderly_end_of_the_process_leaves_its_run_to_the_next_one(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    began = await operator.scale(DOWN)
    await operator.harness.until(lambda: operator.harness.writes(MCM))
    await operator.harness.prober.stop("SIGTERM")
    await operator.harness.run(5)
    assert (operator.hold() or {})["done"] is False
    await operator.harness.kill()
    following = again(operator)
    await following.done(within=90)
    assert following.harness.replicas() == (0, 0, 0)
    assert following.operation(began.id).carried_on


async def test_a_hold_whose_cluster_is_gone_is_left_to_the_upkeep(lab):
    operator = await with_operator(lab)
    operator.store.kubectl_set(
        "shoot--gone",
        {"hold": {"direction": "down", "operation": "0badcafe-1", "done": False, "reason": "x"}},
    )
    await operator.harness.run(30)
    assert "shoot--gone" in operator.store.data
    assert not operator.harness.prober.scaling_runs.operations()


async def test_a_hold_that_only_a_lagging_watch_still_shows_as_open_is_carried_on_by_nobody(lab):
    operator = await with_operator(lab)
    operator.store.held = True
    operator.store.kubectl_set(
        SHOOT, {"hold": {"reason": "r", "direction": "down", "operation": "op", "done": False}}
    )
    operator.store.show()
    operator.store.kubectl_set(SHOOT, None)
    await operator.harness.run(30)
    assert operator.harness.replicas() == (1, 1, 1)
