"""When to look again, and the contacts between probes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.policy import ProberPolicy
from app.core.model.probing import LeaseState, Reading, Tally
from app.core.model.shoots import NodeReading
from app.prober.rules import candidates, schedule
from app.prober.rules.candidates import counts
from app.prober.rules.leases import Timings
from app.prober.rules.schedule import LONGEST_REST, SAVED, SHARE, ScheduleInputs, TimeBalance
from app.prober.rules.verdict import NO_RESULTS
from tests.prober.rules.facts import GRACE, NOW, counted, judgement, judgements, machine, node

POLICY = ProberPolicy()
EVERY_60_S = ProberPolicy(probe_interval=60.0, jitter=0.0)
T = Timings(GRACE)


def due(policy=POLICY, randomness=0.0, **facts):
    """Seconds from NOW to the next probe."""
    facts = {"now": NOW, "probed_at": NOW, **facts}
    found = schedule.next_probe(ScheduleInputs(**facts), policy, randomness)
    return round(found - NOW, 6)


def test_after_the_interval_with_jitter():
    assert due() == 10
    assert due(randomness=1.0) == 12


def together(at, randomness):
    return schedule.regular(POLICY, at, randomness, 0.25)


def test_within_the_jitter_probes_that_are_due_in_the_same_quarter_of_a_second_begin_together():
    assert {together(at, 0.5) for at in (NOW + 0.01, NOW + 0.24)} == {NOW + 11}


def test_a_probe_never_comes_before_the_interval_to_be_together_with_others():
    assert together(NOW + 0.1, 0.01) == NOW + 0.1 + 10.02


def test_the_interval_counts_from_the_begin_of_the_probe():
    assert due(now=NOW + 3) == 10


# By rule (a).


def limit_at(tally, limit=0.6, known=None):
    found = schedule.limit_reached_at(tally, known, limit)
    return None if found is None else round(found - NOW, 6)


@pytest.mark.parametrize(
    ("tally", "at"),
    [
        pytest.param(counted(10), 35, id="the sixth of those that expire at 30, 31, …"),
        pytest.param(counted(6, 4), 31, id="expired leases count as expired"),
        pytest.param(counted(4, 6), None, id="it is reached already"),
        pytest.param(counted(1, 0, 9), None, id="some never expire by themselves"),
        pytest.param(counted(1), None, id="one"),
        pytest.param(counted(), None, id="none"),
        pytest.param(None, None, id="nothing was read"),
    ],
)
def test_at_the_instant_at_which_f_would_first_reach_the_limit(tally, at):
    assert limit_at(tally) == at
    assert due(EVERY_60_S, tally=counted(10)) == 35


def test_at_least_1_second_after_the_last_probe():
    tally = replace(counted(2), judgements=judgements(2, expires_at=NOW + 0.2 - 1))
    assert due(ProberPolicy(limit=0.5), tally=tally) == 1


def test_leases_known_not_to_be_candidates_are_counted_not_at_all():
    """Two nodes do not count: the eight others reach 60 % with the fifth."""
    leases = judgements(10)
    nodes = tuple(node(each.name, not_managed=n >= 8) for n, each in enumerate(leases))
    machines = tuple(machine(each.name) for each in leases)
    known = candidates.judge_nodes(NodeReading(nodes, machines, NOW), {})
    unread = replace(counted(10, nodes_read=False), judgements=leases)
    assert limit_at(unread) == 35
    assert limit_at(unread, known=known) == 34


def test_a_tally_with_nodes_has_candidates_only():
    known = candidates.judge_nodes(NodeReading((), (), NOW), {})
    assert limit_at(counted(10), known=known) == 35


@given(st.integers(2, 200), st.floats(0.01, 1.0))
def test_the_instant_is_the_one_at_which_the_verdicts_own_comparison_turns(number, limit):
    leases = judgements(number)
    tally = Tally(counts(leases), None, nodes_read=True, judgements=leases)
    at = schedule.limit_reached_at(tally, None, limit)
    assert at is not None
    expired = sum(1 for each in leases if each.expires_at <= at)
    assert expired / number >= limit
    assert (expired - 1) / number < limit


# While leases are learnt.


def learning(*known):
    leases = tuple(
        judgement(f"n{number}", expires_at=NOW + 900)._replace(known_at=at)
        for number, at in enumerate(known)
    )
    return Tally(counts(leases), None, nodes_read=False, judgements=leases)


def test_when_the_first_lease_that_has_not_moved_yet_will_have_been_watched_long_enough():
    tally = learning(None, NOW + 15, NOW + 12)
    assert due(EVERY_60_S, tally=tally) == 12
    assert due(EVERY_60_S, tally=learning(None, None)) == 60


# By rule (b).


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"counting": True}, id="a threshold is being counted"),
        pytest.param({"protected": True}, id="protection is active"),
        pytest.param({"run_in_progress": True}, id="a scaling run is under way"),
        pytest.param({"tally": counted(1, 3)}, id="the limit is reached"),
        pytest.param({"path_fails": True}, id="the external path fails"),
    ],
)
def test_after_suspect_probe_interval_while(facts):
    assert due(**facts) == 5


def test_one_expired_candidate_is_not_suspect():
    assert due(tally=counted(0, 1)) == 10


# By rule (c).


@pytest.mark.parametrize(("failures", "wait"), [(1, 2), (2, 5), (3, 10), (50, 10)])
def test_after_a_failed_probe_2_then_5_then_10_seconds(failures, wait):
    assert due(EVERY_60_S, failures=failures) == wait


def test_the_wait_counts_from_the_end_of_the_failed_probe_and_never_exceeds_the_interval():
    assert due(failures=1, now=NOW + 3) == 5
    assert due(failures=3, now=NOW + 8) == 10


def test_while_a_gap_can_still_be_avoided_it_is_tried_every_second():
    assert due(failures=3, gap_at=NOW + 1.6) == 1
    assert due(failures=3, now=NOW + 4, gap_at=NOW + 5.6) == 5
    assert due(failures=3, gap_at=NOW + 1.5) == 10
    assert due(gap_at=NOW + 1.6) == 10


# 429


@pytest.mark.parametrize(
    ("failures", "retry_after", "wait"),
    [(1, 0.0, 2), (2, 0.0, 5), (3, 0.0, 10), (1, 7.0, 7), (2, 1.0, 5), (1, 600.0, 60)],
)
def test_after_a_429_not_before_its_retry_after_and_at_most_60_seconds(failures, retry_after, wait):
    assert due(failures=failures, retry_after=retry_after) == wait


# By rule (d).


def test_at_once_when_initial_delay_ends():
    assert due(initial_delay_ends=NOW + 4) == 4
    assert due(initial_delay_ends=NOW - 4, now=NOW + 1) == 1


# Properties.

SITUATIONS = st.builds(
    ScheduleInputs,
    now=st.floats(NOW, NOW + 8),
    probed_at=st.just(NOW),
    failures=st.integers(0, 5),
    retry_after=st.none() | st.floats(0, 100),
    tally=st.none() | st.builds(counted, *[st.integers(0, 9)] * 3),
    counting=st.booleans(),
    protected=st.booleans(),
    run_in_progress=st.booleans(),
    initial_delay_ends=st.none() | st.floats(NOW, NOW + 90),
)


@given(SITUATIONS, st.floats(1, 60), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1))
def test_never_later_than_the_interval_with_jitter_and_never_earlier_than_a_429_allows(
    inputs, interval, jitter, randomness, limit
):
    policy = ProberPolicy(
        probe_interval=interval, jitter=jitter, suspect_interval=min(5.0, interval), limit=limit
    )
    found = schedule.next_probe(inputs, policy, randomness)
    if inputs.retry_after is None:
        assert found <= NOW + interval * (1 + jitter)
    else:
        assert found >= inputs.now + min(inputs.retry_after, 60)
        assert found >= inputs.now + 2
        assert found <= inputs.now + 60
    assert found > NOW or found >= inputs.now


# Known since, contacts.


@pytest.mark.parametrize(
    ("leases", "limit", "known"),
    [
        (counted(4, 6), 0.6, NOW),
        (counted(4, 6), 0.5, NOW - 1),
        (counted(5, 5), 0.6, None),
        (counted(4, 0), 0.6, None),
    ],
)
def test_known_since_is_when_the_lease_that_reaches_the_limit_expired(leases, limit, known):
    policy = ProberPolicy("kubeconfig", (), limit=limit)
    assert schedule.known_since(Reading(NOW, NOW, leases), policy, NO_RESULTS) == known


def test_contact_is_made_every_10_seconds_if_the_next_probe_is_more_than_12_away():
    assert schedule.next_contact(NOW, NOW + 12, T) is None
    assert schedule.next_contact(NOW, NOW + 12.1, T) == NOW + 10


@given(st.floats(0.1, 120), st.floats(10, 100))
def test_no_absence_goes_unnoticed_for_longer_than_the_gap(wait, grace):
    timings, at = Timings(grace), NOW
    while (contact := schedule.next_contact(at, NOW + wait, timings)) is not None:
        assert at < contact < NOW + wait
        assert contact - at < timings.gap
        at = contact
    assert NOW + wait - at < timings.gap


def test_a_lease_that_is_unknown_counts_at_the_instant_at_which_it_would_be_expired():
    leases = (
        judgement("a", LeaseState.UNKNOWN, expires_at=NOW + 15),
        judgement("b", expires_at=NOW + 30),
    )
    tally = Tally(counts(leases), None, nodes_read=True, judgements=leases)
    assert limit_at(tally, 0.5) == 15


# Endpoint mode: looks while the external path fails, and the back-off of the internal one.


def test_after_a_failure_of_the_internal_path_only_the_backoff_counts():
    facts = {"failures": 1, "counting": True, "protected": True, "initial_delay_ends": NOW + 1}
    assert due(backoff=30.0, **facts) == 30


def test_a_backoff_of_0_is_a_second():
    assert due(backoff=0.0, failures=1) == 1


# By rest (threats T11).


def test_not_before_a_shoot_that_has_used_up_its_share_of_time_has_rested():
    assert due(rests_until=NOW + 40) == 40
    assert due(failures=3, rests_until=NOW + 40) == 40
    assert due(failures=1, retry_after=5.0, rests_until=NOW + 40) == 40
    assert due(failures=1, backoff=30.0, rests_until=NOW + 40) == 40


def test_a_rest_that_is_over_brings_no_probe_forward_and_puts_none_off():
    assert due(rests_until=NOW + 5) == 10
    assert due(rests_until=NOW - 5) == 10


# What share of the event loop's time the probes of one shoot may take.


FULL = TimeBalance(NOW)


def test_whoever_takes_less_than_was_saved_up_never_rests():
    assert FULL.after(SAVED, NOW).rests_until == NOW


def test_what_was_taken_beyond_that_is_earned_first():
    assert FULL.after(SAVED + 0.5, NOW).rests_until == NOW + 0.5 / SHARE


def test_a_twentieth_of_the_time_may_be_taken_for_ever():
    balance = FULL.after(SAVED, NOW)
    for second in range(1, 1000):
        balance = balance.after(SHARE, NOW + second)
        assert balance.rests_until <= NOW + second + 1e-6


def test_no_more_is_saved_up_than_a_minute_of_quiet_earns():
    assert FULL.after(0.0, NOW + 3600).seconds == SAVED == SHARE * 60


def test_the_longest_rest_is_five_minutes_whatever_was_taken():
    assert FULL.after(10_000.0, NOW).rests_until == NOW + LONGEST_REST == NOW + 300


def test_it_is_restored_when_half_of_what_can_be_saved_up_is_there():
    short = FULL.after(SAVED, NOW)
    assert not short.restored
    assert not short.after(0.0, NOW + 29).restored
    assert short.after(0.0, NOW + 31).restored


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 100)), min_size=1))
def test_over_time_no_more_than_the_share_is_taken_but_for_what_was_saved_and_the_longest_rest(
    probes,
):
    balance, now, taken = FULL, NOW, 0.0
    for spent, wait in probes:
        now = max(now, balance.rests_until) + wait
        most = min(spent, LONGEST_REST * SHARE)
        balance = balance.after(most, now)
        taken += most
    until = max(now, balance.rests_until)
    assert taken <= SAVED + (until - NOW) * SHARE + 1e-6
