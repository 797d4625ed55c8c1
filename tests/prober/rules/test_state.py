"""The word that sums a shoot up, and its reason."""

from dataclasses import replace
from typing import Final

import pytest

from app.core.model.probing import (
    Decision,
    Exclusion,
    Failure,
    PathReading,
    ShootState,
    Verdict,
    VerdictReason,
)
from app.core.model.workloads import Direction
from app.prober.rules import state
from app.prober.rules.state import LastDirection, StateInputs
from tests.prober.rules.facts import counted

UP, DOWN, HOLD = Verdict.SCALE_UP, Verdict.SCALE_DOWN, Verdict.HOLD
PEOPLE: Final = (VerdictReason.PAUSED, VerdictReason.HELD, VerdictReason.IGNORED)


def decision(verdict=HOLD, reason=VerdictReason.LEASES_RENEWED, would_be=None):
    return Decision(verdict, reason, "so", would_be or verdict)


def word(made=None, **more):
    return state.summary(StateInputs(made, **more)).state


def reason(made=None, **more):
    return state.summary(StateInputs(made, **more)).reason


GOOD = decision(UP)
SOME = decision(UP, VerdictReason.SOME_LEASES_EXPIRED)
BAD = decision(DOWN, VerdictReason.LEASES_EXPIRED)
WELL, ILL, CUT = (
    LastDirection(UP, any_expired=False),
    LastDirection(UP, any_expired=True),
    LastDirection(DOWN, any_expired=True),
)


def seen(verdict, reason, would_be=None, *, last=None, **more):
    """A probe that led to this decision; `last` was asked for before."""
    return StateInputs(decision(verdict, reason, would_be), last_direction=last, **more)


def late(reason, would_be=None):
    """Leases are expired, and were already."""
    return seen(HOLD, reason, would_be, last=CUT, any_expired=True)


def vanished(last):
    """No lease counts any more."""
    return seen(HOLD, VerdictReason.NO_CANDIDATES, last=last, vanished=True)


LOOKS: Final = {
    "none yet": StateInputs(),
    "all fresh": StateInputs(GOOD, last_direction=WELL),
    "all fresh, counted": seen(HOLD, VerdictReason.COUNTING, UP, last=WELL),
    "some expired": StateInputs(SOME, any_expired=True, last_direction=ILL),
    "unknown": seen(HOLD, VerdictReason.UNKNOWN_LEASES, last=CUT),
    "expired": StateInputs(BAD, any_expired=True, last_direction=CUT),
    "expired, counted": late(VerdictReason.COUNTING, DOWN),
    "expired, gated": late(VerdictReason.GATED, DOWN),
    "expired, in a pause": late(VerdictReason.PAUSED, DOWN),
    "expired, in a hold": late(VerdictReason.HELD, DOWN),
    "expired, ignored": late(VerdictReason.IGNORED, DOWN),
    "fresh, in a pause": seen(HOLD, VerdictReason.PAUSED, UP, last=WELL),
    "one, unknown, before: fresh": seen(HOLD, VerdictReason.ONE_CANDIDATE, last=WELL),
    "one, expired, before: expired": late(VerdictReason.ONE_CANDIDATE),
    "there never were any": seen(HOLD, VerdictReason.NO_CANDIDATES),
    "vanished, nothing before": vanished(None),
    "vanished, before: fresh": vanished(WELL),
    "vanished, before: some expired": vanished(ILL),
    "vanished, before: expired": vanished(CUT),
    "all gone, before: expired": seen(UP, VerdictReason.NO_NODES, last=CUT, vanished=True),
    "unreachable, before: fresh": seen(HOLD, VerdictReason.UNREACHABLE, last=WELL),
    "unreachable, before: expired": late(VerdictReason.UNREACHABLE),
    "throttled, before: expired": late(VerdictReason.THROTTLED),
    "thrown away, before: fresh": seen(HOLD, VerdictReason.STALE_READING, last=WELL),
}
"""What the last probe said, and what was known before it."""

