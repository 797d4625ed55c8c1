"""A ScaleRequest outlives the process that carries it out: the next leader goes on where that one stopped."""

import asyncio
from typing import Any

import pytest

from app.core import errors
from app.core.model import workloads as ann
from app.core.model.probing import VerdictReason
from app.core.model.scaling_runs import OperationPhase
from app.simulation.traffic import Trouble
from tests.prober.people import DOWN, REQUEST, UP, Operator, again, with_operator
from tests.support.doubles import SetLeadership
from tests.support.harness import CA, KCM, MCM, SHOOT, SLOW_KCM, Lab

ROUND_TRIP = 0.02
BOUNDARIES = [n * ROUND_TRIP / 4 for n in range(24)]
"""Seconds after a request was made: each of the first requests of its run is not sent, sent, carried out, or answered,
the one that says `Running` too."""
ENDS = [0.52 + n * ROUND_TRIP / 4 for n in range(12)]
"""The same about the last wait, and about the status that says how it ended."""


def nothing_lost(operator: Operator) -> bool:
    world = operator.world
    return all(
        world.annotations(SHOOT, ref).get(ann.REPLICAS) == "1"
        for ref in (KCM, MCM, CA)
        if world.replicas(SHOOT, ref) == 0
    )


def identity(operator: Operator) -> str:
    return operator.environment.identity


async def finished(operator: Operator, name: str, *, within: float = 60) -> dict[str, Any]:
    """The only request is this one, and has succeeded; its status."""
    status = await operator.done(within=within)
    (made,) = operator.objects()
    assert made["metadata"]["uid"] == name
    assert status["phase"] == "Succeeded"
    return status


def is_true(status, before, leader: Operator):
    """The status is that of one run, whoever carried it out, and keeps what the first leader saw."""
    if "endedAt" in before:
        assert status == before
        return
    assert status["observedBy"] == identity(leader)
    assert status["startedAt"] == before.get("startedAt", status["startedAt"])
    assert status["startedAt"] <= status["endedAt"] < status["holdUntil"]
    steps = {each["resource"]: each for each in status["steps"]}
    assert steps.keys() == {str(each) for each in (KCM, MCM, CA)}
    assert {each["phase"] for each in steps.values()} <= {"Done", "Skipped"}
    for each in before.get("steps", ()):
        now = steps[each["resource"]]
        assert each["phase"] != "Done" or each == now
        for field in {"before", "startedAt"} & each.keys():
            assert now[field] == each[field]


# Killed.


@pytest.mark.parametrize("after", [*BOUNDARIES, *ENDS])
async def test_killed_at_any_point_of_the_way_down_it_is_carried_on(operator, after):
    name = operator.request("Down")
    await operator.run(after)
    await operator.kill()
    assert nothing_lost(operator)
    before = operator.status_of()
    following = again(operator)
    is_true(await finished(following, name), before, following)
    assert following.replicas() == (0, 0, 0)
    assert nothing_lost(following)
    assert len(following.writes()) == 3, "nothing is scaled twice"
    await following.run(5)
    carried = following.operation(name)
    assert (carried.phase, carried.author) == (OperationPhase.DONE, "unknown")


@pytest.mark.parametrize("after", [*BOUNDARIES[::2], 1.0, 5.0, 29.9, 30.1, 31.0])
async def test_killed_at_any_point_of_the_way_up_it_is_carried_on(operator, after):
    async with operator.under_protection():
        name = operator.request("Up", force=True)
        await operator.run(after)
        await operator.kill()
        before = operator.status_of()
        following = again(operator)
        is_true(await finished(following, name), before, following)
        assert following.replicas() == (1, 1, 1)
        await following.run(60)
        assert following.replicas() == (1, 1, 1), "it is held"
        assert following.reason() is VerdictReason.HELD


@pytest.mark.parametrize("after", BOUNDARIES[:6])
async def test_killed_while_the_object_is_made_it_is_there_and_carried_out_or_it_is_not(
    operator, after
):
    calling = asyncio.ensure_future(operator.scale(DOWN))
    await operator.run(after)
    await operator.kill()
    calling.cancel()
    await again(operator).run(10)
    made = operator.objects()
    assert operator.replicas() == ((0, 0, 0) if made else (1, 1, 1))
    assert len(made) == int(after > 3 * ROUND_TRIP / 4) or after < ROUND_TRIP * 2


