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
from tests.prober.people import DOWN, UP, Operator, with_operator
from tests.support.harness import CA, KCM, MCM, SHOOT, changed
from tests.support.overrides import MemoryStore

OTHER = "shoot--local--b"
SLOW_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=60.0))
SOON_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=4.0))
SLOW_MCM = changed(MCM, scale_up=ScalePolicy(1, initial_delay=300.0))


# What it does.


async def test_a_manual_run_goes_level_by_level_and_every_step_says_when(lab):
    operator = await with_operator(lab)
    began = await operator.scale(DOWN)
    assert (began.trigger, began.author, began.reason) == (Trigger.MANUAL, "alice", "a test")
    ended = await operator.ended(began.id)
    assert ended.phase is OperationPhase.DONE
    assert [(each.resource, each.level, each.phase) for each in ended.steps] == [
        (MCM, 0, StepPhase.DONE),
        (CA, 0, StepPhase.DONE),
        (KCM, 1, StepPhase.DONE),
    ]
    for step in ended.steps:
        assert (step.before, step.after) == (1, 0)
        assert None not in (step.started, step.written, step.ended)
    assert operator.harness.replicas() == (0, 0, 0)


async def test_its_hold_is_written_before_its_first_write_and_done_after_its_end(lab):
    operator = await with_operator(lab)
    seen = []

    async def look(what: str) -> None:
        seen.append((what, len(operator.harness.writes())))

    operator.store.before = look
    began = await operator.scale(DOWN)
    hold = operator.hold()
    assert hold is not None
    assert (hold["operation"], hold["direction"], hold["done"]) == (began.id, "down", False)
    await operator.done()
    assert seen[0] == ("create", 0)
    assert (operator.hold() or {})["operation"] == began.id


async def test_what_is_at_0_without_our_keys_is_scaled_up_by_hand_at_once(lab):
    operator = await with_operator(lab)
    operator.harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 0}})
    await operator.harness.run(0.5)
    began = await operator.scale(UP)
    ended = await operator.ended(began.id)
    assert ended.phase is OperationPhase.DONE
    assert operator.harness.world.replicas(SHOOT, KCM) == 1


async def test_a_pause_does_not_stop_it(lab):
    operator = await with_operator(lab)
    await operator.pause(Scope.ALL)
    began = await operator.scale(DOWN)
    assert (await operator.ended(began.id)).phase is OperationPhase.DONE
    assert operator.harness.replicas() == (0, 0, 0)


