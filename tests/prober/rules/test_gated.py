"""A closed gate holds back a scale-down that everything else asks for, and nothing else."""

import pytest

from app.core.model.probing import Decision, Verdict, VerdictReason
from app.core.model.workloads import Direction
from app.prober.rules import verdict
from app.prober.rules.verdict import (
    NO_RESULTS,
    Assessment,
    ConsecutiveResults,
    Preconditions,
    VerdictOutcome,
    VerdictThresholds,
)

NOW = 1000.0
DOWN = Assessment(Verdict.SCALE_DOWN, VerdictReason.LEASES_EXPIRED, "60 of 100 are old")
UP = Assessment(Verdict.SCALE_UP, VerdictReason.LEASES_RENEWED, "all fresh")
ONCE = VerdictThresholds(failure=1, success=3, apart=5, protected=False)
TWICE = VerdictThresholds(failure=2, success=3, apart=5, protected=False)
CLOSED = Preconditions(closed_by="canary fails at all 2 targets")


def test_a_closed_gate_holds_a_scale_down_and_says_which_gate():
    decision = verdict.decide_assessment(DOWN, CLOSED, ONCE, NO_RESULTS, NOW).decision
    assert decision == Decision(
        Verdict.HOLD,
        VerdictReason.GATED,
        "60 of 100 are old; not scaled: canary fails at all 2 targets",
        Verdict.SCALE_DOWN,
    )


def test_a_closed_gate_never_holds_back_a_scale_up():
    assert (
        verdict.decide_assessment(UP, CLOSED, ONCE, NO_RESULTS, NOW).decision.verdict
        is Verdict.SCALE_UP
    )


def test_what_is_counted_behind_a_closed_gate_stays_counted():
    first = verdict.decide_assessment(DOWN, CLOSED, TWICE, NO_RESULTS, NOW)
    assert (
        first.decision.reason is VerdictReason.COUNTING
    )  # the gate is asked when all else is agreed
    second = verdict.decide_assessment(DOWN, CLOSED, TWICE, first.consecutive, NOW + 5)
    assert second.decision.reason is VerdictReason.GATED
    opened = verdict.decide_assessment(DOWN, Preconditions(), TWICE, second.consecutive, NOW + 6)
    assert opened.decision.verdict is Verdict.SCALE_DOWN


@pytest.mark.parametrize(
    ("gates", "reason"),
    [
        (Preconditions(synced=False, closed_by="canary"), VerdictReason.NOT_SYNCED),
        (Preconditions(initial_delay_over=False, closed_by="canary"), VerdictReason.INITIAL_DELAY),
        (Preconditions(leading=False, closed_by="canary"), VerdictReason.NOT_LEADER),
    ],
)
def test_what_holds_back_without_a_gate_is_told_first(gates, reason):
    assert verdict.decide_assessment(DOWN, gates, ONCE, NO_RESULTS, NOW).decision.reason is reason


def test_a_gate_that_closes_while_the_verdict_is_confirmed_holds_it_and_keeps_the_counts():
    agreed = verdict.decide_assessment(DOWN, Preconditions(), ONCE, NO_RESULTS, NOW)
    held = verdict.still(agreed, CLOSED)
    assert (held.decision.verdict, held.decision.reason) == (Verdict.HOLD, VerdictReason.GATED)
    assert held.consecutive == ConsecutiveResults(Direction.DOWN, 1, NOW, NOW)


def test_a_gate_that_closes_does_not_touch_a_scale_up_that_was_decided():
    agreed: VerdictOutcome = verdict.decide_assessment(UP, Preconditions(), ONCE, NO_RESULTS, NOW)
    assert verdict.still(agreed, CLOSED) is agreed
