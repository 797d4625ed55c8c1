"""Endpoint mode: what counts as a failure of a path, what is counted, and what both paths ask for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.policy import ProberPolicy
from app.core.model.probing import (
    Failure,
    PathReading,
    Reading,
    RequestKind,
    Verdict,
    VerdictReason,
)
from app.core.model.shoots import Route
from app.core.model.workloads import Direction
from app.prober.rules import paths, schedule, verdict
from app.prober.rules.paths import InternalPath
from app.prober.rules.verdict import NO_RESULTS, ConsecutiveResults, Preconditions

INTERNAL, EXTERNAL = Route.INTERNAL, Route.EXTERNAL
NOW, APART = 1000.0, 5.0
REFUSED = Failure(
    VerdictReason.UNREACHABLE, "no connection: Connection refused", RequestKind.EXTERNAL
)
WELL, BROKEN = PathReading(), PathReading(external=REFUSED)

NEITHER = (
    VerdictReason.CREDENTIALS_INVALID,
    VerdictReason.CREDENTIALS_MISSING,
    VerdictReason.CREDENTIALS_REFUSED,
    VerdictReason.CERTIFICATE_UNTRUSTED,
    VerdictReason.NAME_UNRESOLVED,
    VerdictReason.THROTTLED,
    VerdictReason.STALE_READING,
)
BREAKS_A_ROW = [each for each in NEITHER if each is not VerdictReason.THROTTLED]


# What says something about a path.


@pytest.mark.parametrize("route", Route)
def test_no_answer_at_all_is_a_failure_of_either_path(route):
    assert paths.counts(route, VerdictReason.UNREACHABLE)


@pytest.mark.parametrize("reason", NEITHER)
@pytest.mark.parametrize("route", Route)
def test_credentials_certificates_names_and_429_say_nothing_about_a_path(route, reason):
    assert not paths.counts(route, reason)


@pytest.mark.parametrize("reason", [VerdictReason.BAD_ANSWER, VerdictReason.TOO_LARGE])
def test_an_answer_that_is_no_version_is_a_failure_of_the_internal_path_only(reason):
    assert paths.counts(INTERNAL, reason)
    assert not paths.counts(EXTERNAL, reason)


# The internal path, counted.


def policy(failure=3, success=3):
    return ProberPolicy(
        external_secret="external",
        failure_threshold=failure,
        success_threshold=success,
        suspect_interval=APART,
    )


def path(*results, apart=APART, start=NO_RESULTS, counts_now=True, failure=3, success=3):
    """The internal path after attempts `apart` seconds from each other; None = a version came."""
    found = InternalPath(start)
    for number, result in enumerate(results):
        at = NOW + number * apart
        found = found.after(result, at, policy(failure, success), counts_now=counts_now)
    return found


def internal(*results, **options):
    return path(*results, **options).consecutive


def failed(reason):
    return Failure(reason, "it failed", RequestKind.INTERNAL)


def test_answers_in_a_row_add_up_and_a_failure_begins_anew():
    assert internal(None, None) == ConsecutiveResults(Direction.UP, 2, NOW, NOW + APART)
    broken = internal(None, None, failed(VerdictReason.BAD_ANSWER))
    assert (broken.direction, broken.count) == (Direction.DOWN, 1)


def test_answers_that_come_closer_than_the_suspect_interval_are_one():
    assert internal(None, None, None, apart=1.0).count == 1


def test_one_that_may_not_count_adds_nothing():
    assert internal(None, counts_now=False).count == 0
    assert (
        internal(None, start=ConsecutiveResults(Direction.UP, 1, 0.0, 0.0), counts_now=False).count
        == 1
    )


@pytest.mark.parametrize("reason", BREAKS_A_ROW)
def test_what_is_neither_sets_the_counts_to_0(reason):
    assert internal(None, None, failed(reason)) == NO_RESULTS


def test_a_429_leaves_the_counts_as_they_are():
    assert internal(None, None, failed(VerdictReason.THROTTLED)) == internal(None, None)


def test_the_internal_path_is_healthy_after_success_threshold_answers_in_a_row():
    assert path(None, success=1).missing(1) is None
    assert path(None, None).missing(3) == "the internal path has answered at 2 of 3 probes in a row"
    assert path(None, None, None).missing(3) is None


def test_it_stays_healthy_until_failure_threshold_failures_in_a_row():
    well, bad = [None] * 3, failed(VerdictReason.UNREACHABLE)
    assert path(*well, bad, bad).healthy
    assert path(*well, bad, bad, None).missing(3) is None
    assert not path(*well, bad, bad, bad).healthy
    assert path(*well, bad, bad, bad, None).missing(3) is not None
    assert path(None, bad, bad, success=1).healthy, "each threshold is its own"


def test_its_counts_go_on_when_its_health_changes():
    assert internal(None, None, None).count == 3
    refused = failed(VerdictReason.UNREACHABLE)
    down = path(None, None, None, refused, refused, refused)
    assert (down.healthy, down.consecutive.count) == (False, 3)


def test_thresholds_of_one_are_reached_at_once():
    assert path(None, success=1).healthy
    assert not path(None, failed(VerdictReason.UNREACHABLE), success=1, failure=1).healthy


def test_an_answer_in_between_begins_the_failures_anew():
    bad = failed(VerdictReason.UNREACHABLE)
    assert path(None, None, None, bad, bad, None, bad, bad).healthy


@pytest.mark.parametrize("reason", NEITHER)
def test_what_is_neither_makes_a_path_neither_healthy_nor_unhealthy(reason):
    assert path(None, None, None, *[failed(reason)] * 9).healthy
    assert not path(*[failed(reason)] * 9).healthy


# What both ask for.


def test_both_paths_well_ask_for_a_scale_up():
    found = verdict.assess_paths(WELL)
    assert (found.verdict, found.reason) == (Verdict.SCALE_UP, VerdictReason.EXTERNAL_REACHABLE)
    assert found.message == "the API server answers through the internal and the external path"


def test_an_external_path_that_fails_asks_for_a_scale_down_and_says_why():
    found = verdict.assess_paths(BROKEN)
    assert (found.verdict, found.reason) == (Verdict.SCALE_DOWN, VerdictReason.EXTERNAL_UNREACHABLE)
    assert "Connection refused" in found.message


def test_an_internal_path_that_is_not_healthy_yet_holds():
    found = verdict.assess_paths(PathReading(counting="1 of 3"))
    assert (found.verdict, found.reason) == (Verdict.HOLD, VerdictReason.COUNTING)
    assert found.message == "1 of 3"


# Counted as in lease mode.


def decide(readings, apart=APART, success=1):
    consecutive, outcomes = NO_RESULTS, []
    for number, reading in enumerate(readings):
        at = NOW + number * apart
        outcome = (
            verdict.decide_failure(reading, consecutive)
            if isinstance(reading, Failure)
            else verdict.decide_assessment(
                verdict.assess_paths(reading),
                policy(success=success),
                Preconditions(),
                consecutive,
                at,
                protected=False,
            )
        )
        consecutive = outcome.consecutive
        outcomes.append((outcome.decision.verdict, outcome.decision.reason))
    return outcomes


DOWN = (Verdict.SCALE_DOWN, VerdictReason.EXTERNAL_UNREACHABLE)
UP = (Verdict.SCALE_UP, VerdictReason.EXTERNAL_REACHABLE)
COUNTING = (Verdict.HOLD, VerdictReason.COUNTING)


def fails(reason, of=RequestKind.EXTERNAL):
    return Failure(reason, "something else", of)


AT_TWO_OF_THREE: dict[str, Any] = {
    "a third failure": ([BROKEN], [DOWN]),
    "an answer": ([WELL, BROKEN, BROKEN, BROKEN], [UP, COUNTING, COUNTING, DOWN]),
    "an internal path that is still counted": ([PathReading(counting="1 of 2"), BROKEN], [DOWN]),
    "a 429": ([fails(VerdictReason.THROTTLED), BROKEN], [DOWN]),
    "an internal failure": (
        [fails(VerdictReason.UNREACHABLE, RequestKind.INTERNAL), BROKEN],
        [COUNTING],
    ),
}
"""What comes after two failures in a row, and what that leads to in the end."""


@pytest.mark.parametrize("what", AT_TWO_OF_THREE)
def test_what_becomes_of_two_failures_of_the_external_path(what):
    readings, expected = AT_TWO_OF_THREE[what]
    found = decide([BROKEN, BROKEN, *readings])
    assert found[:2] == [COUNTING, COUNTING]
    assert found[-len(expected) :] == expected


@pytest.mark.parametrize("reason", BREAKS_A_ROW)
def test_what_says_nothing_about_the_path_breaks_the_row(reason):
    assert decide([BROKEN, BROKEN, fails(reason), BROKEN])[-1] == COUNTING


def test_the_success_threshold_holds_without_protection_too():
    assert decide([WELL, WELL], success=2) == [COUNTING, UP]


@given(st.lists(st.sampled_from([WELL, BROKEN, *map(failed, NEITHER)]), max_size=30))
def test_nothing_is_taken_down_without_three_failures_and_nothing_else_but_429_among_them(readings):
    outcomes = decide(readings)
    for number, outcome in enumerate(outcomes):
        if outcome != DOWN:
            continue
        told = [
            each
            for each in readings[: number + 1]
            if not (isinstance(each, Failure) and each.reason is VerdictReason.THROTTLED)
        ]
        assert told[-3:] == [BROKEN] * 3


# Since when it could be known.


def test_an_outage_is_known_when_as_many_failures_as_needed_could_have_been_seen():
    def known_since(direction, count):
        seen = ConsecutiveResults(direction, count, 100.0, 130.0)
        return schedule.known_since(Reading(130.0, 131.0, BROKEN), policy(), seen)

    assert known_since(Direction.DOWN, 3) == 110.0
    assert known_since(Direction.DOWN, 2) is None
    assert known_since(Direction.UP, 3) is None
