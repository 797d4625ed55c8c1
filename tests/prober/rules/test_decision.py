"""What a live read of stale facts makes of a decision, and the plan that goes with it."""

import pytest

from app.core.model.probing import Decision, Failure, RequestKind, Verdict, VerdictReason
from app.core.model.workloads import Direction
from app.prober.rules import scaling, verdict
from app.prober.rules.candidates import pool_conditions
from app.prober.rules.leases import Timings
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.rules.verdict import NO_RESULTS, Preconditions, VerdictOutcome
from tests.prober.rules.facts import GRACE, KCM, NOW, dependent, protected, workload

JUDGED = ProbedShoot("shoot--a--b", Timings(GRACE), pool_conditions(()))
CHANGED = ProbedShoot("shoot--a--b", Timings(2 * GRACE), pool_conditions(()))
STALE = Failure(VerdictReason.SEED_STALE, "reading live failed", RequestKind.LEASE)


NOTHING = scaling.pending_writes([], {}, NOW)


def checked(decided, judged, found, pending=NOTHING):
    return verdict.checked(decided, judged, found, pending)


def outcome(asked):
    return VerdictOutcome(
        Decision(asked, VerdictReason.LEASES_EXPIRED, "60 % expired", asked), NO_RESULTS
    )


@pytest.mark.parametrize("asked", [Verdict.SCALE_UP, Verdict.SCALE_DOWN])
def test_a_shoot_that_is_as_it_was_judged_changes_nothing(asked):
    assert checked(outcome(asked), JUDGED, JUDGED) == outcome(asked)


def test_a_scale_up_is_held_where_the_shoot_is_another_than_was_judged():
    held = checked(outcome(Verdict.SCALE_UP), JUDGED, CHANGED).decision
    assert (held.verdict, held.reason) == (Verdict.HOLD, VerdictReason.SEED_STALE)
    assert held.would_be is Verdict.SCALE_UP
    assert held.message == "the Shoot has changed; it is judged anew"


def test_a_scale_down_goes_on_as_its_confirmation_judges_the_new_facts():
    found = checked(outcome(Verdict.SCALE_DOWN), JUDGED, CHANGED)
    assert found == outcome(Verdict.SCALE_DOWN)


@pytest.mark.parametrize("asked", [Verdict.SCALE_UP, Verdict.SCALE_DOWN])
def test_either_is_held_where_the_live_read_failed(asked):
    held = checked(outcome(asked), JUDGED, STALE).decision
    assert (held.verdict, held.reason) == (Verdict.HOLD, VerdictReason.SEED_STALE)
    assert (held.message, held.would_be) == ("reading live failed", asked)


def plans(view):
    return scaling.pending_writes([dependent()], {KCM: view}, NOW)


def test_a_decision_goes_with_the_plan_of_its_direction_as_of_now():
    up, taken_down = plans(workload(1)), plans(protected())
    found = checked(outcome(Verdict.SCALE_DOWN), JUDGED, JUDGED, up)
    assert found.plan == up.plans[Direction.DOWN]
    assert found.writes
    assert not checked(found, JUDGED, JUDGED, taken_down).writes
    assert checked(outcome(Verdict.SCALE_UP), JUDGED, JUDGED, taken_down).writes


def test_a_decision_that_is_held_has_no_plan():
    found = checked(outcome(Verdict.SCALE_DOWN), JUDGED, JUDGED, plans(workload(1)))
    assert verdict.still(found, Preconditions(leading=False)).plan == ()
    assert checked(found, JUDGED, STALE, plans(workload(1))).plan == ()