@pytest.mark.parametrize("answered", [False, True])
async def test_killed_again_and_again_it_is_done_once(lab, answered):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    name = operator.request("Down")
    for _ in range(4):
        await operator.run(3.0 if answered else 0.025)
        await operator.kill()
        operator = again(operator)
    await finished(operator, name, within=90)
    assert len(operator.writes()) == 3
    assert nothing_lost(operator)


@pytest.mark.parametrize("probed", [True, False])
async def test_an_orderly_end_of_the_process_leaves_its_run_to_the_next_one_with_what_it_has_done(
    slow, probed
):
    began = await slow.scale_down_the_first_level(force=not probed)
    if not probed:
        slow.faults.hibernated(SHOOT)
        await slow.run(1)
    scaler = slow.prober.registry.scaler(SHOOT)
    await slow.prober.stop("SIGTERM")
    assert scaler.idle
    await slow.run(5)
    assert (slow.phase(), slow.status_of()["observedBy"]) == ("Running", identity(slow))
    first, *_ = slow.status_of()["steps"]
    assert (first["phase"], first["before"]) == ("Running", 1)
    await slow.kill()
    following = again(slow)
    await finished(following, began.id, within=90)
    assert following.replicas() == (0, 0, 0)


STATUSES_FAIL = Trouble(silent=True, what=frozenset({"scalerequests/status"}))


async def test_one_that_has_not_begun_when_the_process_ends_is_left_as_it_is(operator):
    with operator.faults.seed_trouble(STATUSES_FAIL):
        operator.request("Down")
        await operator.run(1)
        await operator.prober.stop("SIGTERM")
    assert operator.phase() is None


async def test_a_status_that_cannot_be_written_keeps_no_run_from_ending_with_the_process(slow):
    await slow.scale_down_the_first_level()
    with slow.faults.seed_trouble(STATUSES_FAIL):
        stopping = asyncio.ensure_future(slow.prober.stop("SIGTERM"))
        await slow.run(0.5)
        assert slow.prober.registry.scaler(SHOOT).idle
        await stopping


# Cancelled.


@pytest.mark.parametrize("after", [*BOUNDARIES[1::2], *ENDS])
@pytest.mark.parametrize("how", ["kubectl", "api"])
async def test_cancelled_at_any_point_nothing_is_written_after_that_and_nothing_held(
    operator, how, after
):
    name = operator.request("Down")
    await operator.run(after)
    if how == "kubectl":
        operator.kubectl.delete("ScaleRequest", SHOOT, REQUEST)
    elif operator.operation(name).running:
        await operator.prober.scaling_runs.cancel(name, by="bob")
    else:
        return
    sent = operator.now + ROUND_TRIP
    await operator.run(1)
    assert operator.hold() is None
    assert not operator.requests()
    sizes: list[Any] = [each.patch.get("spec") for each in operator.writes() if each.at > sent]
    assert not [size for size in sizes if size is not None and not size["replicas"]]
    await operator.until(lambda: operator.replicas() == (1, 1, 1), within=120)


async def test_one_that_was_deleted_while_nobody_led_is_not_carried_on(slow):
    slow.request("Down")
    await slow.until(lambda: slow.writes(MCM))
    await slow.kill()
    slow.kubectl.delete("ScaleRequest", SHOOT, REQUEST)
    following = again(slow)
    await following.until(lambda: following.replicas() == (1, 1, 1), within=120)
    assert not following.writes(KCM)


# A change of leader.


def replicas(lab: Lab, **changes) -> tuple[Operator, Operator]:
    """Two instances on the same world: the first one leads."""
    world = lab.with_shoot()
    first, second = SetLeadership(leading=True), SetLeadership(leading=False)
    return (
        Operator.at(lab.prober(world, leadership=first, **changes)),
        Operator.at(lab.prober(world, leadership=second, **changes)),
    )


def hand_over(first: Operator, second: Operator) -> None:
    first.leadership.become(leading=False)
    second.leadership.become(leading=True)


@pytest.mark.parametrize("after", [*BOUNDARIES, *ENDS[::3]])
async def test_a_change_of_leader_at_any_point_carries_it_on(lab, after):
    first, second = replicas(lab)
    await first.run(60)
    name = first.request("Down")
    await first.run(after)
    hand_over(first, second)
    before = first.status_of()
    status = await finished(second, name)
    assert status["startedAt"] == before.get("startedAt", status["startedAt"])
    assert second.replicas() == (0, 0, 0)
    assert nothing_lost(second)
    assert len(second.writes()) == 3
    await first.run(5)
    assert not first.operation(name).running
    assert first.status_of() == status, "who no longer leads writes no status"


