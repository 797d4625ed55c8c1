"""Scaling runs that people begin: what forbids them, what they do, what ends them."""

import asyncio
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest

from app.core import errors
from app.core.model.overrides import Scope
from app.core.model.policy import ScalePolicy
from app.core.model.probing import ShootState, VerdictReason
from app.core.model.scaling_runs import OperationPhase, StepPhase, Trigger
from app.simulation.traffic import Host, Trouble
from tests.prober.people import DOWN, UP, Hand, at_hand
from tests.support.overrides import MemoryStore
from tests.support.stands import CA, KCM, MCM, SHOOT, changed

OTHER = "shoot--local--b"
SLOW_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=60.0))
SOON_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=4.0))
SLOW_MCM = changed(MCM, scale_up=ScalePolicy(1, initial_delay=300.0))


# What it does.


async def test_a_manual_run_goes_level_by_level_and_every_step_says_when(stage):
    hand = await at_hand(stage)
    began = await hand.scale(DOWN)
    assert (began.trigger, began.author, began.reason) == (Trigger.MANUAL, "alice", "a test")
    ended = await hand.ended(began.id)
    assert ended.phase is OperationPhase.DONE
    assert [(each.resource, each.level, each.phase) for each in ended.steps] == [
        (MCM, 0, StepPhase.DONE),
        (CA, 0, StepPhase.DONE),
        (KCM, 1, StepPhase.DONE),
    ]
    for step in ended.steps:
        assert (step.before, step.after) == (1, 0)
        assert None not in (step.started, step.written, step.ended)
    assert hand.stand.replicas() == (0, 0, 0)


async def test_its_hold_is_written_before_its_first_write_and_done_after_its_end(stage):
    hand = await at_hand(stage)
    seen = []

    async def look(what: str) -> None:
        seen.append((what, len(hand.stand.writes())))

    hand.store.before = look
    began = await hand.scale(DOWN)
    hold = hand.hold()
    assert hold is not None
    assert (hold["operation"], hold["direction"], hold["done"]) == (began.id, "down", False)
    await hand.done()
    assert seen[0] == ("create", 0)
    assert (hand.hold() or {})["operation"] == began.id


async def test_what_is_at_0_without_our_keys_is_scaled_up_by_hand_at_once(stage):
    hand = await at_hand(stage)
    hand.stand.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
    await hand.stand.run(0.5)
    began = await hand.scale(UP)
    ended = await hand.ended(began.id)
    assert ended.phase is OperationPhase.DONE
    assert hand.stand.world.replicas(SHOOT, KCM) == 1


async def test_a_pause_does_not_stop_it(stage):
    hand = await at_hand(stage)
    await hand.pause(Scope.ALL)
    began = await hand.scale(DOWN)
    assert (await hand.ended(began.id)).phase is OperationPhase.DONE
    assert hand.stand.replicas() == (0, 0, 0)


