"""SCALE UP, SCALE DOWN or HOLD: the table of rules 4.1, the counts, the gates, and the message."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model import overrides
from app.core.model.instants import rfc3339
from app.core.model.overrides import EffectiveOverrides, Hold, Pause, Scope
from app.core.model.policy import ProberPolicy
from app.core.model.probing import (
    Decision,
    Exclusion,
    Failure,
    Judgement,
    LeaseCounts,
    LeaseState,
    PathReading,
    Reading,
    RequestKind,
    Verdict,
    VerdictReason,
)
from app.core.model.workloads import Direction
from app.prober.rules import scaling, verdict
from app.prober.rules.candidates import pool_conditions
from app.prober.rules.leases import Timings
from app.prober.rules.lifecycle import ProbedShoot
from tests.prober.rules.facts import GRACE, NOW, counted, pending, protected, workload

UP, DOWN, HOLD = Verdict.SCALE_UP, Verdict.SCALE_DOWN, Verdict.HOLD
WANTS_UP = Decision(UP, VerdictReason.LEASES_RENEWED, "all good", UP)
WANTS_DOWN = Decision(DOWN, VerdictReason.LEASES_EXPIRED, "all bad", DOWN)
WANTS_NOTHING = Decision(HOLD, VerdictReason.UNKNOWN_LEASES, "not sure", HOLD)


def asks(*counts, limit=0.6, protected=False, **more):
    found = verdict.assess(counted(*counts, **more), limit, protected=protected)
    return found.verdict, found.reason


RENEWED, SOME_LATE = (UP, VerdictReason.LEASES_RENEWED), (UP, VerdictReason.SOME_LEASES_EXPIRED)
LATE, UNKNOWN = (DOWN, VerdictReason.LEASES_EXPIRED), (HOLD, VerdictReason.UNKNOWN_LEASES)
NO_CANDIDATES = (HOLD, VerdictReason.NO_CANDIDATES)
ONE_CANDIDATE = (HOLD, VerdictReason.ONE_CANDIDATE)
FEW_CANDIDATES = (HOLD, VerdictReason.FEW_CANDIDATES)
TABLE: dict[str, Any] = {
    "all are fresh": ((10,), {}, RENEWED),
    "one is unknown": ((9, 0, 1), {}, RENEWED),
    "a single one that is expired is a reason of its own": ((9, 1), {}, SOME_LATE),
    "59 % are below the limit": ((41, 59), {}, SOME_LATE),
    "60 % reach it": ((40, 60), {}, LATE),
    "a limit of 1 needs all": ((1, 9), {"limit": 1.0}, SOME_LATE),
    "and has all": ((0, 10), {"limit": 1.0}, LATE),
    "two candidates are enough": ((0, 2), {}, LATE),
    "one of two is not": ((1, 1), {}, SOME_LATE),
    "of two one is unknown": ((0, 1, 1), {}, UNKNOWN),
    "one that is unknown could decide": ((40, 59, 1), {}, UNKNOWN),
    "all are unknown": ((0, 0, 5), {}, UNKNOWN),
    "those that are unknown could not reach the limit": ((50, 40, 10), {}, SOME_LATE),
    "those that are unknown could not undo it": ((20, 60, 20), {}, LATE),
    # at most one candidate without protection: up if fresh, and never down
    "none": ((0,), {}, NO_CANDIDATES),
    "one, fresh": ((1,), {}, RENEWED),
    "one, expired": ((0, 1), {}, ONE_CANDIDATE),
    "one, unknown": ((0, 0, 1), {}, ONE_CANDIDATE),
    # at most one candidate under protection: nodes with a machine decide
    "one, and those with a machine are fresh": ((1,), {"machines": (5, 0, 0)}, RENEWED),
    "one, and most with a machine are fresh": ((0, 1), {"machines": (5, 2, 0)}, SOME_LATE),
    "none, and 60 % with a machine are expired": ((0,), {"machines": (5, 3, 0)}, NO_CANDIDATES),
    "none, and 60 % may be": ((0,), {"machines": (5, 1, 2)}, NO_CANDIDATES),
    "one, and 60 % with a machine are expired": ((1,), {"machines": (5, 3, 0)}, ONE_CANDIDATE),
    "one, and nobody knows the machines": ((1,), {"machines": None}, ONE_CANDIDATE),
    "there are no nodes": ((0,), {"machines": (0, 0, 0)}, (UP, VerdictReason.NO_NODES)),
    "none seen before Nodes were read": (
        (0,),
        {"machines": (0, 0, 0), "nodes_read": False},
        NO_CANDIDATES,
    ),
    # few candidates under protection: nodes with a machine have to agree
    "few, and 60 % with a machine are expired": ((4,), {"machines": (10, 6, 0)}, FEW_CANDIDATES),
    "few, and 60 % may be": ((4,), {"machines": (10, 5, 1)}, FEW_CANDIDATES),
    "few, and nobody knows the machines": ((4,), {"machines": None}, FEW_CANDIDATES),
    "few, and they agree": ((4,), {"machines": (10, 5, 0)}, RENEWED),
    "half of those with a machine are not few": ((5,), {"machines": (10, 6, 0)}, RENEWED),
    "without protection few are enough": (
        (4,),
        {"machines": (10, 6, 0), "protected": False},
        RENEWED,
    ),
}
"""By (fresh, expired, unknown) leases; with `machines`, unless they say otherwise, under protection."""


@pytest.mark.parametrize("leases", TABLE)
def test_what_the_leases_ask_for(leases):
    counts, options, expected = TABLE[leases]
    assert asks(*counts, **{"protected": "machines" in options} | options) == expected


# Counts and thresholds.


def decide(
    assessed,
    consecutive=verdict.NO_RESULTS,
    gates=None,
    now=NOW,
    failure=1,
    success=3,
    protected=False,
    **more,
):
    policy = ProberPolicy(failure_threshold=failure, success_threshold=success)
    more["protected"] = protected
    return verdict.decide_assessment(
        assessed, policy, gates or verdict.Preconditions(), consecutive, now, **more
    )


def probes(assessed, times, consecutive=verdict.NO_RESULTS, **more):
    """What each probe at NOW + t led to."""
    found = []
    for at in times:
        outcome = decide(assessed, consecutive, now=NOW + at, **more)
        consecutive = outcome.consecutive
        found.append((outcome.decision.verdict, outcome.decision.reason))
    return found


def test_a_probe_that_counts_towards_a_threshold_not_yet_reached_is_counting():
    decision = decide(WANTS_UP, protected=True).decision
    assert (decision.reason, decision.would_be) == (VerdictReason.COUNTING, UP)
    assert decision.message == "all good; 1 of 3 probes in a row"


def test_probes_that_count_are_at_least_suspect_probe_interval_apart():
    found = probes(WANTS_UP, [0, 1, 2, 5, 9, 10], protected=True)
    assert [v for v, _ in found] == [HOLD] * 5 + [UP]


def test_a_failure_threshold_of_two_needs_two_bad_probes():
    assert [v for v, _ in probes(WANTS_DOWN, [0, 5], failure=2)] == [HOLD, DOWN]


def test_a_hold_of_the_leases_sets_counts_to_0():
    found = decide(WANTS_NOTHING, verdict.ConsecutiveResults(Direction.UP, 2, NOW, NOW))
    assert found.consecutive == verdict.NO_RESULTS
    assert found.decision == Decision(HOLD, VerdictReason.UNKNOWN_LEASES, "not sure", HOLD)


def test_a_protection_that_is_not_the_first_needs_its_good_probes_to_last():
    again = {"protected": True, "begins": (NOW - 600, NOW - 60)}
    found = probes(WANTS_UP, [0, 5, 10, 29.9, 30], **again)
    assert [v for v, _ in found] == [HOLD] * 4 + [UP]
    outcome = decide(
        WANTS_UP, verdict.ConsecutiveResults(Direction.UP, 2, NOW - 10, NOW - 5), **again
    )
    assert "good for 10 s of 30 s" in outcome.decision.message


def test_flapping_holds_nothing_back_without_protection():
    assert probes(WANTS_UP, [0], begins=(NOW - 600, NOW - 60))[0][0] is UP


# Clearance.

LATER = NOW + 600
WIDE = Pause(Scope.ALL, "upgrade of the network", "alice", NOW - 60, LATER)
NARROW = replace(WIDE, scope=Scope.SCALE_DOWN)
HELD = Hold("tests", "bob", NOW - 60, LATER, Direction.DOWN, "uid-1")


def people(
    pause: Pause | None = None, global_pause: Pause | None = None, hold: Hold | None = None
) -> EffectiveOverrides:
    """What people decided about a shoot."""
    pauses = [each for each in (pause, global_pause) if each is not None]
    return EffectiveOverrides(pause, global_pause, hold, overrides.ordered(pauses, NOW))


CLOSED = [
    (verdict.Preconditions(synced=False), VerdictReason.NOT_SYNCED, False),
    (verdict.Preconditions(effective=people(pause=WIDE)), VerdictReason.PAUSED, True),
    (verdict.Preconditions(effective=people(global_pause=WIDE)), VerdictReason.PAUSED, True),
    (verdict.Preconditions(effective=people(hold=HELD)), VerdictReason.HELD, True),
    (verdict.Preconditions(leading=False), VerdictReason.NOT_LEADER, True),
    (verdict.Preconditions(initial_delay_over=False), VerdictReason.INITIAL_DELAY, True),
]


@pytest.mark.parametrize(("gates", "reason", "keeps"), CLOSED)
@pytest.mark.parametrize("assessed", [WANTS_UP, WANTS_DOWN])
def test_a_closed_gate_holds_with_its_reason_and_shows_what_it_would_have_been(
    gates, reason, keeps, assessed
):
    consecutive = verdict.ConsecutiveResults(assessed.verdict.direction, 2, NOW - 10, NOW - 5)
    outcome = decide(assessed, consecutive, gates=gates)
    found = outcome.decision
    assert (found.verdict, found.reason, found.would_be) == (HOLD, reason, assessed.verdict)
    assert found.message.startswith(f"{assessed.message}; not scaled: ")
    assert outcome.consecutive == (consecutive if keeps else verdict.NO_RESULTS)


@pytest.mark.parametrize("effective", [people(pause=NARROW), people(global_pause=NARROW)])
def test_a_pause_of_scaling_down_holds_back_nothing_else(effective):
    gates = verdict.Preconditions(effective=effective)
    assert decide(WANTS_UP, verdict.NO_RESULTS, gates=gates).decision.verdict is UP
    held = decide(WANTS_DOWN, verdict.NO_RESULTS, gates=gates).decision
    assert (held.verdict, held.reason, held.would_be) == (HOLD, VerdictReason.PAUSED, DOWN)


def test_a_wide_pause_of_all_shoots_counts_where_the_shoots_own_is_narrow():
    gates = verdict.Preconditions(effective=people(pause=NARROW, global_pause=WIDE))
    assert decide(WANTS_UP, verdict.NO_RESULTS, gates=gates).decision.reason is VerdictReason.PAUSED


def test_what_people_decided_is_said_with_its_author_its_end_and_its_reason():
    for gates in (
        verdict.Preconditions(effective=people(pause=WIDE)),
        verdict.Preconditions(effective=people(hold=HELD)),
    ):
        text = decide(WANTS_UP, verdict.NO_RESULTS, gates=gates).decision.message
        override = gates.effective.pause or gates.effective.hold
        assert override is not None
        for part in (override.author, override.reason, rfc3339(LATER)):
            assert part in text


def test_the_first_thing_that_holds_back_is_the_one_that_is_said():
    everything = verdict.Preconditions(
        synced=False,
        effective=people(pause=WIDE, hold=HELD),
        initial_delay_over=False,
        leading=False,
    )
    found = []
    for opened in (
        {"synced": True},
        {"effective": people(pause=WIDE)},
        {"effective": EffectiveOverrides()},
    ):
        found.append(decide(WANTS_DOWN, verdict.NO_RESULTS, gates=everything).decision.reason)
        everything = replace(everything, **opened)
    last = decide(WANTS_DOWN, verdict.NO_RESULTS, gates=everything).decision
    found.append(last.reason)
    assert last.message == "all bad; not scaled: initialDelay is not over"
    assert found == [
        VerdictReason.NOT_SYNCED,
        VerdictReason.HELD,
        VerdictReason.PAUSED,
        VerdictReason.INITIAL_DELAY,
    ]


@pytest.mark.parametrize(
    "gates",
    [verdict.Preconditions(effective=people(pause=WIDE)), verdict.Preconditions(leading=False)],
)
def test_a_probe_of_the_other_direction_sets_counts_to_0_also_where_it_is_held_back(gates):
    consecutive = verdict.ConsecutiveResults(Direction.UP, 2, NOW - 10, NOW - 5)
    assert decide(WANTS_DOWN, consecutive, gates=gates).consecutive == verdict.NO_RESULTS
    assert decide(WANTS_UP, consecutive, gates=gates).consecutive == consecutive


def test_what_was_decided_is_held_back_by_what_came_in_between():
    decided = decide(WANTS_DOWN)
    assert decided.decision.verdict is DOWN
    assert verdict.recheck_preconditions(decided, verdict.Preconditions()) == decided
    for gates, reason, keeps in CLOSED:
        held = verdict.recheck_preconditions(decided, gates)
        found = held.decision
        assert (found.verdict, found.reason, found.would_be) == (HOLD, reason, DOWN)
        assert found.message.startswith("all bad; not scaled: ")
        assert held.consecutive == (decided.consecutive if keeps else verdict.NO_RESULTS)


def test_a_hold_stays_the_hold_that_it_is_whatever_comes_in_between():
    outcome = decide(WANTS_NOTHING)
    assert (
        verdict.recheck_preconditions(outcome, verdict.Preconditions(effective=people(pause=WIDE)))
        == outcome
    )


# What keeps back a scale-down alone: ignore-scaling of every dependent that is up, and a closed gate.

IGNORED = verdict.Preconditions(ignored=True)
GATED = verdict.Preconditions(closed_by="the canary fails at all 2 targets")
KEPT = pytest.mark.parametrize(
    ("gates", "reason", "why"),
    [
        (IGNORED, VerdictReason.IGNORED, "every dependent that is up has ignore-scaling"),
        (GATED, VerdictReason.GATED, "the canary fails at all 2 targets"),
    ],
)


@KEPT
def test_what_keeps_back_a_scale_down_is_said_and_keeps_back_no_scale_up(gates, reason, why):
    held = decide(WANTS_DOWN, gates=gates).decision
    assert held == Decision(HOLD, reason, f"all bad; not scaled: {why}", DOWN)
    assert decide(WANTS_UP, gates=gates).decision.verdict is UP


@KEPT
def test_it_is_said_only_where_nothing_else_is_in_the_way(gates, reason, why):
    for others, first in (
        (replace(gates, effective=people(pause=WIDE)), VerdictReason.PAUSED),
        (replace(gates, closed_by="the canary fails"), VerdictReason.GATED),
        (replace(gates, leading=False), VerdictReason.NOT_LEADER),
        (replace(gates, synced=False), VerdictReason.NOT_SYNCED),
        (replace(gates, initial_delay_over=False), VerdictReason.INITIAL_DELAY),
    ):
        assert decide(WANTS_DOWN, gates=others).decision.reason is first
    counting = decide(WANTS_DOWN, failure=2, gates=gates)
    assert counting.decision.reason is VerdictReason.COUNTING


@KEPT
def test_probes_count_meanwhile_so_that_its_end_is_acted_on_at_once(gates, reason, why):
    first = decide(WANTS_DOWN, failure=2, gates=gates)
    second = decide(WANTS_DOWN, first.consecutive, gates, NOW + 5, failure=2)
    assert second.decision.reason is reason
    third = decide(WANTS_DOWN, second.consecutive, now=NOW + 6, failure=2)
    assert third.decision.verdict is DOWN


@KEPT
def test_what_came_in_between_is_heeded_and_keeps_the_counts(gates, reason, why):
    held = verdict.recheck_preconditions(decide(WANTS_DOWN), gates)
    assert (held.decision.reason, held.decision.would_be) == (reason, DOWN)
    assert held.consecutive == verdict.ConsecutiveResults(Direction.DOWN, 1, NOW, NOW)
    assert verdict.recheck_preconditions(decide(WANTS_UP), gates) == decide(WANTS_UP)


# What people alone keep back.


@pytest.mark.parametrize(
    ("gates", "reason"),
    [
        (verdict.Preconditions(effective=people(pause=NARROW)), VerdictReason.PAUSED),
        (verdict.Preconditions(effective=people(global_pause=WIDE)), VerdictReason.PAUSED),
        (verdict.Preconditions(effective=people(hold=HELD)), VerdictReason.HELD),
        (
            verdict.Preconditions(effective=people(hold=HELD, pause=WIDE), ignored=True),
            VerdictReason.HELD,
        ),
        (IGNORED, VerdictReason.IGNORED),
    ],
)
def test_people_keep_a_scale_down_back_where_nothing_else_does(gates, reason):
    found = verdict.blocking_override(gates)
    assert found is not None
    assert found[0] is reason
    assert found[1].startswith("not scaled: ")
    for also in (
        {"synced": False},
        {"initial_delay_over": False},
        {"leading": False},
        {"closed_by": "the canary fails"},
    ):
        assert verdict.blocking_override(replace(gates, **also)) is None


@pytest.mark.parametrize("gates", [verdict.Preconditions(), verdict.Preconditions(leading=False)])
def test_nobody_keeps_anything_back_who_decided_nothing(gates):
    assert verdict.blocking_override(gates) is None


def test_a_probe_that_does_not_count_adds_nothing_and_ends_the_other_direction():
    before = verdict.ConsecutiveResults(Direction.UP, 3, NOW - 20, NOW - 2)
    turned = decide(WANTS_DOWN, before, counts=False)
    assert turned.decision.reason is VerdictReason.COUNTING
    assert turned.consecutive.count == 0
    assert decide(WANTS_DOWN, turned.consecutive, now=NOW + 1).decision.verdict is DOWN
    same = decide(WANTS_UP, before, protected=True, counts=False)
    assert (same.decision.verdict, same.consecutive) == (UP, before)


# Failures and confirmation.


@pytest.mark.parametrize("reason", VerdictReason)
def test_a_failed_probe_holds_and_sets_counts_to_0_unless_it_was_a_429(reason):
    consecutive = verdict.ConsecutiveResults(Direction.UP, 2, NOW, NOW)
    outcome = verdict.decide_failure(Failure(reason, "so"), consecutive)
    kept = {
        VerdictReason.THROTTLED,
        VerdictReason.INITIAL_DELAY,
        VerdictReason.NOT_LEADER,
        VerdictReason.PAUSED,
        VerdictReason.HELD,
        VerdictReason.IGNORED,
        VerdictReason.GATED,
    }
    assert outcome.decision == Decision(HOLD, reason, "so", HOLD)
    assert outcome.consecutive == (consecutive if reason in kept else verdict.NO_RESULTS)


def test_a_second_reading_that_does_not_agree_holds_and_sets_counts_to_0():
    first = Decision(DOWN, VerdictReason.LEASES_EXPIRED, "all bad", DOWN)
    outcome = verdict.unconfirmed(WANTS_UP, first)
    assert (outcome.decision.verdict, outcome.decision.reason) == (
        HOLD,
        VerdictReason.NOT_CONFIRMED,
    )
    assert outcome.decision.would_be is DOWN
    assert "all bad" in outcome.decision.message
    assert "all good" in outcome.decision.message
    assert outcome.consecutive == verdict.NO_RESULTS


# Properties.

COUNTS = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
LIMITS = st.sampled_from([0.01, 0.25, 0.3, 0.5, 0.6, 0.75, 1.0])
MACHINES = st.none() | st.tuples(st.integers(0, 30), st.integers(0, 5), st.integers(0, 5)).filter(
    lambda n: n[1] + n[2] <= n[0]
)
ORDER = {UP: 0, HOLD: 1, DOWN: 2}


@given(COUNTS, LIMITS, st.booleans(), MACHINES)
def test_more_expired_leases_never_turn_down_into_up(counts, limit, protected, machines):
    fresh, expired, unknown = counts
    before = asks(*counts, limit=limit, protected=protected, machines=machines)[0]
    for worse in ((fresh - 1, expired + 1, unknown), (fresh, expired + 1, unknown - 1)):
        if min(worse) >= 0:
            after = asks(*worse, limit=limit, protected=protected, machines=machines)[0]
            assert ORDER[after] >= ORDER[before]
    added = asks(fresh, expired + 1, unknown, limit=limit, protected=protected, machines=machines)
    if before is DOWN:
        assert added[0] is DOWN


@given(COUNTS, LIMITS, st.booleans(), MACHINES)
def test_the_verdict_is_what_the_table_says(counts, limit, protected, machines):
    fresh, expired, unknown = counts
    total = sum(counts)
    found = asks(*counts, limit=limit, protected=protected, machines=machines)[0]
    effective = LeaseCounts(*(machines or (0, 0, 0)))
    agrees = machines is not None and effective.doubtful_fraction < limit
    if total <= 1 and not protected:
        expected = UP if fresh else HOLD
    elif total <= 1:
        expected = UP if agrees else HOLD
    elif expired / total >= limit:
        expected = DOWN
    elif (expired + unknown) / total >= limit:
        expected = HOLD
    elif protected and (machines is None or total < effective.total / 2):
        expected = UP if agrees else HOLD
    else:
        expected = UP
    assert found is expected


@given(
    st.sampled_from([WANTS_UP, WANTS_DOWN, WANTS_NOTHING]),
    st.builds(
        verdict.Preconditions,
        st.booleans(),
        st.builds(
            people,
            st.none() | st.sampled_from([WIDE, NARROW]),
            st.none() | st.sampled_from([WIDE, NARROW]),
            st.none() | st.just(HELD),
        ),
        st.booleans(),
        st.booleans(),
    ),
    st.fixed_dictionaries(
        {
            "failure": st.integers(1, 4),
            "success": st.integers(1, 4),
            "protected": st.booleans(),
            "begins": st.lists(st.floats(-3000, 0), max_size=4).map(
                lambda ago: sorted(NOW + a for a in ago)
            ),
        }
    ),
    st.lists(st.floats(0.1, 30), min_size=1, max_size=8),
)
def test_no_hold_ever_scales_and_each_has_a_reason(assessed, gates, needs, gaps):
    consecutive, now = verdict.NO_RESULTS, NOW
    for gap in gaps:
        now += gap
        outcome = decide(assessed, consecutive, gates, now, **needs)
        consecutive, found = outcome.consecutive, outcome.decision
        if found.verdict is HOLD:
            assert found.verdict.direction is None
            assert found.reason not in {
                VerdictReason.LEASES_RENEWED,
                VerdictReason.SOME_LEASES_EXPIRED,
                VerdictReason.LEASES_EXPIRED,
            }
        else:
            assert found.verdict is assessed.verdict is found.would_be
            wanted = found.verdict.direction
            assert wanted is not None
            assert replace(gates, effective=EffectiveOverrides()) == verdict.Preconditions()
            assert gates.effective.hold is None
            assert gates.effective.pause_against(wanted) is None


# The message.


def told(tally, limit=0.6):
    return verdict.explain(tally, limit, 30.0)


def aged(*ages, state=LeaseState.EXPIRED):
    return tuple(
        Judgement(f"node-{n}", state, NOW - age, 0.0, age, late=True, expires_at=None)
        for n, age in enumerate(ages)
    )


BEHIND = aged(40, 70)[1]._replace(offset=25.0)
APART = "2 of 2 node leases are older than 30 s (limit 60%); their last renewals lie "
NONE_LATE = "0 of 2 node leases are older than 30 s (limit 60%)"
FIVE = "fresh-0, fresh-1, fresh-2, fresh-3, fresh-4"
MESSAGES: dict[str, Any] = {
    "those that end close together": (
        replace(counted(0, 3), judgements=aged(40, 45, 49)),
        "3 of 3 node leases are older than 30 s (limit 60%); their last renewals lie all within 9 s",
    ),
    "within a minute": (
        replace(counted(0, 2), judgements=aged(40, 99.4)),
        f"{APART}all within 59 s",
    ),
    "a minute apart": (replace(counted(0, 2), judgements=aged(40, 100)), f"{APART}over 60 s"),
    "two minutes apart": (replace(counted(0, 2), judgements=aged(40, 160)), f"{APART}over 2 min"),
    "scattered": (replace(counted(0, 2), judgements=aged(40, 880)), f"{APART}over 14 min"),
    "clocks of nodes are corrected, and what is fresh is left out": (
        replace(counted(0, 2), judgements=(*aged(40), BEHIND, *aged(1, state=LeaseState.FRESH))),
        f"{APART}all within 5 s; still fresh: node-0",
    ),
    "of one nothing lies apart": (
        counted(1, 1),
        "1 of 2 node leases are older than 30 s (limit 60%); still fresh: fresh-0",
    ),
    "all that are fresh": (counted(2, 0), NONE_LATE),
    "one, late": (counted(0, 1), "1 of 1 node lease is older than 30 s (limit 60%)"),
    "none": (counted(), "there is no node lease that counts"),
    "what is not known and what does not count": (
        replace(counted(1, 0, 1), excluded={Exclusion.NO_NODE: 2, Exclusion.NOT_MANAGED: 1}),
        (
            f"{NONE_LATE}, 1 not known yet (3 more do not count: 2 NoNode, 1 NotManaged)"
            "; still fresh: fresh-0"
        ),
    ),
}


@pytest.mark.parametrize("leases", MESSAGES)
def test_the_message_of_a_verdict(leases):
    tally, message = MESSAGES[leases]
    assert told(tally) == message


@pytest.mark.parametrize(("fresh", "named"), [(5, FIVE), (7, f"{FIVE} and 2 more")])
def test_the_message_names_nodes_that_are_still_fresh_but_not_too_many(fresh, named):
    assert told(counted(fresh, 2)).endswith(f"; still fresh: {named}")


# How often in a row, and for how long.


@pytest.mark.parametrize(
    ("k", "span"), [(0, 0), (1, 0), (2, 30), (3, 60), (4, 120), (5, 240), (6, 300), (50, 300)]
)
def test_at_the_kth_protection_within_an_hour_good_probes_must_span(k, span):
    assert verdict.flapping_span([NOW + 10 * n for n in range(k)]) == span


def test_an_hour_is_counted_from_begin_to_begin():
    assert verdict.flapping_span([NOW, NOW + 3600]) == 30
    assert verdict.flapping_span([NOW, NOW + 3601]) == 0


def test_what_is_over_an_hour_ago_is_forgotten_when_another_protection_begins():
    assert verdict.began((NOW, NOW + 3600), NOW + 3601) == (NOW + 3600, NOW + 3601)


@given(st.lists(st.floats(0, 4000), min_size=1, max_size=300))
def test_the_memory_of_begins_is_bounded_by_the_hour_and_the_span_by_5_minutes(gaps):
    now = NOW
    begins: tuple[float, ...] = ()
    for gap in gaps:
        now += gap
        begins = verdict.began(begins, now)
        assert all(now - begin <= 3600 for begin in begins)
        assert 0 <= verdict.flapping_span(begins) <= 300


# What a live read of stale facts makes of a decision, and the plan that goes with it.


JUDGED = ProbedShoot("shoot--a--b", Timings(GRACE), pool_conditions(()))
CHANGED = ProbedShoot("shoot--a--b", Timings(2 * GRACE), pool_conditions(()))
STALE = Failure(VerdictReason.SEED_STALE, "reading live failed", RequestKind.LEASE)


NOTHING = scaling.pending_writes([], {}, NOW)


def checked(decided, judged, found, known=NOTHING):
    return verdict.after_live_read(decided, judged, found, known)


def outcome(asked):
    return verdict.VerdictOutcome(
        Decision(asked, VerdictReason.LEASES_EXPIRED, "60 % expired", asked), verdict.NO_RESULTS
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


def test_a_decision_goes_with_the_plan_of_its_direction_as_of_now():
    up, taken_down = pending(workload(1)), pending(protected())
    found = checked(outcome(Verdict.SCALE_DOWN), JUDGED, JUDGED, up)
    assert found.plan == up.plans[Direction.DOWN]
    assert found.writes
    assert not checked(found, JUDGED, JUDGED, taken_down).writes
    assert checked(outcome(Verdict.SCALE_UP), JUDGED, JUDGED, taken_down).writes


def test_a_decision_that_is_held_has_no_plan():
    found = checked(outcome(Verdict.SCALE_DOWN), JUDGED, JUDGED, pending(workload(1)))
    assert verdict.recheck_preconditions(found, verdict.Preconditions(leading=False)).plan == ()
    assert checked(found, JUDGED, STALE, pending(workload(1))).plan == ()


# The whole way of a probe: decided, and confirmed by a second reading.


def read(*counts, at=NOW):
    return Reading(at, at + 1, counted(*counts))


def knowing(view, **changes):
    """What is known of a shoot with one dependent besides the reading."""
    facts = {"protected": False, "begins": (), "consecutive": verdict.NO_RESULTS, **changes}
    facts.setdefault("preconditions", verdict.Preconditions())
    policy = ProberPolicy("kubeconfig", ())
    return verdict.DecisionInputs(policy=policy, shoot=JUDGED, pending=pending(view), **facts)


def test_a_scale_down_that_would_write_has_to_be_confirmed_and_one_that_would_not_has_not():
    decided = verdict.decide(read(4, 6), knowing(workload(1)))
    assert decided.decision.verdict is DOWN
    assert decided.decision.message.startswith("6 of 10 node leases are older than 30 s")
    assert verdict.needs_confirmation(decided, read(4, 6))
    done = verdict.decide(read(4, 6), knowing(protected(), protected=True))
    assert not verdict.needs_confirmation(done, read(4, 6))
    assert not verdict.needs_confirmation(verdict.decide(read(10), knowing(workload(0))), read(10))


def test_in_endpoint_mode_every_scale_down_has_to_be_confirmed():
    by_paths = Reading(NOW, NOW + 1, PathReading(Failure(VerdictReason.UNREACHABLE, "no answer")))
    decided = verdict.decide(by_paths, knowing(protected()))
    assert decided.decision.verdict is DOWN
    assert not decided.writes
    assert verdict.needs_confirmation(decided, by_paths)
    known = knowing(workload(1))
    assert not verdict.after_second_reading(decided, by_paths, known).writes, (
        "nothing was read live"
    )


def test_a_second_reading_that_agrees_is_what_the_decision_says_with_the_plan_as_of_then():
    decided = verdict.decide(read(4, 6), knowing(workload(1)))
    agreed = verdict.after_second_reading(decided, read(2, 8), knowing(workload(3)))
    assert agreed.decision.verdict is DOWN
    assert agreed.decision.message.startswith("8 of 10")
    assert agreed.plan == pending(workload(3)).plans[Direction.DOWN]
    assert agreed.consecutive == decided.consecutive


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (read(5, 5), VerdictReason.NOT_CONFIRMED),
        (Reading(NOW, NOW, STALE), VerdictReason.SEED_STALE),
    ],
)
def test_one_that_does_not_agree_or_fails_is_a_hold_without_a_plan(second, reason):
    decided = verdict.decide(read(4, 6), knowing(workload(1)))
    held = verdict.after_second_reading(decided, second, knowing(workload(1)))
    assert (held.decision.verdict, held.decision.reason, held.plan) == (HOLD, reason, ())


def test_a_probe_that_failed_is_decided_on_without_a_plan():
    held = verdict.decide(Reading(NOW, NOW, STALE), knowing(workload(1)))
    assert (held.decision.verdict, held.decision.reason) == (HOLD, VerdictReason.SEED_STALE)
    assert held.plan == ()