@pytest.mark.parametrize("overlap", [0.0, 0.03, 0.05, 0.3, 0.55, 2.0])
async def test_two_leaders_for_a_while_scale_nothing_twice(lab, overlap):
    first, second = replicas(lab)
    await first.run(60)
    name = first.request("Down")
    second.leadership.become(leading=True)
    await first.run(overlap)
    first.leadership.become(leading=False)
    await finished(second, name)
    await second.run(5)
    assert second.replicas() == (0, 0, 0)
    assert nothing_lost(second)
    assert len(second.writes()) == 3
    assert second.phase() == "Succeeded"


@pytest.mark.parametrize("without", [0.1, 3.0])
async def test_leadership_that_is_lost_and_won_again_in_mid_run_carries_it_on(lab, without):
    first, _ = replicas(lab, dependents=SLOW_KCM)
    await first.run(60)
    name = first.request("Down")
    await first.until(lambda: first.writes(MCM))
    first.leadership.become(leading=False)
    await first.run(without)
    first.leadership.become(leading=True)
    await finished(first, name, within=90)
    assert first.replicas() == (0, 0, 0)


async def test_a_standby_carries_nothing_on_and_writes_nothing(lab):
    first, second = replicas(lab, dependents=SLOW_KCM)
    await first.run(60)
    name = first.request("Down")
    await first.run(20)
    assert not second.told("FlowStarted")
    assert second.operation(name).phase is OperationPhase.RUNNING, "it shows what the status says"
    assert first.status_of()["observedBy"] == identity(first)


async def test_before_a_new_leader_has_read_the_overrides_it_forgets_no_run_and_begins_none(slow):
    began = await slow.scale_down_the_first_level()
    await slow.kill()
    with slow.faults.overrides_away():
        following = again(slow)
        await following.run(5)
        scaling_runs = following.prober.scaling_runs
        for act in (
            lambda: following.scale(UP, force=True),
            lambda: scaling_runs.cancel(began.id, by="bob"),
        ):
            with pytest.raises(errors.NotKnownYet, match=r"^the overrides have not been read yet"):
                await act()
        with pytest.raises(errors.NotKnownYet):
            scaling_runs.operation(began.id)
        assert not following.told("FlowStarted")
    await finished(following, began.id, within=120)


@pytest.mark.parametrize("after", [0.0, 0.01, 0.05, 0.2, 0.5, 1.0, 2.5])
async def test_nobody_else_begins_a_run_before_the_next_leader_has_taken_it_up(slow, after):
    began = await slow.scale_down_the_first_level()
    await slow.kill()
    following = again(slow)
    await following.run(after)
    with pytest.raises((errors.RunInProgress, errors.NotFound, errors.NotKnownYet)) as refusal:
        await following.scale(UP, force=True)
    if isinstance(refusal.value, errors.RunInProgress):
        assert refusal.value.operation == began.id
    await finished(following, began.id, within=90)


@pytest.mark.parametrize("over", ["ended", "deleted"])
async def test_an_open_request_that_only_a_lagging_watch_shows_is_carried_on_by_nobody(lab, over):
    first, second = replicas(lab)
    await first.run(60)
    first.request("Down")
    await first.until(lambda: second.requests() and second.requests()[0].started)
    first.faults.overrides_watch_stalled()
    await first.done()
    if over == "deleted":
        first.kubectl.delete("ScaleRequest", SHOOT, REQUEST)
    assert second.requests()[0].open
    hand_over(first, second)
    await second.run(5)
    assert not second.told("FlowStarted")
    assert not any(each.open for each in second.requests())
    assert (second.hold() is None) == (over == "deleted")


# What is not carried on.


async def test_one_of_a_shoot_that_is_not_probed_any_more_is_cancelled_and_says_why(slow):
    await slow.scale_down_the_first_level()
    await slow.kill()
    slow.faults.hibernated(SHOOT)
    await slow.run(1)
    following = again(slow)
    ended = await following.done()
    assert ended["phase"] == "Cancelled"
    assert "not probed" in str(ended["message"])
    assert not following.writes(KCM)