TABLE: Final = """
                              | nobody      | people keep a    | scaling
                              | decided     | scale-down back  | failed
none yet                      | Pending     | Pending          | Pending
all fresh                     | Healthy     | Healthy          | Failing
all fresh, counted            | Healthy     | Healthy          | Failing
some expired                  | Suspect     | Suspect          | Failing
unknown                       | Suspect     | Suspect          | Failing
expired                       | Suspect     | Suspect          | Failing
expired, counted              | Suspect     | Suspect          | Failing
expired, gated                | Suspect     | Suspect          | Failing
expired, in a pause           | Suspect     | Unprotected      | Failing
expired, in a hold            | Suspect     | Unprotected      | Failing
expired, ignored              | Suspect     | Unprotected      | Failing
fresh, in a pause             | Healthy     | Healthy          | Failing
one, unknown, before: fresh   | Suspect     | Suspect          | Failing
one, expired, before: expired | Suspect     | Unprotected      | Failing
there never were any          | Healthy     | Healthy          | Failing
vanished, nothing before      | Suspect     | Suspect          | Failing
vanished, before: fresh       | Healthy     | Healthy          | Failing
vanished, before: some expired| Suspect     | Suspect          | Failing
vanished, before: expired     | Suspect     | Unprotected      | Failing
all gone, before: expired     | Suspect     | Unprotected      | Failing
unreachable, before: fresh    | Unreachable | Unreachable      | Unreachable
unreachable, before: expired  | Unreachable | Unreachable      | Unreachable
throttled, before: expired    | Failing     | Failing          | Failing
thrown away, before: fresh    | Suspect     | Suspect          | Failing
"""
"""Where nothing is scaled down, and no scaling run runs.  "Nobody decided": or something else is in the way as well."""

ROWS: Final = {
    cells[0]: dict(zip(("nobody", "people", "failed"), cells[1:], strict=True))
    for line in TABLE.strip("\n").splitlines()[2:]
    for cells in [[cell.strip() for cell in line.split("|")]]
}


def test_a_look_at_nothing_as_the_seed_was_never_listed_is_pending():
    assert word(decision(reason=VerdictReason.NOT_SYNCED)) is ShootState.PENDING


def test_good_leases_of_a_seed_that_was_never_listed_are_healthy_and_late_ones_suspect():
    unsynced = {"reason": VerdictReason.NOT_SYNCED}
    assert word(decision(**unsynced, would_be=UP)) is ShootState.HEALTHY
    assert word(decision(**unsynced, would_be=DOWN)) is ShootState.SUSPECT


def given(look, kept_back=None, **more):
    """`kept_back`: the reason for which people keep back a scale-down."""
    return state.summary(replace(LOOKS[look], kept_back=kept_back and (kept_back, "so"), **more))


def test_the_table_has_every_probe():
    assert list(ROWS) == list(LOOKS)


@pytest.mark.parametrize("look", LOOKS)
def test_the_state_of_a_shoot_about_which_nobody_decided_anything(look):
    assert given(look).state == ROWS[look]["nobody"]


@pytest.mark.parametrize("kept_back", PEOPLE)
@pytest.mark.parametrize("look", LOOKS)
def test_the_state_of_a_shoot_that_people_keep_from_being_protected(look, kept_back):
    found = given(look, kept_back=kept_back)
    assert found.state == ROWS[look]["people"]
    assert (found.reason == kept_back) or found.state is not ShootState.UNPROTECTED


@pytest.mark.parametrize("look", LOOKS)
def test_the_state_of_a_shoot_that_could_not_be_scaled(look):
    found = given(look, scaling_failed=True)
    assert found.state == ROWS[look]["failed"]
    if look not in {"none yet", "throttled, before: expired"} and "unreachable" not in look:
        assert found.reason == state.SCALING_FAILED


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("look", LOOKS)
def test_what_is_scaled_down_is_protected_whatever_a_probe_says(look, failed):
    assert given(look, protected=True, scaling_failed=failed).state is ShootState.PROTECTED


@pytest.mark.parametrize("kept_back", PEOPLE)
@pytest.mark.parametrize("look", LOOKS)
def test_what_is_scaled_down_in_part_is_unprotected_where_people_keep_the_rest_from_it(
    look, kept_back
):
    expected = ROWS[look]["people"]
    found = given(look, protected=True, kept_back=kept_back, scaling_failed=True).state
    assert found == (expected if expected == "Unprotected" else "Protected")


@pytest.mark.parametrize("kept_back", [None, *PEOPLE])
@pytest.mark.parametrize("protected", [False, True])
@pytest.mark.parametrize("look", LOOKS)
def test_a_running_run_says_its_direction(look, protected, kept_back):
    more = {"protected": protected, "kept_back": kept_back, "scaling_failed": True}
    assert given(look, running=Direction.UP, **more).state is ShootState.RECOVERING
    assert given(look, running=Direction.DOWN, **more).state is ShootState.PROTECTING


@pytest.mark.parametrize("look", [each for each in LOOKS if each != "none yet"])
def test_the_reason_is_that_of_the_probe_where_nothing_else_made_the_state_what_it_is(look):
    made = LOOKS[look].decision
    assert made is not None
    assert given(look).reason == made.reason
    assert given(look, protected=True).reason == made.reason
    assert given(look, running=Direction.UP).reason == made.reason