async def test_verdicts_do_not_end_it(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    began = await hand.scale(DOWN)
    await hand.stand.run(45)
    assert hand.operation(began.id).running, "all looks were good, and it goes on"
    assert (await hand.ended(began.id)).phase is OperationPhase.DONE


async def test_a_scale_down_by_hand_is_protection_like_any_other(stage):
    hand = await at_hand(stage)
    began = await hand.scale(DOWN, hold=60)
    await hand.ended(began.id)
    assert hand.stand.state() is ShootState.PROTECTED
    await hand.stand.until(lambda: hand.stand.replicas() == (1, 1, 1), within=200)


async def test_it_is_told_as_a_manual_one_with_its_author(stage):
    hand = await at_hand(stage)
    began = await hand.scale(DOWN)
    await hand.ended(began.id)
    notice = hand.stand.told("FlowStarted")[0]
    assert "by hand (alice: a test)" in notice.message
    scaled = hand.stand.told("ScaledDown")
    assert {each.numbers["trigger"] for each in scaled} == {"manual"}
    assert {each.numbers["operation"] for each in scaled} == {began.id}


async def test_protection_by_hand_says_whose_hand_and_counts_to_no_flapping(stage):
    hand = await at_hand(stage)
    for _ in range(3):
        began = await hand.scale(DOWN, hold=1)
        await hand.ended(began.id)
        await hand.stand.until(lambda: hand.stand.replicas() == (1, 1, 1), within=120)
        await hand.stand.run(20)
    started = hand.stand.told("MeltdownProtectionStarted")
    assert len(started) == 3
    assert all("by hand (alice: a test)" in each.message for each in started)
    runner = hand.stand.prober.registry.runner(SHOOT)
    assert runner is not None
    assert runner._protection.begins == ()


# What forbids it.


async def test_another_manual_run_forbids_it_and_is_named(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    first = await hand.scale(DOWN)
    with pytest.raises(errors.RunInProgress) as refusal:
        await hand.scale(UP)
    assert refusal.value.operation == first.id
    assert hand.operation(first.id).running


async def test_of_two_that_begin_together_one_is_refused(stage):
    hand = await at_hand(stage)
    answers = await asyncio.gather(hand.scale(DOWN), hand.scale(DOWN), return_exceptions=True)
    assert sorted(type(each).__name__ for each in answers) == ["RunInProgress", "ScalingRunStatus"]


async def test_up_while_the_verdict_would_be_scale_down_needs_force(stage):
    hand = await at_hand(stage)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        with pytest.raises(errors.Refused, match="SCALE DOWN"):
            await hand.scale(UP)
        assert hand.store.data == {}
        began = await hand.scale(UP, force=True)
        assert (await hand.ended(began.id)).phase is OperationPhase.DONE
        assert hand.stand.replicas() == (1, 1, 1)
        await hand.stand.run(60)
        assert hand.stand.reason() is VerdictReason.HELD
        assert hand.stand.replicas() == (1, 1, 1), "it is held"


async def test_a_shoot_that_is_not_probed_needs_force_and_gets_its_run_with_it(stage):
    hand = await at_hand(stage)
    hand.stand.world.faults.hibernated(SHOOT)
    await hand.stand.until(lambda: not hand.stand.runs())
    with pytest.raises(errors.Refused, match="not probed"):
        await hand.scale(DOWN)
    began = await hand.scale(DOWN, force=True)
    assert (await hand.ended(began.id)).phase is OperationPhase.DONE
    await hand.done()
    assert hand.stand.replicas() == (0, 0, 0)
    assert hand.stand.status().running is None


async def test_a_namespace_without_a_cluster_is_not_found(stage):
    hand = await at_hand(stage)
    with pytest.raises(errors.NotFound):
        await hand.stand.prober.scaling_runs.begin(replace(hand.order(UP), namespace="kube-system"))


async def test_where_the_hold_cannot_be_written_nothing_begins(stage):
    hand = await at_hand(stage)
    hand.store.failing = errors.ServerFault("away")
    with pytest.raises(errors.ServerFault):
        await hand.scale(DOWN)
    await hand.stand.run(30)
    assert not hand.stand.writes()
    assert not hand.stand.prober.scaling_runs.operations()
    hand.store.failing = None
    began = await hand.scale(DOWN)
    assert (await hand.ended(began.id)).phase is OperationPhase.DONE


async def test_a_dry_run_and_a_process_without_overrides_begin_nothing(stage):
    world = stage.world()
    world.add_shoot(SHOOT)
    for options in ({"dry_run": True, "store": MemoryStore(stage.clock)}, {}):
        stand = stage.prober(world, **options)
        await stand.run(60)
        hand = Hand(stand, MemoryStore(stage.clock))
        with pytest.raises(errors.FeatureUnavailable):
            await hand.scale(DOWN)
        assert not stand.writes()


async def test_resources_that_changed_since_the_caller_saw_them_forbid_it(stage):
    hand = await at_hand(stage)
    plan = await hand.stand.prober.scaling_runs.plan(hand.order(DOWN))
    hand.stand.world.patch(SHOOT, KCM, {"spec": {"replicas": 2}})
    order = replace(hand.order(DOWN), if_match=plan.etag)
    with pytest.raises(errors.VersionChanged):
        await hand.stand.prober.scaling_runs.begin(order)
    assert hand.store.data == {}
    fresh = await hand.stand.prober.scaling_runs.plan(hand.order(DOWN))
    began = await hand.stand.prober.scaling_runs.begin(replace(order, if_match=fresh.etag))
    assert (await hand.ended(began.id)).phase is OperationPhase.DONE


# The plan.


async def test_a_plan_says_what_would_be_done_and_writes_nothing(stage):
    hand = await at_hand(stage)
    plan = await hand.stand.prober.scaling_runs.plan(hand.order(DOWN))
    assert [(each.resource, each.level, each.action) for each in plan.steps] == [
        (MCM, 0, "Write"),
        (CA, 0, "Write"),
        (KCM, 1, "Write"),
    ]
    assert all(each.etag for each in plan.steps)
    await hand.stand.run(30)
    assert not hand.stand.writes()
    assert hand.store.data == {}


async def test_a_plan_names_the_automatic_run_that_it_would_end(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(lambda: hand.stand.writes(MCM))
        plan = await hand.stand.prober.scaling_runs.plan(hand.order(DOWN))
    running = [each.id for each in hand.stand.prober.scaling_runs.operations() if each.running]
    assert [plan.replaces] == running


# A manual scaling run over an automatic one.


async def test_an_automatic_run_gives_way(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.until(lambda: hand.stand.writes(MCM))
        began = await hand.scale(UP, force=True)
        ended = await hand.ended(began.id)
        assert ended.phase is OperationPhase.DONE
        await hand.stand.run(90)
        assert hand.stand.replicas() == (1, 1, 1)
        assert not hand.stand.writes(KCM)
    automatic = [
        each for each in hand.stand.prober.scaling_runs.operations() if each.author is None
    ]
    assert automatic[0].phase is OperationPhase.CANCELLED


async def test_it_waits_for_a_request_of_the_automatic_one_that_was_sent(stage):
    hand = await at_hand(stage)
    slow = Trouble(latency=1.5, verbs=frozenset({"patch"}))
    with hand.stand.world.faults.path_cut(SHOOT), hand.stand.world.faults.seed_trouble(slow):
        await hand.stand.until(lambda: hand.stand.world.requests.live(Host.SEED, "patch"))
        began = await hand.scale(UP, force=True)
        assert began.phase is OperationPhase.PENDING
        assert "waits" in began.message
    await hand.ended(began.id)
    assert hand.stand.replicas() == (1, 1, 1)
    assert len({each.id for each in hand.stand.prober.scaling_runs.operations()}) == 2


# What ends it.


async def test_a_cancelled_run_makes_no_further_step_and_its_hold_goes_on(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    began = await hand.scale(DOWN)
    await hand.stand.until(lambda: hand.stand.writes(MCM))
    cancelled = await hand.stand.prober.scaling_runs.cancel(began.id, by="bob")
    assert cancelled.phase is OperationPhase.CANCELLED
    assert cancelled.message == "it was cancelled by bob"
    told = hand.stand.told("ScalingCancelled")[0]
    assert told.event
    assert told.message.endswith("was cancelled by bob; its hold goes on")
    await hand.done()
    await hand.stand.run(120)
    assert not hand.stand.writes(KCM)
    assert hand.stand.reason() is VerdictReason.HELD


async def test_one_that_waits_for_an_automatic_one_can_be_cancelled_too(stage):
    hand = await at_hand(stage)
    slow = Trouble(latency=1.5, verbs=frozenset({"patch"}))
    with hand.stand.world.faults.path_cut(SHOOT), hand.stand.world.faults.seed_trouble(slow):
        await hand.stand.until(lambda: hand.stand.world.requests.live(Host.SEED, "patch"))
        began = await hand.scale(UP, force=True)
        assert (
            await hand.stand.prober.scaling_runs.cancel(began.id, by="bob")
        ).phase is OperationPhase.CANCELLED
        await hand.done()
        await hand.stand.run(30)
    assert not any(each.verb == "up" for each in hand.stand.writes())


async def test_what_has_ended_or_is_automatic_or_unknown_cannot_be_cancelled(stage):
    hand = await at_hand(stage)
    began = await hand.scale(DOWN, hold=30)
    await hand.ended(began.id)
    cancel = hand.stand.prober.scaling_runs.cancel
    with pytest.raises(errors.Refused, match="has ended"):
        await cancel(began.id, by="bob")
    await hand.stand.until(lambda: hand.stand.replicas() == (1, 1, 1), within=200)
    automatic = next(e for e in hand.stand.prober.scaling_runs.operations() if e.author is None)
    with pytest.raises(errors.Refused, match="automatic"):
        await cancel(automatic.id, by="bob")
    with pytest.raises(errors.NotFound):
        await cancel("nonsense", by="bob")
    with pytest.raises(errors.OperationGone):
        await cancel("0badcafe-77", by="bob")
    mine = began.id.partition("-")[0]
    for never in (f"{mine}-999", f"{mine}-0", "my-own", ""):
        with pytest.raises(errors.NotFound):
            await cancel(never, by="bob")


async def test_whoever_deletes_the_hold_cancels_the_run(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    began = await hand.scale(DOWN)
    await hand.stand.until(lambda: hand.stand.writes(MCM))
    hand.store.kubectl_set(SHOOT, None)
    ended = await hand.ended(began.id, within=2)
    assert (ended.phase, ended.message) == (OperationPhase.CANCELLED, "its hold was ended")
    await hand.stand.run(5)
    [told] = hand.stand.told("ScalingCancelled")
    assert told.message.endswith("was cancelled; its hold was ended")


async def test_a_run_without_its_hold_does_not_wait_until_other_holds_are_written(stage):
    hand = await at_hand(stage, dependents=SOON_KCM)
    hand.stand.world.add_shoot(OTHER)
    await hand.stand.run(60)
    await hand.stand.prober.scaling_runs.begin(replace(hand.order(DOWN), namespace=OTHER))
    await hand.stand.run(1)
    began = await hand.scale(DOWN)
    hand.store.after = partial(
        hand.stand.clock.sleep, 30
    )  # the other one's hold takes so long to be closed
    await hand.stand.run(2.5)
    hand.store.kubectl_set(SHOOT, None)
    ended = await hand.ended(began.id, within=1)
    assert (ended.phase, ended.message) == (OperationPhase.CANCELLED, "its hold was ended")
    assert not hand.stand.writes(KCM)


async def test_a_hold_that_is_deleted_before_its_write_was_answered_cancels_its_run(stage):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    hand.store.after = partial(hand.stand.clock.sleep, 1)
    scaling = asyncio.ensure_future(hand.scale(DOWN))
    await hand.stand.run(0.5)
    hand.store.kubectl_set(SHOOT, None)
    began = await scaling
    ended = await hand.ended(began.id, within=2)
    assert ended.phase is OperationPhase.CANCELLED
    await hand.stand.run(90)
    assert not hand.stand.writes(KCM)


# Where the hold was written and nobody knows.


async def lost(hand):
    """The next write is done; its answer is lost, and for 5 s nothing can be asked."""
    clock, store = hand.stand.clock, hand.store
    store.lost_answers = 1

    async def away(_what):
        over = store.answers_lost and clock.now() >= until
        store.failing = errors.Unreachable("away") if store.answers_lost and not over else None

    until = clock.now() + 5
    store.before = away


@pytest.mark.parametrize("direction", [UP, DOWN])
async def test_a_call_that_fails_begins_nothing_and_leaves_no_hold_even_where_that_was_written(
    stage, direction
):
    hand = await at_hand(stage)
    await lost(hand)
    with pytest.raises(errors.WatchdogError):
        await hand.scale(direction, force=True)
    assert hand.hold() is not None
    await hand.stand.until(lambda: hand.hold() is None, within=30)
    await hand.stand.run(120)
    assert not hand.stand.writes()
    assert hand.stand.state() is ShootState.HEALTHY
    assert not [each for each in hand.stand.prober.scaling_runs.operations() if each.running]


async def test_a_call_that_fails_over_an_earlier_hold_leaves_the_shoot_to_its_verdicts(stage):
    hand = await at_hand(stage)
    await hand.ended((await hand.scale(DOWN)).id)
    await hand.done()
    await lost(hand)
    with pytest.raises(errors.WatchdogError):
        await hand.scale(UP, force=True)
    await hand.stand.until(lambda: hand.stand.replicas() == (1, 1, 1), within=200)


async def test_a_call_that_is_given_up_begins_nothing(stage):
    hand = await at_hand(stage)
    hand.store.after = partial(hand.stand.clock.sleep, 5)
    scaling = asyncio.ensure_future(hand.scale(DOWN))
    await hand.stand.run(2)
    scaling.cancel()
    await asyncio.wait([scaling])
    await hand.stand.until(lambda: hand.hold() is None, within=30)
    assert not hand.stand.writes()


async def test_a_verdict_that_turns_while_the_hold_is_written_forbids_it_all_the_same(stage):
    hand = await at_hand(stage)
    hand.store.after = partial(hand.stand.clock.sleep, 30)
    with hand.stand.world.faults.path_cut(SHOOT):
        scaling = asyncio.ensure_future(hand.scale(UP))
        await hand.stand.until(scaling.done, within=60)
        with pytest.raises(errors.Refused, match="force"):
            await scaling
        hand.store.after = None
        await hand.stand.protect()
        await hand.stand.run(60)
        assert not any(each.verb == "up" for each in hand.stand.writes())


async def test_a_shoot_that_is_not_probed_any_more_when_the_hold_is_written_is_not_scaled(stage):
    hand = await at_hand(stage)
    hand.store.after = partial(hand.stand.clock.sleep, 5)
    scaling = asyncio.ensure_future(hand.scale(DOWN))
    await hand.stand.run(1)
    hand.stand.world.faults.hibernated(SHOOT)
    await hand.stand.until(scaling.done, within=60)
    with pytest.raises(errors.Refused, match="not probed"):
        await scaling
    await hand.stand.run(60)
    assert not hand.stand.writes()


async def test_the_operation_of_a_run_that_is_about_to_begin_is_there_and_pending(stage):
    hand = await at_hand(stage)
    hand.store.after = partial(hand.stand.clock.sleep, 5)
    scaling = asyncio.ensure_future(hand.scale(DOWN))
    await hand.stand.run(1)
    with pytest.raises(errors.RunInProgress) as refusal:
        await hand.scale(UP, force=True)
    assert hand.operation(refusal.value.operation).phase is OperationPhase.PENDING
    with pytest.raises(errors.NotKnownYet):
        await hand.stand.prober.scaling_runs.cancel(refusal.value.operation, by="bob")
    assert (await scaling).id == refusal.value.operation


@pytest.mark.parametrize("force", [False, True])
async def test_a_stop_of_the_prober_ends_it_unless_it_was_forced(stage, force):
    hand = await at_hand(stage, dependents=SLOW_KCM)
    began = await hand.scale(DOWN, force=force)
    await hand.stand.until(lambda: hand.stand.writes(MCM))
    hand.stand.world.faults.hibernated(SHOOT)
    ended = await hand.ended(began.id)
    expected = OperationPhase.DONE if force else OperationPhase.CANCELLED
    assert ended.phase is expected
    await hand.done()
    assert bool(hand.stand.writes(KCM)) is force


async def test_a_scale_up_that_failed_ends_its_hold_and_the_verdicts_act_again(stage):
    hand = await at_hand(stage)
    with hand.stand.world.faults.path_cut(SHOOT):
        await hand.stand.protect()
        hand.stand.world.faults.pods_stuck(SHOOT, KCM)
        began = await hand.scale(UP, force=True)
    ended = await hand.ended(began.id)
    assert ended.phase is OperationPhase.FAILED
    await hand.stand.until(lambda: hand.hold() is None)
    assert "scaling up failed" in hand.stand.told("HoldEnded")[0].message


async def test_a_hold_that_cannot_be_closed_ends_in_time_all_the_same_and_blocks_nobody(stage):
    hand = await at_hand(stage)
    began = await hand.scale(DOWN, hold=120)
    hand.store.failing = errors.Forbidden("update configmaps: 403", status=403)
    await hand.ended(began.id)
    await hand.stand.run(100)
    assert hand.stand.reason() is VerdictReason.HELD
    await hand.stand.until(lambda: hand.stand.replicas() == (1, 1, 1), within=120)
    hand.store.failing = None
    following = await hand.scale(DOWN)
    assert (await hand.ended(following.id)).phase is OperationPhase.DONE
    await hand.done()
    assert (hand.hold() or {})["operation"] == following.id


async def test_as_soon_as_an_operation_has_ended_the_next_one_may_begin(stage):
    hand = await at_hand(stage)
    first = await hand.scale(DOWN)
    await hand.stand.until(lambda: not hand.operation(first.id).running)
    second = await hand.scale(UP)
    assert (await hand.ended(second.id)).phase is OperationPhase.DONE
    await hand.done()
    assert (hand.hold() or {})["operation"] == second.id
    assert hand.stand.replicas() == (1, 1, 1)


async def test_a_hold_that_cannot_be_closed_is_closed_as_soon_as_it_can_be(stage):
    hand = await at_hand(stage)
    began = await hand.scale(DOWN)
    hand.store.failing = errors.ServerFault("away")
    await hand.ended(began.id)
    await hand.stand.run(20)
    assert (hand.hold() or {})["done"] is False
    hand.store.failing = None
    await hand.done(within=5)


# Probe now.


@pytest.mark.parametrize("every", [1.5, 4.9])
async def test_probes_that_are_asked_for_bring_no_threshold_nearer(stage, every):
    hand = await at_hand(stage, failure_threshold=4)
    stand = hand.stand
    with stand.world.faults.path_cut(SHOOT):
        await stand.until(lambda: stand.reason() is VerdictReason.COUNTING)
        first = stand.now
        while not stand.writes():
            stand.prober.scaling_runs.probe_now(SHOOT)
            await stand.run(every)
    assert stand.writes()[0].at - first >= 15.0  # 3 more probes that count, 5 s apart


async def test_probe_now_looks_at_once_and_reads_nodes(stage):
    hand = await at_hand(stage, probe_interval=30.0)
    await hand.stand.run(1.5)
    before = hand.stand.status().candidacy
    at = hand.stand.prober.scaling_runs.probe_now(SHOOT)
    assert at - hand.stand.now < 0.1
    await hand.stand.run(0.2)
    after = hand.stand.status().candidacy
    assert after is not None
    assert before is None or after.at > before.at


async def test_probe_now_during_a_probe_says_an_instant_that_is_to_come(stage):
    hand = await at_hand(stage)
    with hand.stand.world.faults.latency(SHOOT, 1.5):
        looked = len(hand.stand.probes())
        await hand.stand.until(lambda: len(hand.stand.probes()) > looked, within=60)
        await hand.stand.run(10.5)  # the next one has begun, and takes its time
        assert hand.stand.prober.scaling_runs.probe_now(SHOOT) >= hand.stand.now


async def test_many_calls_are_one_probe_and_probes_are_a_second_apart(stage):
    hand = await at_hand(stage, probe_interval=30.0)
    looked = len(hand.stand.probes())
    for _ in range(20):
        hand.stand.prober.scaling_runs.probe_now(SHOOT)
        await hand.stand.run(0.1)
    found = hand.stand.probes()[looked:]
    assert 2 <= len(found) <= 3
    assert all(b - a >= 0.9 for a, b in pairwise(found))


async def test_probe_now_never_breaks_into_the_wait_of_a_429(stage):
    hand = await at_hand(stage)
    with hand.stand.world.faults.throttled(SHOOT, retry_after=30.0):
        await hand.stand.until(lambda: hand.stand.reason() is VerdictReason.THROTTLED)
        looked = len(hand.stand.probes())
        at = hand.stand.prober.scaling_runs.probe_now(SHOOT)
        assert at - hand.stand.now > 20
        await hand.stand.run(20)
        assert len(hand.stand.probes()) == looked


async def test_a_shoot_that_is_not_probed_is_not_looked_at(stage):
    hand = await at_hand(stage)
    hand.stand.world.faults.hibernated(SHOOT)
    await hand.stand.until(lambda: not hand.stand.runs())
    with pytest.raises(errors.Refused, match="hibernated"):
        hand.stand.prober.scaling_runs.probe_now(SHOOT)
