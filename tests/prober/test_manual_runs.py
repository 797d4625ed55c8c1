"""Scaling runs that people begin: what forbids them, what they do, what ends them."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import pytest

from app.core import errors
from app.core.model.policy import ScalePolicy
from app.core.model.probing import VerdictReason
from app.core.model.scaling_runs import OperationPhase, ScalingRunStatus, StepPhase, Trigger
from app.simulation.traffic import Host, Trouble
from tests.prober.people import DOWN, UP, with_operator
from tests.support.harness import CA, KCM, MCM, SHOOT, changed

SOON_KCM = changed(KCM, scale_down=ScalePolicy(1, initial_delay=4.0))
REQUESTS = frozenset({"scalerequests"})
STATUS = frozenset({"scalerequests/status"})


def without_definitions(world):
    world.faults.crds_removed()


@asynccontextmanager
async def behind_an_automatic_one(operator):
    """A manual run that waits, as a request of the automatic one was sent and is not answered yet."""
    slow = Trouble(latency=1.5, verbs=frozenset({"patch"}), what=frozenset({"deployments"}))
    with operator.faults.path_cut(SHOOT), operator.faults.seed_trouble(slow):
        await operator.until(lambda: operator.world.requests.live(Host.SEED, "patch"))
        yield await operator.scale(UP, force=True)


# What it does.


async def test_a_manual_run_goes_level_by_level_and_every_step_says_when(operator):
    began = await operator.scale(DOWN)
    assert (began.trigger, began.author, began.reason) == (Trigger.MANUAL, "alice", "a test")
    ended = await operator.ended(began.id)
    assert ended.phase is OperationPhase.DONE
    assert [(str(each.resource), each.level, each.phase) for each in ended.steps] == [
        (str(MCM), 0, StepPhase.DONE),
        (str(CA), 0, StepPhase.DONE),
        (str(KCM), 1, StepPhase.DONE),
    ]
    for step in ended.steps:
        assert (step.before, step.after) == (1, 0)
        assert None not in (step.started, step.written, step.ended)
    assert operator.replicas() == (0, 0, 0)


async def test_its_object_is_there_first_and_says_what_has_become_of_it(operator):
    began = await operator.scale(DOWN)
    (made,) = operator.objects()
    assert made["metadata"]["uid"] == began.id
    assert made["metadata"]["name"].startswith("api-")
    assert made["spec"]["author"] == "alice"
    assert (await operator.done())["phase"] == "Succeeded"
    first, last = operator.notes()[0], operator.notes()[-1]
    assert first.at < operator.writes()[0].at < last.at


async def test_verdicts_do_not_end_it(slow):
    began = await slow.scale(DOWN)
    await slow.run(45)
    assert slow.operation(began.id).running, "all looks were good, and it goes on"
    assert (await slow.ended(began.id)).phase is OperationPhase.DONE


async def test_protection_by_hand_says_whose_hand_and_counts_to_no_flapping(operator):
    for _ in range(3):
        await operator.ended((await operator.scale(DOWN, hold=1)).id)
        await operator.until(lambda: operator.replicas() == (1, 1, 1), within=120)
        await operator.run(20)
    started = operator.told("MeltdownProtectionStarted")
    assert len(started) == 3
    assert all("by hand (alice: a test)" in each.message for each in started)
    runner = operator.prober.registry.runner(SHOOT)
    assert runner is not None
    assert runner._protection.begins == ()


# What forbids it.


async def test_another_manual_run_forbids_it_and_is_named(slow):
    first = await slow.scale(DOWN)
    with pytest.raises(errors.RunInProgress) as refusal:
        await slow.scale(UP)
    assert (refusal.value.operation, f" for {SHOOT};" in str(refusal.value)) == (first.id, True)
    assert slow.operation(first.id).running


async def test_of_two_that_begin_together_one_is_refused(operator):
    answers = await asyncio.gather(
        operator.scale(DOWN), operator.scale(DOWN), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in answers) == ["RunInProgress", "ScalingRunStatus"]


async def test_up_while_the_verdict_would_be_scale_down_needs_force(operator):
    async with operator.under_protection():
        with pytest.raises(errors.Refused, match="SCALE DOWN"):
            await operator.scale(UP)
        assert not operator.objects()
        began = await operator.scale(UP, force=True)
        assert (await operator.ended(began.id)).phase is OperationPhase.DONE
        assert operator.replicas() == (1, 1, 1)
        await operator.run(60)
        assert operator.reason() is VerdictReason.HELD
        assert operator.replicas() == (1, 1, 1), "it is held"


async def test_a_namespace_without_a_cluster_is_not_found(operator):
    with pytest.raises(errors.NotFound):
        await operator.scale(UP, where="kube-system")


@pytest.mark.parametrize(
    "trouble", [Trouble(error_rate=1.0), Trouble(refused=True), Trouble(forbidden=True)]
)
async def test_where_its_object_cannot_be_made_nothing_begins(operator, trouble):
    trouble = replace(trouble, verbs=frozenset({"create"}), what=REQUESTS)
    with operator.faults.seed_trouble(trouble):
        with pytest.raises((errors.ClusterError, errors.FeatureUnavailable)):
            await operator.scale(DOWN)
        await operator.run(30)
    assert not operator.writes()
    assert not operator.prober.scaling_runs.operations()
    began = await operator.scale(DOWN)
    assert (await operator.ended(began.id)).phase is OperationPhase.DONE


@pytest.mark.parametrize("options", [{"dry_run": True}, {"prepare": without_definitions}])
async def test_a_dry_run_and_a_seed_without_the_kind_begin_nothing(lab, options):
    operator = await with_operator(lab, **options)
    with pytest.raises(errors.FeatureUnavailable):
        await operator.scale(DOWN)
    assert not operator.writes()


async def test_resources_that_changed_since_the_caller_saw_them_forbid_it(operator):
    plan = await operator.prober.scaling_runs.plan(SHOOT, operator.spec(DOWN))
    operator.world.patch(SHOOT, KCM, {"spec": {"replicas": 2}})
    begin = operator.prober.scaling_runs.begin
    with pytest.raises(errors.VersionChanged, match=r"^the resources are not what If-Match names"):
        await begin(SHOOT, operator.spec(DOWN), if_match=plan.etag)
    assert not operator.objects()
    fresh = await operator.prober.scaling_runs.plan(SHOOT, operator.spec(DOWN))
    began = await begin(SHOOT, operator.spec(DOWN), if_match=fresh.etag)
    assert (await operator.ended(began.id)).phase is OperationPhase.DONE


# The plan.


async def test_a_plan_ends_where_its_run_would(operator):
    await operator.ended((await operator.scale(DOWN)).id)
    operator.kubectl.delete("Deployment", SHOOT, KCM.name)
    await operator.run(1)
    plan = await operator.prober.scaling_runs.plan(SHOOT, operator.spec(UP))
    assert [(each.resource, each.action, each.reason) for each in plan.steps] == [
        (KCM, "Failed", "NotFound"),
        (MCM, "Skip", "NotReached"),
        (CA, "Skip", "NotReached"),
    ]
    ended = await operator.ended((await operator.scale(UP)).id)
    assert [each.phase for each in ended.steps[1:]] == [StepPhase.CANCELLED] * 2


async def test_a_plan_says_what_would_be_done_and_writes_nothing(slow):
    plan = await slow.prober.scaling_runs.plan(SHOOT, slow.spec(DOWN))
    assert [
        (each.resource, each.level, each.action, each.initial_delay) for each in plan.steps
    ] == [(MCM, 0, "Write", 0), (CA, 0, "Write", 0), (KCM, 1, "Write", 60)]
    assert all(each.etag for each in plan.steps)
    assert (plan.namespace, plan.direction) == (SHOOT, DOWN)
    await slow.run(30)
    assert not slow.writes()
    assert not slow.objects()


async def test_a_plan_names_the_automatic_run_that_it_would_end(slow):
    with slow.faults.path_cut(SHOOT):
        await slow.until(lambda: slow.writes(MCM))
        plan = await slow.prober.scaling_runs.plan(SHOOT, slow.spec(DOWN))
    running = [each.id for each in slow.prober.scaling_runs.operations() if each.running]
    assert [plan.replaces] == running


# A manual scaling run over an automatic one.


async def test_an_automatic_run_gives_way(slow):
    with slow.faults.path_cut(SHOOT):
        await slow.until(lambda: slow.writes(MCM))
        began = await slow.scale(UP, force=True)
        assert (await slow.ended(began.id)).phase is OperationPhase.DONE
        await slow.run(90)
        assert slow.replicas() == (1, 1, 1)
        assert not slow.writes(KCM)
    automatic = [each for each in slow.prober.scaling_runs.operations() if each.author is None]
    assert automatic[0].phase is OperationPhase.CANCELLED


async def test_an_order_ends_the_automatic_run_also_where_no_hold_has_done_so(slow):
    scaler = slow.prober.registry.scaler(SHOOT)
    ended: list[ScalingRunStatus] = []
    scaler.subscribe(ended.append)
    with slow.faults.path_cut(SHOOT):
        await slow.until(lambda: slow.writes(MCM))
        asked = (Trigger.MANUAL, OperationPhase.PENDING, slow.now)
        scaler.begin_manual(ScalingRunStatus("op-1", SHOOT, UP, *asked))
        await slow.until(lambda: ended, within=1)
    (automatic,) = ended
    assert (automatic.trigger, automatic.phase) == (Trigger.AUTO, OperationPhase.CANCELLED)
    assert automatic.message == "a manual scaling run begins (op-1)"


async def test_it_waits_for_a_request_of_the_automatic_one_that_was_sent(operator):
    async with behind_an_automatic_one(operator) as began:
        assert began.phase is OperationPhase.PENDING
        assert "waits" in began.message
    await operator.ended(began.id)
    assert operator.replicas() == (1, 1, 1)
    assert len({each.id for each in operator.prober.scaling_runs.operations()}) == 2


# What ends it.


async def test_a_cancelled_run_makes_no_further_step_and_its_hold_ends_with_it(slow):
    began = await slow.scale_down_the_first_level()
    cancelled = await slow.prober.scaling_runs.cancel(began.id, by="bob")
    assert cancelled.phase is OperationPhase.CANCELLED
    assert (cancelled.message, cancelled.hold_until) == ("it was cancelled by bob", None)
    assert not slow.objects()
    told = slow.told("ScalingCancelled")[0]
    assert told.event
    assert told.message.endswith("was cancelled by bob")
    await slow.until(lambda: slow.replicas() == (1, 1, 1), within=120)
    assert not slow.writes(KCM)


async def test_who_cancels_waits_2_s_at_most_for_the_answer_to_a_request_that_was_sent(operator):
    slow = Trouble(latency=8, verbs=frozenset({"patch"}), what=frozenset({"deployments"}))
    with operator.faults.seed_trouble(slow):
        began = await operator.scale(DOWN)
        await operator.until(lambda: operator.world.requests.live(Host.SEED, "patch"))
        at = operator.now
        answer = await operator.prober.scaling_runs.cancel(began.id, by="bob")
        assert operator.now - at == pytest.approx(2, abs=0.1)
        assert (answer.phase, answer.message) == (
            OperationPhase.CANCELLED,
            "it was cancelled by bob",
        )
        assert answer.hold_until is None


async def test_one_that_waits_for_an_automatic_one_can_be_cancelled_too(operator):
    async with behind_an_automatic_one(operator) as began:
        waiting = operator.operation(began.id)
        assert (waiting.phase, waiting.message) == (
            OperationPhase.PENDING,
            "it waits for the end of the current one",
        )
        answer = await operator.prober.scaling_runs.cancel(began.id, by="bob")
        assert answer.phase is OperationPhase.CANCELLED
        found = operator.operation(began.id)
        assert (found.phase, found.direction, found.namespace) == (
            OperationPhase.CANCELLED,
            UP,
            SHOOT,
        )
        assert "bob" in found.message
        assert found.ended == pytest.approx(operator.now, abs=2)
        await operator.run(30)
    assert not any("by hand" in each.message for each in operator.told("FlowStarted"))
    assert not any(each.verb == "up" for each in operator.writes())


async def test_what_has_ended_or_is_automatic_or_unknown_cannot_be_cancelled(operator):
    began = await operator.scale(DOWN, hold=30)
    await operator.ended(began.id)
    cancel = operator.prober.scaling_runs.cancel
    with pytest.raises(errors.Refused, match="has ended"):
        await cancel(began.id, by="bob")
    await operator.until(lambda: operator.replicas() == (1, 1, 1), within=200)
    automatic = next(e for e in operator.prober.scaling_runs.operations() if e.author is None)
    with pytest.raises(errors.Refused, match="automatic"):
        await cancel(automatic.id, by="bob")
    with pytest.raises(errors.NotFound):
        await cancel("nonsense", by="bob")
    with pytest.raises(errors.OperationGone):
        await cancel("0badcafe-77", by="bob")
    mine = automatic.id.partition("-")[0]
    for never in (f"{mine}-999", f"{mine}-0", "my-own", ""):
        with pytest.raises(errors.NotFound):
            await cancel(never, by="bob")


async def test_who_deletes_the_object_cancels_the_run(slow):
    began = await slow.scale_down_the_first_level()
    (made,) = slow.objects()
    slow.kubectl.delete("ScaleRequest", SHOOT, made["metadata"]["name"])
    ended = await slow.ended(began.id, within=2)
    assert (ended.phase, ended.message) == (OperationPhase.CANCELLED, "it was deleted")
    [told] = slow.told("ScalingCancelled")
    assert told.message.endswith("was cancelled; its ScaleRequest was ended")
    await slow.run(90)
    assert not slow.writes(KCM)


async def test_a_run_whose_object_is_gone_does_not_wait_for_a_slow_status(lab):
    operator = await with_operator(lab, dependents=SOON_KCM)
    began = await operator.scale(DOWN)
    with operator.faults.seed_trouble(Trouble(latency=8.0, what=STATUS)):
        await operator.run(2.5)  # the progress is being written
        (made,) = operator.objects()
        operator.kubectl.delete("ScaleRequest", SHOOT, made["metadata"]["name"])
        ended = await operator.ended(began.id, within=0.5)
    assert (ended.phase, ended.message) == (OperationPhase.CANCELLED, "it was deleted")
    assert not operator.writes(KCM)


@pytest.mark.parametrize("of_status", [0.0, 3.0], ids=["", "that has not begun"])
async def test_an_object_that_is_deleted_before_its_creation_was_answered_cancels_its_run(
    slow, of_status
):
    status = Trouble(latency=of_status, what=STATUS)
    late = Trouble(latency=2.0, verbs=frozenset({"create"}), what=REQUESTS)
    with slow.faults.seed_trouble(late), slow.faults.seed_trouble(status):
        scaling = asyncio.ensure_future(slow.scale(DOWN))
        await slow.run(1.5)
        (made,) = slow.objects()
        slow.kubectl.delete("ScaleRequest", SHOOT, made["metadata"]["name"])
        began = await scaling
    assert (began.phase, began.message) == (OperationPhase.CANCELLED, "it was deleted")
    await slow.run(90)
    assert slow.hold() is began.hold_until is None
    assert not slow.writes(KCM)


# Where nobody knows whether the object was made.


async def test_a_creation_whose_answer_was_lost_is_read_back_and_makes_no_second_object(operator):
    lost = Trouble(latency=15.0, verbs=frozenset({"create"}), what=REQUESTS)
    with operator.faults.seed_trouble(lost):
        began = await operator.scale(DOWN)
    (made,) = operator.objects()
    assert made["metadata"]["uid"] == began.id
    assert (await operator.ended(began.id)).phase is OperationPhase.DONE
    assert len(operator.writes()) == 3


async def test_a_verdict_that_turns_while_the_object_is_made_forbids_it_all_the_same(operator):
    slow = Trouble(latency=18.0, verbs=frozenset({"create"}), what=REQUESTS)
    with operator.faults.path_cut(SHOOT):
        await operator.run(25)  # nothing is known yet
        with operator.faults.seed_trouble(slow):
            scaling = asyncio.ensure_future(operator.scale(UP))
            await operator.until(scaling.done, within=60)
        assert (await scaling).phase is OperationPhase.REFUSED
        assert "force" in (await scaling).message
        await operator.protect()
        await operator.run(60)
        assert not any(each.verb == "up" for each in operator.writes())


async def test_a_shoot_that_is_not_probed_any_more_when_the_object_is_made_is_not_scaled(operator):
    slow = Trouble(latency=5.0, verbs=frozenset({"create"}), what=REQUESTS)
    with operator.faults.seed_trouble(slow):
        scaling = asyncio.ensure_future(operator.scale(DOWN))
        await operator.run(1)
        operator.faults.hibernated(SHOOT)
        assert (await scaling).phase is OperationPhase.REFUSED
    assert "not probed" in (await scaling).message
    await operator.run(60)
    assert not operator.writes()


async def test_one_that_is_about_to_begin_is_an_operation_that_is_pending(operator):
    with operator.faults.seed_trouble(Trouble(latency=3.0, what=STATUS)):
        scaling = asyncio.ensure_future(operator.scale(DOWN))
        await operator.run(1)
        with pytest.raises(errors.RunInProgress) as refusal:
            await operator.scale(UP, force=True)
        assert operator.operation(refusal.value.operation).phase is OperationPhase.PENDING
        assert (await scaling).id == refusal.value.operation


@pytest.mark.parametrize("force", [False, True])
async def test_a_stop_of_the_prober_ends_it_unless_it_was_forced(slow, force):
    began = await slow.scale_down_the_first_level(force=force)
    slow.faults.hibernated(SHOOT)
    ended = await slow.ended(began.id)
    expected = OperationPhase.DONE if force else OperationPhase.CANCELLED
    assert ended.phase is expected
    await slow.done()
    assert bool(slow.writes(KCM)) is force


async def test_a_scale_up_that_failed_holds_nothing_and_the_verdicts_act_again(operator):
    async with operator.under_protection():
        operator.faults.pods_stuck(SHOOT, KCM)
        ended = await operator.ended((await operator.scale(UP, force=True)).id)
        assert ended.phase is OperationPhase.FAILED
        assert operator.hold() is None
        await operator.run(0.1)
        (told,) = operator.told("ScaleRequestFailed")
        assert told.event
        assert told.message.endswith("verdicts act again")
        await operator.until(lambda: operator.replicas() == (0, 0, 0), within=30)


# Probe now.


@pytest.mark.parametrize("every", [1.5, 4.9])
async def test_probes_that_are_asked_for_bring_no_threshold_nearer(lab, every):
    operator = await with_operator(lab, failure_threshold=4)
    with operator.faults.path_cut(SHOOT):
        await operator.until(lambda: operator.reason() is VerdictReason.COUNTING)
        first = operator.now
        while not operator.writes():
            operator.prober.scaling_runs.probe_now(SHOOT)
            await operator.run(every)
    assert operator.writes()[0].at - first >= 15.0  # 3 more probes that count, 5 s apart


async def test_probe_now_looks_at_once_and_reads_nodes(lab):
    operator = await with_operator(lab, probe_interval=30.0)
    await operator.run(1.5)
    before = operator.status().candidacy
    assert operator.prober.scaling_runs.probe_now(SHOOT) - operator.now < 0.1
    await operator.run(0.2)
    after = operator.status().candidacy
    assert after is not None
    assert before is None or after.at > before.at


async def test_probe_now_during_a_probe_says_an_instant_that_is_to_come(operator):
    with operator.faults.latency(SHOOT, 1.5):
        looked = len(operator.probes())
        await operator.until(lambda: len(operator.probes()) > looked, within=60)
        await operator.run(10.5)  # the next one has begun, and takes its time
        assert operator.prober.scaling_runs.probe_now(SHOOT) >= operator.now


async def test_many_calls_are_one_probe_and_probes_are_a_second_apart(lab):
    operator = await with_operator(lab, probe_interval=30.0)
    looked = len(operator.probes())
    for _ in range(20):
        operator.prober.scaling_runs.probe_now(SHOOT)
        await operator.run(0.1)
    found = operator.probes()[looked:]
    assert 2 <= len(found) <= 3
    assert all(b - a >= 0.9 for a, b in pairwise(found))


async def test_a_shoot_that_is_not_probed_is_not_looked_at(operator):
    operator.faults.hibernated(SHOOT)
    await operator.until(lambda: not operator.runs())
    for name, why in ((SHOOT, ".*hibernated"), ("other", "there is no such shoot")):
        with pytest.raises(errors.Refused, match=f"^{name} is not probed: {why}"):
            operator.prober.scaling_runs.probe_now(name)
