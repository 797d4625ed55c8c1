"""A reading, counted; and when Nodes are read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model.probing import Exclusion, LeaseCounts, LeaseState, Verdict
from app.core.model.shoots import NodeReading
from app.prober.rules import candidates
from app.prober.rules.candidates import ExclusionMemory
from app.prober.rules.verdict import assess
from tests.prober.rules.facts import (
    NOW,
    counted,
    ignored,
    judgement,
    judgements,
    machine,
    node,
    pending,
    protected,
    workload,
)

QUIET, NOTHING, IGNORED = pending(workload(1)), pending(None), pending(ignored(1))
AT_ZERO, PROTECTED, AGAIN = pending(workload(0)), pending(protected()), pending(protected(1))


def needed(found, pending=QUIET, read_at=NOW, now=NOW, limit=0.6):
    return candidates.nodes_needed(found, limit, pending, read_at, now)


def test_fractions_of_nothing_are_0():
    assert (LeaseCounts().expired_fraction, LeaseCounts().doubtful_fraction) == (0, 0)


def test_without_nodes_every_lease_that_is_not_remembered_as_excluded_counts():
    known = candidates.judge_nodes(NodeReading((), (), NOW), {})
    leases = judgements(fresh=2, expired=1)
    memory = ExclusionMemory().with_reading(leases, known, NOW)
    found = candidates.tally_without_nodes(leases, memory, NOW + 1)
    assert found.candidates == LeaseCounts(2, 0, 0)
    assert found.excluded == {Exclusion.NO_NODE: 1}
    assert (found.with_machine, found.nodes_read) == (None, False)
    assert found.judgements == leases[:2]


def test_without_nodes_and_without_memory_every_lease_counts():
    leases = judgements(fresh=2, expired=1)
    found = candidates.tally_without_nodes(leases, ExclusionMemory(), NOW)
    assert (found.judgements, found.with_machine, found.nodes_read) == (leases, None, False)
    assert not found.excluded


def test_leases_that_do_not_count_are_counted_by_their_reasons():
    known = candidates.judge_nodes(NodeReading((), (), NOW), {})
    leases = judgements(expired=3)
    memory = ExclusionMemory().with_reading(leases, known, NOW)
    assert candidates.tally_without_nodes(leases, memory, NOW).excluded == {Exclusion.NO_NODE: 3}
    assert candidates.tally_with_nodes(leases, known).excluded == {Exclusion.NO_NODE: 3}


def test_with_nodes_only_leases_of_candidates_count():
    nodes = (node("a"), node("b", not_managed=True), node("c"))
    machines = (machine("a"), machine("b"))
    known = candidates.judge_nodes(NodeReading(nodes, machines, NOW), {})
    leases = tuple(judgement(name, LeaseState.EXPIRED) for name in ("a", "b", "c", "d"))
    found = candidates.tally_with_nodes(leases, known)
    assert found.candidates == LeaseCounts(1, 1, 0)
    assert found.with_machine == LeaseCounts(2, 2, 0)
    assert found.excluded == {
        Exclusion.NOT_MANAGED: 1,
        Exclusion.NO_MACHINE: 1,
        Exclusion.NO_NODE: 1,
    }
    assert found.nodes_read
    assert [each.name for each in found.judgements] == ["a"]


def test_a_fresh_lease_without_a_machine_is_none_of_the_nodes_with_a_machine():
    nodes, machines = (node("a"), node("b")), (machine("a"), machine("x", phase="Failed"))
    known = candidates.judge_nodes(NodeReading(nodes, machines, NOW), {})
    leases = (judgement("a", LeaseState.EXPIRED), judgement("b"), judgement("c"))
    assert candidates.tally_with_nodes(leases, known).with_machine == LeaseCounts(1, 1, 0)


# Whether Nodes are read.


SOME_LATE = counted(fresh=98, expired=2)
NEEDED: dict[str, Any] = {
    "all are fresh": (counted(fresh=10), {}, False),
    "one is unknown": (counted(fresh=9, unknown=1), {}, False),
    "the expired ones alone could be all candidates": (SOME_LATE, {}, True),
    "one expired lease alone never takes anything down": (counted(fresh=9, expired=1), {}, False),
    "nor does it where there is no other": (counted(expired=1), {}, False),
    "one of two is enough for a limit of half": (counted(1, 1), {"limit": 0.5}, True),
    "and not for more": (counted(1, 1), {"limit": 0.51}, False),
    "nothing would be written on a scale-down": (counted(expired=9), {"pending": NOTHING}, False),
    "nor on a scale-up": (counted(fresh=9), {"pending": NOTHING}, False),
    "a scale-up would write": (counted(1, 8), {"pending": AT_ZERO}, True),
    "none could ask for one": (counted(0, 5, 4), {"pending": AT_ZERO}, False),
    "protection: the limit itself asks for nothing new": (
        counted(4, 6),
        {"pending": PROTECTED},
        False,
    ),
    "protection: leases alone would end it": (counted(9, 1), {"pending": PROTECTED}, True),
    "protection: no lease is left": (counted(), {"pending": PROTECTED}, True),
    "protection: a scale-down would write again": (counted(expired=9), {"pending": AGAIN}, True),
}


@pytest.mark.parametrize("what", NEEDED)
def test_nodes_are_read_where_a_verdict_that_writes_could_differ_because_of_them(what):
    leases, facts, expected = NEEDED[what]
    assert needed(leases, **facts) is expected


@pytest.mark.parametrize(("pending", "leases"), [(IGNORED, SOME_LATE), (PROTECTED, counted(0, 9))])
def test_under_protection_and_where_ignore_scaling_alone_keeps_it_off_they_are_read_every_30_s(
    pending, leases
):
    assert needed(leases, pending, read_at=None)
    assert not needed(leases, pending, now=NOW + 28.9)
    assert needed(leases, pending, now=NOW + 30)
    assert not needed(counted(fresh=9), IGNORED, read_at=None)


@given(
    st.integers(0, 6),
    st.integers(0, 6),
    st.integers(0, 6),
    st.sampled_from([0.01, 0.3, 0.5, 0.6, 1.0]),
    st.data(),
)
def test_nodes_are_read_whenever_a_verdict_that_writes_could_differ_because_of_them(
    fresh, expired, unknown, limit, data
):
    chosen = [data.draw(st.integers(0, n)) for n in (fresh, expired, unknown)]
    whole = candidates.tally_without_nodes(
        judgements(fresh, expired, unknown), ExclusionMemory(), NOW
    )
    some = counted(*chosen)
    if assess(some, limit, protected=False).verdict is Verdict.SCALE_DOWN:
        assert needed(whole, limit=limit)
    if assess(some, limit, protected=False).verdict is Verdict.SCALE_UP:
        assert needed(whole, AT_ZERO, limit=limit)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_each_lease_is_counted_once_and_by_its_state(fresh, expired, unknown):
    found = candidates.counts(judgements(fresh, expired, unknown))
    assert found == LeaseCounts(fresh + expired + unknown, expired, unknown)