def test_before_the_first_probe_the_reason_is_the_state():
    assert given("none yet").reason == "Pending"


@pytest.mark.parametrize(
    "failed", [VerdictReason.BAD_ANSWER, VerdictReason.THROTTLED, VerdictReason.TOO_SLOW]
)
def test_a_probe_that_could_not_finish_is_failing_for_its_own_reason(failed):
    assert word(decision(reason=failed)) is ShootState.FAILING
    assert reason(decision(reason=failed), scaling_failed=True) == failed


def test_severity_is_the_order_of_the_api():
    assert [each.value for each in sorted(ShootState, key=state.severity)] == [
        "Unprotected",
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
        (VerdictReason.EXTERNAL_REACHABLE, UP, ShootState.HEALTHY),
        (VerdictReason.COUNTING, DOWN, ShootState.SUSPECT),
        (VerdictReason.COUNTING, HOLD, ShootState.SUSPECT),
        (VerdictReason.GATED, DOWN, ShootState.SUSPECT),
        (VerdictReason.UNREACHABLE, HOLD, ShootState.UNREACHABLE),
        (VerdictReason.NAME_UNRESOLVED, HOLD, ShootState.FAILING),
    ],
)
def test_the_words_of_endpoint_mode(reason, would_be, expected):
    assert word(decision(reason=reason, would_be=would_be)) is expected


# What is remembered of probes.

NO_LEASE = decision(HOLD, VerdictReason.NO_CANDIDATES)
FAILED = Failure(VerdictReason.UNREACHABLE, "no answer")
TERMINATING: Final = {Exclusion.MACHINE_TERMINATING: 3}


@pytest.mark.parametrize("before", [None, WELL, CUT])
@pytest.mark.parametrize(
    ("result", "made"),
    [
        (FAILED, decision(reason=VerdictReason.UNREACHABLE)),
        (FAILED, decision(reason=VerdictReason.SEED_STALE, would_be=DOWN)),
        (counted(), NO_LEASE),
        (counted(unknown=5), decision(reason=VerdictReason.UNKNOWN_LEASES)),
        (counted(expired=1), decision(reason=VerdictReason.ONE_CANDIDATE)),
        (counted(machines=(0, 0, 0)), decision(UP, VerdictReason.NO_NODES)),
        (PathReading(counting="1 of 3"), decision(reason=VerdictReason.COUNTING)),
    ],
)
def test_a_probe_that_asks_for_nothing_leaves_what_was_asked_for_before(before, result, made):
    assert state.last_direction(before, result, made) == before


@pytest.mark.parametrize("before", [None, WELL, CUT])
@pytest.mark.parametrize(
    ("result", "made", "expected"),
    [
        (counted(10), GOOD, WELL),
        (counted(9, 1), SOME, ILL),
        (counted(1, 9), decision(HOLD, VerdictReason.PAUSED, DOWN), CUT),
        (counted(machines=(5, 0, 0)), GOOD, WELL),
        (
            PathReading(FAILED),
            decision(HOLD, VerdictReason.HELD, DOWN),
            LastDirection(DOWN, any_expired=False),
        ),
        (PathReading(), decision(UP, VerdictReason.EXTERNAL_REACHABLE), WELL),
    ],
)
def test_what_was_asked_for_last_is_remembered_whether_or_not_it_was_done(
    before, result, made, expected
):
    assert state.last_direction(before, result, made) == expected


@pytest.mark.parametrize(
    ("before", "result", "made", "expected"),
    [
        (None, counted(), NO_LEASE, False),
        (WELL, counted(), NO_LEASE, True),
        (CUT, counted(), NO_LEASE, True),
        (None, counted(excluded=TERMINATING), NO_LEASE, True),
        (None, counted(excluded={Exclusion.MACHINE_FAILED: 1}), NO_LEASE, True),
        (None, counted(excluded={Exclusion.NOT_MANAGED: 9}), NO_LEASE, False),
        (WELL, counted(1, excluded=TERMINATING), GOOD, False),
        (WELL, counted(machines=(5, 0, 0)), GOOD, False),
        (WELL, counted(), GOOD, True),
        (CUT, counted(machines=(5, 5, 0)), NO_LEASE, True),
        (CUT, counted(machines=(0, 0, 0)), decision(UP, VerdictReason.NO_NODES), True),
        (CUT, FAILED, decision(reason=VerdictReason.UNREACHABLE), False),
        (CUT, PathReading(counting="1 of 3"), decision(reason=VerdictReason.COUNTING), False),
    ],
)
def test_candidates_have_vanished_where_there_were_some_or_machines_are_taken_away(
    before, result, made, expected
):
    assert state.vanished(before, result, made) is expected