async def test_verdicts_do_not_end_it(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    began = await operator.scale(DOWN)
    await operator.harness.run(45)
    assert operator.operation(began.id).running, "all looks were good, and it goes on"
    assert (await operator.ended(began.id)).phase is OperationPhase.DONE


async def test_a_scale_down_by_hand_is_protection_like_any_other(lab):
    operator = await with_operator(lab)
    began = await operator.scale(DOWN, hold=60)
    await operator.ended(began.id)
    assert operator.harness.state() is ShootState.PROTECTED
    await operator.harness.until(lambda: operator.harness.replicas() == (1, 1, 1), within=200)


async def test_it_is_told_as_a_manual_one_with_its_author(lab):
    operator = await with_operator(lab)
    began = await operator.scale(DOWN)
    await operator.ended(began.id)
    notice = operator.harness.told("FlowStarted")[0]
    assert "by hand (alice: a test)" in notice.message
    scaled = operator.harness.told("ScaledDown")
    assert {each.numbers["trigger"] for each in scaled} == {"manual"}
    assert {each.numbers["operation"] for each in scaled} == {began.id}


async def test_protection_by_hand_says_whose_hand_and_counts_to_no_flapping(lab):
    operator = await with_operator(lab)
    for _ in range(3):
        began = await operator.scale(DOWN, hold=1)
        await operator.ended(began.id)
        await operator.harness.until(lambda: operator.harness.replicas() == (1, 1, 1), within=120)
        await operator.harness.run(20)
    started = operator.harness.told("MeltdownProtectionStarted")
    assert len(started) == 3
    assert all("by hand (alice: a test)" in each.message for each in started)
    runner = operator.harness.prober.registry.runner(SHOOT)
    assert runner is not None
    assert runner._protection.begins == ()


# What forbids it.


async def test_another_manual_run_forbids_it_and_is_named(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    first = await operator.scale(DOWN)
    with pytest.raises(errors.RunInProgress) as refusal:
        await operator.scale(UP)
    assert refusal.value.operation == first.id
    assert operator.operation(first.id).running


async def test_of_two_that_begin_together_one_is_refused(lab):
    operator = await with_operator(lab)
    answers = await asyncio.gather(
        operator.scale(DOWN), operator.scale(DOWN), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in answers) == ["RunInProgress", "ScalingRunStatus"]


async def test_up_while_the_verdict_would_be_scale_down_needs_force(lab):
    operator = await with_operator(lab)
    with operator.harness.world.faults.path_cut(SHOOT):
        await operator.harness.protect()
        with pytest.raises(errors.Refused, match="SCALE DOWN"):
            await operator.scale(UP)
        assert operator.store.data == {}
        began = await operator.scale(UP, force=True)
        assert (await operator.ended(began.id)).phase is OperationPhase.DONE
        assert operator.harness.replicas() == (1, 1, 1)
        await operator.harness.run(60)
        assert operator.harness.reason() is VerdictReason.HELD
        assert operator.harness.replicas() == (1, 1, 1), "it is held"


async def test_a_shoot_that_is_not_probed_needs_force_and_gets_its_run_with_it(lab):
    operator = await with_operator(lab)
    operator.harness.world.faults.hibernated(SHOOT)
    await operator.harness.until(lambda: not operator.harness.runs())
    with pytest.raises(errors.Refused, match="not probed"):
        await operator.scale(DOWN)
    began = await operator.scale(DOWN, force=True)
    assert (await operator.ended(began.id)).phase is OperationPhase.DONE
    await operator.done()
    assert operator.harness.replicas() == (0, 0, 0)
    assert operator.harness.status().running is None


async def test_a_namespace_without_a_cluster_is_not_found(lab):
    operator = await with_operator(lab)
    with pytest.raises(errors.NotFound):
        await operator.harness.prober.scaling_runs.begin(
            replace(operator.order(UP), namespace="kube-system")
        )


async def test_where_the_hold_cannot_be_written_nothing_begins(lab):
    operator = await with_operator(lab)
    operator.store.failing = errors.ServerFault("away")
    with pytest.raises(errors.ServerFault):
        await operator.scale(DOWN)
    await operator.harness.run(30)
    assert not operator.harness.writes()
    assert not operator.harness.prober.scaling_runs.operations()
    operator.store.failing = None
    began = await operator.scale(DOWN)
    assert (await operator.ended(began.id)).phase is OperationPhase.DONE


async def test_a_dry_run_and_a_process_without_overrides_begin_nothing(lab):
    world = lab.world()
    world.add_shoot(SHOOT)
    for options in ({"dry_run": True, "store": MemoryStore(lab.clock)}, {}):
        harness = lab.prober(world, **options)
        await harness.run(60)
        operator = Operator(harness, MemoryStore(lab.clock))
        with pytest.raises(errors.FeatureUnavailable):
            await operator.scale(DOWN)
        assert not harness.writes()


async def test_resources_that_changed_since_the_caller_saw_them_forbid_it(lab):
    operator = await with_operator(lab)
    plan = await operator.harness.prober.scaling_runs.plan(operator.order(DOWN))
    operator.harness.world.patch(SHOOT, KCM, {"spec": {"replicas": 2}})
    order = replace(operator.order(DOWN), if_match=plan.etag)
    with pytest.raises(errors.VersionChanged):
        await operator.harness.prober.scaling_runs.begin(order)
    assert operator.store.data == {}
    fresh = await operator.harness.prober.scaling_runs.plan(operator.order(DOWN))
    began = await operator.harness.prober.scaling_runs.begin(replace(order, if_match=fresh.etag))
    assert (await operator.ended(began.id)).phase is OperationPhase.DONE


# The plan.


async def test_a_plan_says_what_would_be_done_and_writes_nothing(lab):
    operator = await with_operator(lab)
    plan = await operator.harness.prober.scaling_runs.plan(operator.order(DOWN))
    assert [(each.resource, each.level, each.action) for each in plan.steps] == [
        (MCM, 0, "Write"),
        (CA, 0, "Write"),
        (KCM, 1, "Write"),
    ]
    assert all(each.etag for each in plan.steps)
    await operator.harness.run(30)
    assert not operator.harness.writes()
    assert operator.store.data == {}


async def test_a_plan_names_the_automatic_run_that_it_would_end(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    with operator.harness.world.faults.path_cut(SHOOT):
        await operator.harness.until(lambda: operator.harness.writes(MCM))
        plan = await operator.harness.prober.scaling_runs.plan(operator.order(DOWN))
    running = [
        each.id for each in operator.harness.prober.scaling_runs.operations() if each.running
    ]
    assert [plan.replaces] == running


# A manual scaling run over an automatic one.


async def test_an_automatic_run_gives_way(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    with operator.harness.world.faults.path_cut(SHOOT):
        await operator.harness.until(lambda: operator.harness.writes(MCM))
        began = await operator.scale(UP, force=True)
        ended = await operator.ended(began.id)
        assert ended.phase is OperationPhase.DONE
        await operator.harness.run(90)
        assert operator.harness.replicas() == (1, 1, 1)
        assert not operator.harness.writes(KCM)
    automatic = [
        each for each in operator.harness.prober.scaling_runs.operations() if each.author is None
    ]
    assert automatic[0].phase is OperationPhase.CANCELLED


async def test_it_waits_for_a_request_of_the_automatic_one_that_was_sent(lab):
    operator = await with_operator(lab)
    slow = Trouble(latency=1.5, verbs=frozenset({"patch"}))
    with (
        operator.harness.world.faults.path_cut(SHOOT),
        operator.harness.world.faults.seed_trouble(slow),
    ):
        await operator.harness.until(
            lambda: operator.harness.world.requests.live(Host.SEED, "patch")
        )
        began = await operator.scale(UP, force=True)
        assert began.phase is OperationPhase.PENDING
        assert "waits" in began.message
    await operator.ended(began.id)
    assert operator.harness.replicas() == (1, 1, 1)
    assert len({each.id for each in operator.harness.prober.scaling_runs.operations()}) == 2


# What ends it.


async def test_a_cancelled_run_makes_no_further_step_and_its_hold_goes_on(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    began = await operator.scale(DOWN)
    await operator.harness.until(lambda: operator.harness.writes(MCM))
    cancelled = await operator.harness.prober.scaling_runs.cancel(began.id, by="bob")
    assert cancelled.phase is OperationPhase.CANCELLED
    assert cancelled.message == "it was cancelled by bob"
    told = operator.harness.told("ScalingCancelled")[0]
    assert told.event
    assert told.message.endswith("was cancelled by bob; its hold goes on")
    await operator.done()
    await operator.harness.run(120)
    assert not operator.harness.writes(KCM)
    assert operator.harness.reason() is VerdictReason.HELD


async def test_one_that_waits_for_an_automatic_one_can_be_cancelled_too(lab):
    operator = await with_operator(lab)
    slow = Trouble(latency=1.5, verbs=frozenset({"patch"}))
    with (
        operator.harness.world.faults.path_cut(SHOOT),
        operator.harness.world.faults.seed_trouble(slow),
    ):
        await operator.harness.until(
            lambda: operator.harness.world.requests.live(Host.SEED, "patch")
        )
        began = await operator.scale(UP, force=True)
        waiting = operator.harness.prober.scaling_runs.operation(began.id)
        assert waiting is not None
        assert (waiting.phase, waiting.message) == (
            OperationPhase.PENDING,
            "it waits for the end of the current one",
        )
        answer = await operator.harness.prober.scaling_runs.cancel(began.id, by="bob")
        assert answer.phase is OperationPhase.CANCELLED
        await operator.done()
        found = operator.harness.prober.scaling_runs.operation(began.id)
        assert found is not None
        assert (found.phase, found.direction, found.namespace) == (
            OperationPhase.CANCELLED,
            UP,
            SHOOT,
        )
        assert "bob" in found.message
        assert found.ended == pytest.approx(operator.harness.now, abs=2)
        await operator.harness.run(30)
    assert not any(each.verb == "up" for each in operator.harness.writes())


async def test_what_has_ended_or_is_automatic_or_unknown_cannot_be_cancelled(lab):
    operator = await with_operator(lab)
    began = await operator.scale(DOWN, hold=30)
    await operator.ended(began.id)
    cancel = operator.harness.prober.scaling_runs.cancel
    with pytest.raises(errors.Refused, match="has ended"):
        await cancel(began.id, by="bob")
    await operator.harness.until(lambda: operator.harness.replicas() == (1, 1, 1), within=200)
    automatic = next(
        e for e in operator.harness.prober.scaling_runs.operations() if e.author is None
    )
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


async def test_whoever_deletes_the_hold_cancels_the_run(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    began = await operator.scale(DOWN)
    await operator.harness.until(lambda: operator.harness.writes(MCM))
    operator.store.kubectl_set(SHOOT, None)
    ended = await operator.ended(began.id, within=2)
    assert (ended.phase, ended.message) == (OperationPhase.CANCELLED, "its hold was ended")
    await operator.harness.run(5)
    [told] = operator.harness.told("ScalingCancelled")
    assert told.message.endswith("was cancelled; its hold was ended")


async def test_a_run_without_its_hold_does_not_wait_until_other_holds_are_written(lab):
    operator = await with_operator(lab, dependents=SOON_KCM)
    operator.harness.world.add_shoot(OTHER)
    await operator.harness.run(60)
    await operator.harness.prober.scaling_runs.begin(replace(operator.order(DOWN), namespace=OTHER))
    await operator.harness.run(1)
    began = await operator.scale(DOWN)
    operator.store.after = partial(
        operator.harness.clock.sleep, 30
    )  # the other one's hold takes so long to be closed
    await operator.harness.run(2.5)
    operator.store.kubectl_set(SHOOT, None)
    ended = await operator.ended(began.id, within=1)
    assert (ended.phase, ended.message) == (OperationPhase.CANCELLED, "its hold was ended")
    assert not operator.harness.writes(KCM)


async def test_a_hold_that_is_deleted_before_its_write_was_answered_cancels_its_run(lab):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    operator.store.after = partial(operator.harness.clock.sleep, 1)
    scaling = asyncio.ensure_future(operator.scale(DOWN))
    await operator.harness.run(0.5)
    operator.store.kubectl_set(SHOOT, None)
    began = await scaling
    ended = await operator.ended(began.id, within=2)
    assert ended.phase is OperationPhase.CANCELLED
    await operator.harness.run(90)
    assert not operator.harness.writes(KCM)


# Where the hold was written and nobody knows.


async def lost(operator):
    """The next write is done; its answer is lost, and for 5 s nothing can be asked."""
    clock, store = operator.harness.clock, operator.store
    store.lost_answers = 1

    async def away(_what):
        over = store.answers_lost and clock.now() >= until
        store.failing = errors.Unreachable("away") if store.answers_lost and not over else None

    until = clock.now() + 5
    store.before = away


@pytest.mark.parametrize("direction", [UP, DOWN])
async def test_a_call_that_fails_begins_nothing_and_leaves_no_hold_even_where_that_was_written(
    lab, direction
):
    operator = await with_operator(lab)
    await lost(operator)
    with pytest.raises(errors.WatchdogError):
        await operator.scale(direction, force=True)
    assert operator.hold() is not None
    await operator.harness.until(lambda: operator.hold() is None, within=30)
    await operator.harness.run(120)
    assert not operator.harness.writes()
    assert operator.harness.state() is ShootState.HEALTHY
    assert not [each for each in operator.harness.prober.scaling_runs.operations() if each.running]


async def test_a_call_that_fails_over_an_earlier_hold_leaves_the_shoot_to_its_verdicts(lab):
    operator = await with_operator(lab)
    await operator.ended((await operator.scale(DOWN)).id)
    await operator.done()
    await lost(operator)
    with pytest.raises(errors.WatchdogError):
        await operator.scale(UP, force=True)
    await operator.harness.until(lambda: operator.harness.replicas() == (1, 1, 1), within=200)


async def test_a_call_that_is_given_up_begins_nothing(lab):
    operator = await with_operator(lab)
    operator.store.after = partial(operator.harness.clock.sleep, 5)
    scaling = asyncio.ensure_future(operator.scale(DOWN))
    await operator.harness.run(2)
    scaling.cancel()
    await asyncio.wait([scaling])
    await operator.harness.until(lambda: operator.hold() is None, within=30)
    assert not operator.harness.writes()


async def test_a_verdict_that_turns_while_the_hold_is_written_forbids_it_all_the_same(lab):
    operator = await with_operator(lab)
    operator.store.after = partial(operator.harness.clock.sleep, 30)
    with operator.harness.world.faults.path_cut(SHOOT):
        scaling = asyncio.ensure_future(operator.scale(UP))
        await operator.harness.until(scaling.done, within=60)
        with pytest.raises(errors.Refused, match="force"):
            await scaling
        operator.store.after = None
        await operator.harness.protect()
        await operator.harness.run(60)
        assert not any(each.verb == "up" for each in operator.harness.writes())


async def test_a_shoot_that_is_not_probed_any_more_when_the_hold_is_written_is_not_scaled(lab):
    operator = await with_operator(lab)
    operator.store.after = partial(operator.harness.clock.sleep, 5)
    scaling = asyncio.ensure_future(operator.scale(DOWN))
    await operator.harness.run(1)
    operator.harness.world.faults.hibernated(SHOOT)
    await operator.harness.until(scaling.done, within=60)
    with pytest.raises(errors.Refused, match="not probed"):
        await scaling
    await operator.harness.run(60)
    assert not operator.harness.writes()


async def test_the_operation_of_a_run_that_is_about_to_begin_is_there_and_pending(lab):
    operator = await with_operator(lab)
    operator.store.after = partial(operator.harness.clock.sleep, 5)
    scaling = asyncio.ensure_future(operator.scale(DOWN))
    await operator.harness.run(1)
    with pytest.raises(errors.RunInProgress) as refusal:
        await operator.scale(UP, force=True)
    assert operator.operation(refusal.value.operation).phase is OperationPhase.PENDING
    with pytest.raises(errors.NotKnownYet):
        await operator.harness.prober.scaling_runs.cancel(refusal.value.operation, by="bob")
    assert (await scaling).id == refusal.value.operation


@pytest.mark.parametrize("force", [False, True])
async def test_a_stop_of_the_prober_ends_it_unless_it_was_forced(lab, force):
    operator = await with_operator(lab, dependents=SLOW_KCM)
    began = await operator.scale(DOWN, force=force)
    await operator.harness.until(lambda: operator.harness.writes(MCM))
    operator.harness.world.faults.hibernated(SHOOT)
    ended = await operator.ended(began.id)
    expected = OperationPhase.DONE if force else OperationPhase.CANCELLED
    assert ended.phase is expected
    await operator.done()
    assert bool(operator.harness.writes(KCM)) is force


async def test_a_scale_up_that_failed_ends_its_hold_and_the_verdicts_act_again(lab):
    operator = await with_operator(lab)
    with operator.harness.world.faults.path_cut(SHOOT):
        await operator.harness.protect()
        operator.harness.world.faults.pods_stuck(SHOOT, KCM)
        began = await operator.scale(UP, force=True)
    ended = await operator.ended(began.id)
    assert ended.phase is OperationPhase.FAILED
    await operator.harness.until(lambda: operator.hold() is None)
    assert "scaling up failed" in operator.harness.told("HoldEnded")[0].message


async def test_a_hold_that_cannot_be_closed_ends_in_time_all_the_same_and_blocks_nobody(lab):
    operator = await with_operator(lab)
    began = await operator.scale(DOWN, hold=120)
    operator.store.failing = errors.Forbidden("update configmaps: 403", status=403)
    await operator.ended(began.id)
    await operator.harness.run(100)
    assert operator.harness.reason() is VerdictReason.HELD
    await operator.harness.until(lambda: operator.harness.replicas() == (1, 1, 1), within=120)
    operator.store.failing = None
    following = await operator.scale(DOWN)
    assert (await operator.ended(following.id)).phase is OperationPhase.DONE
    await operator.done()
    assert (operator.hold() or {})["operation"] == following.id


async def test_as_soon_as_an_operation_has_ended_the_next_one_may_begin(lab):
    operator = await with_operator(lab)
    first = await operator.scale(DOWN)
    await operator.harness.until(lambda: not operator.operation(first.id).running)
    second = await operator.scale(UP)
    assert (await operator.ended(second.id)).phase is OperationPhase.DONE
    await operator.done()
    assert (operator.hold() or {})["operation"] == second.id
    assert operator.harness.replicas() == (1, 1, 1)


async def test_a_hold_that_cannot_be_closed_is_closed_as_soon_as_it_can_be(lab):
    operator = await with_operator(lab)
    began = await operator.scale(DOWN)
    operator.store.failing = errors.ServerFault("away")
    await operator.ended(began.id)
    await operator.harness.run(20)
    assert (operator.hold() or {})["done"] is False
    operator.store.failing = None
    await operator.done(within=5)


# Probe now.


@pytest.mark.parametrize("every", [1.5, 4.9])
async def test_probes_that_are_asked_for_bring_no_threshold_nearer(lab, every):
    operator = await with_operator(lab, failure_threshold=4)
    harness = operator.harness
    with harness.world.faults.path_cut(SHOOT):
        await harness.until(lambda: harness.reason() is VerdictReason.COUNTING)
        first = harness.now
        while not harness.writes():
            harness.prober.scaling_runs.probe_now(SHOOT)
            await harness.run(every)
    assert harness.writes()[0].at - first >= 15.0  # 3 more probes that count, 5 s apart


async def test_probe_now_looks_at_once_and_reads_nodes(lab):
    operator = await with_operator(lab, probe_interval=30.0)
    await operator.harness.run(1.5)
    before = operator.harness.status().candidacy
    at = operator.harness.prober.scaling_runs.probe_now(SHOOT)
    assert at - operator.harness.now < 0.1
    await operator.harness.run(0.2)
    after = operator.harness.status().candidacy
    assert after is not None
    assert before is None or after.at > before.at


async def test_probe_now_during_a_probe_says_an_instant_that_is_to_come(lab):
    operator = await with_operator(lab)
    with operator.harness.world.faults.latency(SHOOT, 1.5):
        looked = len(operator.harness.probes())
        await operator.harness.until(lambda: len(operator.harness.probes()) > looked, within=60)
        await operator.harness.run(10.5)  # the next one has begun, and takes its time
        assert operator.harness.prober.scaling_runs.probe_now(SHOOT) >= operator.harness.now


async def test_many_calls_are_one_probe_and_probes_are_a_second_apart(lab):
    operator = await with_operator(lab, probe_interval=30.0)
    looked = len(operator.harness.probes())
    for _ in range(20):
        operator.harness.prober.scaling_runs.probe_now(SHOOT)
        await operator.harness.run(0.1)
    found = operator.harness.probes()[looked:]
    assert 2 <= len(found) <= 3
    assert all(b - a >= 0.9 for a, b in pairwise(found))


async def test_probe_now_never_breaks_into_the_wait_of_a_429(lab):
    operator = await with_operator(lab)
    with operator.harness.world.faults.throttled(SHOOT, retry_after=30.0):
        await operator.harness.until(lambda: operator.harness.reason() is VerdictReason.THROTTLED)
        looked = len(operator.harness.probes())
        at = operator.harness.prober.scaling_runs.probe_now(SHOOT)
        assert at - operator.harness.now > 20
        await operator.harness.run(20)
        assert len(operator.harness.probes()) == looked


async def test_a_shoot_that_is_not_probed_is_not_looked_at(lab):
    operator = await with_operator(lab)
    operator.harness.world.faults.hibernated(SHOOT)
    await operator.harness.until(lambda: not operator.harness.runs())
    with pytest.raises(errors.Refused, match="hibernated"):
        operator.harness.prober.scaling_runs.probe_now(SHOOT)
