"""The word that sums a shoot up (api.md)."""

import pytest

from app.core.model.probing import Decision, Reason, ShootState, Verdict
from app.core.model.workloads import Direction
from app.prober.rules import state
from app.prober.rules.state import Standing


def decision(verdict=Verdict.HOLD, reason=Reason.LEASES_RENEWED, would_be=None):
    return Decision(verdict, reason, "so", would_be or verdict)


def word(made=None, **more):
    return state.state(Standing(made, **more))


GOOD = decision(Verdict.SCALE_UP)


def test_before_the_first_look_it_is_pending():
    assert word() is ShootState.PENDING


def test_a_look_at_nothing_as_the_seed_was_never_listed_is_pending():
    assert word(decision(reason=Reason.NOT_SYNCED)) is ShootState.PENDING


def test_good_leases_of_a_seed_that_was_never_listed_are_healthy_and_late_ones_suspect():
    unsynced = {"reason": Reason.NOT_SYNCED}
    assert word(decision(**unsynced, would_be=Verdict.SCALE_UP)) is ShootState.HEALTHY
    assert word(decision(**unsynced, would_be=Verdict.SCALE_DOWN)) is ShootState.SUSPECT


def test_good_leases_are_healthy():
    assert word(GOOD) is ShootState.HEALTHY


def test_a_good_look_that_something_holds_back_is_healthy():
    assert word(decision(reason=Reason.NOT_LEADER, would_be=Verdict.SCALE_UP)) is ShootState.HEALTHY


def test_hold_for_want_of_candidates_is_healthy():
    assert word(decision(reason=Reason.NO_CANDIDATES)) is ShootState.HEALTHY


@pytest.mark.parametrize(
    ("made", "late"),
    [
        (GOOD, True),
        (decision(reason=Reason.COUNTING, would_be=Verdict.SCALE_DOWN), False),
        (decision(Verdict.SCALE_DOWN), False),
        (decision(reason=Reason.UNKNOWN_LEASES), False),
    ],
)
def test_late_leases_or_a_threshold_not_reached_are_suspect(made, late):
    assert word(made, late=late) is ShootState.SUSPECT


def test_an_api_server_that_does_not_answer_is_unreachable():
    assert word(decision(reason=Reason.UNREACHABLE)) is ShootState.UNREACHABLE


@pytest.mark.parametrize("reason", [Reason.BAD_ANSWER, Reason.THROTTLED, Reason.TOO_SLOW])
def test_a_probe_that_could_not_finish_is_failing(reason):
    assert word(decision(reason=reason)) is ShootState.FAILING


def test_scaling_that_failed_is_failing():
    assert word(GOOD, scaling_failed=True) is ShootState.FAILING


def test_protection_is_worse_than_what_the_look_says():
    assert word(decision(reason=Reason.UNREACHABLE), protected=True) is ShootState.PROTECTED


def test_a_running_flow_says_its_direction():
    assert word(GOOD, protected=True, flow=Direction.UP) is ShootState.RECOVERING
    assert word(GOOD, protected=True, flow=Direction.DOWN) is ShootState.PROTECTING


def test_severity_is_the_order_of_the_api():
    assert [each.value for each in sorted(ShootState, key=state.severity)] == [
        "Protected",
        "Protecting",
        "Recovering",
        "Unreachable",
        "Failing",
        "Suspect",
        "Pending",
        "Healthy",
        "NotProbed",
    ]


# Endpoint mode.


@pytest.mark.parametrize(
    ("reason", "would_be", "expected"),
    [
        (Reason.EXTERNAL_REACHABLE, Verdict.SCALE_UP, ShootState.HEALTHY),
        (Reason.COUNTING, Verdict.SCALE_DOWN, ShootState.SUSPECT),
        (Reason.COUNTING, Verdict.HOLD, ShootState.SUSPECT),
        (Reason.GATED, Verdict.SCALE_DOWN, ShootState.SUSPECT),
        (Reason.UNREACHABLE, Verdict.HOLD, ShootState.UNREACHABLE),
        (Reason.NAME_UNRESOLVED, Verdict.HOLD, ShootState.FAILING),
    ],
)
def test_the_words_of_endpoint_mode(reason, would_be, expected):
    assert word(decision(reason=reason, would_be=would_be)) is expected
