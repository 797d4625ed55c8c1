"""What a live read of stale facts makes of a decision."""

import pytest

from app.core.model.probing import Decision, Failure, RequestKind, Verdict, VerdictReason
from app.prober.rules import decision
from app.prober.rules.candidates import pool_conditions
from app.prober.rules.leases import Timings
from app.prober.rules.lifecycle import ProbedShoot
from app.prober.rules.verdict import NO_RESULTS, VerdictOutcome
from tests.prober.rules.facts import GRACE

JUDGED = ProbedShoot("shoot--a--b", Timings(GRACE), pool_conditions(()))
CHANGED = ProbedShoot("shoot--a--b", Timings(2 * GRACE), pool_conditions(()))
STALE = Failure(VerdictReason.SEED_STALE, "reading live failed", RequestKind.LEASE)


def outcome(asked):
    return VerdictOutcome(
        Decision(asked, VerdictReason.LEASES_EXPIRED, "60 % expired", asked), NO_RESULTS
    )


@pytest.mark.parametrize("asked", [Verdict.SCALE_UP, Verdict.SCALE_DOWN])
def test_a_shoot_that_is_as_it_was_judged_changes_nothing(asked):
    assert decision.checked(outcome(asked), JUDGED, JUDGED) == outcome(asked)


def test_a_scale_up_is_held_where_the_shoot_is_another_than_was_judged():
    held = decision.checked(outcome(Verdict.SCALE_UP), JUDGED, CHANGED).decision
    assert (held.verdict, held.reason) == (Verdict.HOLD, VerdictReason.SEED_STALE)
    assert held.would_be is Verdict.SCALE_UP
    assert held.message == "the Shoot has changed; it is judged anew"


def test_a_scale_down_goes_on_as_its_confirmation_judges_the_new_facts():
    found = decision.checked(outcome(Verdict.SCALE_DOWN), JUDGED, CHANGED)
    assert found == outcome(Verdict.SCALE_DOWN)


@pytest.mark.parametrize("asked", [Verdict.SCALE_UP, Verdict.SCALE_DOWN])
def test_either_is_held_where_the_live_read_failed(asked):
    held = decision.checked(outcome(asked), JUDGED, STALE).decision
    assert (held.verdict, held.reason) == (Verdict.HOLD, VerdictReason.SEED_STALE)
    assert (held.message, held.would_be) == ("reading live failed", asked)
