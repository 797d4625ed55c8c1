"""What people may have scaled, and what a leader does next about a ScaleRequest."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model import overrides
from app.core.model.overrides import ObjectId, ScaleRequest
from app.core.model.probing import Verdict
from app.core.model.scaling_runs import (
    OURSELVES,
    OperationPhase,
    RunStep,
    ScaleSpec,
    ScalingRunStatus,
    StepPhase,
    Trigger,
)
from app.core.model.workloads import Direction, ResourceRef
from app.prober.rules import manual
from app.prober.rules.manual import NEVER_STARTED, ManualContext, RequestStep
from tests.prober.rules.facts import NOW
from tests.support.harness import KCM

UP, DOWN = Direction.UP, Direction.DOWN
PENDING = ScaleRequest(
    ObjectId("shoot--a", "by-hand", "uid-1", "7"), ScaleSpec(DOWN, "tests", "bob", 600.0), NOW - 60
)
RUNNING = replace(
    PENDING, phase=OperationPhase.RUNNING, started=NOW - 50, observed_by="the first leader"
)
PROBED = ManualContext(probed=True, would_be=Verdict.HOLD)
NOT_PROBED = ManualContext(probed=False)


@pytest.mark.parametrize("verified", [False, True])
def test_a_run_says_whether_its_author_is_certain(verified):
    order = manual.ordered(replace(PENDING, verified=verified), carried_on=False)
    assert (order.author, order.verified) == ("bob", verified)


# What needs force.


def test_a_shoot_that_is_not_probed_needs_force_whichever_way():
    for direction in Direction:
        assert manual.objection(direction, ManualContext(probed=False)) == (
            "the shoot is not probed, so nothing scales it back; use force to scale it anyway"
        )


def test_up_needs_force_while_the_verdict_would_be_scale_down():
    text = manual.objection(UP, ManualContext(probed=True, would_be=Verdict.SCALE_DOWN))
    assert text == (
        "the verdict would be SCALE DOWN: controllers that come back now would act on expired leases; "
        "use force to scale it anyway"
    )


@pytest.mark.parametrize("would_be", [*Verdict, None])
def test_everything_else_needs_no_force(would_be):
    assert manual.objection(DOWN, ManualContext(probed=True, would_be=would_be)) is None
    if would_be is not Verdict.SCALE_DOWN:
        assert manual.objection(UP, ManualContext(probed=True, would_be=would_be)) is None


# What a leader does next.


def forced(request, *, force=True):
    return replace(request, spec=replace(request.spec, force=force))


def going_up(request):
    return replace(request, spec=replace(request.spec, direction=UP))


def step(request, context=PROBED, now=NOW):
    return manual.next_step(request, context, now)[0]


@pytest.mark.parametrize("request_", [PENDING, RUNNING, forced(PENDING), forced(RUNNING)])
def test_while_nothing_is_known_of_the_shoot_everything_waits(request_):
    for now in (NOW, NOW + 2 * NEVER_STARTED):
        waits = RequestStep.WAIT, "the shoot is not known yet"
        assert manual.next_step(request_, None, now) == waits


def test_what_needs_force_is_refused_with_the_reason():
    for request, context in (
        (PENDING, NOT_PROBED),
        (going_up(PENDING), NOT_PROBED),
        (going_up(PENDING), ManualContext(probed=True, would_be=Verdict.SCALE_DOWN)),
    ):
        text = manual.objection(request.spec.direction, context)
        assert manual.next_step(request, context, NOW) == (RequestStep.REFUSE, text)
        assert step(forced(request), context) is RequestStep.BEGIN


def test_what_has_begun_needs_no_force_against_a_verdict():
    verdict = ManualContext(probed=True, would_be=Verdict.SCALE_DOWN)
    assert step(going_up(RUNNING), verdict) is RequestStep.CARRY_ON


def test_a_run_of_a_shoot_that_is_not_probed_any_more_is_cancelled_unless_it_was_forced():
    assert manual.next_step(RUNNING, NOT_PROBED, NOW) == (
        RequestStep.CANCEL,
        "the shoot is not probed, and it was not forced",
    )
    assert step(forced(RUNNING), NOT_PROBED) is RequestStep.CARRY_ON


def test_a_release_that_has_not_begun_when_the_shoot_is_not_probed_any_more_never_begins():
    release = replace(PENDING, id=ObjectId("shoot--a", "release-x", "uid-1", "7"), verified=True)
    assert step(forced(going_up(release)), NOT_PROBED) is RequestStep.REFUSE
    assert step(forced(release), replace(PROBED, would_be=Verdict.SCALE_DOWN)) is RequestStep.BEGIN


def test_in_a_namespace_that_is_not_a_shoots_nothing_begins_even_if_it_is_forced():
    nowhere = ManualContext(probed=False, exists=False)
    for request in (PENDING, forced(PENDING), forced(going_up(PENDING))):
        assert manual.next_step(request, nowhere, NOW) == (
            RequestStep.REFUSE,
            "its namespace is not that of a shoot",
        )


@pytest.mark.parametrize("force", [False, True])
def test_what_nobody_has_begun_for_an_hour_is_not_begun_any_more(force):
    request = forced(PENDING, force=force)
    over = request.created_at + NEVER_STARTED
    assert step(request, now=over - 0.001) is RequestStep.BEGIN
    assert step(request, now=over) is RequestStep.REFUSE
    assert step(replace(RUNNING, spec=request.spec), now=over + 9_999) is RequestStep.CARRY_ON


def test_up_waits_for_the_first_verdict_unless_it_is_forced_and_down_does_not():
    unjudged = ManualContext(probed=True, judged=False)
    waits = RequestStep.WAIT, "there is no verdict yet"
    assert manual.next_step(going_up(PENDING), unjudged, NOW) == waits
    assert step(forced(going_up(PENDING)), unjudged) is RequestStep.BEGIN
    assert step(PENDING, unjudged) is RequestStep.BEGIN


@given(
    st.builds(
        replace,
        st.sampled_from([PENDING, RUNNING, going_up(PENDING), going_up(RUNNING)]),
        created_at=st.floats(NOW - 2 * NEVER_STARTED, NOW),
    ),
    st.booleans(),
    st.none()
    | st.builds(
        ManualContext,
        st.booleans(),
        st.none() | st.sampled_from(Verdict),
        st.booleans(),
        st.booleans(),
    ),
)
def test_nothing_begins_without_force_that_the_rules_forbid_and_each_end_or_wait_has_a_reason(
    request_, force, context
):
    request_ = forced(request_, force=force)
    what, why = manual.next_step(request_, context, NOW)
    says_why = {RequestStep.REFUSE, RequestStep.CANCEL, RequestStep.WAIT}
    assert bool(why) == (what in says_why)
    assert (what is RequestStep.REFUSE) <= (request_.phase is OperationPhase.PENDING)
    assert (what is RequestStep.CANCEL) <= (request_.phase is OperationPhase.RUNNING)
    if what in {RequestStep.BEGIN, RequestStep.CARRY_ON}:
        assert context is not None
        assert context.probed or force
    if what is RequestStep.BEGIN:
        assert context is not None
        assert context.exists
        assert NOW - request_.created_at < NEVER_STARTED
        assert force or manual.objection(request_.spec.direction, context) is None


# What the status shows.

SHOWN = ScalingRunStatus("uid-1", "shoot--a", DOWN, Trigger.MANUAL, OperationPhase.RUNNING, NOW)


def with_steps(*steps, phase=OperationPhase.RUNNING, message=""):
    return replace(SHOWN, steps=steps, phase=phase, message=message)


def test_the_status_follows_the_run_and_names_the_leader():
    at_work = RunStep(KCM, 1, StepPhase.RUNNING, started=NOW, before=3, after=0)
    found = manual.shown(RUNNING, with_steps(at_work), "leader-2")
    assert found.observed_by == "leader-2"
    assert found.started == RUNNING.started
    assert [str(each.resource) for each in found.steps] == [str(KCM)]
    assert found.steps[0].resource.api_version == "", "the status has no room for it"
    assert replace(found.steps[0], resource=KCM) == at_work


def test_what_the_first_leader_saw_first_stays_when_another_one_carries_it_on():
    before = RunStep(
        ResourceRef("", KCM.kind, KCM.name), 1, StepPhase.DONE, "", NOW - 40, NOW - 39, None, 3, 0
    )
    now = RunStep(KCM, 1, StepPhase.DONE, "already", NOW, None, NOW, 0, 0)
    (step,) = manual.shown(replace(RUNNING, steps=(before,)), with_steps(now), "leader-2").steps
    assert (step.started, step.before) == (NOW - 40, 3)
    assert (step.message, step.ended, step.after) == ("already", NOW, 0)


@pytest.mark.parametrize("phase", [StepPhase.WAITING, StepPhase.SKIPPED])
def test_what_an_earlier_leader_has_done_is_done_though_there_is_nothing_left_to_do(phase):
    before = RunStep(
        ResourceRef("", KCM.kind, KCM.name),
        1,
        StepPhase.DONE,
        "",
        NOW - 40,
        NOW - 39,
        NOW - 30,
        3,
        0,
    )
    now = RunStep(KCM, 1, phase, "it is at 0", None, None, NOW, 0, None)
    found = manual.shown(replace(RUNNING, steps=(before,)), with_steps(now), "leader-2")
    assert found.steps == (before,)


def test_a_run_without_steps_yet_removes_none_that_were_shown():
    before = RunStep(ResourceRef("", KCM.kind, KCM.name), 1, StepPhase.DONE)
    found = manual.shown(replace(RUNNING, steps=(before,)), with_steps(), "leader-2")
    assert found.steps == (before,)


def test_what_a_run_waits_for_is_shown_as_long_as_it_waits():
    waiting = with_steps(phase=OperationPhase.PENDING, message="it waits")
    assert manual.shown(RUNNING, waiting, "leader").message == "it waits"
    ending = with_steps(message="it ends: a pause")
    assert manual.shown(replace(RUNNING, message="before"), ending, "leader").message == "before"


@pytest.mark.parametrize(
    ("direction", "phase", "holds"),
    [
        (DOWN, OperationPhase.DONE, True),
        (DOWN, OperationPhase.FAILED, True),
        (DOWN, OperationPhase.CANCELLED, True),
        (DOWN, OperationPhase.REFUSED, False),
        (UP, OperationPhase.DONE, True),
        (UP, OperationPhase.FAILED, False),
        (UP, OperationPhase.REFUSED, False),
    ],
)
def test_the_end_says_when_its_hold_ends_if_it_has_one(direction, phase, holds):
    request = RUNNING if direction is DOWN else going_up(RUNNING)
    found = manual.ended(request, phase, "why", NOW)
    assert (found.phase, found.message, found.ended) == (phase, "why", NOW)
    assert found.hold_until == (NOW + request.spec.hold if holds else None)


def test_a_failure_of_nothing_but_what_is_unavailable_ends_no_hold():
    found = manual.ended(
        going_up(RUNNING), OperationPhase.FAILED, "not served", NOW, only_unavailable=True
    )
    assert overrides.hold_end(found) == NOW + RUNNING.spec.hold


def test_a_release_is_forced_against_the_verdict_and_ends_with_the_probing():
    spec = ScaleSpec(UP, "long enough", OURSELVES, 600.0, force=True)
    verdict = ManualContext(probed=True, would_be=Verdict.SCALE_DOWN)
    named = ObjectId("shoot--a", "release-1")
    release: dict[str, Any] = {"spec": spec, "id": named, "verified": True}
    assert step(replace(PENDING, **release), verdict) is RequestStep.BEGIN
    assert step(replace(RUNNING, **release), NOT_PROBED) is RequestStep.CANCEL


@pytest.mark.parametrize("what", [{"verified": True}, {"id": ObjectId("shoot--a", "release-1")}])
def test_the_name_of_the_author_alone_makes_no_release(what):
    spec = ScaleSpec(UP, "long enough", OURSELVES, 600.0, force=True)
    assert step(replace(RUNNING, spec=spec, **what), NOT_PROBED) is RequestStep.CARRY_ON
